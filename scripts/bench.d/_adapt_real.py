"""Real clients behind a bottleneck: the part of the benchmark `adapt` that has a server, sockets and a clock.

Each run is a publisher, a server, the relay of `millbench bottleneck` and a viewer of its own; several run beside each other.
"""

import contextlib
import json
import pathlib
import queue
import shutil
import statistics
import subprocess
import threading
import time

from _bench import ROOT, decimal, median, prefer, run, say, spread
from _rtc import PUBLISHED, TOKEN, RtcBench

# Kilobits a second of the layers, and their sizes.
LAYERS = [(150, "320x180"), (500, "640x360"), (1700, "1280x720")]
RATE = 25
# What audio takes with all headers: 50 packets a second of about 130 bytes.
AUDIO_KBIT = 52
BIN_MS = 100
# Longer than everything that is waited for takes on a busy machine.
PATIENCE = 40

# Publishers' uplinks, kbit/s from second on; how long they send, and from when on it counts. Pion's `gcc` begins at 300 kbit/s
# and grows by 8 % a second: 28 s to 2500.
PUBLISH_CASES = {
    "publish_400k": [(0, 400)],
    "publish_700k": [(0, 700)],
    "publish_2500k": [(0, 2500)],
    "publish_step": [(0, 2500), (40, 700)],
}
PUBLISH_QUICK = ["publish_700k", "publish_2500k", "publish_step"]
PUBLISH_SECONDS = 55
PUBLISH_FROM = 30


class Case:
    """A path, and who is behind it. Seconds from the first packet of media on."""

    def __init__(self, rate, seconds, more=(), loss=0.0, begins=(0,), counts_from=0, settles=True):
        self.rate, self.seconds, self.more, self.loss = rate, seconds, list(more), loss
        # When each viewer begins, and from when on all is counted.
        self.begins, self.counts_from, self.settles = begins, counts_from, settles

    def steps(self):
        """Seconds and kbit/s."""
        return [tuple(map(float, step.split(":"))) if ":" in step else (0.0, float(step)) for step in self.rate.split(",")]


