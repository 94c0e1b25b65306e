"""Servers with the module for the programs beside this file: one, or a cluster of three. Only on the loopback."""
import os
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.abspath(os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target")))
WORK = os.path.join(TARGET, "clients")
MODULE = os.environ.get("RL_MODULE", os.path.join(TARGET, "release", "libredis_rl.so"))
SERVER = os.environ.get("RL_SERVER", "redis-server")
START_S = 1_899_936_000  # where a standing clock starts, as in tests/support/clock.rs


def free_port(offsets=(0,)):
    while True:
        port = random.randrange(20000, 30000)
        try:
            for offset in offsets:
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port + offset))
            return port
        except OSError:
            pass


def until(what, done, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return
        except OSError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"waited {seconds} s in vain: {what}")


class Server:
    """A server in a folder of its own. With `clock` its wall clock stands still until `at` moves it."""

    def __init__(self, *args, clock=False, port=None):
        self.port = port or free_port((0, 10000))
        self.dir = tempfile.mkdtemp(prefix="server-", dir=WORK)
        self.clock = os.path.join(self.dir, "clock") if clock else None
        env = dict(os.environ)
        if clock:
            self.at(0)
            env.update(LD_PRELOAD=shim(), RL_CLOCK_FILE=self.clock)
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.process = subprocess.Popen(
            [SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.dir, "--save", "",
             "--loadmodule", MODULE, *args], env=env, stdout=self.log, stderr=self.log)
        try:
            until("server", lambda: self.call("PING") == "PONG")
        except RuntimeError:
            self.stop()
            raise

    def at(self, seconds):
        """Sets the standing clock."""
        mode = "r+b" if os.path.exists(self.clock) else "w+b"
        with open(self.clock, mode) as f:
            f.write(struct.pack("qq", 0, int((START_S + seconds) * 1_000_000)))

    def call(self, *words):
        """One command; the reply as redis-cli would hold it, without nesting: enough for what is asked here."""
        if self.process.poll() is not None:
            raise RuntimeError("the server has ended:\n" + open(self.log.name).read())
        with socket.create_connection(("127.0.0.1", self.port), 5) as s:
            s.sendall(f"*{len(words)}\r\n".encode() + b"".join(
                b"$%d\r\n%s\r\n" % (len(str(w).encode()), str(w).encode()) for w in words))
            with s.makefile("rb") as f:
                return read(f)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def read(f):
    line = f.readline().rstrip(b"\r\n").decode()
    kind, rest = line[:1], line[1:]
    if kind == "$":
        return None if rest == "-1" else f.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return [read(f) for _ in range(int(rest))]
    if kind == ":":
        return int(rest)
    if kind == "-":
        raise RuntimeError(rest)
    return rest


class Cluster:
    def __init__(self):
        self.nodes = []
        try:
            for _ in range(3):
                self.nodes.append(Server("--cluster-enabled", "yes", "--cluster-node-timeout", "5000"))
            for number, (first, last) in enumerate([(0, 5460), (5461, 10922), (10923, 16383)]):
                self.nodes[number].call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
                self.nodes[number].call("CLUSTER", "ADDSLOTSRANGE", first, last)
            for node in self.nodes[1:]:
                node.call("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
            for node in self.nodes:
                until("cluster", lambda: "cluster_state:ok" in node.call("CLUSTER", "INFO")
                      and "cluster_known_nodes:3" in node.call("CLUSTER", "INFO"))
        except BaseException:
            self.__exit__()
            raise
        self.ports = ",".join(str(node.port) for node in self.nodes)

    def forget(self):
        for node in self.nodes:
            node.call("FLUSHALL")
            node.call("CONFIG", "RESETSTAT")

    def redirected(self):
        """How many calls went to the wrong node, and so were answered MOVED, and how many of ours ran."""
        calls = moved = 0
        for node in self.nodes:
            for line in node.call("INFO", "all").splitlines():
                name, _, stats = line.partition(":")
                stat = dict(pair.split("=") for pair in stats.split(",")) if name.startswith(("cmdstat_rl.", "errorstat_")) else {}
                calls += int(stat.get("calls", 0))
                moved += int(stat["count"]) if name == "errorstat_MOVED" else 0
        return moved, calls

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.stop()


def shim():
    """The settable clock of tests/support, compiled."""
    built = os.path.join(WORK, "clock.so")
    source = os.path.join(ROOT, "tests", "support", "clock.c")
    if not os.path.exists(built) or os.path.getmtime(built) < os.path.getmtime(source):
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built
