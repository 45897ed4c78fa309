"""Glass to glass: how old a picture published by RTMP is when a browser shows it, by a clock in the picture.

A thread draws raw pictures that carry the wall clock as blocks of dark and bright, 30 a second, into ffmpeg (x264,
zerolatency), which publishes by RTMP. Chromium plays by WHEP (web/e2e/glass.mjs) and reads each picture it presents. Both
ends have the same clock. Included: the pipe, the encoder, ffmpeg's muxer, RTMP, the server, WebRTC's buffers, decoding and
presenting. Not included: a camera and a screen.
"""

import json
import os
import random
import shutil
import subprocess
import threading
import time

from _bench import ROOT, say
from _rtc import ask

WIDTH, HEIGHT, RATE = 640, 360, 30
BLOCK = 16
STREAM = "live/glass"

# Not what a viewer sees later: buffers that are being filled, and with audio, until a few reports
# have told which picture belongs to which audio, pictures that are not held back for it yet.
WARM_UP_SECONDS = {False: 3.0, True: 10.0}


def problem():
    for program in ("ffmpeg", "node", "chromium"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if not (ROOT / "web" / "node_modules" / "playwright-core").exists():
        return "the packages of web/ are not installed: make setup"
    return None


def measure(bench, server, audio, seconds):
    """Percentiles of the age in milliseconds, or the reason why there are none."""
    why = problem()
    if why:
        return why
    encoder = subprocess.Popen(encoder_command(server, audio), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    bench.running.append(encoder)
    drawn = threading.Thread(target=draw, args=(encoder.stdin,), daemon=True)
    drawn.start()
    try:
        return watch(server, audio, seconds)
    finally:
        bench.stop(encoder)
        drawn.join(5)


def encoder_command(server, audio):
    url = server.rtmp.replace("live/sample", STREAM)
    picture = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-video_size", f"{WIDTH}x{HEIGHT}", "-framerate", str(RATE)]
    tone = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"] if audio else []
    video = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "60", "-b:v", "1500k"]
    audio = ["-c:a", "aac", "-b:a", "96k", "-ac", "2"] if audio else []
    ends = ["-flush_packets", "1", "-f", "flv", url]
    return ["ffmpeg", "-hide_banner", "-loglevel", "error", *picture, "-i", "pipe:0", *tone, *video, *audio, *ends]


def draw(pipe):
    """Writes pictures at their time until the pipe is closed."""
    random.seed(1)
    # A slanted pattern with some noise, which moves by a line and some columns a picture.
    lines = [bytes((x + 2 * y) % 160 + 40 + random.randrange(8) for x in range(WIDTH)) for y in range(HEIGHT)]
    pattern = b"".join(lines) * 2
    colour = bytes([128]) * (WIDTH * HEIGHT // 2)
    begun = time.monotonic()
    for number in range(1 << 30):
        time.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        stamp = stamp_lines(int(time.time() * 1000) % (1 << 32))
        shift = number % HEIGHT * (WIDTH + 3) % (WIDTH * HEIGHT)
        rest = pattern[shift : shift + WIDTH * HEIGHT - len(stamp)]
        try:
            pipe.write(stamp + rest + colour)
            pipe.flush()
        except OSError:
            return


def stamp_lines(milliseconds):
    """The top of a picture: 40 blocks, 32 bits of time and 8 of checksum."""
    data = milliseconds.to_bytes(4, "big")
    bits = f"{int.from_bytes(data + bytes([(sum(data) + 0x5A) % 256]), 'big'):040b}"
    line = b"".join(bytes([235 if bit == "1" else 16]) * BLOCK for bit in bits)
    return line * BLOCK


def watch(server, audio, seconds):
    environment = {
        **os.environ,
        "MILLSTREAM_URL": server.base,
        "STREAM": STREAM,
        "SECONDS": str(seconds + WARM_UP_SECONDS[audio]),
        "AUDIO": "1" if audio else "0",
    }
    if not published(server):
        return "ffmpeg did not publish"
    command = ["node", "e2e/glass.mjs"]
    done = subprocess.run(command, cwd=ROOT / "web", env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["the browser failed"])[-1]
    report = json.loads(done.stdout)
    frames = report["frames"]
    later = [frame for frame in frames if frame["at"] >= frames[0]["at"] + WARM_UP_SECONDS[audio] * 1000]
    if len(later) < RATE * seconds / 2:
        return f"only {len(later)} pictures could be read, {report['unreadable']} could not"
    ages, shown = (sorted(frame[key] for frame in later) for key in ("age", "shown"))
    of = lambda values, share: values[min(len(values) - 1, int(len(values) * share))]  # noqa: E731
    say(f"  glass to glass, {'with audio' if audio else 'video only'}: p50 {of(ages, 0.5):.0f} ms, at the time of display "
        f"{of(shown, 0.5):.0f} ms; {len(ages)} pictures, {report['unreadable']} unreadable; {stats_text(report['stats'])}")
    return {"p50": of(ages, 0.5), "p95": of(ages, 0.95), "p99": of(ages, 0.99), "frames": len(ages)}


def published(server):
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        stream = ask(server, f"streams/{STREAM}")
        if stream:
            return True
        time.sleep(0.1)
    return False


def stats_text(stats):
    parts = []
    for kind, figures in sorted(stats.items()):
        texts = [f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}" for key, value in figures.items()
                 if value is not None]
        parts.append(f"{kind}: {', '.join(texts)}")
    return "; ".join(parts)
