<?php
// Asks the middleware of docs/redis.md six times, with the components of Laravel.

require '/usr/share/php/Illuminate/Http/autoload.php';

// THE PAGE

$request = Illuminate\Http\Request::create('/', server: ['REMOTE_ADDR' => '192.0.2.1']);
$throttle = new FrsThrottle(new Frs());
for ($nth = 0; $nth < 6; $nth++) {
    try {
        echo $throttle->handle($request, fn () => '200', '5/60s'), "\n";
    } catch (ThrottleRequestsException $refused) {
        $after = $refused->getHeaders()['Retry-After'];
        echo $refused->getStatusCode(), $after > 0 && $after <= 60 ? '' : " $after", "\n";
    } catch (\RedisException | \LogicException $error) {
        echo "500\n";
        fwrite(STDERR, $error->getMessage() . "\n");
    }
}
