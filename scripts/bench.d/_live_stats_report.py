"""What scripts/bench live-stats makes of its figures: RESULT lines, a chart and a table."""

import datetime
import math
import os
import pathlib
import platform
import re

from _bench import decimal, median, say

GOAL_US = 1000
GOAL_SESSIONS = 10_000
DIGITS = {"worker_us": 0, "encode_us": 0, "share_of_core_percent": 3}


def figures(steps):
    """Medians of several rounds; of the maximum the largest."""
    found = {key: median([step[key] for step in steps]) for key in steps[0]}
    return {**found, "worker_us_max": max(step["worker_us_max"] for step in steps)}


def words(figure):
    """All of it as key=value."""
    return " ".join(f"{key}={decimal(value, DIGITS.get(key, 0))}" for key, value in figure.items())


def write(folder, found):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "live-stats.svg").write_text(chart(found))
    (folder / "live-stats.md").write_text(page(found))
    say(f"chart and table: {folder}/live-stats.svg, .md")


def page(found):
    machine = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    columns = list(next(iter(found.values())))
    rows = [f"| {' | '.join(decimal(figure[key], DIGITS.get(key, 0)) for key in columns)} |" for figure in found.values()]
    goal = []
    for figure in (figure for (sessions, _), figure in found.items() if sessions == GOAL_SESSIONS):
        reached = "reached" if figure["worker_us"] <= GOAL_US else "NOT reached"
        goal += [f"Goal: at most 1 ms of worker time for {GOAL_SESSIONS} sessions. Measured with {figure['streams']} streams of RTMP: "
                 f"{figure['worker_us']:.0f} us (at most {figure['worker_us_max']:.0f} us): {reached}.", ""]
    return "\n".join([
        "# What live statistics cost",
        "",
        f"Measured {datetime.date.today()} by `scripts/bench live-stats` on {machine[1] if machine else platform.machine()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}. Written by that command; do not edit.",
        "",
        "CPU time once a second, of one worker with all the sessions: players by RTMP and viewers by WebRTC, of thin streams.",
        "`worker_us` is the snapshot on the worker, `encode_us` the message on the control side, `share_of_core_percent` both.",
        "",
        *goal,
        "![Time of a snapshot by number of sessions](live-stats.svg)",
        "",
        f"| {' | '.join(columns)} |",
        f"|{'---:|' * len(columns)}",
        *rows,
        "",
    ])


WIDTH, HEIGHT, LEFT, BASE, TOP = 620, 360, 64, 310, 60


def chart(found):
    """Time against sessions of the fewest streams, both logarithmic, with the goal."""
    fewest = min(streams for _, streams in found)
    found = {sessions: figure for (sessions, streams), figure in found.items() if streams == fewest}
    series = {"worker_us": "#1570ef", "worker_us_max": "#98a2b3", "encode_us": "#e8730c"}
    values = [figure[key] for figure in found.values() for key in series if figure[key]]
    low, high = math.floor(math.log10(max(1, min(values)))), math.ceil(math.log10(max(GOAL_US, *values)))
    first, last = math.log10(min(found)), math.log10(max(found))
    x = lambda n: LEFT + 20 + (WIDTH - LEFT - 60) * ((math.log10(n) - first) / (last - first) if last > first else 0.5)
    y = lambda us: BASE - (BASE - TOP) * (math.log10(max(us, 1)) - low) / (high - low)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="#344054">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        '<text x="20" y="26" font-size="16" fill="#101828">CPU time of statistics, microseconds once a second</text>',
    ]
    for decade in range(low, high + 1):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(10**decade):.1f}" y2="{y(10**decade):.1f}" stroke="#e4e7ec"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(10**decade) + 4.5:.1f}" text-anchor="end">{10**decade}</text>')
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(GOAL_US):.1f}" y2="{y(GOAL_US):.1f}" stroke="#b42318" '
                 'stroke-dasharray="5 4"/>')
    for n in found:
        parts.append(f'<text x="{x(n):.1f}" y="{BASE + 22}" text-anchor="middle">{n}</text>')
    parts.append(f'<text x="{WIDTH - 20}" y="{BASE + 42}" text-anchor="end" fill="#667085">sessions; dashed: the goal for {GOAL_SESSIONS}</text>')
    left = LEFT
    for name, colour in series.items():
        points = [(x(n), y(figure[name])) for n, figure in found.items() if figure[name]]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colour}"/>' for px, py in points]
        parts.append(f'<rect x="{left}" y="39" width="18" height="4" fill="{colour}"/><text x="{left + 24}" y="46">{name}</text>')
        left += 60 + 8 * len(name)
    return "".join(parts) + "</svg>\n"
