// ioredis' cluster mode.
import assert from 'node:assert/strict';
import { Cluster } from 'ioredis';
import { readFileSync } from 'node:fs';

const ports = process.env.RL_CLUSTER.split(',').map(Number);
const cluster = new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })));

for (let i = 0; i < 30; i++) {
  let reply = await cluster.call('RL.FIXED', `user:${i}`, 5, '60s');
  assert.deepEqual(reply, [1, 4, 0, 60000, 5, 0]);
  reply = await cluster.call('RL.CHARGE', `sms:${i}`, ...'SLIDE 1 60s SLIDE 5 1h'.split(' '));
  assert(reply[0] === 1 && reply[6].length === 2);
  const keys = [`{u${i}}:ip`, `{u${i}}:user`];
  reply = await cluster.call('RL.MCHARGE', 2, ...keys, ...'SLIDE 9 60s SLIDE 5 60s'.split(' '));
  assert(reply[0] === 1 && reply[6].length === 2);
}

const reply = await cluster.call('RL.FIXED', 'user:1', 5, '60s', 'COST', 5);
assert(reply[0] === 0 && reply[2] > 0);

await assert.rejects(cluster.call('RL.TOKEN', 'user:1', 0, 1), /capacity/);
await assert.rejects(cluster.call('RL.MCHARGE', 2, 'a', 'b', ...'SLIDE 9 60s SLIDE 5 60s'.split(' ')), /CROSSSLOT/);

// A pipeline goes to one node: its keys share a slot.
const pipeline = cluster.pipeline();
for (const cost of [1, 0, 1, 1]) pipeline.call('RL.TOKEN', 'job', 2, 1, 'COST', cost);
const results = await pipeline.exec();
assert.deepEqual(results.map(([, value]) => value?.[0]), [1, undefined, 1, 0]);

// With keys of several slots it still goes to one node: what belongs to others is answered MOVED, and not sent again.
const wide = cluster.pipeline();
for (let i = 0; i < 30; i++) wide.call('RL.FIXED', `wide:${i}`, 5, '60s');
const moved = (await wide.exec()).filter(([error]) => error);
assert(moved.length > 0 && moved.every(([error]) => error.message.startsWith('MOVED ')));
console.log('note: a pipeline over several slots:', moved.length, 'of 30 items are MOVED errors');

// keyPrefix is not applied by call.
const prefixed = new Cluster(ports.map((port) => ({ host: '127.0.0.1', port })), { keyPrefix: 'app:' });
await prefixed.call('RL.TOKEN', 'prefixed', 5, 1);
assert.deepEqual([await cluster.exists('prefixed'), await cluster.exists('app:prefixed')], [1, 0]);

await Promise.all([cluster.quit(), prefixed.quit()]);
console.log('version', JSON.parse(readFileSync('node_modules/ioredis/package.json')).version);
