#!/usr/bin/env python3
"""Runs one small program per client library, and the HTTP middlewares of examples/, against real servers.

    tests/clients/run.py            all
    tests/clients/run.py redis-py   what has that in its name

Installs what is missing: Debian packages (apt), and below the target folder a Python environment, Node packages, and a
Node where the machine has none that is new enough. Ends with a table and `N passed, N failed`. What fails is run once
more. A client that cannot be installed here is skipped, with the reason; with REQUIRED=1 in the environment that is a
failure.
"""
import functools
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import traceback

import middleware
from servers import ROOT, SERVER, WORK, Cluster, Server

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(WORK, "venv", "bin", "python")
NODE = os.path.join(WORK, "node")
CARGO = {"CARGO_TARGET_DIR": os.path.join(WORK, "cargo"), "CARGO_PROFILE_DEV_DEBUG": "0"}
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": os.path.join(WORK, "go")}
GO_REDIS = os.path.join(WORK, "go-redis")
NODE_NEEDED = 20
REQUIRED = os.environ.get("REQUIRED") == "1"
PACKAGES = {  # what tells that the package is there: a file, a program, or a module of Python
    "php-cli": "php",
    "php-redis": "/usr/share/php*-redis|/usr/lib/php/*/redis.so",
    "php-predis": "/usr/share/php/Predis/autoload.php",
    "php-laravel-framework": "/usr/share/php/Illuminate/autoload.php",
    "ruby": "ruby",
    "ruby-redis": "/usr/share/rubygems-integration/all/gems/redis-*",
    "libhiredis-dev": "/usr/include/hiredis/hiredis.h",
    "gcc": "cc",
    "golang-go": "go",
    "golang-github-gomodule-redigo-dev": "/usr/share/gocode/src/github.com/gomodule/redigo",
    "golang-github-mna-redisc-dev": "/usr/share/gocode/src/github.com/mna/redisc",
    "python3-venv": "ensurepip",
}


class Skip(Exception):
    pass


def sh(command, cwd=HERE, timeout=900, **env):
    """Runs a program; its output, or an error that holds it."""
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def installed(proof):
    if proof == "ensurepip":
        return importlib.util.find_spec(proof) is not None
    if "/" in proof:
        return any(glob.glob(pattern) for pattern in proof.split("|"))
    return shutil.which(proof) is not None


