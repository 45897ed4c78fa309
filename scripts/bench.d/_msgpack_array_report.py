"""What scripts/bench msgpack-array makes of its figures: which goals are reached, a chart and the tables."""

import datetime
import html
import math
import os
import pathlib
import platform
import re

from _bench import say

BEST = "avx512"
# Instruction sets and others, by what they are drawn in.
COLOURS = {"avx512": "#1570ef", "avx2": "#0e9384", "sse": "#9e77ed", "neon": "#1570ef", "scalar": "#98a2b3",
           "cxx": "#b42318", "rmp-serde": "#e8730c", "memcpy": "#101828", "nt-copy": "#101828"}
TYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "bool"]
HUGE = 16 << 20
# Times rmp's speed: (op, values, n, type).
GOALS = {
    **{("encode", "random", 1024, name): goal for name, goal in
       {"i8": 60, "i16": 35, "i32": 30, "u32": 15, "i64": 12, "f32": 10, "f64": 8}.items()},
    **{("encode", "random", HUGE, name): goal for name, goal in
       {"i8": 60, "i16": 25, "i32": 18, "u32": 8, "i64": 9, "f32": 4.5, "f64": 2.2}.items()},
    **{("decode", "random", 1024, name): goal for name, goal in
       {"f64": 10, "f32": 14, "i8": 10, "i16": 10, "u8": 10, "u16": 10, "u32": 10, "u64": 10}.items()},
    ("decode", "one_width", 1024, "i32"): 30,
    ("decode", "mixed", 1024, "i32"): 6,
    ("encode", "random", 64, "f64"): 2.5,
    ("decode", "random", 64, "f64"): 2.5,
}
WHEEL_GOALS = {"vs_msgpack": 10, "vs_msgspec": 4}


class Figures:
    """The lines of both programs, by case."""

    def __init__(self, lines):
        # {(op, values, n, type): {contender: ns per element}}, every instruction set a contender too.
        self.ns = {}
        # {(op, n, type): {contender: ns per element}}
        self.wheel = {}
        self.skipped = [line for line in lines if line.startswith("SKIPPED")]
        for line in lines:
            head, found, tail = line.partition(", ns per element: ")
            if not found:
                continue
            key = dict(re.findall(r"(\w+)=(\S+)", head))
            contenders = {name: float(ns) for name, ns in re.findall(r"(\S+) (\d+\.\d+)", tail)}
            if head.startswith("wheel "):
                self.wheel[key["op"], int(key["n"]), key["type"]] = contenders
            else:
                self.ns[key["op"], key["values"], int(key["n"]), key["type"]] = contenders

    def vs_rmp(self, key, name):
        """Times rmp's speed, or None."""
        cell = self.ns.get(key, {})
        return cell["rmp"] / cell[name] if name in cell and "rmp" in cell else None

    def isas(self):
        present = {name for cell in self.ns.values() for name in cell}
        return [name for name in ("avx512", "avx2", "sse", "neon", "scalar") if name in present]


def goals(figures):
    """[(what, wanted, measured, reached)]; None where it was not measured."""
    found = []
    for key, goal in GOALS.items():
        found.append(ratio_goal(f"{BEST}: {words(key)}", goal, figures.vs_rmp(key, BEST)))
    half = [(figures.vs_rmp(key, "avx2") / figures.vs_rmp(key, BEST), key) for key in GOALS
            if figures.vs_rmp(key, "avx2") and figures.vs_rmp(key, BEST)]
    found.append(least_goal("avx2 by avx512, cases above", 0.5, half))
    half = [(figures.vs_rmp(key, "avx2") / goal, key) for key, goal in GOALS.items() if figures.vs_rmp(key, "avx2")]
    found.append(least_goal("avx2 by the goals of avx512", 0.5, half))
    scalar = [(figures.vs_rmp(key, "scalar"), key) for key in figures.ns if "scalar" in figures.ns[key]]
    found.append(least_goal("scalar, every case", 1, scalar))
    for isa in figures.isas():
        if isa != "scalar":
            short = [(figures.vs_rmp(key, isa), key) for key in figures.ns if key[2] == 64]
            found.append(least_goal(f"{isa}: 64 elements, every case", 1, short))
    for op in ("encode", "decode"):
        cell = figures.wheel.get((op, 1024, "f64"), {})
        for name, goal in WHEEL_GOALS.items():
            other = cell.get(name.removeprefix("vs_"))
            found.append(ratio_goal(f"wheel: {op} f64 1024 {name}", goal, other / cell["ours"] if other else None))
    return found


