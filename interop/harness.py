"""What the checks with other people's programs share: peers, servers, environments, reporting.

A peer is a program that prints JSON objects, one a line, as interop/README.md says. Servers live as long as
the run and are shared by the checks that need the same shape; peers end with their check. Checks mostly wait
for media that comes at its own pace, so several run beside each other.
"""

import concurrent.futures
import copy
import itertools
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request

INTEROP = pathlib.Path(__file__).resolve().parent
ROOT = INTEROP.parent
# Longer than anything takes on a busy machine.
TIMEOUT = 60
FRAMES = 50
# How many checks run at once. What decodes or encodes in its own time and is measured has the weight of
# several: with two of those at once (8 here) all checks take 140 s instead of 172 s on two cores, and
# flash and beep are found 70 ms apart.
CAPACITY = 5
HEAVY = 3
HEAVY_NAMES = ("Chromium", "browser", "aiortc by WHIP")


class Failed(Exception):
    """What was asked for did not happen."""


class Skipped(Exception):
    """What it takes is not installed."""


def run(*command, cwd=None, what="stdout"):
    """What a program has printed, or has complained of; fails if it does."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if result.returncode:
        raise Failed(f"{command[0]}: {(result.stderr or result.stdout).strip()[-2000:]}")
    return getattr(result, what)


class Program:
    """A running peer. What it prints is read as it comes."""

    def __init__(self, log, *command):
        self.log = open(log, "a", encoding="utf-8")
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.name, self.events = " ".join(str(part) for part in command), queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                self.events.put(json.loads(line))
            except ValueError:
                self.log.write(line)
        self.events.put(None)

    def wait_for(self, event, patience=TIMEOUT):
        end = time.monotonic() + patience
        while True:
            try:
                found = self.events.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no '{event}' within {patience} s of {self.name}") from None
            if found is None:
                raise Failed(f"ended without '{event}', status {self.process.wait()}: {self.name}")
            if found["event"] == "failed":
                raise Failed(f"{found['reason']}: {self.name}")
            if found["event"] == event:
                return found

    def wait(self, patience=TIMEOUT):
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failed(f"does not end: {self.name}") from None
        if status:
            raise Failed(f"status {status}: {self.name}")

    def finish(self):
        """Ends a publisher as it should end."""
        self.process.stdin.close()
        self.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Served:
    """Where a server is: what is published and played there, and its API. Asked with a token if it wants one."""

    def __init__(self, http, rtmp, token=""):
        self.base, self.rtmp, self.token = f"http://{http}", f"rtmp://{rtmp}", token

    def url(self, action, stream):
        return f"{self.base}/{'whip' if action == 'publish' else 'whep'}/interop/{stream}{self.query()}"

    def frames_url(self, protocol, stream):
        """Where the stream is to be had, or published, as frames."""
        where = f"{self.rtmp}/interop/{stream}" if protocol == "rtmp" else f"{self.base}/interop/{stream}.flv"
        return where + self.query()

    def query(self):
        return f"?token={self.token}" if self.token else ""

    def api(self, path, method="GET", body=None):
        """What the management API answers; fails with its words if it refuses."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.base}/api/v1{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                return json.loads(response.read() or "null")
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:500]
            raise Failed(f"{method} {path}: {error.code} {text}") from None


