"""What scripts/bench range-reader reads and how: the file, its traces, nginx, the link, one run of one client."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import threading
import time

from _bench import free_port, nginx_binary, prefer, say

# Round trip in milliseconds and rate in Mbit/s.
LINKS = {"rtt50": (50, 20), "rtt2": (2, 1000), "rtt200": (200, 5)}
CLIENTS = ["millstream-hints", "millstream", "ffmpeg", "ffmpeg-prepatch", "reopen", "read-through"]
# Of the patterns.
PATTERN_CLIENTS = ["oracle", "millstream-hints", "millstream"]

# Two video tracks and one audio track, interleaved in pieces of half a second, the index behind
# them; 88.5 s, 25 MB. Reading the first video track and the audio are 177 runs with a gap between
# each.
SECONDS = 88.5
PICTURE = "testsrc2=s={size}:r=30,noise=alls=24:allf=t"
NOISE = "anoisesrc=r=48000:a=0.2:c=pink:seed=1"
CASES = {"video_audio": [0, 2], "audio": [2]}


def make_file(path):
    """The MP4 of the published case; made once and kept beside the build."""
    if path.exists():
        return
    say(f"making {path}")
    part = path.with_suffix(".part")
    command = ["ffmpeg", "-y", "-nostdin", "-hide_banner", "-loglevel", "error", "-threads", "2"]
    for source in (PICTURE.format(size="640x360"), PICTURE.format(size="426x240"), NOISE):
        command += ["-f", "lavfi", "-i", source]
    command += ["-t", str(SECONDS), "-map", "0:v", "-map", "1:v", "-map", "2:a"]
    command += ["-c:v", "libx264", "-preset", "ultrafast", "-g", "30", "-bf", "0", "-pix_fmt", "yuv420p"]
    command += ["-x264-params", "nal-hrd=cbr:scenecut=0"]
    for stream, rate, buffer in ((0, "1330k", "600k"), (1, "830k", "400k")):
        for option, value in (("b", rate), ("minrate", rate), ("maxrate", rate), ("bufsize", buffer)):
            command += [f"-{option}:v:{stream}", value]
    command += ["-c:a", "aac", "-b:a", "112k", "-flags", "+bitexact", "-fflags", "+bitexact"]
    command += ["-chunk_duration", "500000", "-f", "mp4", str(part)]
    subprocess.run(command, check=True)
    part.rename(path)


def trace_of(file, streams):
    """Reads of a demuxer that wants these streams: what stands before the samples, the index, runs of samples."""
    command = ["ffprobe", "-v", "error", "-show_packets", "-show_entries", "packet=stream_index,pos,size", "-of", "json"]
    printed = subprocess.run([*command, str(file)], capture_output=True, text=True, check=True).stdout
    packets = [packet for packet in json.loads(printed)["packets"] if packet["stream_index"] in streams]
    wanted = [(int(packet["pos"]), int(packet["size"])) for packet in packets]
    runs = []
    for position, size in sorted(wanted):
        if runs and sum(runs[-1]) == position:
            runs[-1][1] += size
        else:
            runs.append([position, size])
    boxes = list(top_boxes(file))
    media = next(start for kind, start, _, _ in boxes if kind == b"mdat")
    index = [(start, length) for kind, start, _, length in boxes if kind == b"moov"]
    head = next(header for kind, _, header, _ in boxes if kind == b"mdat")
    # An index that stands first is read with what stands before it.
    first = [(0, media + head)]
    return first + [box for box in index if box[0] > media] + [tuple(run) for run in runs]


def top_boxes(file):
    """Kind, start, length of the header and length of each box of the outermost level (ISO/IEC 14496-12, 4.2)."""
    end = file.stat().st_size
    with open(file, "rb") as source:
        at = 0
        while at < end:
            source.seek(at)
            head = source.read(16)
            length, kind = struct.unpack(">I4s", head[:8])
            header = 8
            if length == 1:
                length, header = struct.unpack(">Q", head[8:])[0], 16
            length = length or end - at
            if length < header:
                raise SystemExit(f"{file} is no MP4: a box of {length} bytes at {at}")
            yield kind, at, header, length
            at += length


class Case:
    """A trace, what reading it gives, how FFmpeg reads the same; the clients and links that are measured."""

    def __init__(self, name, file, trace, streams, clients, links, is_pattern=False):
        self.name, self.file, self.trace, self.streams = name, file, trace, streams
        self.clients, self.links, self.is_pattern = clients, links, is_pattern
        text = trace.read_text().split()
        reads = [tuple(map(int, line.split(","))) for line in text if line[0].isdigit()]
        total = hashlib.sha256()
        with open(file, "rb") as source:
            for offset, length in reads:
                source.seek(offset)
                data = source.read(length)
                if len(data) != length:
                    raise SystemExit(f"{trace}: {offset},{length} is beyond the end of {file}")
                total.update(data)
        self.sha256 = total.hexdigest()
        self.useful = distinct_bytes(reads)
        self.runs = sum(1 for before, read in zip([(0, 0), *reads], reads) if sum(before) != read[0])
        self.packets = packet_hashes(self.ffmpeg(str(file))) if streams and "ffmpeg" in clients else None

    def ffmpeg(self, url):
        command = ["ffmpeg", "-v", "error", "-nostdin", "-i", url]
        for stream in self.streams:
            command += ["-map", f"0:{stream}"]
        return [*command, "-c", "copy", "-f", "streamhash", "-hash", "sha256", "-"]


def distinct_bytes(reads):
    total, reached = 0, 0
    for offset, length in sorted(reads):
        total += max(0, offset + length - max(offset, reached))
        reached = max(reached, offset + length)
    return total


def packet_hashes(command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout.split()


def environment():
    """Without proxies: the link is one."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


