<?php

declare(strict_types=1); // an object is no user id: TypeError

namespace App\Http\Middleware;

use Closure;
use Illuminate\Contracts\Redis\Factory;
use Illuminate\Http\Request;
use Symfony\Component\HttpFoundation\Response;

/**
 * Laravel: a route middleware. It looks up the pattern of the route, not the path.
 * The prefix in config/database.php does not reach our keys.
 */
class LaravelRateLimit
{
    private \RateLimiter $limiter;

    public function __construct(Factory $redis)
    {
        $call = fn (string ...$words) => $redis->connection()->executeRaw($words);
        $this->limiter = new \RateLimiter(config('ratelimit'), $call);
    }

    public function handle(Request $request, Closure $next): Response
    {
        $user = $request->user()?->getAuthIdentifier();
        [$status, $headers] = $this->limiter->decide($request->route()->uri(), (string) $request->ip(), $user);
        $response = $status === 200 ? $next($request) : response('', $status);
        foreach ($headers as $name => $value) {
            $response->headers->set($name, $value);
        }
        return $response;
    }
}
