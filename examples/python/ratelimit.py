"""ASGI middleware: answers 429 by a table of rules. For Starlette and what is built on it."""
import logging
import re

from redis.exceptions import RedisError
from starlette.routing import Match

SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def logged_in(scope):
    """Who is logged in by Starlette's AuthenticationMiddleware, which must come before this one."""
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return None
    try:
        return user.identity
    except NotImplementedError:  # SimpleUser has none in older versions
        return user.display_name


def matched_route(scope):
    """The pattern of the route that Starlette will choose, those of its mounts before it: "/users/{id}". The path itself
    is no key, as several can lead to one route: "/login\\n" to "/login", too."""
    pattern, scope, routes = "", dict(scope), scope["app"].routes
    while routes:
        found = ((route, child) for route in routes for match, child in [route.matches(scope)] if match is Match.FULL)
        route, child = next(found, (None, None))
        if route is None:
            return None
        pattern += getattr(route, "path", "")
        scope.update(child)
        routes = getattr(route, "routes", None)
    return pattern


class RateLimit:
    """rules: pattern of the route ("/users/{id}") -> {
        "limits": name -> rule of the module; all must let the request pass,
        "by": "ip", "user" (the IP where nobody is logged in) or "route" (one limit for everybody),
        "whitelist": IPs and users who are not limited,
        "failure": "open" or "closed": what happens while the server cannot decide,
    }. A route that is not in the table is not limited.
    user, route: functions of the scope. Who is logged in, a string or an int, or None; and the pattern of the route."""

    def __init__(self, app, redis, rules, user=logged_in, route=matched_route):
        self.app, self.redis, self.rules, self.user, self.route = app, redis, rules, user, route

    async def __call__(self, scope, receive, send):
        route = self.route(scope) if scope["type"] == "http" else None
        if route not in self.rules:
            return await self.app(scope, receive, send)
        user = self.user(scope)
        if not isinstance(user, (str, int, type(None))):  # str() of an object would be a limit for each request
            raise TypeError("RateLimit: the user must be a string or an int")
        ip = (scope["client"] or ["unknown"])[0]
        status, headers = await self.decide(route, self.rules[route], ip, "" if user is None else str(user))

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        if status == 200:
            return await self.app(scope, receive, send_with_headers)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})

    async def decide(self, route, rule, ip, user):
        """The status (200: go ahead) and the headers."""
        if {ip, user} & set(rule.get("whitelist", ())):
            return 200, []
        who = "all" if rule["by"] == "route" else f"user:{user}" if rule["by"] == "user" and user else f"ip:{ip}"
        try:
            words = " ".join(rule["limits"].values()).split()
            place = route.translate(str.maketrans("{}", "<>"))  # {id} would send all keys of the route to one cluster node
            reply = await self.redis.execute_command("RL.CHARGE", f"http:{place}:{who}", *words)
        except (RedisError, OSError) as error:
            logging.error("rate limit of %s not decided, failing %s: %s", route, rule["failure"], error)
            return (200, []) if rule["failure"] == "open" else (503, [(b"retry-after", b"1")])
        allowed, remaining, retry_ms, reset_ms, limit, _, rows = reply
        items = ", ".join(f'"{name}";r={row[1]};t={seconds(row[3] if row[0] else row[2])}'
                          for name, row in zip(rule["limits"], rows))
        headers = {
            "x-ratelimit-limit": limit,
            "x-ratelimit-remaining": remaining,
            "x-ratelimit-reset": seconds(reset_ms),
            "ratelimit-policy": ", ".join(f'"{name}";{policy(words)}' for name, words in rule["limits"].items()),
            "ratelimit": items,
        }
        if not allowed and retry_ms > 0:  # -1: no wait helps
            headers["retry-after"] = seconds(retry_ms)
        return 200 if allowed else 429, [(name.encode(), str(value).encode()) for name, value in headers.items()]


def seconds(ms):
    return -(-max(ms, 0) // 1000)


def policy(rule):
    """Quota and window: "SLIDE 100 10s" and "TOKEN 100 10 PER 1s" are both q=100;w=10."""
    words = rule.split()
    bucket = words[0] in ("TOKEN", "LEAKY")
    number, unit = re.fullmatch(r"(\d+)(ms|[smhd])", (words[4:5] or ["1s"])[0] if bucket else words[2]).groups()
    window = int(number) * SECONDS[unit] * (int(words[1]) / int(words[2]) if bucket else 1)
    return f"q={words[1]};w={-int(-window // 1)}"
