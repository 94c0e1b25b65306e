<?php
// phpredis. rawCommand answers false for an error reply: code that does not look lets every call pass.

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) getenv('RL_PORT'), 0.5);

// A charge, and the check of it.
$reply = $redis->rawCommand('RL.FIXED', 'user:1', 5, '60s');
if ($reply === false) {
    throw new RuntimeException($redis->getLastError());
}
[$allowed, $remaining, $retryMs, $resetMs, $limit, $delayMs] = $reply;
if (!$allowed) {
    echo "retry_ms $retryMs\n";
}
check($reply === [1, 4, 0, 60000, 5, 0], $reply);

// A denial is a reply like any other.
$reply = $redis->rawCommand('RL.FIXED', 'user:1', 5, '60s', 'COST', 5);
check($reply[0] === 0 && $reply[2] > 0 && $reply[2] <= 60000, $reply);

// Several rules: the six, and one row for each rule.
$reply = $redis->rawCommand('RL.CHARGE', 'sms:138', ...explode(' ', 'SLIDE 1 60s SLIDE 5 1h'));
check(count($reply) === 7 && $reply[0] === 1 && array_column($reply[6], 4) === [1, 5], $reply);

// Several keys.
$reply = $redis->rawCommand('RL.MCHARGE', 2, '{u1}:ip', '{u1}:user', ...explode(' ', 'SLIDE 9 60s SLIDE 5 60s'));
check(count($reply) === 7 && $reply[1] === 4 && array_column($reply[6], 4) === [9, 5], $reply);

// An error reply is false, without an exception; the text is in getLastError, and stays there until it is cleared.
$reply = $redis->rawCommand('RL.TOKEN', 'user:1', 0, 1);
check($reply === false && str_contains($redis->getLastError(), 'capacity'), $reply);
$redis->clearLastError();

// Without the look: false[0] is null, with a warning at most, and null is not 0. "if ($reply[0] === 0) deny" lets all pass.
check(@$reply[0] !== 0, $reply);

// A pipeline: an error is a false in the list.
$pipe = $redis->multi(Redis::PIPELINE);
foreach ([1, 0, 1, 1] as $cost) {
    $pipe->rawCommand('RL.TOKEN', 'job', 2, 1, 'COST', $cost);
}
[$first, $error, $second, $third] = $pipe->exec();
check($error === false && [$first[0], $second[0], $third[0]] === [1, 1, 0], [$first, $error, $second, $third]);

// OPT_PREFIX is left out by rawCommand: the key is the one that was written.
$redis->setOption(Redis::OPT_PREFIX, 'app:');
$redis->rawCommand('RL.TOKEN', 'prefixed', 5, 1);
check($redis->rawCommand('EXISTS', 'prefixed') === 1 && $redis->rawCommand('EXISTS', 'app:prefixed') === 0, 'prefix');
check($redis->rawCommand('RL.TOKEN', $redis->_prefix('prefixed'), 5, 1)[1] === 4, 'prefix');

// Nor does a serializer touch the arguments or the reply.
$redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
check($redis->rawCommand('RL.TOKEN', 'plain', 5, 1) === [1, 4, 0, 1000, 5, 0], 'serializer');

echo 'version ', phpversion('redis'), "\n";
echo "error: false, text in getLastError()\n";
echo "prefix: OPT_PREFIX is not applied\n";
