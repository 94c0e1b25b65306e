#!/usr/bin/env python3
"""Draws docs/img/*.svg from real runs: the module on a private server whose clock stands where this program puts it, so
that drawing again gives the same pictures.

    scripts/pictures.py          all
    scripts/pictures.py leaky    one: burst, double-burst, leaky or memory
"""
import os
import socket
import struct
import subprocess
import sys
from xml.sax.saxutils import escape

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "clients"))
import servers  # noqa: E402

INK, SOFT, GRID, EDGE = "#1f2328", "#57606a", "#d8dee4", "#d0d7de"
PASSED, REFUSED, THIRD = "#0969da", "#cf222e", "#8250df"


class Run:
    """A server whose clock stands still, and one connection to it."""

    def __init__(self, preload=""):
        os.makedirs(servers.WORK, exist_ok=True)
        self.server = servers.Server(clock=True, preload=preload)
        self.clock = open(self.server.clock, "r+b", buffering=0)
        self.socket = socket.create_connection(("127.0.0.1", self.server.port), 30)
        self.file = self.socket.makefile("rb")

    def at(self, ms):
        self.clock.seek(8)
        self.clock.write(struct.pack("q", servers.START_S * 1_000_000 + ms * 1000))

    def call(self, line):
        words = [word.encode() for word in line.split()]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return servers.read(self.file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.clock.close()
        self.server.stop()


class Picture:
    def __init__(self, width, height, title, text):
        self.name = f'<title>{escape(title)}</title>\n<desc>{escape(text)}</desc>'
        self.size = width, height
        self.parts = []
        # A ground of its own: the page may be white or dark.
        self.rect(0.5, 0.5, width - 1, height - 1, "#ffffff", EDGE, 6)
        self.text(20, 32, title, 18, weight=600)
        self.text(20, 53, text, 13, SOFT)

    def add(self, shape, **attributes):
        words = "".join(f' {name.replace("_", "-")}="{number(value)}"' for name, value in attributes.items() if value is not None)
        self.parts.append(f"<{shape}{words}/>")

    def rect(self, x, y, width, height, fill, stroke=None, rx=None, opacity=None):
        self.add("rect", x=x, y=y, width=width, height=height, fill=fill, stroke=stroke, rx=rx, fill_opacity=opacity)

    def line(self, x1, y1, x2, y2, stroke=SOFT, width=1, dash=None, opacity=None):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width, stroke_dasharray=dash,
                 stroke_opacity=opacity)

    def path(self, points, stroke, width=2, fill="none", opacity=None):
        self.add("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in points), fill=fill, fill_opacity=opacity,
                 stroke=stroke, stroke_width=width, stroke_linejoin="round")

    def text(self, x, y, text, size=13, fill=INK, anchor=None, weight=None, mono=False, turn=None):
        family = ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"' if mono else ""
        anchor = f' text-anchor="{anchor}"' if anchor else ""
        weight = f' font-weight="{weight}"' if weight else ""
        turn = f' transform="rotate({turn} {number(x)} {number(y)})"' if turn else ""
        self.parts.append(f'<text x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{fill}"{family}{anchor}{weight}{turn}>'
                          f'{escape(text)}</text>')

    def passed(self, x, y, r):
        self.add("circle", cx=x, cy=y, r=r, fill=PASSED)

    def tick(self, x, y):
        """For calls so close together that dots would run into each other."""
        self.line(x, y - 7, x, y + 7, PASSED, 1.6)

    def refused(self, x, y, r, rise, width):
        """Told apart from a passed one by its shape as well as by its colour."""
        self.path([(x - r, y - rise), (x + r, y + rise)], REFUSED, width)
        self.path([(x - r, y + rise), (x + r, y - rise)], REFUSED, width)

    def time_axis(self, scale, y, top, seconds, step, label=True, grid=True):
        for tick in seconds:
            x = scale(tick * 1000)
            if grid:
                self.line(x, top, x, y, GRID)
            self.line(x, y, x, y + 5)
            self.text(x, y + 20, f"{tick:.{step}f}", 12, SOFT, "middle")
        if label:
            self.text((scale(seconds[0] * 1000) + scale(seconds[-1] * 1000)) / 2, y + 40, "seconds", 13, SOFT, "middle")

    def save(self, name):
        width, height = self.size
        folder = os.environ.get("RL_PICTURES", os.path.join(ROOT, "docs", "img"))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name + ".svg"), "w", encoding="utf-8") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
                       f'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
                       f'{self.name}\n' + "\n".join(self.parts) + "\n</svg>\n")


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def scale(from_value, to_value, from_place, to_place):
    return lambda value: from_place + (value - from_value) * (to_place - from_place) / (to_value - from_value)


