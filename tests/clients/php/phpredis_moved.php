<?php
// phpredis' RedisCluster does not follow MOVED in rawCommand: after slots have moved it throws until it has learned of it.

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

function charge(RedisCluster $redis, string $key, mixed ...$words): mixed
{
    try {
        return $redis->rawCommand($key, ...$words);
    } catch (RedisClusterException $e) {
        $redis->exists($key); // an ordinary command follows MOVED, and the new place is kept
        return $redis->rawCommand($key, ...$words);
    }
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
    try {
        $redis->rawCommand('b', 'RL.FIXED', 'b', 5, '60s');
        check(false, 'no exception');
    } catch (RedisClusterException $e) {
    }
}
check(charge($redis, 'b', 'RL.FIXED', 'b', 5, '60s') === [1, 4, 0, 60000, 5, 0], 'after the move');
check($redis->rawCommand('b', 'RL.FIXED', 'b', 5, '60s')[1] === 3, 'after the move');

echo 'version ', phpversion('redis'), "\n";
echo "note: rawCommand to a slot that has moved: RedisClusterException, until an ordinary command has followed MOVED\n";
