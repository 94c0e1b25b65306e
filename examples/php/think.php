<?php

// Runs ThinkRateLimit without ThinkPHP: what it uses of the framework is stood in for here, with the same names.
// php -S 127.0.0.1:8000 think.php

namespace think {
    class Request
    {
        private array $data = [];

        public function pathinfo(): string
        {
            return ltrim(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
        }

        public function ip(): string
        {
            return $_SERVER['REMOTE_ADDR'];
        }

        public function withMiddleware(array $data): static
        {
            $this->data = $data + $this->data;
            return $this;
        }

        public function middleware(string $name, mixed $default = null): mixed
        {
            return $this->data[$name] ?? $default;
        }
    }

    class Response
    {
        private array $headers = [];

        private function __construct(private string $content, private int $status)
        {
        }

        public static function create($content = '', string $type = 'html', int $status = 200): self
        {
            return new self($content, $status);
        }

        public function header(array $headers = []): static
        {
            $this->headers = $headers + $this->headers;
            return $this;
        }

        public function send(): void
        {
            http_response_code($this->status);
            foreach ($this->headers as $name => $value) {
                header("$name: $value");
            }
            echo $this->content;
        }
    }
}

namespace {
    require __DIR__ . '/RateLimiter.php';
    require __DIR__ . '/ThinkRateLimit.php';

    function config(string $name): array
    {
        return ['ratelimit' => require __DIR__ . '/rules.php'][$name];
    }

    $id = $_SERVER['HTTP_X_USER'] ?? null; // in place of a login
    $request = (new think\Request())->withMiddleware(['user' => $id === null ? null : (object) ['id' => $id]]);

    // By default letter case, a slash at the end and the suffix .html make no difference to ThinkPHP's routes.
    $path = preg_replace('/\.html$/iD', '', rtrim($request->pathinfo(), '/'));
    $page = fn ($request) => think\Response::create($request->pathinfo());
    $response = $path === 'api/free' ? $page($request) : think\Response::create('', 'html', 404);
    foreach (array_keys(config('ratelimit')) as $route) {
        if (preg_match('#^' . str_replace('{id}', '[^/]+', $route) . '$#iD', $path)) {
            $response = (new app\middleware\ThinkRateLimit())->handle($request, $page, $route);
        }
    }
    $response->send();
}
