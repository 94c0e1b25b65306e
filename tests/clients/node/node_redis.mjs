// node-redis. sendCommand takes strings (or Buffers) only.
import assert from 'node:assert/strict';
import { createClient, ErrorReply } from 'redis';
import { readFileSync } from 'node:fs';

const client = createClient({ url: `redis://127.0.0.1:${process.env.RL_PORT}` });
client.on('error', (e) => console.error(e.message));
await client.connect();

// A charge, and the check of it.
const [allowed, remaining, retryMs, resetMs, limit, delayMs] =
  await client.sendCommand(['RL.FIXED', 'user:1', '5', '60s']);
if (!allowed) console.log('retry_ms', retryMs);
assert.deepEqual([allowed, remaining, retryMs, resetMs, limit, delayMs], [1, 4, 0, 60000, 5, 0]);

// A denial is a reply like any other.
let reply = await client.sendCommand('RL.FIXED user:1 5 60s COST 5'.split(' '));
assert(reply[0] === 0 && reply[2] > 0 && reply[2] <= 60000);

// Several rules: the six, and one row for each rule.
reply = await client.sendCommand('RL.CHARGE sms:138 SLIDE 1 60s SLIDE 5 1h'.split(' '));
assert(reply.length === 7 && reply[0] === 1);
assert.deepEqual(reply[6].map((row) => row[4]), [1, 5]);

// Several keys.
reply = await client.sendCommand('RL.MCHARGE 2 {u1}:ip {u1}:user SLIDE 9 60s SLIDE 5 60s'.split(' '));
assert(reply.length === 7 && reply[1] === 4);
assert.deepEqual(reply[6].map((row) => row[4]), [9, 5]);

// An error reply rejects; so does a number where a string is wanted, before anything is sent.
await assert.rejects(client.sendCommand(['RL.TOKEN', 'user:1', '0', '1']), /capacity/);
await assert.rejects(client.sendCommand(['RL.TOKEN', 'user:1', '0', '1']), ErrorReply);
await assert.rejects(client.sendCommand(['RL.FIXED', 'user:1', 5, '60s']), TypeError);

// A pipeline is what is sent in one tick.
const pipeline = await Promise.allSettled(
  ['1', '0', '1', '1'].map((cost) => client.sendCommand(['RL.TOKEN', 'job', '2', '1', 'COST', cost])),
);
assert.deepEqual(pipeline.map((p) => p.value?.[0]), [1, undefined, 1, 0]);
assert.equal(pipeline[1].status, 'rejected');

// In MULTI: addCommand.
const inMulti = await client.multi().addCommand(['RL.TOKEN', 'multi', '5', '1']).exec();
assert.deepEqual(inMulti, [[1, 4, 0, 1000, 5, 0]]);

// keyPrefix is not applied by sendCommand, nor by addCommand.
const prefixed = createClient({ url: `redis://127.0.0.1:${process.env.RL_PORT}`, keyPrefix: 'app:' });
await prefixed.connect();
await prefixed.sendCommand(['RL.TOKEN', 'prefixed', '5', '1']);
await prefixed.multi().addCommand(['RL.TOKEN', 'prefixed', '5', '1']).exec();
assert.deepEqual([await client.exists('prefixed'), await client.exists('app:prefixed')], [1, 0]);
await client.set('app:string', '');
assert.equal(await prefixed.exists('string'), 1);

await prefixed.close();
await client.close();
console.log('version', JSON.parse(readFileSync('node_modules/redis/package.json')).version);
console.log('error: rejects with ErrorReply');
console.log('prefix: keyPrefix is not applied');
