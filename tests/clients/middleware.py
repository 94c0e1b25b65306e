"""The HTTP middlewares of examples/: each application is started for real and asked over HTTP."""
import http.client
import os
import re
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from servers import ROOT, WORK, Server, free_port, until

EXAMPLES = os.path.join(ROOT, "examples")
PHP = ["php", "-d", "opcache.enable_cli=1", "-d", "error_log=/dev/stderr", "-S", "127.0.0.1:{port}"]
APPS = {  # command, folder, prefix of the paths in keys
    "Laravel": (PHP + ["laravel.php"], os.path.join(EXAMPLES, "php"), ""),
    "ThinkPHP style": (PHP + ["think.php"], os.path.join(EXAMPLES, "php"), ""),
    "Starlette": ([os.path.join(WORK, "venv", "bin", "python"), "-m", "uvicorn", "app:app", "--host", "127.0.0.1",
                   "--port", "{port}", "--log-level", "warning"], os.path.join(EXAMPLES, "python"), "/"),
    "Express": (["node", "app.mjs"], os.path.join(WORK, "node"), "/"),
    "axum": ([os.path.join(WORK, "cargo", "debug", "redis-rl-axum-example")], WORK, "/"),
}
# What the framework takes for /api/login.
SAME_ROUTE = {
    "Laravel": {"/api/login/", "/api/login?a=1", "/api/%6Cogin"},
    "ThinkPHP style": {"/api/login/", "/API/LOGIN", "/Api/Login/", "/api/login.html", "/api/login?a=1"},
    "Starlette": {"/api/login?a=1", "/api/%6Cogin", "/api/login%0A"},
    "Express": {"/api/login/", "/API/LOGIN", "/Api/Login/", "/api/login?a=1"},
    "axum": {"/api/login?a=1"},
}


