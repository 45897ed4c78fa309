"""The three walks: servers and clients to trace, and the lists that are compared with what was traced."""

import json
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

import trace

WALKS = ("whip-whep", "rtmp-flv", "rtmp-whep")

# Libraries that stand alone, and what only tests and measurements have: no part of a walk.
OTHER_PACKAGES = {"group-send", "msgpack-array", "range-reader", "ssrc-map", "netsim", "millbench", "rtc-test", "sim", "sim-worker"}

# Paths traced for one walk, of some groups of pictures: what the caches drop depends on where in one a
# packet is. A function is on the path if it runs in this share of them.
PATHS, SHARE = 300, 0.7
# A list may have, but need not have, what runs in a share between these: it depends on how busy the
# machine is.
SHARE_LEAST, SHARE_SURE = 0.4, 0.9
SECONDS = 60

# What the loop does in most turns without media is no part of the path, unless it leads to the read.
IDLE_TURNS, IDLE_SHARE = 30, 0.6

# No stop on the way, for the count of files: fewer lines of code inside the braces, and neither
# branch nor loop. Such a function reads a field, makes a value, or hands on to the next. For the
# count of functions: fewer lines than the second.
STEP_LINES, FUNCTION_LINES = 3, 8
# Which of these runs is the CPU's choice, and a list must hold on every machine.
BACK_ENDS = "crates/srtp/src/cipher/gcm/"
BRANCHES = {"if", "match", "while", "for", "loop", "?"}


class Sources:
    """Functions of the server's crates by file and line."""

    def __init__(self, tree):
        self.tree = tree
        self.functions, self.names, self.crates = {}, {}, set()
        for package, crate in tree.crates():
            if package in OTHER_PACKAGES or package.removesuffix("-c") in OTHER_PACKAGES:
                continue
            self.crates.add(crate.name)
            for file in crate.files.values():
                self.functions.setdefault(file.path, []).extend(file.functions)
                for function in file.functions:
                    self.names[(file.path, function.path(crate.name))] = function
                    function.crate = crate.name
                    body = file.tokens[function.body + 1 : function.last]
                    function.lines = len({token.line for token in body})
                    function.is_step = function.lines >= STEP_LINES or any(token.text in BRANCHES for token in body)
        for functions in self.functions.values():
            functions.sort(key=lambda function: function.line)

    def at(self, file, line):
        """The function around a line: a closure is a part of it. One inside another is a function of its own."""
        found = [function for function in self.functions.get(file, []) if function.line <= line <= function.end]
        return found[-1] if found else None

    def wanted(self, file):
        """The file's name in the tree for one that the compiler wrote down, if it is ours."""
        match = re.search(r"(?:^|/)(crates/[^/]+/src/.*\.rs)$", file)
        if not match or match.group(1) not in self.functions or match.group(1).startswith(BACK_ENDS):
            return None
        return match.group(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Scene:
    """A server with one publisher and one player."""

    def __init__(self, root, folder, walk, folder_of_binaries):
        self.root, self.walk, self.binaries = root, walk, folder_of_binaries
        self.directory = pathlib.Path(folder)
        self.processes, self.player = [], None
        self.http, self.rtmp = free_port(), free_port()

    def __enter__(self):
        lines = [
            "[server]", "workers = 1", "[rtmp]", f'listen = "127.0.0.1:{self.rtmp}"', "[http]", f'listen = "127.0.0.1:{self.http}"',
            "[srt]", "listen = []", "[rtsp]", "listen = []", "[rtc]", 'udp_listen = "127.0.0.1:0"', "tcp_listen = []", "[[application]]", 'name = "live"', "merge_latency_ms = 0",
        ]
        configuration = self.directory / "millstream.toml"
        configuration.write_text("\n".join(lines) + "\n")
        self.server = self.start("server", self.binaries / "millstream", "serve", "--config", configuration)
        deadline = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", self.rtmp)) != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {(self.directory / 'server.log').read_text()[-800:]}")
            time.sleep(0.05)
        return self

    def start(self, name, *command):
        with open(self.directory / f"{name}.log", "w") as log:
            process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
        process.log_name = log.name
        self.processes.append(process)
        return process

    def media(self):
        """Starts publisher and player; returns when media flows."""
        bench = self.binaries / "millbench"
        held = ["--duration", "600", "--quiet"]
        if self.walk == "whip-whep":
            base = f"http://127.0.0.1:{self.http}"
            publish = f"--publish={base}/whip/live/walk"
            self.start("clients", bench, "rtc", "play", f"{base}/whep/live/walk", publish, *held)
            self.wait_for("player", "bytes_out")
            return
        sample = self.directory / "video.flv"
        sample.write_bytes(video_alone((self.root / "media/demo.flv").read_bytes()))
        url = f"rtmp://127.0.0.1:{self.rtmp}/live/walk"
        self.start("publisher", bench, "rtmp", "publish", url, "--sample", sample, *held)
        self.wait_for("publisher", "bytes_in")
        if self.walk == "rtmp-whep":
            self.start("player", bench, "rtc", "play", f"http://127.0.0.1:{self.http}/whep/live/walk", *held)
        else:
            self.player = threading.Thread(target=self.play_flv, daemon=True)
            self.player.start()
        self.wait_for("player", "bytes_out")

    def wait_for(self, role, counter):
        """Waits until media flows steadily: the counter grows from look to look, and not only at first."""
        deadline = time.monotonic() + 30
        url = f"http://127.0.0.1:{self.http}/api/v1/sessions?role={role}"
        looks, last = 0, 0
        while looks < 10:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no media of a {role} within 30 s")
            time.sleep(0.2)
            with urllib.request.urlopen(url, timeout=10) as answer:
                sessions = json.loads(answer.read())["sessions"]
            now = sessions[0][counter] if sessions else 0
            looks, last = (looks + 1 if now > last else 0), now

    def knock(self):
        """Wakes the worker now and then."""
        while self.server.poll() is None:
            for port in (self.http, self.rtmp):
                with socket.socket() as client:
                    client.connect_ex(("127.0.0.1", port))
                    time.sleep(0.05)

    def play_flv(self):
        with socket.create_connection(("127.0.0.1", self.http)) as player:
            player.sendall(b"GET /live/walk.flv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while player.recv(65536):
                pass

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        deadline = time.monotonic() + 5
        for process in self.processes:
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)


