"""Clients that the checks of bridges and of channels share, and how video and audio of what they saw are judged.

Sources flash and beep (flash_and_beep.py); what arrives is decoded by ffmpeg, aiortc or Chromium.
"""

import bisect
import json
import os
import pathlib
import shutil
import statistics
import time

import flash_and_beep
from harness import INTEROP, ROOT, TIMEOUT, Bench, Failed, Skipped, run

# Audio and video may be this far apart (ITU-R BT.1359 lets audio be 45 ms early).
APART_MS = 40
RATE = 25
SECONDS = 10
# A browser misses flashes at the beginning: it watches for so many seconds more.
MORE_SECONDS = 5
# Packets that a busy machine may lose in a check.
FORGIVEN_MAX = 5
# How far from a flash or beep Chromium's statistics count for it.
AROUND_MS = 1000


class Clients(Bench):
    def python(self):
        return self.once("aiortc", self.aiortc_environment)

    def ffmpeg(self):
        """One that knows Enhanced RTMP; the distribution's need not."""
        return self.new_ffmpeg()

    def rtmp(self, url, codec="h264", audio="aac", seconds=None, more=(), **source):
        """Publishes flash and beep."""
        video = {
            "h264": ["libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-bf", "0"],
            "h264-b": ["libx264", "-preset", "veryfast", "-bf", "2", "-x264-params", "b-pyramid=none:scenecut=0"],
            "h265": ["libx265", "-preset", "ultrafast", "-tune", "zerolatency", "-x265-params", "log-level=error:bframes=0"],
            "av1": ["libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-lag-in-frames", "0", "-row-mt", "1"],
            "vp9": ["libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0"],
        }[codec]
        coded = {
            "aac": ["aac", "-b:a", "128k"],
            "opus": ["libopus", "-b:a", "64k"],
            "mp3": ["libmp3lame", "-b:a", "128k"],
            "flac": ["flac"],
            "ac3": ["ac3"],
            "eac3": ["eac3"],
        }[audio]
        size = ["-t", seconds] if seconds else []
        return self.start(
            *[self.ffmpeg(), "-nostdin", "-v", "error", "-re", *flash_and_beep.ffmpeg_source(rate=RATE, **source), *size],
            *["-pix_fmt", "yuv420p", "-g", RATE, "-b:v", "400k", "-c:v", *video, "-c:a", *coded, *more, "-f", "flv", url],
        )

    def whip(self, url, **source):
        """ffmpeg publishes flash and beep by WHIP: H.264 and Opus, what its muxer knows."""
        video = ["-c:v", "libx264", "-profile:v", "baseline", "-preset", "ultrafast", "-tune", "zerolatency", "-bf", "0"]
        return self.start(
            *[self.ffmpeg(), "-nostdin", "-v", "error", "-re", *flash_and_beep.ffmpeg_source(rate=RATE, **source)],
            *["-pix_fmt", "yuv420p", "-g", RATE, "-b:v", "400k", *video],
            *["-c:a", "libopus", "-ar", "48000", "-b:a", "64k", "-f", "whip", url],
        )

    def watch(self, url, codec="h264", seconds=SECONDS):
        """aiortc, which reckons with sender reports."""
        frames = int(seconds * RATE)
        arguments = ["--codec", codec, "--frames", frames, "--seconds", seconds + TIMEOUT / 2, "--flash"]
        return self.start(self.python(), INTEROP / "aiortc/peer.py", "play", url, *arguments)

    def need_browser(self):
        if not shutil.which("node") or not (ROOT / "web/node_modules").exists():
            raise Skipped("Node.js or the console's packages are missing (scripts/setup)")
        if not shutil.which(os.environ.get("CHROMIUM", "chromium")):
            raise Skipped("Chromium is missing (scripts/setup)")

    def chromium(self, action, *urls, codec="", seconds=SECONDS):
        self.need_browser()
        codec = ["--codec", codec] if codec else []
        return self.start("node", ROOT / "web/e2e/peer.mjs", action, *urls, *codec, "--seconds", seconds)

    def watch_page(self, url, transport, seconds):
        """The console's page for viewers."""
        self.need_browser()
        return self.start("node", ROOT / "web/e2e/watch.mjs", url, "--transport", transport, "--seconds", seconds)

    def record(self, url, seconds, ffmpeg=None, ending="mkv"):
        """ffmpeg writes all it gets, as it gets it: what it takes for a track is in the file, or keeps the file waiting."""
        file = self.folder / f"{self.stream()}.{ending}"
        program = [ffmpeg or self.ffmpeg(), "-nostdin", "-v", "error", "-y", "-i", url, "-t", seconds]
        program = self.start(*program, "-map", "0", "-c", "copy", file)
        program.file = file
        return program

    def decode(self, file):
        # With the times of the file: at a constant rate, pictures would be doubled and left out.
        how = ["-fps_mode", "passthrough", "-enc_time_base", "1:1000", "-f", "null", "-"]
        complaint = run(self.ffmpeg(), "-nostdin", "-v", "warning", "-i", file, *how, what="stderr").strip()
        if complaint:
            raise Failed(f"{file} decodes with: {complaint[:500]}")

    def analyse(self, file):
        """What is in a file, and the times of its pictures; fails if decoding it gives an error."""
        self.decode(file)
        facts = json.loads(run(self.python(), INTEROP / "flash_and_beep.py", file))
        return facts, facts.pop("pictures")


