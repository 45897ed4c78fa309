"""What the benchmark of doors starts: Millstream with all of them, other servers, lossy paths."""

import json
import pathlib
import shutil
import socket
import subprocess
import time

import _contenders
from _bench import LOAD_CORE, ROOT, SERVER_CORE, free_port
from _rtc import TOKEN, UNLIMITED, Server, prefer

STREAM = "live/sample"
# The same in the application that does not merge writes.
DIRECT = "direct/sample"


class Doors:
    """A running server: its process and where its doors are."""

    def __init__(self, name, process, ports):
        self.name, self.process, self.ports = name, process, ports

    def url(self, door, stream=STREAM):
        """What the load generator plays."""
        ports = self.ports
        return {
            "flv": lambda: f"http://127.0.0.1:{ports['http']}/{stream}.flv",
            "ts": lambda: f"http://127.0.0.1:{ports['http']}/{stream}.ts",
            "srt": lambda: f"srt://127.0.0.1:{ports['srt']}?streamid=read:{stream}&latency=120",
            "rtsp": lambda: f"rtsp://127.0.0.1:{ports['rtsp']}/{stream}",
        }[door]()

    def publish(self, stream=STREAM):
        return f"rtmp://127.0.0.1:{self.ports['rtmp']}/{stream}?token={TOKEN}"

    def memory_kib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return None


def free_udp_pair():
    """A port for RTP, even, and the next one for RTCP."""
    for _ in range(200):
        with socket.socket(type=socket.SOCK_DGRAM) as first, socket.socket(type=socket.SOCK_DGRAM) as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port % 2 == 0:
                try:
                    second.bind(("127.0.0.1", port + 1))
                    return port
                except OSError:
                    pass
    raise SystemExit("no two UDP ports are free")


def start_millstream(bench, more=(), core=SERVER_CORE):
    """Millstream with one worker and every door. `live` merges for 100 ms, `direct` sends at once."""
    ports = {name: free_port() for name in ("rtmp", "http", "rtsp", "srt")}
    ports["rtp"] = free_udp_pair()
    lines = [
        "[server]",
        "workers = 1",
        *UNLIMITED,
        "[rtmp]",
        f'listen = "127.0.0.1:{ports["rtmp"]}"',
        "[http]",
        f'listen = "127.0.0.1:{ports["http"]}"',
        "[rtsp]",
        f'listen = "127.0.0.1:{ports["rtsp"]}"',
        f'udp_listen = "127.0.0.1:{ports["rtp"]}"',
        "[srt]",
        f'listen = "127.0.0.1:{ports["srt"]}"',
        # All clients have one address here.
        "handshakes_per_second = 0",
        "pending_per_worker = 5000",
        "sessions_per_worker = 5000",
        "[rtc]",
        'udp_listen = "127.0.0.1:0"',
        "tcp_listen = []",
        "pending_per_address = 10000",
        "requests_per_second = 0",
        "[sources]",
        "allow_private_addresses = true",
        "[auth]",
        f'publish_token = "{TOKEN}"',
        "[[application]]",
        'name = "live"',
        "merge_latency_ms = 100",
        "[[application]]",
        'name = "direct"',
        "merge_latency_ms = 0",
        *more,
    ]
    file = bench.directory / f"millstream-{ports['http']}.toml"
    file.write_text("\n".join(lines) + "\n")
    command = ["taskset", "-c", core, bench.binary("millstream"), "serve", "--config", str(file)]
    log = open(bench.directory / f"doors-{ports['http']}.log", "w")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    process.log_name = log.name
    prefer(process)
    bench.running.append(process)
    bench.await_port(process, ports["http"])
    return Doors("millstream", process, ports)


# Door, and where what is published comes from: H.264 and AAC by RTMP, H.264 and Opus by WHIP.
CAMERAS = {
    "whep-of-rtsp": lambda feeder: feeder.publish("direct/sample"),
    "whep-of-rtsp-direct": lambda feeder: f"http://127.0.0.1:{feeder.ports['http']}/whip/direct/sample",
}


def start_camera(bench, server):
    """Millstream on the load's core that records `direct/sample` at `server` by RTSP, audio as it came."""
    url = f"rtsp://127.0.0.1:{server.ports['rtsp']}/{STREAM}?token={TOKEN}"
    more = ["bridge_aac = false", "[[push]]", 'stream = "direct/sample"', f'url = "{url}"']
    return start_millstream(bench, more, core=LOAD_CORE)


def as_whep(server, net, publish):
    """The server as the benchmarks of WebRTC know one."""
    return Server("millstream", "gso", net, server.process, f"http://127.0.0.1:{server.ports['http']}/whep/{STREAM}", publish)


