<?php
// Predis. executeRaw sends any command.

require 'Predis/autoload.php';

function check(bool $ok, mixed $seen): void
{
    $ok || throw new RuntimeException(json_encode($seen));
}

$redis = new Predis\Client(['host' => '127.0.0.1', 'port' => (int) getenv('RL_PORT'), 'timeout' => 0.5]);

// A charge, and the check of it.
$reply = $redis->executeRaw(['RL.FIXED', 'user:1', 5, '60s'], $error);
if ($error) {
    throw new RuntimeException($reply);
}
[$allowed, $remaining, $retryMs, $resetMs, $limit, $delayMs] = $reply;
if (!$allowed) {
    echo "retry_ms $retryMs\n";
}
check($reply === [1, 4, 0, 60000, 5, 0], $reply);

// A denial is a reply like any other.
$reply = $redis->executeRaw(['RL.FIXED', 'user:1', 5, '60s', 'COST', 5]);
check($reply[0] === 0 && $reply[2] > 0 && $reply[2] <= 60000, $reply);

// Several rules: the six, and one row for each rule.
$reply = $redis->executeRaw(['RL.CHARGE', 'sms:138', ...explode(' ', 'SLIDE 1 60s SLIDE 5 1h')]);
check(count($reply) === 7 && $reply[0] === 1 && array_column($reply[6], 4) === [1, 5], $reply);

// Several keys.
$reply = $redis->executeRaw(['RL.MCHARGE', 2, '{u1}:ip', '{u1}:user', ...explode(' ', 'SLIDE 9 60s SLIDE 5 60s')]);
check(count($reply) === 7 && $reply[1] === 4 && array_column($reply[6], 4) === [9, 5], $reply);

// An error reply is a string, the error text, and sets the second argument: no exception.
$reply = $redis->executeRaw(['RL.TOKEN', 'user:1', 0, 1], $error);
check($error === true && str_contains($reply, 'capacity'), $reply);

// A pipeline takes commands as objects; an error raises, or with 'exceptions' => false stands in the list.
$quiet = new Predis\Client(['host' => '127.0.0.1', 'port' => (int) getenv('RL_PORT')], ['exceptions' => false]);
[$first, $error, $second, $third] = $quiet->pipeline(function ($pipe) {
    foreach ([1, 0, 1, 1] as $cost) {
        $pipe->executeCommand(new Predis\Command\RawCommand(['RL.TOKEN', 'job', 2, 1, 'COST', $cost]));
    }
});
check($error instanceof Predis\Response\Error, $error);
check([$first[0], $second[0], $third[0]] === [1, 1, 0], [$first, $second, $third]);
try {
    $redis->executeCommand(new Predis\Command\RawCommand(['RL.TOKEN', 'user:1', 0, 1]));
    check(false, 'no exception');
} catch (Predis\Response\ServerException $e) {
}

// The prefix option knows the commands of the server by name, not ours, and executeRaw is outside of it.
$prefixed = new Predis\Client(['host' => '127.0.0.1', 'port' => (int) getenv('RL_PORT')], ['prefix' => 'app:']);
$prefixed->executeRaw(['RL.TOKEN', 'prefixed', 5, 1]);
$prefixed->executeCommand(new Predis\Command\RawCommand(['RL.TOKEN', 'prefixed', 5, 1]));
check($redis->exists('prefixed') === 1 && $redis->exists('app:prefixed') === 0, 'prefix');

echo 'version ', Predis\Client::VERSION, "\n";
echo "error: executeRaw: the text as a string, second argument true; executeCommand: ServerException\n";
echo "prefix: not applied\n";
