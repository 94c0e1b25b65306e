<?php
// Predis in a cluster: it must be told where our commands have their key.

require 'Predis/autoload.php';

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

$nodes = array_map(fn ($port) => "tcp://127.0.0.1:$port", explode(',', getenv('RL_CLUSTER')));
$redis = new Predis\Client($nodes, ['cluster' => 'redis']);

function call($redis, ...$words)
{
    return $redis->executeCommand(new Predis\Command\RawCommand($words));
}

// Without this: NotSupportedException.
try {
    call($redis, 'RL.FIXED', 'user:1', 5, '60s');
    check(false, 'no exception');
} catch (Predis\NotSupportedException $e) {
    echo 'note: ', $e->getMessage(), "\n";
}

// Where the key is, once, after the client is made.
$strategy = $redis->getConnection()->getClusterStrategy();
foreach (['RL.TOKEN', 'RL.LEAKY', 'RL.SLIDE', 'RL.FIXED', 'RL.CHARGE', 'RL.PEEK', 'RL.REFUND', 'RL.INSPECT'] as $name) {
    $strategy->setCommandHandler($name, fn ($command) => $command->getArgument(0));
}
$strategy->setCommandHandler('RL.MCHARGE', fn ($command) => $command->getArgument(1));

for ($i = 0; $i < 30; $i++) {
    $reply = call($redis, 'RL.FIXED', "user:$i", 5, '60s');
    check($reply === [1, 4, 0, 60000, 5, 0], $reply);
    $reply = call($redis, 'RL.CHARGE', "sms:$i", ...explode(' ', 'SLIDE 1 60s SLIDE 5 1h'));
    check($reply[0] === 1 && count($reply[6]) === 2, $reply);
    $reply = call($redis, 'RL.MCHARGE', 2, "{u$i}:ip", "{u$i}:user", ...explode(' ', 'SLIDE 9 60s SLIDE 5 60s'));
    check($reply[0] === 1 && count($reply[6]) === 2, $reply);
}

$reply = call($redis, 'RL.FIXED', 'user:1', 5, '60s', 'COST', 5);
check($reply[0] === 0 && $reply[2] > 0, $reply);

foreach ([['RL.TOKEN', 'user:1', 0, 1], ['RL.MCHARGE', 2, 'a', 'b', 'SLIDE', 9, '60s', 'SLIDE', 5, '60s']] as $bad) {
    try {
        call($redis, ...$bad);
        check(false, 'no exception');
    } catch (Predis\PredisException $e) {
        echo 'note: ', $bad[0], ' ', get_class($e), ' ', $e->getMessage(), "\n";
    }
}

// A pipeline over all nodes.
$replies = $redis->pipeline(function ($pipe) {
    for ($i = 0; $i < 30; $i++) {
        call($pipe, 'RL.FIXED', "job:$i", 5, '60s');
    }
});
check(count($replies) === 30 && array_unique(array_column($replies, 1)) === [4], $replies);

echo 'version ', Predis\Client::VERSION, "\n";