def start_mediamtx(bench):
    """MediaMTX with RTMP, SRT and RTSP; returns Doors, or the reason why there are none."""
    why = _contenders.problem("mediamtx")
    if why:
        return why
    ports = {name: free_port() for name in ("rtmp", "rtsp", "srt")}
    ports["rtp"] = free_udp_pair()
    lines = [
        "logLevel: error",
        *(f"{name}: no" for name in ("api", "metrics", "pprof", "playback", "hls", "webrtc")),
        "rtmp: yes",
        f"rtmpAddress: 127.0.0.1:{ports['rtmp']}",
        "rtsp: yes",
        "rtspTransports: [udp, tcp]",
        f"rtspAddress: 127.0.0.1:{ports['rtsp']}",
        f"rtpAddress: 127.0.0.1:{ports['rtp']}",
        f"rtcpAddress: 127.0.0.1:{ports['rtp'] + 1}",
        "srt: yes",
        f"srtAddress: 127.0.0.1:{ports['srt']}",
        "paths:",
        "  all_others:",
    ]
    file = bench.directory / f"mediamtx-{ports['rtmp']}.yml"
    file.write_text("\n".join(lines) + "\n")
    process = bench.start([_contenders.binary("mediamtx"), str(file)], ports["rtmp"])
    return Doors("mediamtx", process, ports)


def srt_live_transmit(bench, source):
    """libsrt's own tool: a transport stream by UDP to one caller; returns Doors, or why there are none."""
    tool = shutil.which("srt-live-transmit")
    if not tool:
        return "the Debian package srt-tools is not installed"
    port = free_port()
    caller = f"srt://127.0.0.1:{port}?mode=listener&latency=120"
    command = [tool, "-q", "-chunk:1316", f"udp://127.0.0.1:{source}", caller]
    process = bench.start(command, None)
    time.sleep(0.5)
    return Doors("srt-live-transmit", process, {"srt": port})


def compiled(bench, source, library):
    """A program in C over a library, compiled once in a run; None if the library is not installed."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", library], capture_output=True, text=True)
    if flags.returncode:
        return None
    program = bench.directory / pathlib.Path(source).stem
    if not program.exists():
        command = ["cc", "-O2", "-o", str(program), str(ROOT / source), *flags.stdout.split()]
        subprocess.run(command, check=True)
    return program


def fan_out(bench, source, latency_ms):
    """A small server over libsrt: a transport stream by UDP to all callers; returns Doors, or why there are none."""
    program = compiled(bench, "interop/srt/fan_out.c", "srt")
    if not program:
        return "the Debian package libsrt-openssl-dev is not installed"
    port = free_port()
    process = bench.start([str(program), str(source), str(port), str(latency_ms)], None)
    time.sleep(0.5)
    return Doors("libsrt", process, {"srt": port})


def gst_rtsp_server(bench, feeder):
    """GStreamer's RTSP server, which plays the stream of `feeder` by RTMP; returns Doors, or why there are none."""
    program = compiled(bench, "interop/rtsp/gst_server.c", "gstreamer-rtsp-server-1.0")
    if not program:
        return "the Debian package libgstrtspserver-1.0-dev is not installed"
    for element, package in GST_ELEMENTS.items():
        if subprocess.run(["gst-inspect-1.0", element], capture_output=True).returncode:
            return f"GStreamer has no {element}: the Debian package {package} is not installed"
    port = free_port()
    played = f"rtmp://127.0.0.1:{feeder.ports['rtmp']}/{DIRECT}"
    process = bench.start([str(program), played, str(port), f"/{STREAM}"], port)
    return Doors("gst-rtsp-server", process, {"rtsp": port})


# What the pipeline of interop/rtsp/gst_server.c is made of, by the package that has it.
GST_ELEMENTS = {
    "rtmp2src": "gstreamer1.0-plugins-bad",
    "h264parse": "gstreamer1.0-plugins-bad",
    "flvdemux": "gstreamer1.0-plugins-good",
    "rtph264pay": "gstreamer1.0-plugins-good",
}


class LossyPath:
    """Two relays one behind the other: both directions lose, and each takes half of the round trip."""

    def __init__(self, bench, port, loss, round_trip_ms=50):
        self.bench, self.relays = bench, []
        to = f"127.0.0.1:{port}"
        up = round_trip_ms // 4
        for direction, delay in (("up", up), ("down", round_trip_ms // 2 - up)):
            to = self.relay(to, direction, delay, loss)
        self.port = int(to.split(":")[1])

    def relay(self, to, direction, delay, loss):
        command = ["taskset", "-c", LOAD_CORE, self.bench.binary("millbench"), "bottleneck"]
        command += ["--to", to, "--limit", direction, "--rate", "1000000", "--queue-ms", "300"]
        command += ["--delay-ms", str(delay), "--loss", str(loss)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        prefer(process)
        self.bench.running.append(process)
        self.relays.append(process)
        return json.loads(process.stdout.readline())["listen"]

    def stop(self):
        """Returns the share of datagrams that was lost, both directions together; None if unknown."""
        lost = passed = 0
        for process in self.relays:
            process.terminate()
            for line in process.communicate(timeout=10)[0].splitlines():
                for flow in json.loads(line).get("flows", []):
                    lost += flow.get("lost", 0)
                    passed += flow.get("packets", 0)
            if process in self.bench.running:
                self.bench.running.remove(process)
        return lost / passed if passed else None