class Server(Served):
    """A server with ports of its own. `more` are further arguments."""

    # The process that has taken over.
    successor = None

    def __init__(self, binary, folder, workers, address="127.0.0.1", more=()):
        host = f"[{address}]" if ":" in address else address
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix="server-"))
        self.log = open(self.folder / "server.log", "w", encoding="utf-8")
        ports = self.folder / "ports.json"
        self.process = subprocess.Popen(
            [binary, "--workers", str(workers), "--ports-file", ports, "--rtmp-listen", "127.0.0.1:0"]
            + ["--http-listen", f"{host}:0", "--rtc-udp-listen", f"{host}:0"]
            + ["--rtc-tcp-listen", f"{host}:0", "--srt-listen", f"{host}:0", "--rtsp-listen", f"{host}:0", "--rtsp-udp-listen", f"{host}:0", *more],
            stdout=self.log,
            stderr=self.log,
        )
        end = time.monotonic() + TIMEOUT
        while not (ports.exists() and ports.read_text()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"the server did not start: {(self.folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.05)
        known = json.loads(ports.read_text())
        super().__init__(known["http"][0], known["rtmp"][0])
        self.srt = known["srt"][0]
        self.rtsp = known["rtsp"][0]

    def upgrade(self):
        """Another process takes over, and the first one ends."""
        self.successor = self.api("/upgrade", "POST")["pid"]
        self.process.wait(TIMEOUT)

    def stop(self):
        if self.successor:
            # Not a child of this process: it ends in its own time.
            os.kill(self.successor, signal.SIGTERM)
        else:
            self.process.terminate()
        try:
            self.process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Bench:
    """What the checks use: programs that are built, media files, and servers by their shape. A bench may
    share all of that, and the names of its streams, with `other`."""

    def __init__(self, binary, folder, other=None):
        self.binary, self.folder, self.programs = binary, folder, []
        # What the programs complain of: a file per check.
        self.log = folder / "peers.log"
        if other:
            self.servers, self.streams = other.servers, other.streams
            self.ready, self.making, self.lock = other.ready, other.making, other.lock
            return
        self.servers, self.streams = {}, itertools.count(1)
        # What `once` has made, and who may make it.
        self.ready, self.making, self.lock = {}, {}, threading.Lock()

    def once(self, name, make):
        """The result of `make`, or why there is none, the same for all who ask."""
        with self.lock:
            making = self.making.setdefault(name, threading.Lock())
        with making:
            if name not in self.ready:
                try:
                    self.ready[name] = make()
                except (Failed, Skipped, OSError) as error:
                    self.ready[name] = error
        if isinstance(self.ready[name], Exception):
            raise self.ready[name]
        return self.ready[name]

    def server(self, workers=1, address="127.0.0.1", more=()):
        shape = (workers, address, more)
        server = self.once(("server", shape), lambda: Server(self.binary, self.folder, *shape))
        self.servers[shape] = server
        if server.process.poll() is not None:
            raise Failed(f"the server has ended with {server.process.returncode}: {server.folder}/server.log")
        return server

    def weight(self, name):
        """How much of the machine a check is given."""
        return HEAVY if any(part in name for part in HEAVY_NAMES) else 1

    def stream(self):
        return f"stream{next(self.streams)}"

    def for_check(self, name):
        """The same bench with programs of its own, which end with the check, and a log of what they say."""
        own = copy.copy(self)
        own.programs = []
        own.log = self.folder / "peers" / (re.sub(r"\W+", "-", name) + ".log")
        own.log.parent.mkdir(exist_ok=True)
        own.log.write_text("")
        return own

    def start(self, *command):
        program = Program(self.log, *command)
        self.programs.append(program)
        return program

    def stop_programs(self):
        for program in self.programs:
            program.kill()
        self.programs.clear()

    def stop(self):
        self.stop_programs()
        while self.servers:
            self.servers.popitem()[1].stop()

    # Peers: each gives a running program for an action at a URL.

    def aiortc(self, action, url, codec="vp8", frames=FRAMES):
        python = self.once("aiortc", self.aiortc_environment)
        peer = INTEROP / "aiortc/peer.py"
        return self.start(python, peer, action, url, "--codec", codec, "--frames", frames)

    def aiortc_environment(self):
        return self.environment("venv", INTEROP / "aiortc/requirements.txt") / "python"

    def environment(self, name, requirements, *how):
        """Programs of a Python environment that has these packages; made again when they change."""
        environment = self.folder / name
        stamp = environment / "requirements.txt"
        if not stamp.exists() or stamp.read_text() != requirements.read_text():
            run(sys.executable, "-m", "venv", environment)
            run(environment / "bin/pip", "install", "--quiet", *how, "-r", requirements)
            shutil.copy(requirements, stamp)
        return environment / "bin"

    def new_ffmpeg(self):
        """A newer ffmpeg than the distribution's: it knows Enhanced RTMP and WHIP.

        Tests in Rust run it by the path returned."""

        def make():
            requirements = INTEROP / "ffmpeg/requirements.txt"
            programs = self.environment("new-ffmpeg", requirements, "--require-hashes", "--no-deps")
            ask = "import imageio_ffmpeg as it; print(it.get_ffmpeg_exe())"
            there = run(programs / "python", "-c", ask).strip()
            link = programs / "ffmpeg"
            if not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(os.path.relpath(there, programs))
            return link

        return self.once("new-ffmpeg", make)

    def pion(self, action, url, codec="h264", network="udp4", frames=FRAMES):
        program = self.once("pion", self.pion_program)
        out = self.folder / f"pion-{self.stream()}"
        files = ["-out", out, "-frames", frames, "-codec", codec]
        if action == "publish":
            video, audio = self.once(codec, lambda: self.media(codec))
            files = ["-video", video, "-audio", audio]
        peer = self.start(program, action, "-network", network, *files, url)
        peer.out = out
        return peer

    def pion_program(self):
        if not shutil.which("go"):
            raise Skipped("Go 1.24 or newer is not installed (https://go.dev/dl/)")
        run("go", "build", "-o", self.folder / "pion", ".", cwd=INTEROP / "pion")
        return self.folder / "pion"

    def media(self, codec):
        ending = {"h264": "h264", "h265": "h265"}.get(codec, "ivf")
        video = self.folder / f"{codec}.{ending}"
        source = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "8", "-pix_fmt", "yuv420p"]
        how = {
            "h264": ["-c:v", "libx264", "-profile:v", "baseline", "-preset", "ultrafast"]
            + ["-g", "25", "-bf", "0", "-x264-params", "aud=1:keyint=25:scenecut=0", "-f", "h264"],
            "h265": ["-c:v", "libx265", "-preset", "ultrafast", "-f", "hevc"]
            + ["-x265-params", "aud=1:keyint=25:scenecut=0:bframes=0:log-level=error"],
            "vp8": ["-c:v", "libvpx", "-deadline", "realtime", "-g", "25", "-f", "ivf"],
            "vp9": ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "25", "-f", "ivf"],
            "av1": ["-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-lag-in-frames", "0"]
            + ["-g", "25", "-f", "ivf"],
        }[codec]
        run("ffmpeg", "-v", "error", "-y", *source, *how, video)
        return video, self.once("tone", self.tone)

    def tone(self):
        audio = self.folder / "tone.ogg"
        sine = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-t", "8", "-c:a", "libopus"]
        # A packet a page: the sender sends pages.
        run("ffmpeg", "-v", "error", "-y", *sine, "-page_duration", "20000", "-frame_duration", "20", audio)
        return audio

    def gstreamer(self, action, url, codec="vp8"):
        python = self.once("gstreamer", self.gstreamer_python)
        peer = INTEROP / "gstreamer/peer.py"
        return self.start(python, peer, action, url, "--codec", codec, "--frames", FRAMES)

    def gstreamer_python(self):
        # Of the distribution, not of an environment: the bindings belong to its GStreamer.
        python = "/usr/bin/python3"
        test = "import gi; gi.require_version('GstWebRTC', '1.0'); "
        test += "from gi.repository import Gst, GstWebRTC; Gst.init(None); "
        elements = ("webrtcbin", "nicesrc", "vp8enc", "openh264enc", "openh264dec", "opusenc")
        test += f"assert all(Gst.ElementFactory.find(name) for name in {elements})"
        if subprocess.run([python, "-c", test], capture_output=True, check=False).returncode:
            raise Skipped("GStreamer's webrtcbin or its Python bindings are not installed (scripts/setup)")
        return python


