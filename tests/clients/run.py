#!/usr/bin/env python3
"""Runs one small program per client library, and the HTTP middlewares of examples/, against real servers.

    tests/clients/run.py            all
    tests/clients/run.py redis-py   what has that in its name

Installs what is missing: Debian packages (apt), and below the target folder a Python environment and Node packages.
Ends with a table and `N passed, N failed`. A client that cannot be installed here is skipped, with the reason.
"""
import functools
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import traceback

import middleware
from servers import ROOT, WORK, Cluster, Server

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(WORK, "venv", "bin", "python")
NODE = os.path.join(WORK, "node")
CARGO = {"CARGO_TARGET_DIR": os.path.join(WORK, "cargo")}
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": os.path.join(WORK, "go")}
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
    "nodejs": "node",
    "npm": "npm",
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
def apt(name):
    """Tries to install a package, once. What this release lacks is skipped by name, not fatal."""
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") and (not root or shutil.which("sudo")):
        print("installing", name, file=sys.stderr, flush=True)
        if not apt.cache_info().currsize:
            subprocess.run([*root, "apt-get", "-qq", "update"], check=False)
        subprocess.run([*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq",
                        "--no-install-recommends", name], check=False, stdout=subprocess.DEVNULL)


def need(*names):
    for name in names:
        if not installed(PACKAGES[name]):
            apt(name)
        if not installed(PACKAGES[name]):
            raise Skip(f"no package {name} here")


def fresh(stamp, source):
    """True unless `stamp` says that `source` is what was installed last."""
    return not (os.path.exists(stamp) and open(stamp).read() == open(source).read())


def python():
    need("python3-venv")
    wanted, stamp = os.path.join(HERE, "python", "requirements.txt"), os.path.join(WORK, "venv", "installed")
    if fresh(stamp, wanted):
        sh([sys.executable, "-m", "venv", os.path.join(WORK, "venv")])
        sh([PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", wanted])
        shutil.copy(wanted, stamp)


def node():
    need("nodejs", "npm")
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
}
# These are told the key, or find it, and go to the right node at once.
DIRECT = {"phpredis, cluster", "predis, cluster", "redis-py, cluster", "node-redis, cluster", "redisc, cluster"}
NOT_HERE = {
    "go-redis": "not packaged in this Debian release",
    "Jedis, Lettuce": "no Java packages of them in Debian",
}


def documented():
    """Every block in the two documents that names its file stands in that file, line by line."""
    blocks = 0
    for name in "clients.md", "middleware.md":
        text = open(os.path.join(ROOT, "docs", name)).read()
        for part in text.split("<!-- ")[1:]:
            path, rest = part.split(" -->\n", 1)
            block = [line.strip() for line in rest.split("```")[1].split("\n")[1:-1]]
            source = [line.strip() for line in open(os.path.join(ROOT, path))]
            if not any(source[i:i + len(block)] == block for i in range(len(source))):
                raise AssertionError(f"docs/{name} shows what {path} does not contain:\n" + "\n".join(block))
            blocks += 1
    assert blocks >= 12, blocks
    return f"note: {blocks} blocks\n"


class Table:
    def __init__(self):
        self.rows, self.failures, self.passed = [], [], 0

    def add(self, name, work):
        try:
            out = work()
        except Skip as why:
            return self.skip(name, why)
        except Exception:
            self.failures.append((name, traceback.format_exc()))
            self.rows.append((name, "", "FAILED"))
            print("FAILED", name, file=sys.stderr, flush=True)
            return
        told = dict(line.split(" ", 1) for line in out.splitlines() if line.startswith("version "))
        facts = [line for line in out.splitlines() if line.startswith(("error:", "note:", "prefix:"))]
        self.rows.append((name, told.get("version", ""), "passed"))
        self.rows += [("", "", "  " + fact) for fact in facts]
        self.passed += 1
        print("passed", name, file=sys.stderr, flush=True)

    def skip(self, name, why):
        self.rows.append((name, "", f"skipped: {why}"))

    def finish(self):
        for name, trace in self.failures:
            print(f"--- {name}\n{trace}")
        print(f"{'client':41} {'version':8} result")
        for row in self.rows:
            print(f"{row[0]:41} {row[1]:8} {row[2]}")
        print(f"{self.passed} passed, {len(self.failures)} failed")
        return 1 if self.failures else 0


def main():
    wanted = sys.argv[1:]
    table = Table()

    def chosen(works):
        return {name: work for name, work in works.items() if not wanted or any(word in name for word in wanted)}

    os.makedirs(WORK, exist_ok=True)
    if chosen(SINGLE):
        with Server() as server:
            for name, work in chosen(SINGLE).items():
                server.call("FLUSHALL")
                table.add(name, lambda: work({"RL_PORT": str(server.port)}))
    if chosen(CLUSTER):
        with Cluster() as cluster:
            for name, work in chosen(CLUSTER).items():
                cluster.forget()

                def routed():
                    out = work({"RL_CLUSTER": cluster.ports})
                    moved, calls = cluster.redirected()
                    assert name not in DIRECT or moved == 0, f"{moved} of {calls} calls were sent to the wrong node"
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
        for what, test in middleware.TESTS.items():
            def work():
                prepare()
                return test(name.removeprefix("middleware "))
            table.add(f"{name}: {what}", work)
    if chosen({"docs": None}):
        table.add("docs", documented)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