def words(key):
    op, values, n, name = key
    return f"{op} {name} {values} {size(n)}"


def size(n):
    return f"{n >> 20} Mi" if n >= 1 << 20 else str(n)


def rounded_down(value):
    """So that what is printed as reached is reached."""
    return f"{math.floor(value * 100) / 100:.2f}x"


def ratio_goal(label, goal, value):
    return (label, f">= {goal:g}x", "", None) if value is None else (label, f">= {goal:g}x", rounded_down(value), value >= goal)


def least_goal(label, goal, ratios):
    """All of them have to reach it; the least one is named."""
    if not ratios:
        return (label, f">= {goal:g}x", "", None)
    least, key = min(ratios)
    below = sum(value < goal for value, _ in ratios)
    count = f", {below} of {len(ratios)} below" if below else ""
    return (label, f">= {goal:g}x", f"{rounded_down(least)} ({words(key)}{count})", below == 0)


def print_goals(found):
    width = max(len(label) for label, *_ in found)
    for label, wanted, measured, reached in found:
        say(f"{label:{width}}  {wanted:>8}  {verdict(reached):13} {measured}")


def verdict(reached):
    return {True: "reached", False: "NOT reached", None: "not measured"}[reached]


def write(folder, figures, small_pages, found):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "msgpack-array.svg").write_text(chart(figures))
    (folder / "msgpack-array.md").write_text(page(figures, small_pages, found))
    say(f"chart and tables: {folder}/msgpack-array.svg, .md")


def page(figures, small_pages, found):
    machine = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    lines = [
        "# What an element of an array of numbers costs in MessagePack",
        "",
        f"Measured {datetime.date.today()} by `scripts/bench msgpack-array` on {machine[1] if machine else platform.machine()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}. Written by that command; do not edit.",
        "",
        "Times the speed of `rmp`, which goes element by element through a vector with room for all; everyone else is used in",
        "its best way too. Many different arrays in rotation: one array repeated trains the branch predictor and makes a",
        "scalar contender nearly three times faster than it is. `libs/msgpack-array/bench` has the definitions. JavaScript has",
        "[a page of its own](msgpack-array-js.md).",
        "",
        "![Speed against rmp by type, length and instruction set](msgpack-array.svg)",
        "",
        "| goal | wanted | measured | |",
        "|---|---|---|---|",
        *(f"| {label} | {wanted} | {measured} | {verdict(reached)} |" for label, wanted, measured, reached in found),
        "",
        *(f"- {line}" for line in figures.skipped),
        *([""] if figures.skipped else []),
        "## Nanoseconds per element",
        "",
        "`with` is a field `#[serde(with = \"msgpack_array::serde\")]` in rmp-serde by `encode::write` and",
        "`msgpack_array::serde::from_slice`, `with-plain` by `to_vec` and `from_slice` of rmp-serde, where it goes element by",
        "element. `memcpy` and `nt-copy` (past the caches) copy the encoded bytes. msgpack-cxx (`cxx`) looks at each float whether",
        "it is an integer, and writes it as one.",
        "",
        *tables(figures),
        *small_pages_tables(small_pages),
        *wheel_table(figures),
    ]
    return "\n".join(lines)


def tables(figures):
    """One for each length and operation."""
    order = [*figures.isas(), "rmp", "rmp-serde", "with", "with-plain", "cxx", "memcpy", "nt-copy"]
    for n in sorted({key[2] for key in figures.ns}):
        for op in ("encode", "decode"):
            rows = {key: cell for key, cell in figures.ns.items() if (key[0], key[2]) == (op, n)}
            if not rows:
                continue
            names = [name for name in order if any(name in cell for cell in rows.values())]
            yield from (f"{op.capitalize()}, {size(n)} elements:", "", "```")
            yield f"{'type':6}{'values':11}" + "".join(f"{name:>11}" for name in names)
            for (_, values, _, name), cell in rows.items():
                yield f"{name:6}{values:11}" + "".join(f"{cell[each]:11.4f}" if each in cell else " " * 11 for each in names)
            yield from ("```", "")