def cases(quick):
    """By name, as in the virtual part."""
    length = 20 if quick else 60
    third = 10 if quick else 20
    square = ",".join(f"{at * 5}:{600 if at % 2 else 2500}" for at in range(length // 5))
    found = {
        "constant_250k": Case("250", length),
        "constant_700k": Case("700", length),
        "constant_2500k": Case("2500", length),
        "step": Case(f"0:2500,{third}:600,{2 * third}:2500", 3 * third),
        "square": Case(square, length),
        "lte": Case("lte", length, settles=False),
        "loss_2": Case("2500", length, ["--loss", "0.02"], loss=0.02),
        "loss_5": Case("2500", length, ["--loss", "0.05"], loss=0.05),
        "loss_10": Case("2500", length, ["--loss", "0.1"], loss=0.1),
        "bursts": Case("2500", length, ["--outages"]),
        "reorder": Case("2500", length, ["--reorder", "0.05"]),
        "two_viewers": Case("2500", length + 10, begins=(0, 5), counts_from=10),
        "tcp": Case("2500", length + 10, ["--bulk-from", "5"], counts_from=10),
    }
    return found


QUICK = ["constant_250k", "constant_700k", "constant_2500k", "step"]
SINGLE = "single"
LAYERED = "layered"
# Chromium's publications: codec and layers. Only Chromium watches them, which knows layers by their height.
BROWSER = {
    "vp8_simulcast": ("VP8", "simulcast"),
    "vp9_svc": ("VP9", "L3T3_KEY"),
    "av1_svc": ("AV1", "L3T3_KEY"),
    "av1_temporal": ("AV1", "L1T3"),
}
BROWSER_CASES = ["constant_250k", "constant_700k", "constant_2500k"]


class Failed(Exception):
    """A run that has no figures."""


class Program:
    """A client or relay, which prints JSON lines."""

    def __init__(self, bench, command, log):
        self.bench, self.log = bench, log
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(log, "a"),
            text=True,
            start_new_session=True,
            cwd=ROOT,
        )
        prefer(self.process)
        self.lines = queue.Queue()
        bench.running.append(self.process)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def wait_for(self, what, patience=PATIENCE):
        """The next line with this key, or of this event."""
        end = time.monotonic() + patience
        while True:
            try:
                found = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no {what!r} within {patience:.0f} s") from None
            if found is None:
                raise Failed(f"ended without {what!r}: {pathlib.Path(self.log).read_text()[-500:]}")
            if found.get("event") == "failed":
                raise Failed(found["reason"])
            if what in found or found.get("event") == what:
                return found

    def finish(self, what):
        """Ends it by the end of its input; what it says last."""
        self.process.stdin.close()
        found = self.wait_for(what)
        self.bench.stop(self.process)
        return found


class Real(RtcBench):
    """Server, clients and figures."""

    def __init__(self, quick):
        super().__init__()
        self.quick = quick
        self.folder = self.target / "bench-adapt"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.server = None
        self.numbers = iter(range(1, 10_000))

    def build_clients(self):
        """The clients in Go, and what they send."""
        if not shutil.which("go"):
            return "Go 1.24 or newer is not installed (https://go.dev/dl/)"
        run(["go", "-C", str(ROOT / "interop/pion"), "build", "-o", str(self.folder / "adapt"), "./adapt"])
        for kbit, size in LAYERS:
            file = self.layer_file(kbit)
            if not file.exists():
                say(f"encoding {file.name}")
                encode_layer(kbit, size, file)
        if not self.audio_file().exists():
            encode_audio(self.audio_file())
        return None

    def layer_file(self, kbit):
        return self.folder / f"layer-{kbit}.h264"

    def audio_file(self):
        return self.folder / "tone.ogg"

    def layer_files(self):
        return ",".join(str(self.layer_file(kbit)) for kbit, _ in LAYERS)

    def begin(self):
        """Starts the server that all runs share."""
        server = self.start_millstream(self.nets["lo"])
        if isinstance(server, str):
            raise Failed(server)
        self.server = server

    def url(self, action, stream):
        return f"{self.server.base}/{action}/{stream}?token={TOKEN}"

    def program(self, name, *command):
        return Program(self, command, self.directory / f"{name}-{next(self.numbers)}.log")

    def bottleneck(self, *options):
        """The relay and its address. It leads to the server's UDP port."""
        relay = self.program("relay", self.binary("millbench"), "bottleneck", "--to", self.udp_address(), *options)
        return relay, relay.wait_for("listen")["listen"]

    def udp_address(self):
        """Where the server has its media, from the sockets of its process."""
        inodes = set()
        for descriptor in pathlib.Path(f"/proc/{self.server.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()))
        for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            if f"socket:[{fields[9]}]" in inodes and address == "0100007F":
                return f"127.0.0.1:{int(port, 16)}"
        raise Failed("the server has no UDP port on 127.0.0.1")

    def watch(self, name, case, kind, source):
        """Runs a case; figures by name."""
        stream = f"{PUBLISHED.split('/')[0]}/adapt{next(self.numbers)}"
        publisher = self.publisher(source, self.url("whip", stream))
        publisher.wait_for("connected")
        # Long enough for the server to have seen what it describes, and for a browser to have got up to its rates.
        time.sleep(8.0 if source in BROWSER else 1.0)
        window = ["--from", int(case.counts_from), "--until", int(case.seconds)]
        relay, address = self.bottleneck("--rate", case.rate, *window, *case.more)
        viewers = []
        begun = time.monotonic()
        for begins in case.begins:
            time.sleep(max(0.0, begun + begins - time.monotonic()))
            viewers.append(self.viewer(kind, self.url("whep", stream), address, case.seconds - begins))
            viewers[-1].wait_for("connected")
            if len(viewers) == 1:
                began_ns = relay.wait_for("began_ns")["began_ns"]
                begun = time.monotonic()
        seen = [viewer.wait_for("done", case.seconds + PATIENCE) for viewer in viewers]
        relay.process.terminate()
        report = relay.wait_for("seconds")
        for program in (relay, *viewers):
            self.stop(program.process)
        sent = publisher.finish("done")
        return figures(case, source, began_ns, seen, report, sent)

    def publisher(self, source, url):
        if source in BROWSER:
            codec, layers = BROWSER[source]
            return self.program(
                "chromium-publish", "node", ROOT / "web/e2e/adapt.mjs", "publish", "--codec", codec, "--layers", layers, url
            )
        files = self.layer_files() if source == LAYERED else self.layer_file(LAYERS[-1][0])
        return self.program("publish", self.folder / "adapt", "publish", "-layers", files, "-audio", self.audio_file(), url)

    def viewer(self, kind, url, address, seconds):
        if kind == "chromium":
            return self.program("chromium", "node", ROOT / "web/e2e/adapt.mjs", "watch", "--through", address, "--seconds", seconds, url)
        return self.program(
            *["pion", self.folder / "adapt", "watch", "-layers", self.layer_files()],
            *["-through", address, "-seconds", seconds, url],
        )

    def push(self, kind, steps):
        """A publisher behind a bottleneck; figures by name."""
        limit = max(kbit for _, kbit in steps)
        rate = ",".join(f"{second}:{kbit}" for second, kbit in steps)
        stream = f"{PUBLISHED.split('/')[0]}/adapt{next(self.numbers)}"
        window = ["--from", PUBLISH_FROM, "--until", PUBLISH_SECONDS]
        relay, address = self.bottleneck("--limit", "up", "--rate", rate, *window)
        url = self.url("whip", stream)
        if kind == "chromium":
            publisher = self.program(
                "chromium", "node", ROOT / "web/e2e/adapt.mjs", "push", "--through", address, "--most", 2 * limit, url
            )
        else:
            files = ["-layers", self.layer_file(LAYERS[0][0]), "-audio", self.audio_file()]
            publisher = self.program(
                *["push", self.folder / "adapt", "push", *files, "-through", address, "-most", 2 * limit, url]
            )
        publisher.wait_for("connected")
        relay.wait_for("began_ns")
        time.sleep(PUBLISH_SECONDS + 0.5)
        relay.process.terminate()
        report = relay.wait_for("seconds")
        # Without the relay its DELETE still gets through: that is HTTP.
        sent = publisher.finish("done")
        self.stop(relay.process)
        return pushed(steps, report, sent)


def encode_layer(kbit, size, file):
    """40 s of moving noise at an even rate; a key frame every 10 s, or when it is asked for: the next one of the file."""
    source = f"testsrc2=size={size}:rate={RATE},noise=alls=12:allf=t"
    rates = ["-b:v", f"{kbit}k", "-maxrate", f"{kbit}k", "-bufsize", f"{kbit // 4}k"]
    how = ["-c:v", "libx264", "-profile:v", "baseline", "-preset", "superfast", "-tune", "zerolatency", "-threads", "1"]
    params = "aud=1:keyint=250:scenecut=0:sliced-threads=0"
    unfinished = file.with_suffix(".part")
    run(
        ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-t", "40", "-pix_fmt", "yuv420p", *rates, *how]
        + ["-x264-params", params, "-f", "h264", str(unfinished)]
    )
    unfinished.rename(file)


def encode_audio(file):
    # A packet a page: the sender sends pages.
    sine = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-t", "20", "-c:a", "libopus", "-b:a", "32k"]
    run(["ffmpeg", "-v", "error", "-y", *sine, "-vbr", "off", "-page_duration", "20000", "-frame_duration", "20", str(file)])


def best_layer(kbit, case, source):
    """The best layer that fits, kbit/s."""
    rates = [rate for rate, _ in LAYERS]
    if source == SINGLE:
        return rates[-1]
    left = kbit * (1 - case.loss) - AUDIO_KBIT
    return max([rate for rate in rates if rate * 1.05 <= left], default=rates[0])


def figures(case, source, began_ns, seen, report, sent):
    """What the virtual part calls by these names. Times in milliseconds from the first packet of media on."""
    count = len(seen)
    first, last = case.counts_from * 1000 // BIN_MS, case.seconds * 1000 // BIN_MS
    carried = report["carried_bits"] + [0] * last
    could = [best_layer(carried[at] / BIN_MS / count, case, source) * BIN_MS * count for at in range(last)]
    arrived = [[0] * last for _ in seen]
    for bins, viewer in zip(arrived, seen):
        offset = (viewer["began_ns"] - began_ns) / 1e6
        for ms, bits in viewer["bits"]:
            at = int((ms + offset) // BIN_MS)
            if 0 <= at < last:
                bins[at] += bits
    totals = [sum(bins[first:last]) for bins in arrived]
    flows = report["flows"][:count]
    packets = sum(flow["packets"] for flow in flows)
    found = {
        "utilisation": sum(totals) / sum(could[first:last]),
        "queue_ms_p95": report["wait_ms_p95"],
        "loss_percent": 100 * sum(flow["overflowed"] for flow in flows) / packets if packets else None,
        "freeze_ms": max(freeze_ms(viewer, case, began_ns) for viewer in seen),
        "settle_s": settle_s(case, arrived[0], could) if case.settles and case.counts_from == 0 else None,
        "layer": statistics.median_low(layers_of(seen[0])) if layers_of(seen[0]) else None,
    }
    if count > 1:
        found["jain"] = sum(totals) ** 2 / (count * sum(bits * bits for bits in totals)) if any(totals) else None
    if "--bulk-from" in case.more:
        begins = float(case.more[case.more.index("--bulk-from") + 1])
        found["tcp_share"] = report["bulk_bytes"] * 8 / sum(carried[int(begins * 1000 // BIN_MS) : last])
    notes = {
        "pictures": [pictures_of(viewer) for viewer in seen],
        "pli": [viewer["pli"] for viewer in seen],
        "missing": [viewer["missing"] for viewer in seen],
        "audio_missing": [viewer["audio_missing"] for viewer in seen],
        "published": {key: value for key, value in sent.items() if key != "event"},
        **seen[0].get("notes", {}),
    }
    return found, notes


def pictures_of(viewer):
    return viewer["decoded"] if "decoded" in viewer else len(viewer["pictures"])


def layers_of(viewer):
    """Kilobits a second of the layer of each picture, or of each time that was looked."""
    return [LAYERS[at][0] for _, at in viewer["pictures"] if at >= 0]


def freeze_ms(viewer, case, began_ns):
    """As the virtual part: gaps of more than 190 ms between pictures, less the usual 40. Chromium counts for itself."""
    if "freeze_ms" in viewer:
        return viewer["freeze_ms"]
    offset = (viewer["began_ns"] - began_ns) / 1e6
    times = [ms + offset for ms, _ in viewer["pictures"] if ms + offset < case.seconds * 1000]
    end = case.seconds * 1000
    if not times:
        return end
    return sum(gap - 40 for gap in map(lambda a, b: b - a, times, [*times[1:], end]) if gap > 190)


def settle_s(case, bins, could):
    """After the start and each rise, until half a second has 85 % of what could be; the longest."""
    steps, longest, bins_a_second, half = case.steps(), 0.0, 1000 // BIN_MS, 500 // BIN_MS
    for at, (second, rate) in enumerate(steps):
        if at and rate <= steps[at - 1][1]:
            continue
        begin = int(second * bins_a_second)
        end = int(steps[at + 1][0] * bins_a_second) if at + 1 < len(steps) else case.seconds * bins_a_second
        reached = (bin for bin in range(begin, end - half) if sum(bins[bin : bin + half]) >= 0.85 * sum(could[bin : bin + half]))
        longest = max(longest, (next(reached, end) - begin) / bins_a_second)
    return longest


def pushed(steps, report, sent):
    first, last = PUBLISH_FROM * 1000 // BIN_MS, PUBLISH_SECONDS * 1000 // BIN_MS
    could = sum(BIN_MS * [kbit for second, kbit in steps if second * 1000 <= at * BIN_MS][-1] for at in range(first, last))
    passed = [0] * last
    for flow in report["flows"]:
        for at, bits in enumerate(flow["passed_bits"][:last]):
            passed[at] += bits
    found = {"utilisation": sum(passed[first:last]) / could, "queue_ms_p95": report["wait_ms_p95"]}
    packets = sum(flow["packets"] for flow in report["flows"])
    notes = {key: value for key, value in sent.items() if key != "event"}
    notes["loss_percent"] = 100 * sum(flow["overflowed"] for flow in report["flows"]) / packets if packets else None
    return found, notes


def figure(value):
    """As the virtual part prints them."""
    if value is None:
        return "nan"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def text(found):
    return " ".join(f"{key}={figure(value)}" for key, value in found.items())


class Crew:
    """Works in parallel, at most so many at a time; results and failures in the order of the work."""

    def __init__(self, at_once):
        self.places = threading.Semaphore(at_once)

    def run(self, works):
        """`works` are pairs of a label and a function that gives figures and notes."""
        results = [None] * len(works)

        def one(at, label, work):
            with self.places:
                try:
                    results[at] = work()
                    say(f"  {label}: {text(results[at][0])}  {notes_text(results[at][1])}")
                except Exception as why:  # One run that fails takes no other along.
                    results[at] = str(why) if isinstance(why, Failed) else f"{type(why).__name__}: {why}"
                    say(f"  {label}: {results[at]}")

        threads = [threading.Thread(target=one, args=(at, *work), daemon=True) for at, work in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


def notes_text(notes):
    return "(" + ", ".join(f"{key} {value}" for key, value in notes.items() if value is not None) + ")"


def chromium_problem():
    if not shutil.which("node") or not (ROOT / "web/node_modules").exists():
        return "Node.js or the console's packages are missing (scripts/setup)"
    return None if shutil.which("chromium") else "Chromium is missing (scripts/setup)"


def run_real(options):
    """Runs what is wanted and prints the RESULT lines last; the exit status."""
    bench = Real(options.quick)
    parts = options.part or ["watch", "publish", "cost"]
    kinds = options.kind or ["pion", "chromium"]
    if not options.no_build:
        bench.build()
    problem = bench.build_clients()
    lines = []
    if problem:
        lines.append(f"SKIPPED adapt real: {problem}")
        kinds = []
    elif "chromium" in kinds and chromium_problem():
        lines.append(f"SKIPPED adapt chromium: {chromium_problem()}")
        kinds = [kind for kind in kinds if kind != "chromium"]
    if "watch" in parts and kinds:
        lines += watched(bench, options, kinds)
    if "publish" in parts and kinds:
        lines += published(bench, options, kinds)
    if "cost" in parts:
        lines += cost(bench, options.quick)
    for line in lines:
        say(line)
    return 1 if any(line.startswith("FAILED") for line in lines) else 0


def watched(bench, options, kinds):
    known = cases(options.quick)
    names = options.case.split(",") if options.case else QUICK if options.quick else list(known)
    names = [name for name in names if name in known]
    if not names:
        return []
    bench.begin()
    lines = []
    for kind in kinds:
        plan = [(name, LAYERED) for name in names]
        if kind == "pion" and not options.case:
            plan.append(("constant_700k", SINGLE))
        if kind == "chromium" and options.browser:
            plan = [(name, source) for source in options.browser.split(",") for name in names if name in BROWSER_CASES]
        works = [
            (f"{name} {kind} {source}", lambda name=name, kind=kind, source=source: bench.watch(name, known[name], kind, source))
            for name, source in plan
        ]
        for (name, source), result in zip(plan, Crew(1 if options.browser else AT_ONCE[kind]).run(works)):
            label = f"adapt case={name} kind={kind} source={source}"
            lines.append(f"FAILED {label}: {result}" if isinstance(result, str) else f"RESULT {label} {text(result[0])}")
    bench.stop(bench.server.process)
    return lines


def published(bench, options, kinds):
    names = options.case.split(",") if options.case else PUBLISH_QUICK if options.quick else list(PUBLISH_CASES)
    plan = [(kind, name) for kind in kinds for name in names if name in PUBLISH_CASES]
    if not plan:
        return []
    bench.begin()
    works = [(f"{name} {kind}", lambda kind=kind, name=name: bench.push(kind, PUBLISH_CASES[name])) for kind, name in plan]
    lines = []
    for (kind, name), result in zip(plan, Crew(PUBLISH_AT_ONCE).run(works)):
        label = f"adapt case={name} kind={kind}"
        lines.append(f"FAILED {label}: {result}" if isinstance(result, str) else f"RESULT {label} {text(result[0])}")
    bench.stop(bench.server.process)
    return lines


# Chromium decodes and encodes.
AT_ONCE = {"pion": 5, "chromium": 2}
PUBLISH_AT_ONCE = 4


def cost(bench, quick):
    """CPU time of the server a packet, without and with reports of arrivals, in turn."""
    rounds, duration, settle = (3, 2.0, 1.0) if quick else (5, 4.0, 1.5)
    found, reported = {}, {}
    for number in range(rounds):
        for with_feedback in (False, True) if number % 2 == 0 else (True, False):
            server = bench.start_millstream(bench.nets["lo"])
            if isinstance(server, str):
                return [f"SKIPPED adapt-cost: {server}"]
            more = ["--transport-feedback"] if with_feedback else []
            report = bench.play(server, COST_VIEWERS, duration, settle, more=more)
            bench.stop(server.process)
            for step in report["steps"]:
                n = step["sessions"]
                say(
                    f"  cost n={n} {'with' if with_feedback else 'without'}: {decimal(step['us_per_packet'], 3)} us/packet, "
                    f"lost {step['lost']}, reports {step['transport_reports_sent']}, "
                    f"p99 {decimal((step['latency'] or {}).get('p99_ms'), 2)} ms, generator {step['generator_core_percent']:.0f} %"
                )
                found.setdefault((n, with_feedback), []).append(step["us_per_packet"])
                reported[n] = reported.get(n, 0) + step["transport_reports_sent"]
    lines = []
    for n in COST_VIEWERS:
        without, with_them = found.get((n, False)), found.get((n, True))
        if not without or not with_them:
            lines.append(f"SKIPPED adapt-cost n={n}: no figures")
            continue
        lines.append(
            f"RESULT adapt-cost n={n} us_per_packet_without={decimal(median(without), 3)} "
            f"us_per_packet_with={decimal(median(with_them), 3)} "
            f"ratio={decimal(median(with_them) / median(without), 3)}"
        )
        if not reported[n]:
            say(f"  adapt-cost n={n}: the server does not agree on reports, both are the same")
        for values in (without, with_them):
            if spread(values) > 0.1:
                say(f"  adapt-cost n={n}: spread {spread(values):.2f}")
    return lines


COST_VIEWERS = [400, 2000]