NGINX = """
daemon off;
master_process off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log warn;
events {{ worker_connections 4096; use epoll; }}
http {{
    access_log off;
    sendfile on;
    client_body_temp_path {directory}/1;
    proxy_temp_path {directory}/2;
    fastcgi_temp_path {directory}/3;
    uwsgi_temp_path {directory}/4;
    scgi_temp_path {directory}/5;
    server {{
        listen 127.0.0.1:{port};
        root {directory}/files;
    }}
}}
"""


def start_nginx(bench, files):
    """nginx with the files; its address and their paths. Its settings are those of Debian, but for places."""
    port, directory = free_port(), bench.directory / "nginx"
    (directory / "files").mkdir(parents=True)
    paths = {file: f"/file-{number}" for number, file in enumerate(files)}
    for file, path in paths.items():
        # Paths of any kind come through a link.
        (directory / f"files{path}").symlink_to(file.resolve())
    # The files are world readable or the server runs as whom they belong to: with one process it is
    # this user.
    (directory / "nginx.conf").write_text(NGINX.format(directory=directory, port=port))
    command = [nginx_binary(), "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", str(directory / "nginx-error.log")]
    process = subprocess.Popen(command, start_new_session=True)
    process.log_name = str(directory / "nginx-error.log")
    bench.running.append(process)
    bench.await_port(process, port)
    return f"127.0.0.1:{port}", paths


class Runner:
    """Runs clients, each over a link of its own, so that several can be measured at a time."""

    def __init__(self, bench, upstream, paths, tool, millstream):
        self.bench, self.upstream, self.paths = bench, upstream, paths
        self.tool, self.millstream = tool, millstream
        self.lock = threading.Lock()

    def run(self, case, link, client, seconds_max):
        """Figures of one run, or why there are none."""
        with self.link(link) as (host, finish):
            begun = time.monotonic()
            command = self.command(case, client, host)
            process = self.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                output, errors = process.communicate(timeout=seconds_max)
            except subprocess.TimeoutExpired:
                return f"takes longer than {seconds_max:.0f} s"
            finally:
                ended = time.monotonic()
                self.stop(process)
            if process.returncode != 0:
                return f"failed: {errors.strip()[-300:]!r}"
            passed = finish()
        wire = passed["bytes_down"] + passed["bytes_up"]
        found = {"gets": passed["requests"], "connections": passed["connections"], "wire": wire}
        found["link_seconds"] = passed["delivered_at"] - passed["opened_at"]
        if client == "ffmpeg":
            # Its start and the time until it connects are not the link's.
            seconds, right = ended - passed["opened_at"], output.split() == case.packets
        else:
            report = json.loads(output)
            seconds, right = report["seconds"], report["sha256"] == case.sha256
            for name in ("requests", "connections"):
                if report.get(name, passed[name]) != passed[name]:
                    return f"says {report[name]} {name}, the link saw {passed[name]}"
            if not 0 < seconds <= ended - begun:
                return f"claims to have taken {seconds} s of {ended - begun:.3f} s"
        if not right:
            return "read wrong bytes"
        return {**found, "useful_ratio": wire / case.useful, "seconds": seconds}

    def command(self, case, client, host):
        path = self.paths[case.file]
        url = f"http://{host}{path}"
        match client:
            case "millstream" | "millstream-hints":
                hints = ["--hints"] if client == "millstream-hints" else []
                return [self.millstream, "fetch-trace", url, "--trace", str(case.trace), *hints]
            case "ffmpeg":
                return case.ffmpeg(url)
            case _:
                how = client.removeprefix("ffmpeg-")
                where = ["--host", host, "--path", path, "--trace", str(case.trace)]
                return [self.tool, "read", "--how", how, *where]

    @contextlib.contextmanager
    def link(self, shape):
        """A link with nothing on it, and a function that ends it and says what passed."""
        rtt_ms, mbit = shape
        command = [self.tool, "link", "--upstream", self.upstream, "--rtt-ms", str(rtt_ms), "--mbit", str(mbit)]
        process = self.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        prefer(process)

        def finish():
            output, _ = process.communicate(timeout=10)
            return json.loads(output)

        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}", finish
        finally:
            self.stop(process)

    def spawn(self, command, **pipes):
        process = subprocess.Popen(command, text=True, start_new_session=True, env=environment(), **pipes)
        with self.lock:
            self.bench.running.append(process)
        return process

    def stop(self, process):
        with self.lock:
            self.bench.stop(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()


def problem():
    """Installs what is missing if it may; returns why this benchmark cannot run, or None."""

    def missing():
        found = {"nginx": nginx_binary(), "ffmpeg": shutil.which("ffmpeg") and shutil.which("ffprobe")}
        return [name for name, path in found.items() if not path]

    if missing() and os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing " + " and ".join(missing()))
        packages = ["nginx-light" if name == "nginx" else name for name in missing()]
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
        subprocess.run(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.DEVNULL)
    return " and ".join(missing()) + " not installed" if missing() else None
