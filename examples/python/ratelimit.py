"""ASGI middleware: answers 429 by a table of rules. For Starlette, FastAPI and whatever else speaks ASGI."""
import logging
import re

from redis.exceptions import RedisError

SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class RateLimit:
    """rules: path -> {
        "limits": name -> rule of the module; all must let the request pass,
        "by": "ip", "user" (the IP where nobody is logged in) or "route" (one limit for everybody),
        "whitelist": IPs and users who are not limited,
        "failure": "open" or "closed": what happens while the server cannot decide,
    }. A path that is not in the table is not limited."""

    def __init__(self, app, redis, rules):
        self.app, self.redis, self.rules = app, redis, rules

    async def __call__(self, scope, receive, send):
        rule = self.rules.get(scope["path"]) if scope["type"] == "http" else None
        if rule is None:
            return await self.app(scope, receive, send)
        status, headers = await self.decide(scope["path"], rule, (scope["client"] or ["unknown"])[0], scope.get("user"))

        async def send_with_headers(message):
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        if status == 200:
            return await self.app(scope, receive, send_with_headers)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})

    async def decide(self, path, rule, ip, user):
        """The status (200: go ahead) and the headers."""
        if {ip, user} & set(rule.get("whitelist", ())):
            return 200, []
        who = "all" if rule["by"] == "route" else f"user:{user}" if rule["by"] == "user" and user else f"ip:{ip}"
        try:
            words = " ".join(rule["limits"].values()).split()
            reply = await self.redis.execute_command("RL.CHARGE", f"http:{path}:{who}", *words)
        except (RedisError, OSError) as error:
            logging.error("rate limit of %s not decided, failing %s: %s", path, rule["failure"], error)
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
