"""Benchmarks of two builds in turn, each with its own tree's scripts and both with one load generator."""

import math
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

# Arguments that leave out other servers and parts without a figure to compare.
BENCHMARKS = {
    "rtc-players": ["--only", "players"],
    "rtmp-players": ["--only", "millstream"],
    "bridge": ["--only", "players"],
    "live-stats": [],
    "rtmp-publishers": ["--only", "millstream"],
}
COSTS = ("us_per_packet", "cpu_ms_per_client_s", "core_percent", "worker_us")
MEMORY = ("rss_kb_per_client",)
# What a line of results of our server is about; everything else in it is a figure. Of what only one of two
# builds says, a line has nothing to be compared with.
ABOUT = ("net", "backend", "mode", "source", "n", "sessions", "streams", "profile", "workers")


def target_directory(root):
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target")).absolute()


def options(parser):
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--before", type=pathlib.Path, required=True, metavar="DIR", help="a checkout with a release build")
    parser.add_argument("--before-target", type=pathlib.Path, metavar="DIR", help="its target directory, by default DIR/target")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each build, in turn: A B B A (default 3)")
    parser.add_argument("--quick", action="store_true", help="quick runs instead of full ones")
    parser.add_argument("--own-load", action="store_true", help="each build with its own load generator")


def run(root, chosen):
    before_target = chosen.before_target or chosen.before / "target"
    after_target = target_directory(root)
    for target in (before_target, after_target):
        for name in ("millstream", "millbench"):
            if not (target / "release" / name).is_file():
                raise SystemExit(f"house: build it first: {target}/release/{name} (cargo build --release -p millstream -p millbench)")
    for name in chosen.names or BENCHMARKS:
        figures = {"before": {}, "after": {}}
        for number in range(chosen.rounds):
            builds = [("before", chosen.before, before_target), ("after", root, after_target)]
            for label, tree, target in builds if number % 2 == 0 else reversed(builds):
                print(f"{name}, round {number + 1} of {chosen.rounds}: {label}", flush=True)
                load = target if chosen.own_load else after_target
                for key, values in one_run(tree, name, target, load, chosen.quick).items():
                    figures[label].setdefault(key, []).append(values)
        report(name, figures["before"], figures["after"])


def one_run(tree, name, target, load, quick):
    """Runs a benchmark of `tree` with binaries as they are; returns its lines as {(name, about): {figure: value}}."""
    with tempfile.TemporaryDirectory(prefix="millstream-house-") as folder:
        release = pathlib.Path(folder, "release")
        release.mkdir()
        (release / "millstream").symlink_to((target / "release/millstream").resolve())
        (release / "millbench").symlink_to((load / "release/millbench").resolve())
        command = [str(pathlib.Path(tree, "scripts/bench")), name, "--no-build", *BENCHMARKS[name]]
        command += ["--quick"] if quick else []
        if name == "live-stats":
            command += ["--docs", folder]
        # In huge pages memory comes by 2 MiB, which is more than a few hundred players take.
        environment = {**os.environ, "CARGO_TARGET_DIR": folder, "MIMALLOC_ALLOW_THP": "0"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"house: failed: {' '.join(command)}\n{done.stdout[-2000:]}")
    found = {}
    for line in done.stdout.splitlines():
        if not line.startswith("RESULT "):
            continue
        _, kind, *words = line.split()
        values = dict(word.split("=", 1) for word in words if "=" in word)
        # What was the only one before it had a name.
        if values.get("profile") == "gcm":
            del values["profile"]
        about = (kind, *(f"{key}={values[key]}" for key in ABOUT if key in values))
        numbers = {key: float(value) for key, value in values.items() if key in COSTS + MEMORY and is_number(value)}
        if numbers and values.get("server", "millstream") == "millstream":
            found[about] = numbers
    return found


def is_number(text):
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def report(name, before, after):
    """Prints a line for each pair of figures, and one for the benchmark."""
    ratios = {"cost": [], "memory": []}
    for about in before:
        if about not in after:
            print(f"  only before: {' '.join(about)}")
            continue
        # The first of the costs that a line has: the others are the same time in other units.
        costs = [key for key in COSTS if key in before[about][0]][:1]
        for kind, keys in (("cost", costs), ("memory", [key for key in MEMORY if key in before[about][0]])):
            for key in keys:
                old, new = (statistics.median(run[key] for run in side[about] if key in run) for side in (before, after))
                if old > 0 and new > 0:
                    ratios[kind].append(new / old)
                    print(f"  {' '.join(about)} {key} before={old:g} after={new:g} after_vs_before={new / old:.3f}")
    mean = lambda values: math.exp(statistics.fmean(map(math.log, values)))  # noqa: E731
    if not ratios["cost"]:
        raise SystemExit(f"house: nothing to compare in {name}")
    line = f"RESULT house bench={name} after_vs_before={mean(ratios['cost']):.3f} worst={max(ratios['cost']):.3f} lines={len(ratios['cost'])}"
    if ratios["memory"]:
        line += f" memory_after_vs_before={mean(ratios['memory']):.3f} memory_worst={max(ratios['memory']):.3f}"
    print(line, flush=True)
