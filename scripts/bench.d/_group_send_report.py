"""What the group-send benchmark says: table, goals, RESULT lines, the chart and the page of docs/benchmarks."""

import datetime
import html
import math
import os
import pathlib
import platform
import re

from _bench import decimal, say

BACK_ENDS = ["sendmmsg", "gso", "io_uring", "af_xdp", "tc_clone"]
CONTENDERS = ["loop", "c_sendmmsg", "sendmmsg", "c_gso", "gso", *BACK_ENDS[2:]]
COLOURS = {
    "sendmmsg": "#1570ef", "gso": "#b42318", "io_uring": "#0e9384", "af_xdp": "#e8730c", "tc_clone": "#7a3fd1",
}
# What the RESULT lines are of.
BEFORE, AFTER = 12, 0


def ratio(cell, name):
    if name not in cell or "loop" not in cell:
        return None
    return cell[name][0] / cell["loop"][0]


def print_table(cells):
    for line in table(cells):
        say(line)
    for (arrangement, n, k, size, before, after), cell in cells.items():
        for name, (_, spread, _) in cell.items():
            if spread > 0.10:
                what = f"{arrangement} n={n} k={k} bytes={size} private={before}+{after} {name}"
                say(f"spread: {what}: {spread * 100:.0f} %")


def table(cells):
    """Lines of a table: thousand datagrams per CPU-second, and times the loop's."""
    yield "thousand datagrams per second of CPU time, and times the loop's"
    yield f"{'segments':9}{'n':>5}{'k':>3}{'bytes':>6}{'private':>8}" + "".join(f"{name:>15}" for name in CONTENDERS)
    for (arrangement, n, k, size, before, after), cell in cells.items():
        texts = []
        for name in CONTENDERS:
            text = "-"
            if name in cell:
                text = f"{cell[name][0]:.0f}" + (f" {ratio(cell, name):5.2f}x" if name != "loop" else "")
            texts.append(f"{text:>15}")
        yield f"{arrangement:9}{n:>5}{k:>3}{size:>6}{f'{before}+{after}':>8}" + "".join(texts)


def print_shares(cells):
    for line in shares(cells):
        say(line)


def shares(cells):
    """Lines of a table: the far end's part of the CPU time, and times the loop's without it, groups of 100 and more."""
    yield f"far end's part of the CPU time, and speed without it{'':4}" + "".join(f"{f'k={k}':>15}" for k in SHARE_KS)
    for name in ["loop", *BACK_ENDS]:
        texts = []
        for k in SHARE_KS:
            chosen = [cell for (kind, n, k0, *_), cell in cells.items() if (kind, k0) == ("software", k) and n >= 100]
            parts = [(cell["loop"][2], cell[name][2], ratio(cell, name)) for cell in chosen if name in cell]
            if not parts:
                texts.append("-")
                continue
            of_loop, own, times = (sum(column) / len(parts) for column in zip(*parts))
            texts.append(f"{own * 100:.0f} % {times * (1 - of_loop) / (1 - own):5.2f}x")
        yield f"{name:56}" + "".join(f"{text:>15}" for text in texts)


SHARE_KS = [1, 2, 4, 8]


def print_results(cells):
    for (arrangement, n, k, size, before, after), cell in cells.items():
        if (arrangement, before, after) != ("software", BEFORE, AFTER):
            continue
        for name in ["loop", *BACK_ENDS]:
            if name in cell:
                figures = f"kpps={decimal(cell[name][0], 1)} vs_loop={decimal(ratio(cell, name), 3)}"
                say(f"RESULT group-send backend={name} n={n} k={k} bytes={size} {figures}")


def goals(cells, peer_lines):
    """[(what, goal, measured, reached)], None for what was not measured."""
    usual = {key: cell for key, cell in cells.items() if key[0] == "software" and key[3:] == (1200, BEFORE, AFTER)}
    wanted = [("sendmmsg", k_any, 1.25, "sendmmsg")]
    wanted += [("gso", lambda k, k0=k0: k == k0, goal, f"gso k={k0}") for k0, goal in ((2, 1.6), (4, 2.5), (8, 3.5))]
    wanted += [("af_xdp", k_any, 3.0, "af_xdp"), ("tc_clone", k_any, 4.5, "tc_clone")]
    found = []
    for name, k_fits, goal, label in wanted:
        ratios = [ratio(cell, name) for (_, n, k, *_), cell in usual.items() if n >= 100 and k_fits(k)]
        found.append(range_goal(f"{label}, n >= 100", goal, "x", ratios))
    for name in ("sendmmsg", "gso"):
        beside = [cell[name][0] / cell["c_" + name][0] for cell in usual.values() if name in cell and "c_" + name in cell]
        found.append(range_goal(f"{name}, against C on this machine", 0.95, "x", beside))
    alone = [ratio(cell, name) for (_, n, *_), cell in usual.items() if n == 1 for name in BACK_ENDS]
    found.append(range_goal("every back end, n = 1", 1.0, "x", alone))
    found += peer_goals(peer_lines)
    return found


