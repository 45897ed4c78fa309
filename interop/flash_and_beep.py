"""Flash and beep: a picture that turns white and a tone that starts at the same moment, and the measuring of both.

usage: flash_and_beep.py FILE [--skip SECONDS]

Two in every three seconds, at 0 s and 1.2 s: the unequal distances tell apart streams that are off by a whole period. This
file has what all tests share: the times, ffmpeg's source, and finding flashes and beeps in what was received. As a program
it decodes a file with FFmpeg's libraries and prints one JSON object.
"""

import argparse
import json
import statistics
import sys

PERIOD = 3.0
STARTS = (0.0, 1.2)
LENGTH = 0.08
FREQUENCY = 1000
# Brightness of a picture between a flash and what is shown else, of 0 to 255.
WHITE = 180
# A beep has begun when this share of its loudness is reached: above what AAC smears to the front.
ONSET = 0.35
# The level is taken over pieces of this length, seconds: one wave of the tone.
STEP = 0.001


def is_on(time):
    """Whether it flashes and beeps at this time of the source, seconds."""
    # Sources step in fractions that are not exact.
    at = (time + 1e-6) % PERIOD
    return any(start <= at < start + LENGTH - 2e-6 for start in STARTS)


def ffmpeg_source(rate=25, sample_rate=48000, audio_late=0.0, audio_fast=0.0, size="320x240", channels=2):
    """Inputs and filters of ffmpeg. The audio is late by seconds; its samples are `audio_fast` (parts of 1) too few."""

    def gate(clock):
        return "+".join(f"between(mod({clock},{PERIOD}),{start},{start + LENGTH - 1e-6})" for start in STARTS)

    boxes = f"drawbox=c=white:t=fill:enable='{gate('t+0.000001')}'"
    picture = f"testsrc2=size={size}:rate={rate},eq=brightness=-0.35,{boxes}"
    clock = f"(t*{1 + audio_fast:.6f}-{audio_late}+{PERIOD})"
    tone = f"0.7*sin({2 * FREQUENCY}*PI*{clock})*({gate(clock)})"
    audio = "aevalsrc='" + "|".join([tone] * channels) + f"':s={sample_rate}"
    if channels == 6:
        audio += ":c=5.1"
    return ["-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", audio]


class Flashes:
    """Times at which the picture turned white."""

    def __init__(self):
        self.times, self.bright = [], None

    def add(self, time, brightness):
        bright = brightness > WHITE
        # Whoever comes while it is white has missed the beginning.
        if bright and self.bright is False:
            self.times.append(time)
        self.bright = bright


class Beeps:
    """Times at which a tone began. Takes samples of one channel in -1..1 with the time of the first."""

    def __init__(self):
        self.pieces, self.loudest, self.samples = [], 0.0, 0

    def add(self, time, samples, sample_rate):
        import numpy

        self.samples += len(samples)
        step = int(sample_rate * STEP)
        count = len(samples) // step
        levels = numpy.sqrt((samples[: count * step].astype(float).reshape(count, step) ** 2).mean(axis=1))
        if count:
            self.loudest = max(self.loudest, float(levels.max()))
        self.pieces.append((time, step / sample_rate, levels))

    def times(self):
        found, quiet_since = [], None
        for start, step, levels in self.pieces:
            for index, level in enumerate(levels):
                time = start + index * step
                if level < ONSET * self.loudest:
                    quiet_since = time if quiet_since is None else quiet_since
                    continue
                # The gap between two beeps, not that of two waves; and not a beep that had begun before.
                if quiet_since is not None and time - quiet_since > LENGTH:
                    found.append(time)
                quiet_since = None
        return found


def compare(flashes, beeps, unit=1.0):
    """How much later than the flash the beep comes, for every pair, and what was found. Times are in `unit` seconds."""
    flashes, beeps = [[time * unit for time in times] for times in (flashes, beeps)]
    pairs, alone = [], []
    for flash in flashes:
        nearest = min(beeps, key=lambda beep: abs(beep - flash), default=None)
        inside = beeps and beeps[0] - 0.6 < flash < beeps[-1] + 0.6
        if nearest is not None and abs(nearest - flash) < 0.6:
            pairs.append((flash, nearest - flash))
        elif inside:
            alone.append(flash)
    offsets = [1000 * offset for _, offset in pairs]
    facts = {"flashes": len(flashes), "beeps": len(beeps), "pairs": len(pairs), "alone": len(alone)}
    if offsets:
        facts["audio_late_ms"] = round(statistics.median(offsets), 1)
        facts["last_ms"] = round(offsets[-1], 1)
        facts["least_ms"], facts["most_ms"] = round(min(offsets), 1), round(max(offsets), 1)
        third = max(1, len(offsets) // 3)
        drift = statistics.median(offsets[-third:]) - statistics.median(offsets[:third])
        facts["drift_ms"] = round(drift, 1)
    return facts


def analyse(path, skip=0.0):
    """Decodes a file: what is in it, and how audio and video go together from `skip` seconds on."""
    import av

    flashes, beeps, pictures = Flashes(), Beeps(), []
    facts = {"video": 0, "audio": 0, "backwards": 0, "longest_gap_ms": 0.0}
    first, last, audio = {}, {}, 0.0
    with av.open(path) as container:
        # What the file says is taken as it is: a decoder that makes up for damage would hide it.
        for stream in container.streams:
            facts[f"{stream.type}_codec"] = stream.codec_context.name
        for frame in container.decode(video=0, audio=0):
            kind = "video" if isinstance(frame, av.VideoFrame) else "audio"
            facts[kind] += 1
            time = float(frame.pts * frame.time_base)
            if kind in last and time < last[kind]:
                facts["backwards"] += 1
            if kind == "video":
                pictures.append(round(time, 3))
                if kind in last:
                    facts["longest_gap_ms"] = max(facts["longest_gap_ms"], round(1000 * (time - last[kind]), 1))
                facts["size"] = f"{frame.width}x{frame.height}"
            else:
                audio += frame.samples / frame.sample_rate
            first.setdefault(kind, time)
            last[kind] = time
            if time < skip:
                continue
            if kind == "video":
                # Brightness alone, without the borders that scaling blurs.
                plane = frame.to_ndarray(format="gray")
                flashes.add(time, float(plane[plane.shape[0] // 4 : plane.shape[0] * 3 // 4].mean()))
            else:
                samples = frame.to_ndarray()
                packed = samples if frame.format.is_planar else samples.reshape(-1, len(frame.layout.channels)).T
                scale = 32768 if packed.dtype.kind == "i" else 1
                beeps.add(time, packed[0] / scale, frame.sample_rate)
    facts["audio_seconds"] = round(audio, 3)
    for kind in first:
        facts[f"{kind}_first"], facts[f"{kind}_last"] = round(first[kind], 3), round(last[kind], 3)
    return {**facts, **compare(flashes.times, beeps.times()), "pictures": pictures}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--skip", type=float, default=0.0)
    arguments = parser.parse_args()
    json.dump(analyse(arguments.file, arguments.skip), sys.stdout)
    print()


if __name__ == "__main__":
    main()
