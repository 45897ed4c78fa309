"""Kinds of reads of scripts/bench range-reader: a file each, and the ranges that are read of it, in order.

Those of films and archives are read from files that are made here, with index, directory and offsets as in
any such file; the others are arithmetic, over bytes that say nothing. Random numbers are the same in each run.
"""

import random
import struct
import subprocess
import zipfile

from _bench import say
from _range_reader import top_boxes, trace_of

NAMES = [
    "second_video", "audio_alone", "wide_gaps", "wide_gaps_jitter", "narrow_gaps", "narrow_gaps_jitter",
    "random", "random_small", "backwards", "back_and_forth", "zip_tail", "parquet_tail", "sidx",
]
# A goal says how long each of these may take beside the oracle, without hints.
REGULAR = ["wide_gaps", "wide_gaps_jitter"]
FILE_BYTES = 20_000_000


def reads_of(name, film, folder):
    """The file and the list of (offset, length) of one of NAMES. `film` has two video tracks and audio."""
    numbers = random.Random(name)
    match name:
        case "second_video" | "audio_alone":
            return film, trace_of(film, [1] if name == "second_video" else [2])
        case "zip_tail":
            archive = made(folder / "archive.zip", make_archive)
            return archive, archive_reads(archive, numbers)
        case "sidx":
            fragments = made(folder / "fragments.mp4", lambda path: make_fragments(film, path))
            return fragments, fragment_reads(fragments)
        case "parquet_tail":
            # Offsets in a footer of Parquet are of variable length, which only a reader of that format
            # finds: any bytes do as well.
            tail = [(FILE_BYTES - 8, 8), (FILE_BYTES - 24_000, 23_992)]
            groups = [4 + group * 1_900_000 for group in range(10)]
            columns = [(300_000, 80_000), (1_200_000, 30_000)]
            reads = tail + [(group + start, length) for group in groups for start, length in columns]
        case "random":
            reads = [(numbers.randrange(FILE_BYTES - 30_000), 30_000) for _ in range(60)]
        case "random_small":
            reads = [(numbers.randrange(FILE_BYTES - 4000), 4000) for _ in range(300)]
        case "backwards":
            reads = [(at * 160_000, 20_000) for at in reversed(range(120))]
        case "back_and_forth":
            video = [1_500_000 + at * 200_000 for at in range(80)]
            reads = [read for at in video for read in ((at, 40_000), (at - 950_000, 8000))]
        case _:
            is_wide = name.startswith("wide")
            pace, length, jitter = (500_000, 20_000, 4000) if is_wide else (60_000, 50_000, 2000)
            jitter = jitter if name.endswith("jitter") else 0
            starts = [at * pace + numbers.randint(0, jitter) for at in range(FILE_BYTES // pace - 2)]
            reads = [(start, length) for start in starts]
    return made(folder / "bytes", make_bytes), reads


def made(path, make):
    """The file at `path`, made once and kept beside the build."""
    if not path.exists():
        say(f"making {path}")
        part = path.with_name("part-" + path.name)
        make(part)
        part.rename(path)
    return path


def make_bytes(path):
    path.write_bytes(random.Random("bytes").randbytes(FILE_BYTES))


def make_archive(path):
    """Members of 10 to 50 kB, stored as they are."""
    numbers = random.Random("archive")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(FILE_BYTES // 30_000):
            content = numbers.randbytes(numbers.randint(10_000, 50_000))
            archive.writestr(zipfile.ZipInfo(f"member-{number:04}.bin"), content)


def archive_reads(path, numbers):
    """End, directory, and twelve members in any order (APPNOTE 4.3.16, 4.3.12, 4.3.7)."""
    size = path.stat().st_size
    with open(path, "rb") as source:
        source.seek(size - 22)
        length, start = struct.unpack("<II", source.read(22)[12:20])
    with zipfile.ZipFile(path) as archive:
        members = numbers.sample(archive.infolist(), 12)
    own = [(member.header_offset, 30 + len(member.filename) + member.compress_size) for member in members]
    return [(size - 22, 22), (start, length), *own]


def make_fragments(film, path):
    """The first video track and the audio in fragments of two seconds, with an index of all of them at the start."""
    command = ["ffmpeg", "-y", "-nostdin", "-hide_banner", "-loglevel", "error", "-i", str(film)]
    command += ["-map", "0:0", "-map", "0:2", "-c", "copy"]
    command += ["-movflags", "+dash+global_sidx+frag_keyframe", "-min_frag_duration", "2000000"]
    command += ["-fflags", "+bitexact", "-f", "mp4", str(path)]
    subprocess.run(command, check=True)


def fragment_reads(path):
    """What is before the `sidx`, that, and every third fragment in it (ISO/IEC 14496-12, 8.16.3)."""
    _, start, _, length = next(box for box in top_boxes(path) if box[0] == b"sidx")
    with open(path, "rb") as source:
        source.seek(start)
        box = source.read(length)
    wide = box[8] == 1
    first = struct.unpack(">Q", box[28:36])[0] if wide else struct.unpack(">I", box[24:28])[0]
    at = 36 if wide else 28
    (count,) = struct.unpack(">H", box[at + 2:at + 4])
    entries = struct.iter_unpack(">III", box[at + 4:at + 4 + 12 * count])
    sizes = [entry[0] & 0x7FFF_FFFF for entry in entries]
    position, reads = start + length + first, [(0, start), (start, length)]
    for number, size in enumerate(sizes):
        reads += [(position, size)] if number % 3 == 0 else []
        position += size
    return reads