@functools.cache
def apt(*names):
    """Tries to install packages, once. What this release lacks is skipped by name, not fatal."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") and (not root or shutil.which("sudo")):
        print("installing", *names, file=sys.stderr, flush=True)
        if not apt.cache_info().currsize:
            subprocess.run([*root, "apt-get", "-qq", "update"], check=False)
        subprocess.run([*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq",
                        "--no-install-recommends", *names], check=False, stdout=subprocess.DEVNULL)


def missing():
    return [name for name in PACKAGES if not installed(PACKAGES[name])]


def need(*names):
    for name in names:
        if not installed(PACKAGES[name]):
            apt(name)
        if not installed(PACKAGES[name]):
            raise Skip(f"no package {name} here")


def fresh(stamp, source):
    """True unless `stamp` says that `source` is what was installed last."""
    return not (os.path.exists(stamp) and open(stamp).read() == open(source).read())


def once(work):
    """What could not be had is not tried again."""
    @functools.cache
    def tried():
        try:
            return work(), None
        except Exception as why:
            return None, why

    def run():
        result, why = tried()
        if why:
            raise why
        return result
    return run


def pip(folder, wanted):
    """A Python environment with these requirements."""
    need("python3-venv")
    stamp = os.path.join(folder, "installed")
    if fresh(stamp, wanted):
        shutil.rmtree(folder, ignore_errors=True)
        sh([sys.executable, "-m", "venv", folder])
        sh([os.path.join(folder, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", wanted])
        shutil.copy(wanted, stamp)


@once
def python():
    pip(os.path.join(WORK, "venv"), os.path.join(HERE, "python", "requirements.txt"))


def node_is_new():
    try:
        return shutil.which("npm") and int(sh(["node", "--version"])[1:].split(".")[0]) >= NODE_NEEDED
    except (OSError, RuntimeError, ValueError):
        return False


@once
def node():
    if not node_is_new():
        # Debian's own is too old for the clients of today; Python's registry has a new one as a wheel.
        folder = os.path.join(WORK, "node-wheel")
        pip(folder, os.path.join(HERE, "node", "requirements.txt"))
        os.environ["PATH"] = os.path.join(folder, "bin") + ":" + os.environ["PATH"]
    wanted, stamp = os.path.join(HERE, "node", "package.json"), os.path.join(NODE, "installed")
    os.makedirs(NODE, exist_ok=True)
    if fresh(stamp, wanted):
        shutil.copy(wanted, NODE)
        sh(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], cwd=NODE)
        shutil.copy(wanted, stamp)
    # Modules are looked for beside the program.
    for folder in os.path.join(HERE, "node"), os.path.join(ROOT, "examples", "node"):
        for name in os.listdir(folder):
            if name.endswith(".mjs"):
                shutil.copy(os.path.join(folder, name), NODE)


def run_php(file):
    def run(env):
        need("php-cli", "php-redis" if "phpredis" in file else "php-predis")
        return sh(["php", "php/" + file], **env)
    return run


def run_python(file, protocol="2"):
    def run(env):
        python()
        return sh([PYTHON, "python/" + file], RL_PROTOCOL=protocol, **env)
    return run


def run_node(file):
    def run(env):
        node()
        return sh(["node", file], cwd=NODE, **env)
    return run


def run_ruby(file):
    def run(env):
        need("ruby", "ruby-redis")
        return sh(["ruby", "ruby/" + file], **env)
    return run


def run_c(env):
    need("gcc", "libhiredis-dev")
    program = os.path.join(WORK, "hiredis")
    sh(["cc", "-Wall", "-Wextra", "-Werror", "-o", program, "c/hiredis.c", "-lhiredis"])
    return sh([program], **env)


def run_go(file, package):
    def run(env):
        need("golang-go", "golang-github-gomodule-redigo-dev", package)
        version = sh(["dpkg-query", "-W", "-f", "${Version}", package]).split(":")[-1].split("-")[0]
        return sh(["go", "run", "go/" + file], **GO, **env) + f"version {version}\n"
    return run


@once
def go_redis():
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise Skip("its packages are unpacked with apt-get and dpkg")
    try:
        sh(["go/go-redis.sh", GO_REDIS])
    except RuntimeError as why:
        raise Skip("not to be had today: " + str(why).strip().splitlines()[-1]) from None


def run_go_redis(file):
    def run(env):
        go_redis()
        return sh([os.path.join(GO_REDIS, "go"), "run", os.path.join(HERE, "go", file)], **env)
    return run


def cargo(folder):
    if not shutil.which("cargo"):
        raise Skip("no cargo here")
    sh(["cargo", "build", "--quiet", "--locked"], cwd=folder, timeout=1800, **CARGO)


def run_rust(env):
    folder = os.path.join(HERE, "rust")
    cargo(folder)
    version = open(os.path.join(folder, "Cargo.lock")).read().split('name = "redis"\nversion = "')[1].split('"')[0]
    program = os.path.join(CARGO["CARGO_TARGET_DIR"], "debug", "redis-rl-client-test")
    return sh([program], **env) + f"version {version}\n"


SINGLE = {
    "phpredis": run_php("phpredis.php"),
    "predis": run_php("predis.php"),
    "redis-py, RESP2": run_python("redis_py.py"),
    "redis-py, RESP3": run_python("redis_py.py", "3"),
    "node-redis": run_node("node_redis.mjs"),
    "ioredis": run_node("ioredis.mjs"),
    "redis-rs": run_rust,
    "hiredis": run_c,
    "redis-rb": run_ruby("redis_rb.rb"),
    "redigo": run_go("redigo.go", "golang-github-gomodule-redigo-dev"),
    "go-redis": run_go_redis("go_redis.go"),
}
CLUSTER = {
    "phpredis, cluster": run_php("phpredis_cluster.php"),
    "phpredis, cluster, a slot moves": run_php("phpredis_moved.php"),
    "predis, cluster": run_php("predis_cluster.php"),
    "redis-py, cluster": run_python("redis_py_cluster.py"),
    "node-redis, cluster": run_node("node_redis_cluster.mjs"),
    "ioredis, cluster": run_node("ioredis_cluster.mjs"),
    "redis-rs, cluster": run_rust,
    "redis-rb, cluster": run_ruby("redis_rb_cluster.rb"),
    "redisc, cluster": run_go("redisc.go", "golang-github-mna-redisc-dev"),
    "go-redis, cluster": run_go_redis("go_redis_cluster.go"),
}
# These are told the key, or find it, and go to the right node at once.
DIRECT = {"phpredis, cluster", "predis, cluster", "redis-py, cluster", "node-redis, cluster", "redisc, cluster"}
# This one knows no keys in our commands.
BLIND = {"ioredis, cluster"}
# These may be missing even where all others are required: the first comes from a suite that moves.
NOT_HERE = {"Jedis, Lettuce": "no Java packages of them in Debian"}
OPTIONAL = {"go-redis", "go-redis, cluster", *NOT_HERE}


def debian():
    """The number of this Debian, or nothing."""
    try:
        told = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)
    except OSError:
        return None
    return told.get("VERSION_ID", "").strip('"') if told.get("ID") == "debian" else None


def documented(versions):
    """Every block in the two documents that names its file stands in that file, paragraph by paragraph; every program is
    shown; the versions are those that ran."""
    shown = {}
    for name in "clients.md", "middleware.md":
        text = open(os.path.join(ROOT, "docs", name)).read()
        for part in text.split("<!-- ")[1:]:
            path, rest = part.split(" -->\n", 1)
            source = "\n".join(line.strip() for line in open(os.path.join(ROOT, path))) + "\n"
            for paragraph in rest.split("```")[1].split("\n", 1)[1].split("\n\n"):
                lines = "\n".join(line.strip() for line in paragraph.strip().split("\n"))
                if f"\n{lines}\n" not in source:
                    raise AssertionError(f"docs/{name} shows what {path} does not contain:\n{lines}")
                shown[path] = shown.get(path, "") + lines
    for path in sorted(glob.glob(os.path.join(HERE, "**", "*.*"), recursive=True)):
        name = os.path.relpath(path, ROOT)
        if "/" not in os.path.relpath(path, HERE) or not path.endswith((".php", ".py", ".mjs", ".rb", ".go", ".rs", ".c")):
            continue
        wanted = ["RL.FIXED", "RL.CHARGE", "RL.MCHARGE", "RL.TOKEN"] if "RL_PORT" in open(path).read() else []
        lacks = [word for word in wanted if word not in shown.get(name, "")]
        if name not in shown or lacks:
            raise AssertionError(f"docs/clients.md does not show {' '.join(lacks)} of {name}")
    table = [line for line in open(os.path.join(ROOT, "docs", "clients.md")) if line.startswith("|")]
    for name, version in versions.items():
        rows = [line for line in table if re.search(rf"\b{re.escape(name.lower())}\b", line.split("|")[1].lower())]
        if not rows or not re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", rows[0].split("|")[2]):
            raise AssertionError(f"docs/clients.md: no row for {name} {version} in the table of versions")
    return f"note: {len(shown)} programs, {len(versions)} versions\n"


def redrawn():
    """The pictures are those that the module gives today, on the server that they were drawn with."""
    folder = os.path.join(ROOT, "docs", "img")
    if "v=7.0.15 " not in sh([SERVER, "--version"]) or "jemalloc" not in sh([SERVER, "--version"]):
        raise Skip("drawn with Redis 7.0.15, another server is here")
    drawn = os.path.join(WORK, "img")
    shutil.rmtree(drawn, ignore_errors=True)
    sh([os.path.join(ROOT, "scripts", "pictures.py")], RL_PICTURES=drawn)
    # Those that the benchmark draws belong to it: most show what one machine measured.
    names = sorted(name for name in os.listdir(folder) if not name.startswith(("benchmarks", "split-")))
    assert names == sorted(os.listdir(drawn)), names
    for name in names:
        if open(os.path.join(folder, name)).read() != open(os.path.join(drawn, name)).read():
            raise AssertionError(f"docs/img/{name} is not what is drawn today: make pictures, and look at it")
    return f"note: {len(names)} pictures\n"


class Table:
    def __init__(self):
        self.rows, self.failures, self.second, self.passed, self.versions = [], [], [], 0, {}

    def add(self, name, work):
        begin = time.monotonic()
        for last in False, True:
            try:
                out = work()
                break
            except Skip as why:
                return self.skip(name, why)
            except Exception:
                trace = traceback.format_exc()
                print(f"--- {name}\n{trace}", file=sys.stderr, flush=True)
                if last:
                    return self.fail(name, "FAILED", trace)
                print("once more", name, file=sys.stderr, flush=True)
        took = time.monotonic() - begin
        told = dict(line.split(" ", 1) for line in out.splitlines() if line.startswith("version "))
        facts = [line for line in out.splitlines() if line.startswith(("error:", "note:", "prefix:"))]
        version = told.get("version", "")
        if version:
            self.versions[name.split(",")[0]] = version
        self.rows.append((name, version, f"passed {took:6.1f} s"))
        if last:
            self.second.append(name)
        self.rows += [("", "", "  " + fact) for fact in facts]
        self.passed += 1
        print("passed", name, file=sys.stderr, flush=True)

    def fail(self, name, what, trace):
        self.failures.append((name, trace))
        self.rows.append((name, "", what))

    def skip(self, name, why):
        if REQUIRED and name not in OPTIONAL:
            self.fail(name, f"REQUIRED, but {why}", str(why))
        else:
            self.rows.append((name, "", f"skipped: {why}"))

    def finish(self):
        for name, trace in self.failures:
            print(f"--- {name}\n{trace}")
        print(f"{'client':41} {'version':8} result")
        for row in self.rows:
            print(f"{row[0]:41} {row[1]:8} {row[2]}")
        if self.second:
            print(f"passed only at the second run: {', '.join(self.second)}")
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures else 0


def main():
    wanted = sys.argv[1:]
    table = Table()

    def chosen(works):
        return {name: work for name, work in works.items() if not wanted or any(word in name for word in wanted)}

    os.makedirs(WORK, exist_ok=True)
    if not wanted and missing():
        apt(*missing())  # all at once is much faster; what is left is tried one by one
    if chosen(SINGLE):
        with Server() as server:
            for name, work in chosen(SINGLE).items():
                def alone():
                    server.call("FLUSHALL")
                    return work({"RL_PORT": str(server.port)})
                table.add(name, alone)
    if chosen(CLUSTER):
        with Cluster() as cluster:
            for name, work in chosen(CLUSTER).items():
                def routed():
                    cluster.forget()
                    out = work({"RL_CLUSTER": cluster.ports})
                    moved, calls = cluster.redirected()
                    assert name not in DIRECT or moved == 0, f"{moved} of {calls} calls were sent to the wrong node"
                    assert name not in BLIND or moved > calls / 3, f"only {moved} of {calls} calls were redirected"
                    return out + f"note: {moved} times MOVED for {calls} calls\n"
                table.add(name, routed)
    for name, why in chosen(NOT_HERE).items():
        table.skip(name, why)
    apps = {
        "middleware Laravel": lambda: need("php-cli", "php-redis", "php-laravel-framework"),
        "middleware ThinkPHP style": lambda: need("php-cli", "php-redis"),
        "middleware Starlette": python,
        "middleware Express": node,
        "middleware axum": lambda: cargo(os.path.join(ROOT, "examples", "rust")),
    }
    for name, prepare in chosen(apps).items():
        for what, test in middleware.tests(name.removeprefix("middleware ")).items():
            def work():
                prepare()
                return test(name.removeprefix("middleware "))
            table.add(f"{name}: {what}", work)
    if chosen({"docs": None}):
        # The Debian packages have these versions in that release only.
        table.add("docs", lambda: documented(table.versions if debian() == "12" else {}))
    if chosen({"pictures": None}):
        table.add("pictures", redrawn)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