def small_pages_tables(figures):
    if figures.ns:
        yield from ("Long arrays are in huge pages where the kernel has some for who asks. The same in pages of 4 KiB:", "")
        yield from tables(figures)


def wheel_table(figures):
    if not figures.wheel:
        return
    names = ["ours", "msgpack", "msgspec"]
    yield from ("## The wheel", "", "Nanoseconds per element; of ours a NumPy array, of the others a list.", "", "```")
    yield f"{'':8}{'type':6}{'n':>8}" + "".join(f"{name:>10}" for name in names)
    for (op, n, name), cell in figures.wheel.items():
        yield f"{op:8}{name:6}{size(n):>8}" + "".join(f"{cell[each]:10.4f}" for each in names)
    yield from ("```", "")


# A row of pictures for each operation, a picture for each length, a column of dots for each type.
PICTURE = (400, 270)
MARGIN_LEFT, MARGIN_TOP, GAP_X, GAP_Y = 60, 100, 54, 64
LEAST = 0.1
TICKS = [0.1, 0.3, 1, 3, 10, 30, 100]


def chart(figures):
    sizes = sorted({key[2] for key in figures.ns})
    width = MARGIN_LEFT + len(sizes) * (PICTURE[0] + GAP_X)
    height = MARGIN_TOP + 2 * (PICTURE[1] + GAP_Y)
    shown = [*figures.isas(), "rmp-serde", "cxx"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="#344054">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="24" y="34" font-size="19" fill="#101828">Speed as a multiple of rmp, random values</text>',
    ]
    x = 30
    for name in [*shown, "copy"]:
        parts.append(mark(x, 58, name) + f'<text x="{x + 12}" y="63">{name}</text>')
        x += 46 + 8 * len(name)
    for row, op in enumerate(("encode", "decode")):
        for column, n in enumerate(sizes):
            left = MARGIN_LEFT + column * (PICTURE[0] + GAP_X)
            top = MARGIN_TOP + 18 + row * (PICTURE[1] + GAP_Y)
            parts.append(f'<g transform="translate({left} {top})">{picture(figures, op, n, shown)}</g>')
    return "".join(parts) + "</svg>\n"


def picture(figures, op, n, shown):
    width, height = PICTURE
    top = max([100, *(figures.vs_rmp(key, name) or 0 for key in figures.ns for name in shown)]) * 1.15
    y = lambda value: height - height * math.log(max(value, LEAST) / LEAST) / math.log(top / LEAST)
    parts = [f'<text x="0" y="-10" font-size="14" fill="#101828">{op}, {size(n)} elements</text>']
    for tick in TICKS:
        colour = "#667085" if tick == 1 else "#e4e7ec"
        parts.append(f'<line x1="0" x2="{width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="{colour}"/>')
        parts.append(f'<text x="-8" y="{y(tick) + 4.5:.1f}" text-anchor="end">{tick:g}x</text>')
    for index, name in enumerate(TYPES):
        x = 22 + (width - 44) * index / (len(TYPES) - 1)
        key = (op, "random", n, name)
        parts.append(f'<text x="{x:.1f}" y="{height + 20}" text-anchor="middle">{name}</text>')
        cell = figures.ns.get(key, {})
        copies = [cell[each] for each in ("memcpy", "nt-copy") if each in cell]
        dots = [(each, figures.vs_rmp(key, each)) for each in reversed(shown)]
        if copies:
            dots.insert(0, ("copy", cell["rmp"] / min(copies)))
        for each, value in dots:
            if value:
                title = html.escape(f"{each}, {op} {name}, {size(n)}: {value:.2f}x")
                # Beyond the scale only copies are, of the shortest types.
                parts.append(f"<g>{mark(x, y(min(value, top)), each)}<title>{title}</title></g>")
    return "".join(parts)


def mark(x, y, name):
    """A dot for ours, a ring for others, a dash for the copy."""
    colour = COLOURS.get(name, "#101828")
    if name == "copy":
        return f'<line x1="{x - 9:.1f}" x2="{x + 9:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="1.5"/>'
    if name in ("cxx", "rmp-serde"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#ffffff" fill-opacity="0" stroke="{colour}" stroke-width="1.8"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