def k_any(_k):
    return True


def rounded_down(value):
    """So that what is printed as reached is reached."""
    return f"{math.floor(value * 100) / 100:.2f}"


def range_goal(label, goal, unit, values):
    values = [value for value in values if value is not None]
    if not values:
        return (label, f">= {goal}{unit}", "not measured", None)
    return (label, f">= {goal}{unit}", f"{rounded_down(min(values))} to {rounded_down(max(values))}{unit}", min(values) >= goal)


def peer_goals(lines):
    for line in lines:
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        if fields.get("peers") == "10000" and fields.get("case") == "hit":
            ns, times = float(fields["ns"]), float(fields["vs_string_map"])
            family = fields.get("family", "")
            yield (f"peer table, {family} hit at 10000 peers", "<= 5 ns", f"{ns:.1f} ns", ns <= 5)
            yield (f"peer table, {family}, against strings", ">= 20x", f"{times:.1f}x", times >= 20)


def print_goals(goals):
    say(f"{'goal':40}{'wanted':>10}{'measured':>20}")
    for label, wanted, measured, reached in goals:
        say(f"{label:40}{wanted:>10}{measured:>20}  {verdict(reached)}")


def verdict(reached):
    return {True: "reached", False: "NOT reached", None: "not measured"}[reached]


def write(folder, cells, peer_lines, goals, skipped):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "group-send.svg").write_text(chart(cells))
    (folder / "group-send.md").write_text(page(cells, peer_lines, goals, skipped))
    say(f"chart and table: {folder}/group-send.svg, .md")


def page(cells, peer_lines, goals, skipped):
    """The figures as they were measured."""
    machine = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    lines = [
        "# What a datagram to each of N recipients costs",
        "",
        f"Measured {datetime.date.today()} by `scripts/bench group-send` on {machine[1] if machine else platform.machine()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}. Written by that command; do not edit.",
        "",
        "Thousand datagrams per second of CPU time, and times the loop's. The far end's work is charged to the sender, as the",
        "work of a driver would be. `software`: the kernel cuts runs of datagrams; `device`: the interface takes them whole;",
        "`refused`: the far end refuses each frame at the cable, so that only the sending host works.",
        "",
        "![Speed against a loop, by group size, payload and private bytes](group-send.svg)",
        "",
        "The goals are multiples of a loop that sent 317 thousand datagrams per CPU-second, on another machine where sendmmsg",
        f"saved 0.73 us of each. Here the loop sends {loop_kpps(cells)}: system calls are cheaper, so there is less to save. `c_sendmmsg`",
        "and `c_gso` are plain C on this machine, without fallback or account, to tell the library's cost from the kernel's.",
        "Zero-copy modes are left out: they never won.",
        "",
        "| goal | wanted | measured | |",
        "|---|---|---|---|",
        *(f"| {label} | {wanted} | {measured} | {verdict(reached)} |" for label, wanted, measured, reached in goals),
        "",
        *(f"- {name} was not measured: {why}" for name, why in skipped.items()),
        *([""] if skipped else []),
        *(["```", *peer_lines, "```", ""] if peer_lines else []),
        "The part of the CPU time that the kernel spent in soft interrupts, which is the far end's work and the freeing of",
        "buffers, by samples at each timer tick, good to a few per cent; and times the loop's speed if it is taken off both.",
        "",
        "```",
        *(line.rstrip() for line in shares(cells)),
        "```",
        "",
        "```",
        *(line.rstrip() for line in table(cells)),
        "```",
        "",
    ]
    return "\n".join(lines)


def loop_kpps(cells):
    """The loop's least and most in the usual case."""
    figures = [cell["loop"][0] for (kind, _, _, *sizes), cell in cells.items()
               if kind == "software" and sizes == [USUAL_BYTES, BEFORE, AFTER] and "loop" in cell]
    return f"{min(figures):.0f} to {max(figures):.0f} thousand" if figures else "nothing"