def burst():
    """One pattern of calls through the four algorithms."""
    # Twice a burst, the first across a turn of the clock's windows, with steady callers between and after.
    calls = [600, *range(3900, 6100, 200), *range(7500, 11600, 1000), *range(12100, 14100, 200), *range(14500, 16600, 500)]
    rules = [("TOKEN", "5 1 PER 1s", "a burst of 5, then one a second"), ("LEAKY", "5 1 PER 1s", "decides as TOKEN does ..."),
             ("SLIDE", "5 5s", "never more than 5 in any 5 s"), ("FIXED", "5 5s ALIGN 0", "5 between two turns of the clock")]
    rows = []
    with Run() as run:
        replies = {name: [] for name, _, _ in rules}
        for ms in calls:
            run.at(ms)
            for name, settings, _ in rules:
                replies[name].append(run.call(f"RL.{name} {name} {settings}"))
    for name, settings, note in rules:
        got = list(zip(calls, replies[name]))
        rows.append((name, settings, note, [ms for ms, r in got if r[0]], [ms for ms, r in got if not r[0]]))
        if name == "LEAKY":
            rows.append(("", "", "... and tells when to go ahead", [ms + r[5] for ms, r in got if r[0]], None))

    width, left, right, top, step = 860, 256, 836, 84, 66
    bottom = top + step * (len(rows) + 1) - 34
    p = Picture(width, bottom + 58, "One stream of calls, four algorithms: 5 per 5 seconds",
                f"{len(calls)} calls in 20 s. Dots passed, crosses were refused.")
    x = scale(0, 20000, left, right)
    p.time_axis(x, bottom, top, range(0, 21, 5), 0)
    y = top + 20
    p.text(20, y + 5, "calls", 14, weight=600)
    for ms in calls:
        p.line(x(ms), y - 9, x(ms), y + 9, INK, 1.5)
    for name, settings, note, passed, refused in rows:
        y += step if name else step - 22
        p.line(left, y, right, y, GRID)
        if name:
            p.text(20, y - 6, f"RL.{name} k {settings}", 13, mono=True, weight=600)
            p.text(20, y + 12, note, 13, SOFT)
            p.text(20, y + 28, f"{len(passed)} passed, {len(refused)} refused", 12, SOFT)
        else:
            p.text(20, y + 5, note, 13, SOFT)
        for ms in passed:
            p.passed(x(ms), y - 8 if refused is not None else y, 2.3)
        for ms in refused or []:
            p.refused(x(ms), y + 10, 2.1, 2.6, 1.4)
    p.save("burst")


def double_burst():
    """Twice the limit around the turn of a fixed window."""
    bursts, limit, span = [990, 1010], 20, 1000
    got = {}
    with Run() as run:
        for command in (f"RL.FIXED fixed {limit} 1s ALIGN 0", f"RL.SLIDE slide {limit} 1s"):
            got[command] = passed = []
            for ms in bursts:
                run.at(ms)
                passed.append(sum(run.call(command)[0] for _ in range(limit)))

    p = Picture(860, 400, "A double burst around the turn of a window: 20 per 1 second",
                "20 calls at 0.99 s and 20 more at 1.01 s. Drawn: how many passed within the last second.")
    top, bottom, most = 116, 326, 45
    y = scale(0, most, bottom, top)
    for panel, (command, passed) in enumerate(got.items()):
        left = 64 + panel * 414
        x = scale(0, 2500, left, left + 350)
        words = command.split()
        p.text(left, 92, " ".join([words[0], "k", *words[2:]]), 14, mono=True, weight=600)
        p.text(left + 350, 92, f"{passed[0]} + {passed[1]} passed", 14, INK, "end")
        for count in range(0, most, 10):
            p.line(left, y(count), left + 350, y(count), GRID)
            p.text(left - 10, y(count) + 4, str(count), 12, SOFT, "end")
        p.time_axis(x, bottom, bottom, [0, 0.5, 1, 1.5, 2, 2.5], 1, grid=False)
        if "ALIGN" in command:
            for turn in (1000, 2000):
                p.line(x(turn), top - 4, x(turn), bottom, SOFT, 1, "2 4")
            p.text(x(1000) - 7, top + 10, "the window turns", 12, SOFT, "end")
        # A call counts for one span after its time.
        steps = sorted([(ms, n) for ms, n in zip(bursts, passed)] + [(ms + span, -n) for ms, n in zip(bursts, passed)])
        count, points = 0, [(x(0), y(0))]
        for ms, n in steps:
            points.append((x(ms), y(count)))
            count += n
            points.append((x(ms), y(count)))
        points.append((x(2500), y(0)))
        p.path(points, PASSED, 2, PASSED, 0.14)
        # The limit lies on top of what reaches it, not over it: both lines are seen.
        p.line(left, y(limit) - 2, left + 350, y(limit) - 2, REFUSED, 1.5, "6 4")
        p.text(left + 6, y(limit) - 6, "limit", 13, REFUSED)
        peak = max(sum(n for ms, n in zip(bursts, passed) if t - span < ms <= t) for t in bursts)
        p.text(x(1500), y(peak) - 8, f"{peak} in one second", 13, PASSED, "middle", 600)
        p.text(left - 42, (top + bottom) / 2, "passed in the last second", 13, SOFT, "middle", turn=-90)
    p.save("double-burst")


