<?php

// A small application around LaravelRateLimit: routes, configuration, and in place of a login the header X-User.
// php -S 127.0.0.1:8000 laravel.php

use App\Http\Middleware\LaravelRateLimit;
use Illuminate\Auth\GenericUser;
use Illuminate\Config\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Redis\Factory;
use Illuminate\Contracts\Routing\ResponseFactory as ResponseFactoryContract;
use Illuminate\Events\Dispatcher;
use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Illuminate\Redis\RedisManager;
use Illuminate\Routing\Router;
use Symfony\Component\HttpKernel\Exception\HttpExceptionInterface;

error_reporting(E_ALL & ~E_DEPRECATED);
require 'Illuminate/autoload.php';
require __DIR__ . '/RateLimiter.php';
require __DIR__ . '/LaravelRateLimit.php';

$app = Container::getInstance();
$app->instance('config', new Repository(['ratelimit' => require __DIR__ . '/rules.php']));
$app->singleton(Factory::class, fn () => new RedisManager($app, 'phpredis', [
    'options' => ['prefix' => 'app_'],
    'default' => [
        'host' => '127.0.0.1',
        'port' => getenv('REDIS_PORT') ?: 6379,
        'database' => 0,
        'timeout' => 0.5,
        'read_timeout' => 0.5,
    ],
]));
$app->bind(ResponseFactoryContract::class, fn () => new class {
    public function make($content, $status)
    {
        return new Response($content, $status);
    }
});

$router = new Router(new Dispatcher($app), $app);
$router->aliasMiddleware('ratelimit', LaravelRateLimit::class);
$router->middleware('ratelimit')->group(function (Router $router) {
    foreach (['items', 'login', 'export', 'users/{id}'] as $page) {
        $router->any("api/$page", fn () => $page);
    }
});
$router->any('api/free', fn () => 'free');

$request = Request::capture();
$request->setUserResolver(fn () => ($user = $request->header('X-User')) ? new GenericUser(['id' => $user]) : null);
try {
    $response = $router->dispatch($request);
} catch (HttpExceptionInterface $e) { // no such route
    $response = new Response('', $e->getStatusCode());
}
$response->send();
