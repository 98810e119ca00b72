<?php
// Asks the limiter of docs/redis.md six times, with the component of Symfony.

require '/usr/share/php/Symfony/Component/RateLimiter/autoload.php';

// THE PAGE

const OPEN = false;
$limiter = new FrsLimiter(new Frs(), 'alice', 5, '60s', OPEN);
for ($nth = 0; $nth < 6; $nth++) {
    try {
        $limit = $limiter->consume();
        $wait = $limit->getRetryAfter()->getTimestamp() - time();
        $expected = $limit->isAccepted() ? $wait <= 0 : $wait > 0 && $wait <= 60;
        echo $limit->isAccepted() ? '200' : '429', $expected ? '' : " $wait", "\n";
    } catch (\RedisException | \LogicException $error) {
        echo "500\n";
        fwrite(STDERR, $error->getMessage() . "\n");
    }
}
// Where all uses were charged, a reset takes them back.
if (isset($limit) && $limit->getRemainingTokens() === 0) {
    $limiter->reset();
    if ($limiter->consume()->getRemainingTokens() !== 4) {
        echo "no reset\n";
    }
}
