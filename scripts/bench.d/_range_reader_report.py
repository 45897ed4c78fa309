"""What scripts/bench range-reader makes of its figures: whether the links ran at their rate, goals, a chart and a table."""

import datetime
import math
import os
import pathlib
import platform
import re

from _bench import decimal, say
from _range_reader_patterns import REGULAR

INITIAL_WINDOW = 14_600
# (client, case): what is at most to be had on rtt50.
GOALS = {
    ("millstream-hints", "video_audio"): {"gets": 3, "connections": 1, "useful_ratio": 1.03, "seconds": 7.0},
    ("millstream-hints", "audio"): {"gets": 3, "connections": 1, "useful_ratio": 1.25, "seconds": 1.3},
    ("millstream", "video_audio"): {"useful_ratio": 1.15, "seconds": 8.0},
    ("millstream", "audio"): {"useful_ratio": 1.6, "seconds": 2.5},
}
GOALS["millstream-hints", "published"] = GOALS["millstream-hints", "video_audio"]
# Nothing in the file tells where those runs are.
GOALS["millstream", "published"] = {"gets": 20, "useful_ratio": 1.2, "seconds": 8.0}
# Of patterns, on any link: seconds beside the oracle. Without hints, of those that are regular.
VS_ORACLE = 1.25
# Elsewhere: as fast as the better of these.
FLOOR = ("read-through", "reopen")
COLOURS = {
    "millstream-hints": "#1570ef", "millstream": "#53b1fd", "ffmpeg": "#e8730c", "ffmpeg-prepatch": "#b42318",
    "reopen": "#667085", "read-through": "#98a2b3",
}


def link_checks(figures, links):
    """One plain GET of the whole file must take what the link alone takes: rate, two round trips, slow start."""
    lines = []
    for (case, link, client), figure in figures.items():
        if client != "read-through":
            continue
        rtt_ms, mbit = links[link]
        rate = figure["wire"] * 8 / (mbit * 1e6)
        windows = rtt_ms * mbit * 1e3 / 8 / INITIAL_WINDOW
        most = rate + (2 + max(0, math.ceil(math.log2(windows)) if windows > 0 else 0)) * rtt_ms / 1e3
        took = figure["link_seconds"]
        verdict = "as it should" if rate <= took <= most * 1.05 else "NOT as it should: the machine is too busy"
        lines.append(f"link {link}: all of it in {took:.3f} s, {rate:.3f} to {most:.3f} s by arithmetic ({case.name}): {verdict}")
    return lines


def goals(figures, skipped):
    """A line for each goal that this run can judge."""
    lines = []
    for (case, link, client), why in skipped.items():
        if client.startswith("millstream"):
            lines.append(f"goal: {case.name} {link} {client}: {why}: NOT reached")
    for (case, link, client), figure in figures.items():
        if link == "rtt50" and (client, case.name) in GOALS:
            for key, most in GOALS[client, case.name].items():
                lines.append(verdict(f"{case.name} {link} {client}", key, figure[key], most))
        elif case.is_pattern:
            continue
        elif link != "rtt50" and client in ("millstream", "millstream-hints"):
            floor = [figures[case, link, other]["seconds"] for other in FLOOR if (case, link, other) in figures]
            if floor:
                lines.append(verdict(f"{case.name} {link} {client}", "seconds", figure["seconds"], min(floor)))
    for (case, link, client), against in beside_oracle(figures).items():
        if client == "millstream-hints" or client == "millstream" and case.name in REGULAR:
            lines.append(verdict(f"{case.name} {link} {client}", "vs_oracle", against, VS_ORACLE))
    return lines


def beside_oracle(figures):
    """Seconds of each pattern, link and client, divided by those of the oracle."""
    found = {}
    for (case, link, client), figure in figures.items():
        if case.is_pattern and (case, link, "oracle") in figures:
            found[case, link, client] = figure["seconds"] / figures[case, link, "oracle"]["seconds"]
    return found


def verdict(what, key, value, most):
    reached = "reached" if value <= most else "NOT reached"
    return f"goal: {what}: {key} {decimal(value, 3)}, at most {decimal(most, 3)}: {reached}"


NOTES = "## Notes\n"


def write(folder, figures, skipped):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "range-reader.md"
    _, heading, notes = (file.read_text() if file.exists() else "").partition(NOTES)
    plain = {key: figure for key, figure in figures.items() if not key[0].is_pattern}
    (folder / "range-reader.svg").write_text(chart(plain))
    file.write_text(page(figures, skipped) + (f"\n{heading}{notes}" if heading else ""))
    say(f"chart and table: {folder}/range-reader.svg, .md")