def video_alone(flv):
    """The sample without its audio, as one stream of frames."""
    out, at = [flv[:4] + b"\x01" + flv[5:13]], 13
    while at + 11 <= len(flv):
        end = at + 11 + int.from_bytes(flv[at + 1 : at + 4], "big") + 4
        if flv[at] != 8:
            out.append(flv[at:end])
        at = end
    return b"".join(out)


def idle_functions(root, sources, binaries, starts):
    """Functions that run in most turns of a loop that has no media: clients come and go without a word."""
    binary = str(binaries / "millstream")
    with tempfile.TemporaryDirectory(prefix="millstream-walk-") as folder, Scene(root, folder, None, binaries) as scene:
        tracer = trace.Tracer(scene.server.pid, binary, starts)
        tracer.attach()
        threading.Thread(target=scene.knock, daemon=True).start()
        turns = []
        for turn in tracer.turns(20):
            turns.append({event for event in turn if isinstance(event, int)})
            if len(turns) == IDLE_TURNS:
                break
    times = {}
    for turn in turns:
        for offset in turn:
            times[offset] = times.get(offset, 0) + 1
    return {offset for offset, number in times.items() if number >= IDLE_SHARE * len(turns)}


def record(root, sources, walk, binaries):
    """Traces one walk: functions in the order in which a packet meets them, as [(function, share of the
    paths)], and the
    place of each on every path."""
    if why := trace.problem():
        raise RuntimeError(why)
    binary = str(binaries / "millstream")
    starts = trace.function_starts(binary, sources.crates)
    idle = idle_functions(root, sources, binaries, starts)
    udp = {"recvfrom", "recvmsg", "recvmmsg"}, {"sendto", "sendmsg", "sendmmsg"}
    tcp = {"read", "readv", "recvfrom", "recvmsg"}, {"write", "writev", "sendto", "sendmsg"}
    incoming, outgoing = {"whip-whep": udp, "rtmp-flv": tcp, "rtmp-whep": (tcp[0], udp[1])}[walk]
    # Of bytes, a few are a wake-up or an acknowledgement; the calls for many datagrams give their number.
    enough = lambda call: call[2] > (0 if call[0].endswith("mmsg") else 16)  # noqa: E731
    read = lambda call: call[0] in incoming and enough(call)  # noqa: E731
    write = lambda call: call[0] in outgoing and enough(call)  # noqa: E731
    with tempfile.TemporaryDirectory(prefix="millstream-walk-") as folder, Scene(root, folder, walk, binaries) as scene:
        scene.media()
        tracer = trace.Tracer(scene.server.pid, binary, starts)
        tracer.attach()
        found = trace.paths(tracer.turns(SECONDS), read, write, PATHS)
        logs = {log.name: log.read_text()[-400:] for log in scene.directory.glob("*.log")}
    if len(found) < PATHS // 4:
        raise RuntimeError(f"only {len(found)} packets were followed in {SECONDS} s: {logs}")
    functions = {}
    offsets = {event for path in found for event in path if isinstance(event, int)}
    for offset, (file, line) in trace.places(binary, offsets).items():
        if (file := sources.wanted(file)) and (function := sources.at(file, line)):
            functions[offset] = function
    ranks, seen, places = {}, {}, []
    for path in found:
        order, media = [], False
        for event in path:
            if isinstance(event, tuple):
                media = media or read(event)
            elif (function := functions.get(event)) and id(function) not in order and not (media and event in idle):
                order.append(id(function))
                seen[id(function)] = function
        places.append({key: place for place, key in enumerate(order)})
        for rank, key in enumerate(order):
            ranks.setdefault(key, []).append(rank / len(order))
    every = [(statistics.median(each), seen[key], len(each) / len(found)) for key, each in ranks.items()]
    traced = [(function, share) for _, function, share in sorted(every, key=lambda entry: entry[0])]
    # Places among all functions of a path are coarse: of two neighbours, what most paths meet first comes
    # first.
    for _ in traced:
        for at in range(len(traced) - 1):
            if share_of_reversed(traced[at][0], traced[at + 1][0], places) > 0.5:
                traced[at], traced[at + 1] = traced[at + 1], traced[at]
    return traced, places


