<?php
// phpredis' RedisCluster: the first argument of rawCommand says which node, best by a key.

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

$nodes = array_map(fn ($port) => "127.0.0.1:$port", explode(',', getenv('RL_CLUSTER')));
$redis = new RedisCluster(null, $nodes, 0.5, 0.5);

for ($i = 0; $i < 30; $i++) {
    $key = "user:$i";
    $reply = $redis->rawCommand($key, 'RL.FIXED', $key, 5, '60s');
    check($reply === [1, 4, 0, 60000, 5, 0], $reply);
    $key = "sms:$i";
    $reply = $redis->rawCommand($key, 'RL.CHARGE', $key, ...explode(' ', 'SLIDE 1 60s SLIDE 5 1h'));
    check($reply[0] === 1 && count($reply[6]) === 2, $reply);
    $keys = ["{u$i}:ip", "{u$i}:user"];
    $reply = $redis->rawCommand($keys[0], 'RL.MCHARGE', 2, ...$keys, ...explode(' ', 'SLIDE 9 60s SLIDE 5 60s'));
    check($reply[0] === 1 && count($reply[6]) === 2, $reply);
}

$reply = $redis->rawCommand('user:1', 'RL.FIXED', 'user:1', 5, '60s', 'COST', 5);
check($reply[0] === 0 && $reply[2] > 0, $reply);

foreach ([['user:1', 'RL.TOKEN', 'user:1', 0, 1], ['a', 'RL.MCHARGE', 2, 'a', 'b', 'SLIDE', 9, '60s', 'SLIDE', 5, '60s']] as $bad) {
    try {
        $reply = $redis->rawCommand(...$bad);
        echo 'note: ', $bad[1], ' ', json_encode($reply), ' ', $redis->getLastError(), "\n";
        check($reply === false, $reply);
    } catch (RedisClusterException $e) {
        echo 'note: ', $bad[1], ' ', get_class($e), ' ', $e->getMessage(), "\n";
    }
    $redis->clearLastError();
}

// OPT_PREFIX is put before the key that routes, not before the key of our command: write it there.
$redis->setOption(Redis::OPT_PREFIX, 'app:');
for ($i = 0; $i < 30; $i++) {
    $key = "prefixed:$i";
    $reply = $redis->rawCommand($key, 'RL.TOKEN', "app:$key", 5, 1);
    check($reply[0] === 1 && $redis->exists($key) === 1, $reply);
}

// It has no pipeline; newer ones may.
check(version_compare(phpversion('redis'), '6', '>=') || !method_exists($redis, 'pipeline'), 'pipeline');

echo 'version ', phpversion('redis'), "\n";