def leaky():
    """Uneven in, even out."""
    arrivals = [100, 160, 220, 300, 340, 420, 900, 1300, 2350, 2380, 2430, 2460, 2500, 2530, 2580, 2610, 2650, 2690, 2720, 2760,
                3300, 3700, 3740, 4600, 4950, 4990]
    command = "RL.LEAKY mail 8 4"
    with Run() as run:
        got = []
        for ms in arrivals:
            run.at(ms)
            got.append((ms, run.call(command)))
    passed = [(ms, ms + reply[5]) for ms, reply in got if reply[0]]
    refused = [ms for ms, reply in got if not reply[0]]

    p = Picture(860, 330, "LEAKY: calls come as they like, work leaves evenly",
                f"{command}: a queue of 8 that drains 4 per second. Each caller waits delay_ms before it goes ahead.")
    left, right, top, low, bottom = 160, 836, 118, 232, 268
    x = scale(0, 6000, left, right)
    p.time_axis(x, bottom, top - 24, range(0, 7), 0)
    p.text(20, top - 3, "calls", 14, weight=600)
    p.text(20, top + 14, f"{len(refused)} refused", 12, REFUSED)
    p.text(20, low - 3, "work leaves", 14, weight=600)
    p.text(20, low + 14, "at least 250 ms apart", 12, SOFT)
    p.line(left, top, right, top)
    p.line(left, low, right, low)
    for come, go in passed:
        p.line(x(come), top, x(go), low, PASSED, 1.2, opacity=0.55)
    for come, go in passed:
        p.tick(x(come), top)
        p.tick(x(go), low)
    for ms in refused:
        p.refused(x(ms), top - 15, 1.4, 4, 1.1)
    p.save("leaky")


def memory():
    """What is kept per request, against a sorted set."""
    most, points = 10000, [1, *range(500, 10001, 500)]
    kinds = [("a sorted set", "zset", REFUSED, lambda ms, n: f"ZADD zset {ms} {ms}-{n}"),
             ("RL.SLIDE, the exact log", "log", PASSED, lambda ms, n: f"RL.SLIDE log {most} 1h"),
             ("RL.SLIDE ... BLOCKS 60", "blocks", THIRD, lambda ms, n: f"RL.SLIDE blocks {most} 1h BLOCKS 60")]
    got = {key: [] for _, key, _, _ in kinds}
    for _, key, _, call in kinds:
        # The heights of a skip list's nodes are drawn by lot: the same lot each time, and nobody else who draws, gives the
        # same picture.
        with Run(preload=still_dice()) as run:
            for n in range(1, most + 1):
                run.at(n * 360)
                run.call(call(servers.START_S * 1000 + n * 360, n))
                if n in points:
                    got[key].append((n, run.call(f"MEMORY USAGE {key} SAMPLES 0")))
            info = run.call("INFO server")
    version = next(line[14:] for line in info.splitlines() if line.startswith("redis_version:"))

    p = Picture(860, 420, "Memory of a sliding window, by requests in the window",
                f"One request each 360 ms, window 1 h. MEMORY USAGE on Redis {version}.")
    left, right, top, bottom = 92, 600, 84, 352
    x, y = scale(0, most, left, right), scale(0, 1_400_000, bottom, top)
    for kb in range(0, 1401, 200):
        p.line(left, y(kb * 1000), right, y(kb * 1000), GRID)
        p.text(left - 10, y(kb * 1000) + 4, str(kb), 12, SOFT, "end")
    for n in range(0, most + 1, 2000):
        p.line(x(n), bottom, x(n), bottom + 5)
        p.text(x(n), bottom + 20, str(n), 12, SOFT, "middle")
    p.text((left + right) / 2, bottom + 42, "requests in the window", 13, SOFT, "middle")
    p.text(26, (top + bottom) / 2, "kB for the key", 13, SOFT, "middle", turn=-90)
    for (name, key, colour, _), lift in zip(kinds, (0, -14, 18)):
        p.path([(x(n), y(size)) for n, size in got[key]], colour, 2.5)
        size = got[key][-1][1]
        p.text(right + 44, y(size) + lift, name, 14, colour, weight=600)
        text = f"{size / 1000:.0f} kB for {most} requests" if size > most else f"{size / 1000:.1f} kB, however many"
        p.text(right + 44, y(size) + lift + 17, text, 13, SOFT)
    p.save("memory")


def still_dice():
    """A library that keeps a server from seeding random(), which has two names."""
    source, built = (os.path.join(servers.WORK, "still-dice." + end) for end in ("c", "so"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("void srand(unsigned seed) { (void)seed; }\nvoid srandom(unsigned seed) { (void)seed; }\n")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", built, source], check=True)
    return built


if __name__ == "__main__":
    pictures = {"burst": burst, "double-burst": double_burst, "leaky": leaky, "memory": memory}
    for picture in sys.argv[1:] or pictures:
        pictures[picture]()
        print(f"docs/img/{picture}.svg")
