"""What the WebRTC benchmarks share: two networks, Millstream and Janus in them, the load generator, a profile.

`lo`: server and load on this host, packets over its loopback interface. `veth`: two network namespaces joined by a
cable without a wire; what the far end does with a packet runs on the load's core (receive packet steering), as it would
on another host, so that the server pays for sending only.
"""

import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request

from _bench import LOAD_CORE, SERVER_CORE, Bench, decimal, free_port, median, say

import _cable

PUBLISHED = "live/sample"
TOKEN = "bench"
PREFIX = "millstream-rtc-bench"
NEAR, FAR = "10.79.0.1", "10.79.0.2"

BACKLOG = pathlib.Path("/proc/sys/net/core/netdev_max_backlog")
BACKLOG_PACKETS = 60_000

# Looking at the sockets every millisecond, so that the server does not pay for waking the load
# generator: see _bench.py.
TURN_MS = "1"


# A benchmark asks for all that a core carries, at once.
UNLIMITED = ["[limits]", "load_percent = 0", "publisher_load_percent = 0", "loop_time_ms = 0", "send_delay_ms = 0"]


class Loopback:
    """This host."""

    name, server_address = "lo", "127.0.0.1"
    interface = None

    def in_server(self, command):
        return command

    in_load = in_server

    def problem(self):
        return None


class Veth:
    """Two namespaces and the cable between them; made when first used, removed at the end."""

    name, server_address = "veth", NEAR
    interface = "near0"

    def __init__(self):
        self.near, self.far = f"{PREFIX}-{os.getpid()}-near", f"{PREFIX}-{os.getpid()}-far"
        self.laid = False

    def in_server(self, command):
        return ["ip", "netns", "exec", self.near, *command]

    def in_load(self, command):
        return ["ip", "netns", "exec", self.far, *command]

    def problem(self):
        why = _cable.problem()
        if not why and not self.laid:
            self.lay()
        return why

    def lay(self):
        remove_leftovers()
        atexit.register(self.remove)
        self.laid = True
        for host in (self.near, self.far):
            _cable.command("ip", "netns", "add", host)
            _cable.command("ip", "-n", host, "link", "set", "lo", "up")
        near, far = ["ip", "-n", self.near], ["ip", "-n", self.far]
        _cable.command(*near, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", self.far)
        _cable.command(*near, "addr", "add", f"{NEAR}/24", "dev", "near0")
        _cable.command(*far, "addr", "add", f"{FAR}/24", "dev", "far0")
        _cable.command(*near, "link", "set", "near0", "up")
        _cable.command(*far, "link", "set", "far0", "up")
        self.raise_backlog()
        mask = f"{1 << int(LOAD_CORE):x}"
        _cable.run_in(self.far, "sh", "-c", f"echo {mask} > /sys/class/net/far0/queues/rx-0/rps_cpus")

    def raise_backlog(self):
        """What is steered to another core waits in a queue of 1000 packets there, less than a key picture for all."""
        before = BACKLOG.read_text()
        if int(before) < BACKLOG_PACKETS:
            BACKLOG.write_text(str(BACKLOG_PACKETS))
            atexit.register(BACKLOG.write_text, before)

    def remove(self):
        for host in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", host], stderr=subprocess.DEVNULL)


def remove_leftovers():
    for host in pathlib.Path("/run/netns").glob(f"{PREFIX}-*-*"):
        pid = host.name.removeprefix(f"{PREFIX}-").split("-")[0]
        if not pathlib.Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "del", host.name], stderr=subprocess.DEVNULL)


class Server:
    """A running server: its process, and the URLs of the load generator."""

    def __init__(self, name, backend, net, process, play, publish, rtmp=None):
        self.name, self.backend, self.net, self.process = name, backend, net, process
        self.play, self.publish, self.rtmp = play, publish, rtmp

    @property
    def base(self):
        """Where it answers HTTP."""
        return self.play.removesuffix(f"/whep/{PUBLISHED}")


