"""Frames of a file, frames that came, and whether the second are the first, in order, again and again.

A frame is what ffmpeg's `framecrc` says of a packet: kind, times and checksum. A channel that plays a list of files in a loop
sends their frames, each time later by the same: as long as the longest track of what has been played so far. Audio comes in
pieces, the last of which may reach beyond the end that the file gives; the next item begins there or at the end of the piece.
"""

import collections
import json
import pathlib

from harness import Failed, run

Frame = collections.namedtuple("Frame", "kind dts_ms pts_ms crc")

# MP4 has times in units of its own, FLV in milliseconds: rounded once for the place in the file and once for the beginning.
ROUNDING_MS = 2


def parse(text):
    """Frames of `-f framecrc`, whose head says which stream is of which kind and what its times are in."""
    base, kind, frames = {}, {}, []
    for line in text.splitlines():
        if line.startswith("#tb "):
            stream, _, fraction = line[4:].partition(": ")
            over, under = fraction.split("/")
            base[stream] = 1000 * int(over) / int(under)
        elif line.startswith("#media_type "):
            stream, _, kind[stream] = line[12:].partition(": ")
        elif line and not line.startswith("#"):
            parts = [part.strip() for part in line.split(",")]
            # The last line of who was stopped may be cut off.
            if len(parts) >= 6 and len(parts[5]) == 10:
                stream = parts[0]
                frames.append(Frame(kind[stream], int(parts[1]) * base[stream], int(parts[2]) * base[stream], parts[5]))
    return frames


class Source:
    """A file as a channel should play it: what lies before its beginning or behind its end is no part of it."""

    def __init__(self, ffmpeg, file):
        self.file = pathlib.Path(file)
        text = run(ffmpeg, "-v", "error", "-copyts", "-i", file, "-map", "0:v?", "-map", "0:a?", "-c", "copy", "-copypriorss", "1", "-f", "framecrc", "-")
        streams = json.loads(run("ffprobe", "-v", "error", "-show_streams", "-of", "json", file))["streams"]
        ends = {one["codec_type"]: 1000 * (float(one["start_time"]) + float(one["duration"])) for one in streams}
        self.duration_ms = self.whole_ms = max(ends.values())
        self.frames = {}
        for which, end in ends.items():
            frames = [frame for frame in parse(text) if frame.kind == which]
            lasts = min(frame.dts_ms for frame in frames[1:]) - frames[0].dts_ms
            self.frames[which] = [frame for frame in frames if frame.pts_ms > 0.5 - lasts and frame.pts_ms < end - 0.5]
            self.whole_ms = max(self.whole_ms, max(frame.pts_ms for frame in self.frames[which]) + lasts)
        if "video" in self.frames and 2 * len({frame.crc for frame in self.frames["video"]}) < len(self.frames["video"]):
            raise Failed(f"{file} has pictures that are equal, by which no order is seen")


def find(received, expected):
    """From where in the endless repetition of `expected` the frames of `received` are, without a hole."""
    count, farthest = len(expected), (0, 0)
    # There may be frames that are equal: each of them is tried.
    for start in (index for index, frame in enumerate(expected) if frame.crc == received[0].crc):
        wrong = next((at for at, frame in enumerate(received) if frame.crc != expected[(start + at) % count].crc), None)
        if wrong is None:
            return start
        farthest = max(farthest, (wrong, start))
    wrong, start = farthest
    wanted = f"after {wrong} that are: {expected[(start + wrong) % count]} was to come" if wrong else "from the first on"
    raise Failed(f"{received[wrong]} of {len(received)} is none of the source's frames in order, {wanted}")


def compare(received, playlist, rounds):
    """Frames that came, of a channel that plays these sources in a loop: facts, or a failure.

    All frames of both kinds, in order, none twice and none missing, through `rounds` whole rounds; each file's frames apart
    as in the file; each file later than the one before by what that one lasts; audio and video later by the same.
    """
    facts, begins = {}, {}
    for kind in ("video", "audio"):
        expected = [(index, frame) for index, source in enumerate(playlist) for frame in source.frames.get(kind, [])]
        came = [frame for frame in received if frame.kind == kind]
        if not expected:
            if came:
                raise Failed(f"{len(came)} frames of {kind}, which the source has not")
            continue
        if not came:
            raise Failed(f"no {kind}")
        start = find(came, [frame for _, frame in expected])
        whole = (len(came) - (-start) % len(expected)) // len(expected)
        if whole < rounds:
            raise Failed(f"{whole} whole rounds of {kind}, expected {rounds}")
        backwards = [(one, other) for one, other in zip(came, came[1:]) if other.dts_ms < one.dts_ms]
        if backwards:
            raise Failed(f"times of {kind} go backwards: {backwards[0]}")
        facts[kind] = len(came)
        facts["rounds"] = min(whole, facts.get("rounds", whole))
        for at, frame in enumerate(came):
            item, original = expected[(start + at) % len(expected)]
            turn = (start + at) // len(expected)
            begins.setdefault((turn, item), []).append(frame.pts_ms - original.pts_ms)
    return facts | same_pace(begins, playlist)


def same_pace(begins, playlist):
    """`begins` is when each file began, by each of its frames."""
    for place, seen in begins.items():
        if max(seen) - min(seen) > ROUNDING_MS:
            raise Failed(f"times within round {place[0]}, item {place[1]} differ from the file's by {min(seen):.1f} to {max(seen):.1f} ms")
    places, lasted = sorted(begins), {}
    for before, after in zip(places, places[1:]):
        item, lasts = before[1], min(begins[after]) - min(begins[before])
        source = playlist[item]
        if not source.duration_ms - ROUNDING_MS <= lasts <= source.whole_ms + ROUNDING_MS:
            raise Failed(f"round {before[0]}, item {item} lasts {lasts:.1f} ms, expected {source.duration_ms:.1f} to {source.whole_ms:.1f}")
        lasted.setdefault(item, []).append(lasts)
    # The same each time: what would be too much or too little adds up in a channel that runs for months.
    spread = max((max(times) - min(times) for times in lasted.values()), default=0)
    if spread > ROUNDING_MS:
        raise Failed(f"items last differently from round to round: {lasted}")
    return {"items": len(places), "lasts_ms": "/".join(f"{lasted[item][0]:.1f}" for item in sorted(lasted))}


def same_frames(ours, theirs):
    """Two who got the same live stream: from where they both are in it on, frame by frame, with times that differ by the same."""
    facts, apart = {}, set()
    for kind in ("video", "audio"):
        one, other = ([frame for frame in frames if frame.kind == kind] for frames in (ours, theirs))
        at = next((index for index, frame in enumerate(other) if frame.crc == one[0].crc), None)
        one, other = (one, other[at:]) if at is not None else (one[next((i for i, frame in enumerate(one) if frame.crc == other[0].crc), len(one)) :], other)
        count = min(len(one), len(other))
        if count < min(len(ours), len(theirs)) / 8:
            raise Failed(f"{count} frames of {kind} in common")
        wrong = next((index for index in range(count) if one[index].crc != other[index].crc), None)
        if wrong is not None:
            raise Failed(f"{kind}: frame {wrong} of {count} differs: {one[wrong]}, not {other[wrong]}")
        apart |= {one[index].pts_ms - other[index].pts_ms for index in range(count)}
        facts[kind] = count
    if max(apart) - min(apart) > ROUNDING_MS:
        raise Failed(f"times differ by {min(apart)} to {max(apart)} ms")
    return facts
