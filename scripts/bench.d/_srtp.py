"""What the two SRTP benchmarks share: libsrtp's package, the build, one run on one core, and the chart."""

import argparse
import html
import os
import pathlib
import re
import shutil
import subprocess
import sys

from _bench import LOAD_CORE, ROOT, run, say

MANIFEST = ROOT / "crates" / "srtp" / "compare" / "Cargo.toml"
# Debian packages of what the contenders link, and a file of each.
HEADERS = {
    "libsrtp2-dev": pathlib.Path("/usr/include/srtp2/srtp.h"),
    "libssl-dev": pathlib.Path("/usr/include/openssl/ssl.h"),
}
# How the programs print a case for people:
# `what, ns: contender 12.3 (spread 15 %), contender 45.6; 99 samples`.
CASE = re.compile(r"^(.*), ns: (.*); (\d+) samples$")
FIGURE = re.compile(r"(\S+(?: x\d+)?) (\d+\.\d)(?: \(spread (\d+) %\))?(?:, |$)")


def main(docstring, name, binary, quick_ms):
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-build", action="store_true", help="take the program as it is")
    parser.add_argument("--core", default=LOAD_CORE if (os.cpu_count() or 1) > 1 else "0", help="which core measures")
    parser.add_argument("--html", help="where the chart goes")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="measure only cases that have every TEXT in their name: what RESULT prints of them, such as "
                             "AEAD_AES_128_GCM, op=protect, bytes=1200 (srtp), AES-128-GCM, AES-256-CM (srtp-ciphers)")
    options = parser.parse_args()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    if not options.no_build:
        install_libraries()
        say("building")
        command = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", str(MANIFEST)]
        run([*command, "--features", "bench", "--target-dir", str(target)])
    command = [str(target / "release" / binary), "--core", options.core]
    command += ["--case-ms", str(quick_ms if options.quick else 5 * quick_ms)]
    command += [part for text in options.only for part in ("--only", text)]
    cases, last = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            line = line.rstrip("\n")
            if line.startswith(("RESULT", "SKIPPED")):
                last.append(line)
                continue
            say(line)
            if case := CASE.match(line):
                cases.append((case[1], [(label, float(ns)) for label, ns, _ in FIGURE.findall(case[2])]))
    if process.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")
    if not last:
        sys.exit(f"no case has all of: {' '.join(options.only)} (see --help)")
    if not options.quick:
        page = pathlib.Path(options.html or target / f"{name}.html")
        page.write_text(chart_page(docstring.splitlines()[0], cases))
        say(f"chart: {page}")
    for line in last:
        say(line)


def install_libraries():
    """Installs what the comparison links, if it may."""
    if all(file.exists() for file in HEADERS.values()) and shutil.which("pkg-config"):
        return
    packages = [*HEADERS, "pkg-config"]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing {' '.join(packages)}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
    missing = [package for package, file in HEADERS.items() if not file.exists()]
    if missing:
        names = " ".join(missing)
        sys.exit(f"{names} not installed: sudo apt-get install --no-install-recommends {names}")


def chart_page(question, cases):
    """A bar per contender, shortest first, in a group per case. Bars end at four times ours, or they hide it."""
    rows = []
    for what, figures in cases:
        rows.append(f"<h2>{html.escape(what)}</h2>")
        full = 4 * figures[0][1]
        for label, ns in sorted(figures, key=lambda figure: figure[1]):
            colour = "#1570ef" if label.startswith("ours") else "#98a2b3"
            more = " &raquo;" if ns > full else ""
            width = 100 * min(ns, full) / full
            bar = f'<i style="width:{width:.1f}%;background:{colour}"></i>'
            rows.append(f"<p><b>{html.escape(label)}</b><span>{bar}</span>{ns:.1f} ns{more}</p>")
    style = (
        "body{font:14px sans-serif;max-width:60em;margin:2em auto}h2{font-size:1em;margin:1.2em 0 .3em}p{display:flex;"
        "margin:1px}b{width:13em;font-weight:normal}span{width:30em}i{display:block;height:1em}"
    )
    title = html.escape(question)
    return f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{style}</style><h1>{title}</h1>{''.join(rows)}"
