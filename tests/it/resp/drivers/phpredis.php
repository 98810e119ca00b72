<?php
// phpredis, a client of PHP. It speaks RESP2 only.
//
// A driver obeys the test: each line of its input is an order in JSON, each line of its output is
// the answer, {"ok": VALUE} or {"error": [CLASS, TEXT]}, as the client returned it.

function say(array $answer): void
{
    echo json_encode($answer), "\n";
}

function told(Throwable $error): array
{
    return ['error' => [get_class($error), $error->getMessage()]];
}

// A reply. An error that begins with ERR is `false`, and the client keeps its text.
function reply(Redis $redis, mixed $found): array
{
    $error = $redis->getLastError();
    $redis->clearLastError();
    return $error === null ? ['ok' => $found] : ['error' => ['false', $error]];
}

function connected(array $order): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', $order['port']);
    if ($order['password'] !== null) {
        $redis->auth($order['password']);
    }
    $redis->ping();
    return $redis;
}

// Replies in order. If several are errors, only the last one has its text.
function many(Redis $redis, array $order): array
{
    $pipeline = $order['transaction'] ? $redis->multi() : $redis->pipeline();
    foreach ($order['asks'] as $args) {
        // `false`: the command cannot be queued. An EXEC would then wait forever with any server.
        if ($pipeline->rawCommand(...$args) === false) {
            $error = reply($redis, false);
            $redis->discard();
            return $error;
        }
    }
    $replies = $pipeline->exec();
    if ($replies === false) {
        return reply($redis, $replies);
    }
    $error = $redis->getLastError();
    $redis->clearLastError();
    $told = fn($found) => $found === false ? ['error' => ['false', $error]] : ['ok' => $found];
    return ['ok' => array_map($told, $replies)];
}

function own(Redis $redis): array
{
    return ['ok' => [
        'ping' => $redis->ping(),
        'echo' => $redis->echo('said'),
        'select' => $redis->select(0),
        'version' => $redis->info()['redis_version'],
        // The client's own function returns `false`, with Redis too.
        'commands' => $redis->rawCommand('COMMAND', 'COUNT'),
        'described' => in_array('frs.update', array_column($redis->command(), 0)),
        'name' => $redis->client('setname', 'a-test') ? $redis->client('getname') : null,
        'id' => $redis->client('id') > 0,
    ]];
}

function has_order(): bool
{
    [$read, $write, $except] = [[STDIN], null, null];
    return stream_select($read, $write, $except, 0) > 0;
}

// Sends the same command until the next order comes. A command that a lost connection leaves
// unanswered is repeated, and only answers are counted.
function keep(Redis $redis, array $args): array
{
    $answered = 0;
    while (!has_order()) {
        try {
            $reply = reply($redis, $redis->rawCommand(...$args));
        } catch (RedisException $lost) {
            continue;
        }
        if (isset($reply['error'])) {
            return $reply;
        }
        $answered += 1;
        if ($answered === 1) {
            say(['ok' => 'keeps asking']);
        }
    }
    fgets(STDIN);
    return ['ok' => $answered];
}

if (!extension_loaded('redis')) {
    say(['missing' => 'the extension redis of PHP']);
    exit;
}
say(['ok' => 'phpredis ' . phpversion('redis')]);
while (($line = fgets(STDIN)) !== false) {
    $order = json_decode($line, true);
    try {
        say(match ($order['do']) {
            'connect' => ['ok' => ($redis = connected($order)) ? 'connected' : null],
            'ask' => reply($redis, $redis->rawCommand(...$order['args'])),
            'many' => many($redis, $order),
            'own' => own($redis),
            'keep' => keep($redis, $order['args']),
        });
    } catch (Throwable $error) {
        say(told($error));
    }
}
