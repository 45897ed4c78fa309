"""Other servers to compare with: SRS and MediaMTX, if SRS_BIN and MEDIAMTX_BIN name their binaries, and Janus's rooms.

SRS should be built with -O2 and without a sanitizer. Configuration is written here; what it does not name has the server's
own default. Each runs on the server's core.
"""

import os
import pathlib
import shutil

from _bench import DESCRIPTORS, free_port
from _rtc import JANUS_CONFIGURATION, PUBLISHED, Server, fill, janus_modules, janus_problem

NAMES = {"srs": "SRS_BIN", "mediamtx": "MEDIAMTX_BIN"}


def problem(name):
    """Why a server cannot run, or None."""
    variable = NAMES[name]
    named = os.environ.get(variable)
    if not named:
        return f"{variable} names no binary"
    return None if shutil.which(named) else f"{variable}={named} cannot be executed"


def binary(name):
    return str(pathlib.Path(shutil.which(os.environ[NAMES[name]])).absolute())


def start_rtc(bench, name, net):
    """A server for WHIP and WHEP; returns a Server, or the reason why there is none."""
    why = problem(name) or net.problem()
    if why:
        return why
    ports = free_ports()
    address = net.server_address
    process = bench.start_in(net, command_of(bench, name, ports, rtc_address=address))
    why = bench.await_answer(net, process, address, ports["http"])
    if why:
        bench.stop(process)
        return why.strip().splitlines()[-1]
    play, publish = rtc_urls(name, f"http://{address}:{ports['http']}")
    return Server(name, "own", net, process, play, publish)


def free_ports():
    return {key: free_port() for key in ("rtmp", "http", "udp")}


def rtc_urls(name, base):
    """Where it is played and published."""
    if name == "srs":
        app, stream = PUBLISHED.split("/")
        return tuple(f"{base}/rtc/v1/{kind}/?app={app}&stream={stream}" for kind in ("whep", "whip"))
    return tuple(f"{base}/{PUBLISHED}/{kind}" for kind in ("whep", "whip"))


def numbered(server):
    """The publishers' URL with a stream of its own for each."""
    if server.name == "mediamtx":
        return server.publish.removesuffix("/whip") + "{}/whip"
    return server.publish + "{}"


# A server that refuses players until it has looked at the stream for a while: seconds.
LATE = {"mediamtx": 4}


def start_rtmp(bench, name, mode="lowlat"):
    """A server for RTMP; returns the process and the URL to publish to."""
    ports = free_ports()
    command = command_of(bench, name, ports, mode=mode)
    return bench.start(command, ports["rtmp"]), f"rtmp://127.0.0.1:{ports['rtmp']}/live/sample"


def command_of(bench, name, ports, rtc_address=None, mode="lowlat"):
    """Writes the configuration, for WebRTC at `rtc_address` or else for RTMP; the command line that uses it."""
    folder = bench.directory / f"{name}-{ports['rtmp']}"
    folder.mkdir()
    # Both write files where they are started.
    if name == "srs":
        file = folder / "srs.conf"
        file.write_text(srs_configuration(folder, ports, rtc_address, mode))
        return ["env", "-C", str(folder), binary(name), "-c", str(file)]
    file = folder / "mediamtx.yml"
    file.write_text(mediamtx_configuration(ports, rtc_address))
    # Not every version knows this protocol, and none minds a variable that it does not know.
    return ["env", "-C", str(folder), "MTX_MOQ=no", binary(name), str(file)]


def srs_configuration(folder, ports, rtc_address, mode):
    """350ms: merged writes, its default. lowlat: for real time, as its own example has it."""
    if rtc_address:
        parts = [
            f"http_api {{ enabled on; listen {rtc_address}:{ports['http']}; }}",
            f"rtc_server {{ enabled on; listen {ports['udp']}; candidate {rtc_address}; }}",
        ]
        vhost = "rtc { enabled on; rtmp_to_rtc off; rtc_to_rtmp off; }"
    elif mode == "350ms":
        parts, vhost = [], "min_latency off; play { mw_latency 350; }"
    else:
        parts, vhost = [], "tcp_nodelay on; min_latency on; play { mw_latency 0; } publish { mr off; }"
    lines = [
        f"listen 127.0.0.1:{ports['rtmp']};",
        f"max_connections {DESCRIPTORS // 2};",
        "daemon off;",
        "srs_log_tank console;",
        "srs_log_level error;",
        f"pid {folder}/srs.pid;",
        *parts,
        f"vhost __defaultVhost__ {{ {vhost} }}",
    ]
    return "\n".join(lines) + "\n"


def mediamtx_configuration(ports, rtc_address):
    """Only the protocol that is measured, and every path allowed."""
    address = rtc_address or "127.0.0.1"
    lines = [
        "logLevel: error",
        *(f"{name}: no" for name in ("api", "metrics", "pprof", "playback", "rtsp", "hls", "srt")),
        f"rtmp: {'no' if rtc_address else 'yes'}",
        f"rtmpAddress: 127.0.0.1:{ports['rtmp']}",
        f"webrtc: {'yes' if rtc_address else 'no'}",
        f"webrtcAddress: {address}:{ports['http']}",
        f"webrtcLocalUDPAddress: {address}:{ports['udp']}",
        "webrtcIPsFromInterfaces: no",
        f"webrtcAdditionalHosts: [{address}]",
        "paths:",
        "  all_others:",
    ]
    return "\n".join(lines) + "\n"


VIDEOROOM = "libjanus_videoroom.so"


def start_janus_rooms(bench, rooms):
    """Debian's Janus with a room for each publisher; returns a Server, or the reason why there is none."""
    net = bench.nets["lo"]
    why = janus_problem(VIDEOROOM)
    if why:
        return why
    http = free_port()
    folder = bench.directory / f"janus-{http}"
    folder.mkdir()
    values = {"folder": folder, "http": http, "address": "127.0.0.1", "event_loops": "", **janus_modules(VIDEOROOM)}
    for name in ("janus.jcfg", "janus.transport.http.jcfg"):
        (folder / name).write_text(fill(JANUS_CONFIGURATION[name], values))
    (folder / "janus.plugin.videoroom.jcfg").write_text(janus_rooms(rooms))
    process = bench.start_in(net, ["janus", "-F", str(folder), "-C", str(folder / "janus.jcfg")])
    why = bench.await_answer(net, process, "127.0.0.1", http)
    if why:
        bench.stop(process)
        return why.strip().splitlines()[-1]
    url = f"janus://127.0.0.1:{http}/"
    return Server("janus", "own", net, process, url, url)


def janus_rooms(rooms):
    """Its own defaults are VP8 and three publishers."""
    room = (
        'room-{number}: {{ publishers = 1 bitrate = 2000000 audiocodec = "opus" videocodec = "h264" '
        'h264_profile = "42e01f" notify_joining = false record = false }}\n'
    )
    return "general: { }\n" + "".join(room.format(number=number) for number in range(1, rooms + 1))
