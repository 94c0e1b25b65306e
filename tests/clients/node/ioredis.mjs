// ioredis (and iovalkey, which has the same API). call sends any command.
import assert from 'node:assert/strict';
import { Redis, ReplyError } from 'ioredis';
import { readFileSync } from 'node:fs';

const redis = new Redis(Number(process.env.RL_PORT), '127.0.0.1');

// A charge, and the check of it.
const [allowed, remaining, retryMs, resetMs, limit, delayMs] = await redis.call('RL.FIXED', 'user:1', 5, '60s');
if (!allowed) console.log('retry_ms', retryMs);
assert.deepEqual([allowed, remaining, retryMs, resetMs, limit, delayMs], [1, 4, 0, 60000, 5, 0]);

// A denial is a reply like any other.
let reply = await redis.call('RL.FIXED', 'user:1', 5, '60s', 'COST', 5);
assert(reply[0] === 0 && reply[2] > 0 && reply[2] <= 60000);

// Several rules: the six, and one row for each rule.
reply = await redis.call('RL.CHARGE', 'sms:138', ...'SLIDE 1 60s SLIDE 5 1h'.split(' '));
assert(reply.length === 7 && reply[0] === 1);
assert.deepEqual(reply[6].map((row) => row[4]), [1, 5]);

// Several keys.
reply = await redis.call('RL.MCHARGE', 2, '{u1}:ip', '{u1}:user', ...'SLIDE 9 60s SLIDE 5 60s'.split(' '));
assert(reply.length === 7 && reply[1] === 4);
assert.deepEqual(reply[6].map((row) => row[4]), [9, 5]);

// An error reply rejects.
await assert.rejects(redis.call('RL.TOKEN', 'user:1', 0, 1), /capacity/);
await assert.rejects(redis.call('RL.TOKEN', 'user:1', 0, 1), ReplyError);

// A pipeline resolves to pairs [error, reply]; an error does not reject it.
const pipeline = redis.pipeline();
for (const cost of [1, 0, 1, 1]) pipeline.call('RL.TOKEN', 'job', 2, 1, 'COST', cost);
const results = await pipeline.exec();
assert.deepEqual(results.map(([, value]) => value?.[0]), [1, undefined, 1, 0]);
assert(results[1][0] instanceof ReplyError);

// keyPrefix is not applied by call.
const prefixed = new Redis(Number(process.env.RL_PORT), '127.0.0.1', { keyPrefix: 'app:' });
await prefixed.call('RL.TOKEN', 'prefixed', 5, 1);
assert.deepEqual([await redis.exists('prefixed'), await redis.exists('app:prefixed')], [1, 0]);

await Promise.all([redis.quit(), prefixed.quit()]);
console.log('version', JSON.parse(readFileSync('node_modules/ioredis/package.json')).version);
console.log('error: rejects with ReplyError; in a pipeline the first of a pair');
console.log('prefix: keyPrefix is not applied');
