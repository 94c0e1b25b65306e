<?php
// phpredis' RedisCluster does not follow MOVED in rawCommand: after slots have moved it throws until it has
// learned of it. What it throws is the same when a reply got lost.

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

function charge(RedisCluster $redis, string $key, mixed ...$words): mixed
{
    try {
        return $redis->rawCommand($key, ...$words);
    } catch (RedisClusterException $e) {
        $redis->close(); // a late reply would be taken for that of the next call
        try {
            $redis->exists($key); // an ordinary command follows MOVED, and the new place is kept
        } catch (RedisClusterException) {
        }
        throw $e; // never sent again: it may have been carried out, and only its reply got lost
    }
}

function refused(callable $call): string
{
    try {
        $call();
    } catch (RedisClusterException $e) {
        return $e->getMessage();
    }
    throw new RuntimeException('no exception');
}

$ports = explode(',', getenv('RL_CLUSTER'));
$redis = new RedisCluster(null, array_map(fn ($port) => "127.0.0.1:$port", $ports), 0.5, 0.5);
check(charge($redis, 'b', 'RL.FIXED', 'b', 5, '60s') === [1, 4, 0, 60000, 5, 0], 'first');
$redis->del('b');

// The slot goes to another node.
$nodes = array_map(function ($port) {
    $node = new Redis();
    $node->connect('127.0.0.1', (int) $port);
    return $node;
}, $ports);
$slot = $nodes[0]->rawCommand('CLUSTER', 'KEYSLOT', 'b');
$owner = $slot <= 5460 ? 0 : ($slot <= 10922 ? 1 : 2);
$to = ($owner + 1) % 3;
$id = $nodes[$to]->rawCommand('CLUSTER', 'MYID');
foreach ([$to, $owner, 3 - $to - $owner] as $i) {
    check($nodes[$i]->rawCommand('CLUSTER', 'SETSLOT', $slot, 'NODE', $id), $i);
}
$nodes[$to]->rawCommand('CLUSTER', 'BUMPEPOCH');

for ($i = 0; $i < 2; $i++) {
    $moved = refused(fn () => $redis->rawCommand('b', 'RL.FIXED', 'b', 5, '60s'));
}
// The call that finds out fails, uncharged; the next one goes to the new place.
check(refused(fn () => charge($redis, 'b', 'RL.FIXED', 'b', 5, '60s')) === $moved, 'the first after the move');
check(charge($redis, 'b', 'RL.FIXED', 'b', 5, '60s') === [1, 4, 0, 60000, 5, 0], 'after the move');
check($redis->rawCommand('b', 'RL.FIXED', 'b', 5, '60s')[1] === 3, 'after the move');

// A reply that does not come in time: the same exception. Nothing is sent twice, and the next call gets its own reply.
check($nodes[$to]->rawCommand('CLIENT', 'PAUSE', 60000, 'WRITE'), 'pause');
$late = refused(fn () => charge($redis, 'b', 'RL.FIXED', '{b}late', 7, '60s'));
check($nodes[$to]->rawCommand('CLIENT', 'UNPAUSE'), 'unpause');
check($late === $moved, $late);
$left = $nodes[$to]->rawCommand('RL.PEEK', '{b}late', 'FIXED', 7, '60s')[1];
check($left >= 6, "$left of 7 left after one call without a reply");
check(charge($redis, 'b', 'RL.FIXED', '{b}next', 9, '60s') === [1, 8, 0, 60000, 9, 0], 'after the lost reply');

// Here the reply comes when the call has just been given up. Where the machine was slow it came in time: once more.
for ($late = null, $i = 0; $late === null && $i < 20; $i++) {
    $nodes[$to]->rawCommand('CLIENT', 'PAUSE', 700, 'WRITE');
    try {
        charge($redis, 'b', 'RL.FIXED', "{b}late$i", 7, '60s');
    } catch (RedisClusterException $late) {
    }
    $nodes[$to]->rawCommand('CLIENT', 'UNPAUSE');
}
$reply = charge($redis, 'b', 'RL.FIXED', '{b}own', 11, '60s');
check($reply === [1, 10, 0, 60000, 11, 0], $reply);

echo 'version ', phpversion('redis'), "\n";
echo "note: rawCommand to a slot that has moved, or a reply that got lost: RedisClusterException: $moved\n";
