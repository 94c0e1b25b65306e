<?php

declare(strict_types=1); // an object is no user id: TypeError

namespace app\middleware;

use Closure;
use think\Request;
use think\Response;

/**
 * ThinkPHP 6 or later: a route middleware. Every route names its rule, as several paths lead to one route (letter case, .html):
 * Route::post('api/login', 'Login/index')->middleware(ThinkRateLimit::class, 'api/login');
 */
class ThinkRateLimit
{
    private \RateLimiter $limiter;

    public function __construct()
    {
        $redis = new \Redis();
        $call = function (string ...$words) use ($redis) {
            // Connects when first needed, so that a server that is down is a failure of the rule, not of the application.
            $redis->isConnected() || $redis->pconnect('127.0.0.1', (int) (getenv('REDIS_PORT') ?: 6379), 0.5);
            $redis->setOption(\Redis::OPT_READ_TIMEOUT, 0.5);
            return $redis->rawCommand(...$words);
        };
        $this->limiter = new \RateLimiter(config('ratelimit'), $call);
    }

    public function handle(Request $request, Closure $next, string $route): Response
    {
        $user = $request->middleware('user')?->id; // set by the middleware that logs in
        [$status, $headers] = $this->limiter->decide($route, $request->ip(), $user);
        $response = $status === 200 ? $next($request) : Response::create('', 'html', $status);
        return $response->header($headers);
    }
}