class RtcBench(Bench):
    """A run of a WebRTC benchmark."""

    def __init__(self):
        super().__init__()
        self.nets = {"lo": Loopback(), "veth": Veth()}

    def await_answer(self, net, process, address, port):
        """Waits until somebody listens there, seen from the network's server side."""
        probe = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
        command = net.in_server(["python3", "-c", probe])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and process.poll() is None:
            if subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0:
                return None
            time.sleep(0.05)
        return pathlib.Path(process.log_name).read_text()[-1500:] or "no answer"

    def start_millstream(self, net, backend="auto", workers=1, cores=None):
        """Millstream with `backend`; returns a Server, or the reason why there is none."""
        why = net.problem()
        if why:
            return why
        http, rtmp = free_port(), free_port()
        lines = [
            "[server]",
            f"workers = {workers}",
            *UNLIMITED,
            "[rtmp]",
            f'listen = "{net.server_address}:{rtmp}"',
            "[http]",
            f'listen = "{net.server_address}:{http}"',
            "[rtsp]",
            "listen = []",
            "[srt]",
            "listen = []",
            "[rtc]",
            f'udp_listen = "{net.server_address}:0"',
            "tcp_listen = []",
            f'udp_backend = "{backend}"',
            # All clients have one address here.
            "pending_per_address = 10000",
            "requests_per_second = 0",
            # Without a token only this host may publish, which the other namespace is not.
            "[auth]",
            f'publish_token = "{TOKEN}"',
        ]
        if backend == "af_xdp":
            lines.insert(lines.index("tcp_listen = []"), f'af_xdp_interface = "{net.interface}"')
        configuration = self.directory / f"millstream-{http}.toml"
        configuration.write_text("\n".join(lines) + "\n")
        command = [self.binary("millstream"), "serve", "--config", str(configuration)]
        process = self.start_in(net, command, cores)
        why = self.await_answer(net, process, net.server_address, http)
        if why:
            self.stop(process)
            return why.strip().splitlines()[-1]
        base = f"http://{net.server_address}:{http}"
        # The log names what is used when it is not what was asked for.
        instead = re.search(r"datagrams are sent by (\w+), not by (.*)", pathlib.Path(process.log_name).read_text())
        used = instead.group(1) if instead else "gso" if backend == "auto" else backend
        if instead and backend != "auto":
            self.stop(process)
            return instead.group(2).strip()
        frames = f"rtmp://{net.server_address}:{rtmp}/{PUBLISHED}?token={TOKEN}"
        return Server("millstream", used, net, process, f"{base}/whep/{PUBLISHED}", f"{base}/whip/{PUBLISHED}", frames)

    def start_in(self, net, command, cores=None):
        """Starts a server in a network, on the server's core unless told otherwise."""
        command = net.in_server(["taskset", "-c", cores or SERVER_CORE, *command])
        log = open(self.directory / f"server-{time.monotonic_ns()}.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        process.log_name = log.name
        prefer(process)
        self.running.append(process)
        return process

    def start_janus(self, net, event_loops=None):
        """Debian's Janus with one mountpoint; returns a Server, or the reason why there is none."""
        why = net.problem() or janus_problem(STREAMING)
        if why:
            return why
        http, media = free_port(), free_port() & ~1
        folder = self.directory / f"janus-{http}"
        folder.mkdir()
        values = {
            "folder": folder,
            "http": http,
            "address": net.server_address,
            "audio": media,
            "video": media + 2,
            "event_loops": f"event_loops = {event_loops}" if event_loops else "",
            **janus_modules(STREAMING),
        }
        for name, text in JANUS_CONFIGURATION.items():
            (folder / name).write_text(fill(text, values))
        process = self.start_in(net, ["janus", "-F", str(folder), "-C", str(folder / "janus.jcfg")])
        why = self.await_answer(net, process, net.server_address, http)
        if why:
            self.stop(process)
            return why.strip().splitlines()[-1]
        name = f"janus-el{event_loops}" if event_loops else "janus"
        play = f"janus://{net.server_address}:{http}/1"
        return Server(name, "sendto", net, process, play, f"rtp://{net.server_address}:{media}")

    def load_in(self, server, arguments):
        """Runs the load generator against a server and returns its report."""
        command = [self.binary("millbench"), "rtc", *arguments, "--core", LOAD_CORE, "--turn-ms", TURN_MS]
        command += ["--server-pid", str(server.process.pid), "--token", TOKEN, "--json", "--quiet"]
        command = server.net.in_load(command)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        prefer(process)
        self.running.append(process)
        output, errors = process.communicate()
        self.running.remove(process)
        if process.returncode not in (0, 1):
            return {"steps": [], "problem": errors.strip().splitlines()[-1] if errors.strip() else "no report"}
        report = json.loads(output)
        if not report["outcome"]["ok"]:
            say(f"  not everything worked: {outcome_text(report['outcome'])}")
        return report

    def play(self, server, numbers, duration, settle=0.5, ramp=400, more=(), start_timeout=15, publish=None):
        """Viewers of one stream, which the load generator publishes as well."""
        counts = ",".join(map(str, numbers))
        publish = publish or server.publish
        arguments = ["play", server.play, "-n", counts, "--ramp", str(ramp), *([f"--publish={publish}"] if publish else [])]
        arguments += ["--duration", str(duration), "--settle", str(settle), "--start-timeout", str(start_timeout), *more]
        return self.load_in(server, arguments)


def ask(server, path):
    """What the management API answers; None if it does not know that."""
    try:
        with urllib.request.urlopen(f"{server.base}/api/v1/{path}", timeout=10) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def prefer(process):
    """As in _bench.py, for the whole group of a session."""
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, -15)
        pathlib.Path(f"/proc/{process.pid}/autogroup").write_text("-15")
    except OSError:
        pass


