"""What one bridge costs each way, as the server accounts for it while the bridge serves one player.

The default build has no AAC encoder, so a server of that build passes Opus on. What Opus to AAC costs is then measured by
the bench of the crate `transcode`, built with the encoder.
"""

import re
import subprocess
import time

from _bench import LOAD_CORE, ROOT, TURN_MS, median, say
from _rtc import PUBLISHED, TOKEN, ask

SECTIONS = {"rtmp2rtc": ("packetise", "aac2opus"), "rtc2rtmp": ("depacketise", "opus2aac")}

# Frames a second of the load generator, and packets of Opus: what a bridge that works has at least 9/10 of.
VIDEO_FRAMES, AUDIO_FRAMES = 30, 50


def measure(bench, server, direction, seconds):
    """Parts as (direction, part, CPU-us per frame, added ms), or the reason why there are none."""
    publisher, player = start_clients(bench, server, direction)
    try:
        return read(server, direction, seconds)
    finally:
        for process in (player, publisher):
            if process is not None:
                bench.stop(process)


def start_clients(bench, server, direction):
    """A publisher in one lane and a player in the other, on the load's core; they end when they are stopped."""
    load = ["taskset", "-c", LOAD_CORE, bench.binary("millbench")]
    forever = ["--duration", "600", "--turn-ms", TURN_MS, "--quiet", "--json"]
    if direction == "rtmp2rtc":
        play = [*load, "rtc", "play", server.play, f"--publish={server.rtmp}", "-n", "1", *forever]
        return None, spawn(bench, play)
    publisher = spawn(bench, [*load, "rtc", "publish", server.publish, "--token", TOKEN, "-n", "1", *forever])
    until(lambda: ask(server, f"streams/{PUBLISHED}"))
    player = spawn(bench, [*load, "flv", "play", f"{server.base}/{PUBLISHED}.flv", "-n", "1", *forever])
    return publisher, player


def spawn(bench, command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    bench.running.append(process)
    return process


def until(probe, seconds=15):
    """What the probe gives as soon as it gives something; None if it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = probe()
        if seen:
            return seen
        time.sleep(0.05)
    return None


def read(server, direction, seconds):
    def bridge(frames=1):
        stream = ask(server, f"streams/{PUBLISHED}")
        found = stream and stream["bridge"]
        return found if found and found["video_frames"] >= frames else None

    # Past the key picture and what came before it.
    if not until(lambda: bridge(2 * VIDEO_FRAMES)):
        return "no bridge came up"
    before, samples = bridge(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.5)
        samples.append(bridge() or before)
    after = samples[-1]
    counted = lambda key: after[key] - before[key]  # noqa: E731
    middle = lambda key: median([sample[key] for sample in samples])  # noqa: E731
    frames, audio_frames = counted("video_frames"), counted("audio_frames")
    if frames < 0.9 * VIDEO_FRAMES * seconds:
        return f"the bridge made only {frames} frames in {seconds} s"
    video, audio = SECTIONS[direction]
    say(
        f"  {direction}: {frames} frames and {audio_frames} transcoded audio frames in {seconds:.0f} s, "
        f"worker {counted('cpu_seconds') / seconds * 100:.2f} % and transcoding "
        f"{counted('transcoding_cpu_seconds') / seconds * 100:.2f} % of a core"
    )
    parts = [(direction, video, counted("cpu_seconds") * 1e6 / frames, middle("video_latency_ms"))]
    if audio_frames > 0:
        per_piece = counted("transcoding_cpu_seconds") * 1e6 / audio_frames
        parts.append((direction, audio, per_piece, middle("audio_latency_ms")))
    elif direction == "rtmp2rtc":
        return "no audio was transcoded"
    return parts


CARGO_BENCH = ["cargo", "bench", "--quiet", "--locked", "-p", "transcode", "--features", "fdk-aac", "--bench", "transcode"]


def build_opus2aac():
    """A machine that cannot build it finds out again, and says so, when it is to run."""
    subprocess.run([*CARGO_BENCH, "--no-run"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def opus2aac_alone():
    """The part as `measure` gives it, or the reason why there is none."""
    command = ["taskset", "-c", LOAD_CORE, *CARGO_BENCH, "--", "opus2aac"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = re.search(r"part=opus2aac us_per_frame=([\d.]+) .*added_latency_ms=([\d.]+)", done.stdout)
    if found:
        return "rtc2rtmp", "opus2aac", float(found[1]), float(found[2])
    return ((done.stderr or done.stdout).strip().splitlines() or ["cargo bench failed"])[-1]
