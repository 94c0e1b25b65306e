"""A small Starlette application around the middleware: uvicorn app:app"""
import os

import redis.asyncio
from ratelimit import RateLimit
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

RULES = {
    "/api/items": {"limits": {"items": "SLIDE 100 10s"}, "by": "ip", "failure": "open",
                   "whitelist": ["127.0.0.7", "monitor"]},
    "/api/login": {"limits": {"minute": "SLIDE 5 1m", "day": "FIXED 50 1d"}, "by": "user", "failure": "closed"},
    "/api/users/{id}": {"limits": {"users": "SLIDE 3 1m"}, "by": "ip", "failure": "open"},
    "/api/export": {"limits": {"export": "TOKEN 10 1 PER 1s"}, "by": "route", "failure": "closed"},
}
client = redis.asyncio.Redis(
    port=int(os.environ.get("REDIS_PORT", 6379)), socket_timeout=0.5, socket_connect_timeout=0.5,
    retry=Retry(NoBackoff(), 0),  # a charge whose reply got lost may have been made: do not send it twice
)


class HeaderLogin(AuthenticationBackend):
    """In place of a login: the name in X-User."""

    async def authenticate(self, conn):
        name = conn.headers.get("X-User")
        return (AuthCredentials(), SimpleUser(name)) if name else None


async def page(request):
    return PlainTextResponse(request.url.path)


app = Starlette(
    routes=[Route(route, page) for route in [*RULES, "/api/free"]],
    middleware=[
        Middleware(AuthenticationMiddleware, backend=HeaderLogin()),
        Middleware(RateLimit, redis=client, rules=RULES),
    ],
)