def outcome_text(outcome):
    parts = [f"{count} x {reason}" for reason, count in outcome["failures"].items()]
    for what in ("lost", "not_authentic", "unknown", "not_sent"):
        if outcome[what]:
            parts.append(f"{what} {outcome[what]}")
    return "; ".join(parts)


def step_text(server, step):
    """One line of progress."""
    cost, latency = step["server"], step["latency"] or {}
    text = (
        f"  {server.name:11} {server.net.name:4} {server.backend:9} n={step['sessions']:<5} "
        f"{decimal(step['us_per_packet'], 2)} us/packet  core {cost['core_percent']:.0f} % ({cost['user_percent']:.0f} user)  "
        f"latency {decimal(latency.get('p50_ms'), 2)}/{decimal(latency.get('p99_ms'), 2)} ms  lost {step['lost']}  "
        f"rss {cost['rss_kib_per_client']:.0f} KiB  generator {step['generator_core_percent']:.0f} %"
    )
    if step["sessions_up"] < step["sessions"]:
        text += f"  only {step['sessions_up']} up"
    if (step["others_core_percent"] or 0.0) > 10.0:
        text += f"  disturbed: everything else used {step['others_core_percent']:.0f} % of a core"
    return text


def delay_lines(name, steps):
    """RESULT lines for the delays of each kind of media: medians over the same step of several rounds."""
    lines = []
    for kind in ("audio", "video", "key"):
        found = [step["delays"][kind] for step in steps if step["delays"][kind]]
        if not found:
            continue
        middle = lambda figure, of: decimal(median([times[figure] for times in of]), 2)  # noqa: E731
        line = f"RESULT {name} kind={kind} latency_ms_p50={middle('p50_ms', found)} latency_ms_p99={middle('p99_ms', found)}"
        complete = [step["delays"]["key_complete"] for step in steps if step["delays"]["key_complete"]]
        if kind == "key" and complete:
            line += f" last_viewer_ms_p50={middle('p50_ms', complete)} last_viewer_ms_max={middle('max_ms', complete)}"
        lines.append(line)
    return lines


def janus_problem(plugin):
    """Installs Janus if it may; returns why it cannot run with this plugin, or None."""
    if not shutil.which("janus") and os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing Janus")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "janus"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not shutil.which("janus"):
        return "the Debian package janus is not installed"
    if not janus_modules(plugin):
        return f"Janus has no {plugin} or no HTTP interface"
    return None


STREAMING = "libjanus_streaming.so"


