<?php

/**
 * Decides a request by a table of rules, with phpredis. LaravelRateLimit.php and ThinkRateLimit.php put it to work.
 *
 * The table: pattern of the route, 'users/{id}' => [
 *   'limits'    => name => rule of the module; all must let the request pass,
 *   'by'        => 'ip', 'user' (the IP where nobody is logged in) or 'route' (one limit for everybody),
 *   'whitelist' => IPs and users who are not limited,
 *   'failure'   => 'open' or 'closed': what happens while the server cannot decide,
 * ]. A route that is not in the table is not limited.
 */
final class RateLimiter
{
    /** @param Closure(string ...): mixed $call sends a command; false for an error reply, as rawCommand does */
    public function __construct(private array $rules, private Closure $call)
    {
    }

    /**
     * @param string|int|null $user the id of who is logged in, never an object
     * @return array{int, array<string, string>} the status (200: go ahead) and the headers
     */
    public function decide(string $route, string $ip, string|int|null $user): array
    {
        $rule = $this->rules[$route] ?? null;
        $user = (string) $user;
        $whitelist = $rule['whitelist'] ?? [];
        if (!$rule || in_array($ip, $whitelist, true) || in_array($user, $whitelist, true)) {
            return [200, []];
        }
        $who = match (true) {
            $rule['by'] === 'route' => 'all',
            $rule['by'] === 'user' && $user !== '' => "user:$user",
            default => "ip:$ip",
        };
        $place = strtr($route, '{}', '<>'); // {id} would send all keys of the route to one node of a cluster
        try {
            $reply = ($this->call)('RL.CHARGE', "http:$place:$who", ...explode(' ', implode(' ', $rule['limits'])));
        } catch (RedisException $e) {
            $reply = false;
        }
        // An error reply is false, too: without this look it would let every request pass.
        if (!is_array($reply)) {
            error_log("rate limit of $route not decided, failing {$rule['failure']}");
            return $rule['failure'] === 'open' ? [200, []] : [503, ['Retry-After' => '1']];
        }
        [$allowed, $remaining, $retryMs, $resetMs, $limit, , $rows] = $reply;
        $headers = [
            'X-RateLimit-Limit' => (string) $limit,
            'X-RateLimit-Remaining' => (string) $remaining,
            'X-RateLimit-Reset' => (string) self::seconds($resetMs),
            'RateLimit-Policy' => implode(', ', array_map(
                fn ($name, $words) => "\"$name\";" . self::policy($words),
                array_keys($rule['limits']),
                $rule['limits'],
            )),
            'RateLimit' => implode(', ', array_map(
                fn ($name, $row) => "\"$name\";r=$row[1];t=" . self::seconds($row[0] ? $row[3] : $row[2]),
                array_keys($rule['limits']),
                $rows,
            )),
        ];
        if (!$allowed && $retryMs > 0) { // -1: no wait helps
            $headers['Retry-After'] = (string) self::seconds($retryMs);
        }
        return [$allowed ? 200 : 429, $headers];
    }

    private static function seconds(int $ms): int
    {
        return $ms > 0 ? intdiv($ms + 999, 1000) : 0;
    }

    /** quota and window: "SLIDE 100 10s" and "TOKEN 100 10 PER 1s" are both q=100;w=10 */
    private static function policy(string $rule): string
    {
        $words = explode(' ', $rule);
        $bucket = in_array($words[0], ['TOKEN', 'LEAKY'], true);
        $length = $bucket ? ($words[4] ?? '1s') : $words[2];
        preg_match('/^(\d+)(ms|[smhd])$/', $length, $m);
        $ms = $m[1] * ['ms' => 1, 's' => 1000, 'm' => 60_000, 'h' => 3_600_000, 'd' => 86_400_000][$m[2]];
        return "q=$words[1];w=" . (int) ceil($ms * ($bucket ? $words[1] / $words[2] : 1) / 1000);
    }
}