# One row of pictures for each k, one picture for each thing that is varied; the others stay at the
# usual value.
CHART_KS = [1, 8]
USUAL_N, USUAL_BYTES = 100, 1200
PICTURE = (330, 240)
MARGIN_LEFT, MARGIN_TOP, GAP = 60, 92, 74


def chart(cells):
    width = MARGIN_LEFT + 3 * (PICTURE[0] + GAP)
    height = MARGIN_TOP + len(CHART_KS) * (PICTURE[1] + GAP + 20) - 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="#344054">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="24" y="34" font-size="19" fill="#101828">Datagrams per second of CPU time, as a multiple of a sendmsg loop</text>',
    ]
    x = 24
    for name, colour in COLOURS.items():
        if any(name in cell for cell in cells.values()):
            parts.append(f'<rect x="{x}" y="53" width="22" height="4" fill="{colour}"/><text x="{x + 28}" y="60">{name}</text>')
            x += 58 + 8 * len(name)
    parts.append(f'<text x="{x + 8}" y="60" fill="#667085">dashed: the loop</text>')
    for row, k in enumerate(CHART_KS):
        row_curves = list(curves(cells, k))
        values = [value for _, series in row_curves for points in series.values() for _, value in points]
        scale = max(2, math.ceil(max((value for value in values if value is not None), default=1)))
        for column, (title, series) in enumerate(row_curves):
            left = MARGIN_LEFT + column * (PICTURE[0] + GAP)
            top = MARGIN_TOP + 20 + row * (PICTURE[1] + GAP + 20)
            parts.append(f'<g transform="translate({left} {top})">{picture(f"{title}, k = {k}", series, scale)}</g>')
    return "".join(parts) + "</svg>\n"


def curves(cells, k):
    """(title, {back end: [(label, ratio)]}) of each picture."""
    sizes = {(n, size, before, after): cell for (kind, n, k0, size, before, after), cell in cells.items()
             if (kind, k0) == ("software", k)}
    by_group = {str(n): cell for (n, *rest), cell in sizes.items() if rest == [USUAL_BYTES, BEFORE, AFTER]}
    by_size = {str(size): cell for (n, size, *rest), cell in sizes.items() if (n, *rest) == (USUAL_N, BEFORE, AFTER)}
    by_private = {f"{before}+{after}": cell for (n, size, before, after), cell in
                  sorted(sizes.items(), key=lambda item: sum(item[0][2:])) if (n, size) == (USUAL_N, USUAL_BYTES)}
    for title, chosen in (("recipients", by_group), (f"payload bytes, {USUAL_N} recipients", by_size),
                          (f"private bytes before+after, {USUAL_N} recipients", by_private)):
        yield title, {name: [(label, ratio(cell, name)) for label, cell in chosen.items()] for name in COLOURS}


def picture(title, series, top):
    width, height = PICTURE
    series = {name: points for name, points in series.items() if any(value is not None for _, value in points)}
    step = 0.5 if top <= 3 else 1
    y = lambda value: height - height * value / top
    parts = [f'<text x="0" y="-12" font-size="14" fill="#101828">by {html.escape(title)}</text>']
    tick = 0
    while tick <= top:
        parts.append(f'<line x1="0" x2="{width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#e4e7ec"/>')
        parts.append(f'<text x="-8" y="{y(tick) + 4.5:.1f}" text-anchor="end">{tick:g}x</text>')
        tick += step
    parts.append(f'<line x1="0" x2="{width}" y1="{y(1):.1f}" y2="{y(1):.1f}" stroke="#667085" stroke-dasharray="5 4"/>')
    labels = [label for label, _ in next(iter(series.values()), [])]
    x = lambda index: 24 + (width - 48) * index / max(1, len(labels) - 1)
    for index, label in enumerate(labels):
        parts.append(f'<text x="{x(index):.1f}" y="{height + 20}" text-anchor="middle">{label}</text>')
    for name, points in series.items():
        known = [(x(index), y(value), label, value) for index, (label, value) in enumerate(points) if value is not None]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py, *_ in known)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[name]}" stroke-width="2.5"/>')
        for px, py, label, value in known:
            dot = f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{COLOURS[name]}">'
            parts.append(f"{dot}<title>{name}, {label}: {value:.2f}x</title></circle>")
    return "".join(parts)