def page(figures, skipped):
    machine = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    against = beside_oracle(figures)
    rows, kinds = [], []
    for (case, link, client), figure in figures.items():
        wire, ratio = decimal(figure["wire"] / 1e6, 2), decimal(figure["useful_ratio"], 3)
        costs = f"{figure['gets']:.0f} | {figure['connections']:.0f} | {wire} | {ratio}"
        costs = f"{costs} | {decimal(figure['seconds'], 2)}"
        if case.is_pattern:
            beside = decimal(against.get((case, link, client)), 2)
            kinds.append(f"| {case.name} | {link} | {client} | {costs} | {beside} |")
        else:
            rows.append(f"| {case.name} | {link} | {client} | {costs} |")
    return "\n".join([
        "# What forward seeks in a remote file cost",
        "",
        f"Measured {datetime.date.today()} by `scripts/bench range-reader` on "
        f"{machine[1] if machine else platform.machine()}, {os.cpu_count()} cores, "
        f"Linux {platform.release().split('-')[0]}. Written by that command, which leaves the notes at the end "
        "as they are; do not edit the rest.",
        "",
        "An MP4 of 25 MB on nginx, read as its first video track and its audio (`video_audio`, 16 MB in 177 runs) "
        "or as its audio alone (`audio`, 1.3 MB), and by a list of reads of another such file (`published`), over "
        "emulated links: 50 ms and 20 Mbit/s (`rtt50`), 2 ms and 1 Gbit/s (`rtt2`), 200 ms and 5 Mbit/s "
        "(`rtt200`), with slow start. What the clients do and how the figures are meant says "
        "`scripts/bench range-reader --help`. Medians.",
        "",
        *[f"- {line}" for line in goals(figures, skipped)],
        "",
        "![Seconds and megabytes by client](range-reader.svg)",
        "",
        "| case | link | client | gets | connections | wire_mb | useful_ratio | seconds |",
        "|---|---|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "## Kinds of reads",
        "",
        "Each beside an oracle that knows all of them beforehand and asks one connection for exactly these bytes, "
        "all at once, in the order of the file.",
        "",
        "| pattern | link | client | gets | connections | wire_mb | bytes_ratio | seconds | vs_oracle |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
        *kinds,
        "",
    ])


WIDTH, LEFT, BAR, GAP = 860, 150, 15, 34


def chart(figures):
    """Bars of seconds and of megabytes, logarithmic, for each case and link."""
    groups = {}
    for (case, link, client), figure in figures.items():
        groups.setdefault((case.name, link), []).append((client, figure["seconds"], figure["wire"] / 1e6))
    height = 64 + sum(GAP + BAR * len(group) for group in groups.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12" fill="#344054">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="26" font-size="16" fill="#101828">Reading what is wanted of a remote file</text>',
        f'<text x="{LEFT}" y="50" fill="#667085">seconds</text>',
        f'<text x="{LEFT + 360}" y="50" fill="#667085">MB on the wire (logarithmic, both)</text>',
    ]
    scales = []
    for column in (1, 2):
        values = [row[column] for group in groups.values() for row in group]
        low, high = math.log10(min(values)) - 0.3, math.log10(max(values))
        scales.append(lambda value, low=low, high=high: 270 * (math.log10(value) - low) / max(high - low, 0.1))
    top = 64
    for (case, link), rows in groups.items():
        parts.append(f'<text x="20" y="{top + 16}" font-weight="bold">{case}, {link}</text>')
        top += 22
        for client, seconds, megabytes in rows:
            parts.append(f'<text x="{LEFT - 8}" y="{top + 11}" text-anchor="end">{client}</text>')
            for column, (value, text) in enumerate(((seconds, f"{seconds:.2f}"), (megabytes, f"{megabytes:.2f}"))):
                left, width = LEFT + 360 * column, scales[column](value)
                parts.append(f'<rect x="{left}" y="{top + 2}" width="{width:.1f}" height="{BAR - 4}" fill="{COLOURS[client]}"/>')
                parts.append(f'<text x="{left + width + 5:.1f}" y="{top + 11}">{text}</text>')
            top += BAR
        top += GAP - 22
    return "".join(parts) + "</svg>\n"