class App:
    def __init__(self, name, redis_port):
        command, folder, self.slash = APPS[name]
        self.port = free_port()
        env = {**os.environ, "PORT": str(self.port), "REDIS_PORT": str(redis_port), "PHP_CLI_SERVER_WORKERS": "4",
               "PYTHONDONTWRITEBYTECODE": "1", "NODE_ENV": "production"}
        self.log = open(os.path.join(WORK, "app.log"), "w+")
        # A group of its own: PHP's server forks its workers.
        self.process = subprocess.Popen([word.format(port=self.port) for word in command], cwd=folder, env=env,
                                        stdout=self.log, stderr=self.log, start_new_session=True)
        try:
            until("application", lambda: self.get("/api/free") == 200)
        except RuntimeError as e:
            self.log.seek(0)
            told = self.log.read()
            self.__exit__()
            raise RuntimeError(f"{e}\n{told}") from None

    def ask(self, path, user=None, ip="127.0.0.1"):
        """Status and headers, the names in lower case."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30, source_address=(ip, 0))
        try:
            connection.request("GET", path, headers={"X-User": user} if user else {})
            response = connection.getresponse()
            response.read()
            return response.status, {name.lower(): value for name, value in response.getheaders()}
        finally:
            connection.close()

    def get(self, path, user=None):
        return self.ask(path, user)[0]

    def many(self, count):
        with ThreadPoolExecutor(50) as pool:
            return list(pool.map(lambda _: self.ask("/api/items"), range(count)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


def same(seen, right):
    if seen != right:
        raise AssertionError(f"seen {seen!r}, right {right!r}")


def limits(headers):
    return {name: value for name, value in headers.items() if "ratelimit" in name or name == "retry-after"}


def headers(limit, remaining, reset, policy, items, retry=None):
    right = {"x-ratelimit-limit": str(limit), "x-ratelimit-remaining": str(remaining),
             "x-ratelimit-reset": str(reset), "ratelimit-policy": policy, "ratelimit": items}
    return {**right, "retry-after": str(retry)} if retry else right


def shown(status, seen):
    """Asserts that docs/middleware.md shows an answer with this status and exactly these fields."""
    blocks = [block.split("```")[0].splitlines() for block in
              open(os.path.join(ROOT, "docs", "middleware.md")).read().split("```text\nHTTP/1.1 ")[1:]]
    drawn = [dict(line.lower().split(": ", 1) for line in lines[1:]) for lines in blocks if lines[0].startswith(str(status))]
    same(drawn, [limits(seen)])


def five_hundred(name):
    """500 requests, 50 at a time, limit 100 per 10 s: 100 pass, each with a `remaining` of its own, 400 do not."""
    note = ""
    for attempt in range(4):
        # On a machine that needs more than 10 s for them, more pass, rightly: then the clock stands still.
        with Server(clock=attempt == 3) as server, App(name, server.port) as app:
            app.get("/api/items", "monitor")  # white: only to start up
            started = time.monotonic()
            answers = app.many(500)
            took = time.monotonic() - started
        if took < 9.5 or attempt == 3:
            note = f"note: {took:.1f} s" + (", clock standing still" if attempt == 3 else "")
            break
    same(Counter(status for status, _ in answers), {200: 100, 429: 400})
    same(sorted(int(h["x-ratelimit-remaining"]) for status, h in answers if status == 200), list(range(100)))
    for status, h in answers:
        wait = h.get("retry-after", "none")
        reset, left = h["x-ratelimit-reset"], h["x-ratelimit-remaining"]
        assert re.fullmatch(r"none" if status == 200 else r"[1-9]|1[01]", wait), (status, h)
        t = reset if status == 200 else wait
        same(limits(h), headers(100, left, reset, '"items";q=100;w=10', f'"items";r={left};t={t}',
                                None if status == 200 else wait))
        assert left == "0" or status == 200, h
    return note + "\n"


def set_clock(name):
    """100 at second 9 pass, 100 at second 11 do not, at 18.999 none does, and at 19 they pass again."""
    with Server(clock=True) as server, App(name, server.port) as app:
        server.at(9)
        answers = app.many(100)
        same(Counter(status for status, _ in answers), {200: 100})
        shown(200, next(h for _, h in answers if h["x-ratelimit-remaining"] == "0"))
        server.at(11)
        policy = '"items";q=100;w=10'
        for status, h in app.many(100):
            shown(status, h)
            same((status, limits(h)), (429, headers(100, 0, 8, policy, '"items";r=0;t=8', 8)))
        server.at(18.999)
        status, h = app.ask("/api/items")
        same((status, limits(h)), (429, headers(100, 0, 1, policy, '"items";r=0;t=1', 1)))
        server.at(19)
        status, h = app.ask("/api/items")
        same((status, limits(h)), (200, headers(100, 99, 10, policy, '"items";r=99;t=10')))
    return ""


def rules(name):
    """Two limits on one route, users and addresses apart, one limit for a route, the white list, routes without a rule."""
    with Server(clock=True) as server, App(name, server.port) as app:
        policy = '"minute";q=5;w=60, "day";q=50;w=86400'
        for left in 4, 3, 2, 1, 0:
            status, h = app.ask("/api/login", "ann")
            same((status, limits(h)), (200, headers(5, left, 60, policy, f'"minute";r={left};t=60, '
                                                                        f'"day";r={left + 45};t=86400')))
        status, h = app.ask("/api/login", "ann")
        same((status, limits(h)), (429, headers(5, 0, 60, policy, '"minute";r=0;t=60, "day";r=45;t=86400', 60)))
        same([app.get("/api/login", "bob"), app.get("/api/login")], [200, 200])
        key = f"http:{app.slash}api/login:user:ann"
        same([server.call("EXISTS", key), server.call("TYPE", key)], [1, "ratelimit"])

        # No other spelling of the path leads to the page past its limit, and none has a limit of its own (see DBSIZE).
        for path in ("/api/login/", "/API/LOGIN", "/Api/Login/", "/api/login.html", "/api/login?a=1", "/api/%6Cogin",
                     "/api//login", "/api/./login", "/api/login%0A", "/api/login;a=1"):
            status = app.get(path, "ann")
            assert status in (301, 307, 404, 429), f"{path} answered {status}"
            assert status == 429 or path not in SAME_ROUTE[name], f"{path} answered {status}"

        # A pattern is one limit.
        same([app.get(f"/api/users/{user}") for user in "1 2 3 4 5".split()], [200] * 3 + [429] * 2)
        pattern = "api/users/:id" if name == "Express" else "api/users/<id>"
        same(server.call("EXISTS", f"http:{app.slash}{pattern}:ip:127.0.0.1"), 1)

        same([app.get("/api/export", user) for user in [None, "ann", "bob"] * 4], [200] * 10 + [429] * 2)
        status, h = app.ask("/api/export")
        same(limits(h), headers(10, 0, 10, '"export";q=10;w=10', '"export";r=0;t=1', 1))

        # By address, whoever is logged in there.
        policy = '"items";q=100;w=10'
        for ip, user, left in ("127.0.0.2", None, 99), ("127.0.0.2", "ann", 98), ("127.0.0.3", "ann", 99):
            status, h = app.ask("/api/items", user, ip)
            same((status, limits(h)), (200, headers(100, left, 10, policy, f'"items";r={left};t=10')))
        same(server.call("EXISTS", f"http:{app.slash}api/items:ip:127.0.0.2"), 1)

        # Who is on the white list is not asked about, by name or by address; nor is a route without a rule.
        for path, user, ip in (("/api/items", "monitor", "127.0.0.1"), ("/api/items", None, "127.0.0.7"),
                               ("/api/free", None, "127.0.0.1")):
            status, h = app.ask(path, user, ip)
            same((status, limits(h)), (200, {}))
        same(server.call("DBSIZE"), 7)
    return ""


# Prints the key that each kind of user is charged to, or the error; for Starlette the patterns of routes below a mount, too.
USERS = {
    "ThinkPHP style": (["php", "-r"], """
        namespace think {
            class Request {
                public function __construct(private $user) {}
                public function middleware($name) { return $this->user; }
                public function ip() { return '::1'; }
            }
            class Response {}
        }
        namespace {
            require 'RateLimiter.php';
            require 'ThinkRateLimit.php';
            const TABLE = ['a' => ['limits' => ['a' => 'SLIDE 5 1m'], 'by' => 'user', 'failure' => 'open']];
            function config() { return TABLE; }
            $limiter = new RateLimiter(TABLE, function ($name, $key) {
                echo "$key\\n";
                return [1, 4, 0, 1, 5, 0, [[1, 4, 0, 1, 5, 0]]];
            });
            foreach (['ann', 7, 0, '', null] as $user) $limiter->decide('a', '::1', $user);
            try {
                // An object that could be written as a string.
                $request = new think\\Request((object) ['id' => new Exception()]);
                (new app\\middleware\\ThinkRateLimit())->handle($request, fn () => new think\\Response(), 'a');
            } catch (TypeError $e) {
                echo str_contains($e->getMessage(), '($user)') ? 'TypeError' : $e;
            }
        }"""),
    "Express": (["node", "--input-type=module", "-e"], """
        import { rateLimit } from './ratelimit.mjs';
        const table = { '/a': { limits: { a: 'SLIDE 5 1m' }, by: 'user', failure: 'closed' } };
        for (const user of ['ann', 7, 0, '', null, undefined, { id: 'ann' }, NaN]) {
          let key = 'none';
          const redis = { call: async (_, word) => { key = word; return [1, 4, 0, 1, 5, 0, [[1, 4, 0, 1, 5, 0]]]; } };
          await rateLimit(redis, table)('/a')({ user, ip: '::1' }, { set() {} }, (e) => e && (key = e.name));
          console.log(key);
        }
        try { rateLimit({}, table)('/b'); } catch (e) { console.log(e.message); }"""),
    "Starlette": (["{python}", "-c"], """if True:
        import asyncio, sys
        sys.path.insert(0, ".")
        from ratelimit import RateLimit, matched_route
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route
        from starlette.authentication import BaseUser, SimpleUser, UnauthenticatedUser
        class Nameless(BaseUser):
            is_authenticated, display_name = True, "ann"
        class Wrong(BaseUser):
            is_authenticated, identity = True, object()
        class Redis:
            async def execute_command(self, name, key, *words):
                print(key)
                return [1, 4, 0, 1, 5, 0, [[1, 4, 0, 1, 5, 0]]]
        async def app(*_):
            pass
        table = {"/a": {"limits": {"a": "SLIDE 5 1m"}, "by": "user", "failure": "closed"}}
        def ask(who, **more):
            scope = {"type": "http", "client": ["::1", 1], "user": who}
            try:
                asyncio.run(RateLimit(app, Redis(), table, route=lambda scope: "/a", **more)(scope, None, None))
            except TypeError:
                print("TypeError")
        for user in SimpleUser("ann"), Nameless():
            ask(user)
        for user in 7, 0, "", None:
            ask(None, user=lambda scope: user)
        for user in UnauthenticatedUser(), Wrong():
            ask(user)
        ask(object(), user=lambda scope: scope["user"])
        # The pattern of a route: with that of its mount, whatever the server puts before both.
        inner = Starlette(routes=[Route("/b/{id}", app, methods=["GET"])])
        outer = Starlette(routes=[Mount("/{tenant}", inner), Route("/", app)])
        for path, root in ("/x/b/1", ""), ("/v1/x/b/1", "/v1"), ("/x/c", ""), ("/", ""):
            print(matched_route({"type": "http", "method": "GET", "path": path, "root_path": root, "headers": [], "app": outer}))"""),
}


def users(name):
    """A name or a number is a key, nobody is the address, and an object is an error: it is not written into a key."""
    command, program = USERS[name]
    python, folder = APPS["Starlette"][0][0], APPS[name][1]
    done = subprocess.run([word.format(python=python) for word in command] + [program], cwd=folder, text=True, timeout=60,
                          capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    nobody = "http:/a:ip:::1"
    right = {"Express": ["http:/a:user:ann", "http:/a:user:7", "http:/a:user:0", nobody, nobody, nobody, "TypeError", "TypeError",
                         "rateLimit: no rule /b in the table"],
             "ThinkPHP style": ["http:a:user:ann", "http:a:user:7", "http:a:user:0", "http:a:ip:::1", "http:a:ip:::1", "TypeError"],
             "Starlette": ["http:/a:user:ann", "http:/a:user:ann", "http:/a:user:7", "http:/a:user:0", nobody, nobody, nobody,
                           "TypeError", "TypeError", "/{tenant}/b/{id}", "/{tenant}/b/{id}", "None", "/"]}
    same((done.stdout.splitlines(), done.stderr), (right[name], ""))
    return ""


def failure(name):
    """An error reply, then a server that is down: open lets pass, closed answers 503. It comes back: limits again."""
    server = Server()
    try:
        with App(name, server.port) as app:
            for path in "items:ip:127.0.0.1", "login:ip:127.0.0.1":
                server.call("SET", f"http:{app.slash}api/{path}", "a string")
            for when in "error reply", "server down":
                for path, right in ("/api/items", (200, {})), ("/api/login", (503, {"retry-after": "1"})):
                    status, h = app.ask(path)
                    if (status, limits(h)) != right:
                        raise AssertionError(f"{when}: {path} answered {status} {limits(h)}, right is {right}")
                if when == "error reply":
                    same(app.get("/api/login", "ann"), 200)
                    server.stop()
            server = Server(port=server.port)
            until("limits again", lambda: app.get("/api/login", "eve") == 200)
            until("limits again", lambda: "x-ratelimit-limit" in app.ask("/api/items")[1])
    finally:
        server.stop()
    return ""


TESTS = {"500 at once": five_hundred, "set clock": set_clock, "rules": rules, "users": users, "failure": failure}


def tests(name):
    return {what: test for what, test in TESTS.items() if test is not users or name in USERS}
