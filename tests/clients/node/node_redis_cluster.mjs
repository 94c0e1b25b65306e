// node-redis in a cluster: the first argument of sendCommand is the routing key.
import assert from 'node:assert/strict';
import { createCluster } from 'redis';
import { readFileSync } from 'node:fs';

const ports = process.env.RL_CLUSTER.split(',');
const cluster = createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })) });
cluster.on('error', (e) => console.error(e.message));
await cluster.connect();

const charge = (key, ...words) => cluster.sendCommand(key, false, words);
for (let i = 0; i < 30; i++) {
  const key = `user:${i}`;
  let reply = await cluster.sendCommand(key, false, ['RL.FIXED', key, '5', '60s']);
  assert.deepEqual(reply, [1, 4, 0, 60000, 5, 0]);
  reply = await charge(`sms:${i}`, 'RL.CHARGE', `sms:${i}`, ...'SLIDE 1 60s SLIDE 5 1h'.split(' '));
  assert(reply[0] === 1 && reply[6].length === 2);
  const keys = [`{u${i}}:ip`, `{u${i}}:user`];
  reply = await charge(keys[0], 'RL.MCHARGE', '2', ...keys, ...'SLIDE 9 60s SLIDE 5 60s'.split(' '));
  assert(reply[0] === 1 && reply[6].length === 2);
}

const reply = await charge('user:1', ...'RL.FIXED user:1 5 60s COST 5'.split(' '));
assert(reply[0] === 0 && reply[2] > 0);

await assert.rejects(charge('user:1', ...'RL.TOKEN user:1 0 1'.split(' ')), /capacity/);
await assert.rejects(charge('a', ...'RL.MCHARGE 2 a b SLIDE 9 60s SLIDE 5 60s'.split(' ')), /CROSSSLOT/);

// A pipeline is what is sent in one tick, to every node its part.
const pipeline = await Promise.all(
  Array.from({ length: 30 }, (_, i) => charge(`job:${i}`, 'RL.FIXED', `job:${i}`, '5', '60s')),
);
assert(pipeline.every((item) => item[1] === 4));

// keyPrefix is applied neither to the key of the command nor to the one that routes.
const prefixed = createCluster({
  rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })),
  keyPrefix: 'app:',
});
await prefixed.connect();
for (let i = 0; i < 30; i++) {
  const key = `prefixed:${i}`;
  await prefixed.sendCommand(key, false, ['RL.FIXED', key, '5', '60s']);
  assert.deepEqual([await cluster.exists(key), await cluster.exists(`app:${key}`)], [1, 0]);
}

await prefixed.close();
await cluster.close();
console.log('version', JSON.parse(readFileSync('node_modules/redis/package.json')).version);