def share_of_reversed(before, after, places):
    """In which share of the paths that have both, `after` comes before `before`."""
    both = [each for each in places if id(before) in each and id(after) in each]
    return sum(each[id(after)] < each[id(before)] for each in both) / max(len(both), 1)


def steps(traced, share=SHARE):
    """What a list has: functions on the path of nearly every packet that are more than an accessor."""
    return [function for function, often in traced if often >= share and function.is_step]


def figures(functions):
    """Files and functions of a walk."""
    return len({function.file for function in functions}), sum(function.lines >= FUNCTION_LINES for function in functions)


# Lists --------------------------------------------------------------------------------------------------------------


def write_list(file, walk, functions):
    """Numbered lines of `crate::path::function  file`; a function too short to be counted has no number."""
    width = max(len(function.path(function.crate)) for function in functions)
    lines = [f"# Path of a packet or frame, {walk}: written by `scripts/house trace {walk}`, compared by `scripts/house check`.", "#"]
    lines += ["# Functions with a number are counted; those with a dash only count for their file. See scripts/house.", ""]
    number = 0
    for function in functions:
        counted = function.lines >= FUNCTION_LINES
        number += counted
        lines.append(f"{number if counted else '-':>3}  {function.path(function.crate):{width}}  {function.file}")
    file.write_text("\n".join(lines) + "\n")


def read_list(file, sources):
    """Functions of a list, and what is wrong with it: a name that is not in its file."""
    functions, problems = [], []
    for line in file.read_text().splitlines() if file.is_file() else []:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        function = sources.names.get((words[2], words[1])) if len(words) == 3 else None
        if function:
            functions.append(function)
        else:
            problems.append(f"{file.name}: no such function in that file: {' '.join(words[1:])}")
    return functions, problems


def compare(listed, traced, places):
    """Where a list is not what was traced."""
    shares = {id(function): share for function, share in traced}
    known = {id(function) for function in listed}
    problems = []
    for function in listed:
        if shares.get(id(function), 0) < SHARE_LEAST:
            problems.append(f"listed, but does not run: {function.path(function.crate)}")
    for function, share in traced:
        if share >= SHARE_SURE and function.is_step and id(function) not in known:
            problems.append(f"runs, but is not listed: {function.path(function.crate)}")
    # Audio and video take turns, and what either meets first differs from path to path.
    sure = [function for function in listed if shares.get(id(function), 0) >= SHARE_SURE]
    for before, after in zip(sure, sure[1:]):
        if share_of_reversed(before, after, places) >= SHARE_SURE:
            problems.append(f"runs before what it is listed after: {after.path(after.crate)}, {before.path(before.crate)}")
    return problems
