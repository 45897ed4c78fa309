"""libsrtp's source, from Debian, and libsrtp built with another list of streams.

Where Debian's source packages are is read from this machine's own configuration of apt, and apt checks their
signatures. Nothing of it enters the repository.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile

from _bench import say

# The tests of libsrtp that link the library as it is; test_srtp compiles srtp.c itself, with its own list.
DRIVERS = ["srtp_driver", "rdbx_driver", "roc_driver", "replay_driver"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


class Missing(Exception):
    """libsrtp cannot be had here."""


def source(folder):
    """Path of libsrtp's source, with the interface of its list; fetched into `folder` the first time."""
    folder = pathlib.Path(folder)
    for known in folder.glob("libsrtp-*/include/stream_list_priv.h"):
        return known.parents[1]
    if not shutil.which("apt-get"):
        raise Missing("apt-get is not here, and libsrtp's source is taken from Debian")
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text("\n".join(deb_src_lines()) + "\n")
    options = [f"-oDir::Etc::sourcelist={folder}/sources.list", "-oDir::Etc::sourceparts=/dev/null",
               f"-oDir::State::lists={lists}", "-oAPT::Sandbox::User=root", "-q"]
    for command in (["update"], ["source", "--download-only", "libsrtp2"]):
        done = subprocess.run(["apt-get", *options, *command], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"apt-get {command[0]}: {done.stderr.strip()[-300:]}")
    archives = sorted(folder.glob("libsrtp2_*.orig.tar.*"))
    if not archives:
        raise Missing("the source package has no archive")
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(folder, filter="data")
    for known in folder.glob("libsrtp-*/include/stream_list_priv.h"):
        return known.parents[1]
    raise Missing(f"{archives[-1].name} has no interface of its list of streams: 2.5 is the first that does")


def deb_src_lines():
    """Where this machine has its packages from, as sources."""
    lines = []
    for file in pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"):
        for part in file.read_text().split("\n\n"):
            fields = dict(re.findall(r"^(\S+):\s*(.+)$", part, re.MULTILINE))
            if "deb" in fields.get("Types", "") and "main" in fields.get("Components", ""):
                signed = f" [signed-by={fields['Signed-By']}]" if "Signed-By" in fields else ""
                for uri in fields["URIs"].split():
                    lines += [f"deb-src{signed} {uri} {suite} main" for suite in fields["Suites"].split()]
    apt = pathlib.Path("/etc/apt")
    for file in [apt / "sources.list", *apt.glob("sources.list.d/*.list")]:
        if file.exists():
            lines += re.findall(r"^deb-src .*$|^deb (?=.*\bmain\b).*$", file.read_text(), re.MULTILINE)
    return [re.sub(r"^deb ", "deb-src ", line) for line in lines]


class Build:
    """libsrtp, compiled once; only its srtp.c and the list differ from one contender to the next."""

    def __init__(self, source, folder):
        self.source, self.folder = source, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "libsrtp2.a").exists():
            say(f"building {source.name}")
            configure = [str(source / "configure"), "CFLAGS=-O2"]
            if self.compiles("#include <openssl/evp.h>", "-lcrypto"):
                configure.append("--enable-openssl")
            self.run(configure)
            self.run(["make", "--quiet", "libsrtp2.a"])
        make = (self.folder / "Makefile").read_text()
        self.libraries = re.search(r"^LIBS\s*=\s*(.*)$", make, re.MULTILINE).group(1).split()
        self.includes = ["-DHAVE_CONFIG_H", f"-I{self.folder}/crypto/include", f"-I{self.folder}",
                         f"-I{source}/include", f"-I{source}/crypto/include", f"-I{source}/test"]

    def compiles(self, text, *options):
        command = ["cc", "-xc", "-", "-o", "/dev/null", "-Wl,--unresolved-symbols=ignore-all", *options]
        program = text + "\nint main(void) { return 0; }\n"
        return subprocess.run(command, input=program, capture_output=True, text=True).returncode == 0

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"{' '.join(map(str, command[:3]))}: {(done.stdout + done.stderr)[-2000:]}")

    def linked(self, name, list_source=None, flags=(), static_library=None, callers=()):
        """The library with another list, or its own; the arguments that link a program with it. `callers` are flags for
        what calls the list."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        shutil.copy(self.folder / "libsrtp2.a", place / "libsrtp2.a")
        objects = []
        if list_source:
            objects = [place / "srtp.o", place / "list.o"]
            self.run(["cc", "-O2", "-fPIC", *self.includes, "-DSRTP_NO_STREAM_LIST", *callers, "-c",
                      self.source / "srtp/srtp.c", "-o", objects[0]])
            self.run(["cc", "-O2", "-fPIC", "-std=c99", *WARNINGS, *self.includes, *flags, "-c", list_source,
                      "-o", objects[1]])
            self.run(["ar", "d", place / "libsrtp2.a", "srtp.o"])
            self.run(["ar", "r", place / "libsrtp2.a", *objects])
        return [place / "libsrtp2.a", *([static_library] if static_library else []), *self.libraries,
                "-lpthread", "-ldl", "-lm"]

    def program(self, name, sources, link, flags=()):
        place = self.folder / name
        self.run(["cc", "-O2", *self.includes, *flags, *sources, "-o", place, *link])
        return place

    def passed(self, name, link):
        """Runs libsrtp's own tests; the names of those that passed."""
        passed = []
        for driver in DRIVERS:
            files = [f"{driver}.c", "util.c", "getopt_s.c", "ut_sim.c"]
            sources = [self.source / "test" / file for file in files]
            program = self.program(f"{name}/{driver}", sources, link)
            done = subprocess.run([program, "-v"], cwd=self.folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=300)
            if done.returncode == 0:
                passed.append(driver)
            else:
                say(f"{name}: {driver} ended with {done.returncode}: {done.stdout[-500:]}")
        return passed


def cpu_has(flag):
    """Whether this machine's processor has an instruction set, by its name in /proc/cpuinfo."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        return flags is not None and flag in flags.group(1).split()
    except OSError:
        return False


def environment(**variables):
    """This process's environment with some variables changed."""
    return {**os.environ, **variables}