def expect(what, is_so):
    if not is_so:
        raise Failed(what)


def datagrams_without_room():
    """How many datagrams the kernel has thrown away because a program was too slow to take them, in all network
    namespaces."""
    counts = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            namespace = os.readlink(process / "ns/net")
            if namespace not in counts:
                lines = (process / "net/snmp").read_text().splitlines()
                names, values = (line.split() for line in lines if line.startswith("Udp:"))
                counts[namespace] = int(values[names.index("RcvbufErrors")])
        except OSError:
            # It has ended, or is not ours.
            continue
    return sum(counts.values())


def expect_none_lost(what, lost, before):
    """Fails if packets are lost. Of a machine with too much to do some are forgiven that the kernel had no room for;
    `before` is its count at the beginning. Only some: a server that never takes what comes would make it count, too."""
    forgiven = min(datagrams_without_room() - before, FORGIVEN_MAX)
    expect(what, lost <= max(forgiven, 0))


def wait_until(what, probe, patience=TIMEOUT):
    end = time.monotonic() + patience
    while True:
        found = probe()
        if found:
            return found
        expect(f"not within {patience} s: {what}", time.monotonic() < end)
        time.sleep(0.1)


def stream_of(server, name):
    """The stream as the management API shows it, or None."""
    found = [stream for stream in server.api("/streams")["streams"] if stream["name"] == name]
    return found[0] if found else None


def wait_for_stream(server, name):
    """A stream of RTMP whose video and audio are known to the server."""

    def known():
        stream = stream_of(server, name) or {}
        return stream.get("video") and stream.get("audio")

    return wait_until(f"{name} is published", known)


def in_sync(facts, seconds, apart=APART_MS, late=0.0):
    """Fails unless flashes and beeps are there, and go together (or are apart as they should)."""
    # Two in three seconds; those at the borders may lack their other half.
    pairs = int(seconds / 3 * 2) - 2
    expect(f"{facts.get('pairs', 0)} pairs of flash and beep, expected {pairs}: {facts}", facts.get("pairs", 0) >= pairs)
    expect(f"{facts['alone']} flashes without a beep: {facts}", facts["alone"] == 0)
    worst = max(abs(facts["least_ms"] - late), abs(facts["most_ms"] - late))
    expect(f"flash and beep are {worst} ms apart: {facts}", worst <= apart)
    expect(f"times went backwards: {facts}", facts["backwards"] == 0)


def page_facts(facts):
    """What a page saw and heard, by times of capture, in the form of the others.

    So neither what a busy machine shows late counts, nor how far Chromium has brought its buffers together.
    """
    pictures, sounds, playouts, seen, heard = [
        facts.pop(key) for key in ("pictures", "sounds", "playouts", "flash_times", "beep_times")
    ]
    expect(f"Chromium got no sender reports: {facts}", playouts)
    seen = captured(seen, pictures, [(when, ahead) for when, ahead, *_ in playouts])
    heard = captured(heard, sounds, [(when, ahead) for when, _, ahead, _ in playouts])
    # What it made up, at some time between two reports, hides beeps. Of a flash that counts, the beep does.
    made_up = [
        (before[0] + before[2], after[0] + after[2]) for before, after in zip(playouts, playouts[1:]) if after[3] > before[3]
    ]
    seen = [time for time in seen if not any(begin - 900 < time < end + 900 for begin, end in made_up)]
    heard = [time for time in heard if not any(begin - 500 < time < end + 500 for begin, end in made_up)]
    return {**facts, **flash_and_beep.compare(seen, heard, unit=0.001)}


def captured(times, pieces, playouts):
    """Times of capture of these times of the media, milliseconds.

    Each report of the statistics says when the last of the pieces was captured that was there by then. The median of those
    around, because reports are old when the page gets them; not of all, because audio is stretched.
    """
    there = [when for _, when in pieces]
    clocks = []
    for when, ahead in playouts:
        at = bisect.bisect_right(there, when) - 1
        if at >= 0:
            media, came = pieces[at]
            clocks.append((media, ahead + came - media))
    expect("there are reports of what was played", clocks)

    def clock_at(time):
        around = [clock for media, clock in clocks if abs(media - time) < AROUND_MS]
        return statistics.median(around) if around else min(clocks, key=lambda clock: abs(clock[0] - time))[1]

    return [time + clock_at(time) for time in times]