def janus_modules(plugin):
    """Where the package keeps its plugins, and which of them are not needed."""
    for folder in pathlib.Path("/usr/lib").glob("**/janus/plugins"):
        transports = folder.parent / "transports"
        wanted = {plugin, "libjanus_http.so"}
        present = {file.name for file in [*folder.glob("*.so"), *transports.glob("*.so")]}
        if wanted <= present:
            unused = lambda files: ",".join(sorted({file.name for file in files} - wanted))  # noqa: E731
            return {
                "modules": folder.parent,
                "unused_plugins": unused(folder.glob("*.so")),
                "unused_transports": unused(transports.glob("*.so")),
            }
    return {}


def fill(text, values):
    """Replaces <name> by the value; braces belong to Janus's syntax."""
    return re.sub(r"<(\w+)>", lambda match: str(values[match.group(1)]), text)


# The package's defaults, but: no timeout of sessions without keep-alives, ICE-lite as it suits a
# server with a public address, only the modules that are needed. The key picture is not kept for
# newcomers, who would get it with a gap in the sequence numbers behind it.
JANUS_CONFIGURATION = {
    "janus.jcfg": """
general: {
    configs_folder = "<folder>"
    plugins_folder = "<modules>/plugins"
    transports_folder = "<modules>/transports"
    events_folder = "<modules>/events"
    loggers_folder = "<modules>/loggers"
    debug_level = 2
    session_timeout = 0
    <event_loops>
}
nat: { ice_lite = true }
plugins: { disable = "<unused_plugins>" }
transports: { disable = "<unused_transports>" }
""",
    "janus.transport.http.jcfg": """
general: { json = "compact" base_path = "/janus" http = true port = <http> ip = "<address>" https = false }
admin: { admin_http = false }
""",
    "janus.plugin.streaming.jcfg": """
general: { }
sample: {
    type = "rtp"
    id = 1
    audio = true
    video = true
    audioport = <audio>
    audiopt = 111
    audiocodec = "opus"
    videoport = <video>
    videopt = 102
    videocodec = "h264"
    videofmtp = "profile-level-id=42e01f;packetization-mode=1"
    videobufferkf = false
}
""",
}

def profile_while(bench, server, play, players, seconds, name):
    """Calls `play`, which measures for at least `seconds`, in a thread, and profiles once so many players are there.

    Returns what `profile` and `play` do.
    """
    reports = []
    load = threading.Thread(target=lambda: reports.append(play()))
    load.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and load.is_alive():
        stream = ask(server, f"streams/{PUBLISHED}")
        if stream and stream["players"] >= players:
            break
        time.sleep(0.1)
    shares = profile(bench, server, seconds, name)
    load.join()
    return shares, reports[0] if reports else None


# What is cipher and hash in a profile: this project's crate and the libraries it stands on.
CRYPTO = re.compile(r"\bsrtp::|aes|gcm|ghash|gmul|sha1|sha256|hmac|aws_lc|CRYPTO_|polyval|vaes|clmul", re.IGNORECASE)


def profile(bench, server, seconds, name):
    """Shares of kernel, cipher and everything else in the server's CPU time, from `perf record -e cpu-clock`.

    Returns them, or the reason why there are none.
    """
    perf = shutil.which("perf")
    if not perf:
        return "perf is not installed"
    data = bench.directory / f"perf-{name}.data"
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", "4000", "-p", str(server.process.pid), "-o", str(data)]
    done = subprocess.run([*record, "--", "sleep", str(seconds)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["perf record failed"])[-1]
    script = [perf, "script", "-i", str(data), "-F", "ip,sym,dso"]
    lines = subprocess.run(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
    shares = {"syscall": 0, "crypto": 0, "own": 0}
    symbols = {}
    for line in lines:
        match = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
        if not match:
            continue
        symbol, dso = match.groups()
        kind = "syscall" if "kernel" in dso or dso.startswith("[k") else "crypto" if CRYPTO.search(symbol) else "own"
        shares[kind] += 1
        symbols[(kind, symbol)] = symbols.get((kind, symbol), 0) + 1
    total = sum(shares.values())
    if total < 100:
        return f"only {total} samples"
    for (kind, symbol), count in sorted(symbols.items(), key=lambda entry: -entry[1])[:14]:
        say(f"    {count * 100 / total:5.1f} % {kind:7} {symbol[:100]}")
    return {kind: count / total for kind, count in shares.items()}