def probe(path):
    """How many pictures a decoder makes of a file."""
    counted = ["-count_frames", "-show_entries", "stream=nb_read_frames"]
    text = run("ffprobe", "-v", "error", *counted, "-of", "json", path)
    stream = json.loads(text)["streams"][0]
    return int(stream["nb_read_frames"])


def describe(facts):
    facts = facts if isinstance(facts, list) else [facts]
    parts = [", ".join(f"{key} {value}" for key, value in one.items() if value is not None) for one in facts]
    return parts[0] if len(parts) == 1 else f"{len(parts)} players; first: {parts[0]}"


def run_checks(suites, only):
    """A line for each check of the suites, which are pairs of a bench and its checks, as it ends; several
    at once; how many failed."""
    # The heavy ones first, so that light ones run beside them and no heavy one is left for the end.
    waiting = [(name, check, bench) for bench, checks in suites for name, check in checks.items()]
    waiting = sorted((one for one in waiting if only in one[0]), key=lambda one: -one[2].weight(one[0]))
    running, failed = {}, 0
    with concurrent.futures.ThreadPoolExecutor(CAPACITY) as pool:
        try:
            while waiting or running:
                for one in list(waiting):
                    name, check, bench = one
                    if bench.weight(name) + sum(weight for _, weight in running.values()) <= CAPACITY:
                        waiting.remove(one)
                        running[pool.submit(run_check, bench.for_check(name), check)] = name, bench.weight(name)
                first = concurrent.futures.FIRST_COMPLETED
                for ended in concurrent.futures.wait(running, return_when=first).done:
                    outcome, facts, seconds = ended.result()
                    failed += outcome == "FAILED"
                    print(f"{outcome} {running.pop(ended)[0]}: {facts} ({seconds:.0f} s)", flush=True)
        finally:
            for bench, _ in suites:
                bench.stop()
    if failed:
        print(f"{failed} failed; what the programs said is in {suites[0][0].folder}", file=sys.stderr)
    return failed


def run_check(bench, check):
    """How it ended, what is said of that, and how long it took."""
    begun = time.monotonic()
    try:
        outcome, facts = "ok", describe(check(bench))
    except Skipped as why:
        outcome, facts = "SKIPPED", why
    except Failed as why:
        outcome, facts = "FAILED", f"{why}{said(bench.log)}"
    except Exception:
        # A mistake in the check itself. It must not keep the others from running.
        outcome, facts = "FAILED", f"{traceback.format_exc()}{said(bench.log)}"
    finally:
        bench.stop_programs()
    return outcome, facts, time.monotonic() - begun


def said(log):
    """The end of what a check's programs said, for below the line that says that it failed."""
    lines = log.read_text(errors="replace").splitlines()[-30:]
    return "".join(f"\n    {line}" for line in [f"{log}:", *lines]) if lines else ""


def arguments_of(parser):
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("binary", nargs="?")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.absolute()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    return arguments
