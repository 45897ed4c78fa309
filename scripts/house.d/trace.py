"""Follows media through a running server: which functions run between the socket's read and the socket's write.

The server is the debug build as it is, nothing in it knows of this. Its worker thread is stopped at system calls, by
ptrace. Each time it returns from `epoll_wait`, the first instruction of every function of our crates is replaced by a
breakpoint; one that is hit is noted, removed and gone on from, until the worker waits again. That gives the functions
of one turn of the loop in the order in which they are first called. Turns that read media and write it on are put
together, and what runs in most of them is the path of a packet or frame in the steady state: no key frame, no timer.

x86-64 Linux, one worker, no optimisation (nothing is inlined). Needs `nm` and `addr2line` of binutils.
"""

import ctypes
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time

SEIZE, CONT, SYSCALL, GETREGS, SETREGS, INTERRUPT, LISTEN, DETACH = 0x4206, 7, 24, 12, 13, 0x4207, 0x4208, 17
TRACE_SYSGOOD, TRACE_CLONE = 1, 8
WALL = 0x40000000
EVENT_STOP = 128

READS = {0: "read", 19: "readv", 45: "recvfrom", 47: "recvmsg", 299: "recvmmsg"}
WRITES = {1: "write", 20: "writev", 44: "sendto", 46: "sendmsg", 307: "sendmmsg"}
WAITS = {232, 281, 441}


class Registers(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ulonglong)
        for name in (
            "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"
        ).split()
    ]


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def ptrace(request, thread, address=0, data=0):
    if LIBC.ptrace(request, thread, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace {request:#x}: {os.strerror(number)}")


def problem():
    """Why this machine cannot trace, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "tracing is written for x86-64 Linux"
    for tool in ("nm", "addr2line"):
        if subprocess.run(["which", tool], capture_output=True).returncode:
            return f"{tool} (binutils) is missing"
    return None


def function_starts(binary, crates):
    """Offsets, in the file's image, of functions that have to do with `crates`, by the names of symbols."""
    symbols = subprocess.run(["nm", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    ours = re.compile("|".join(rf"(?<![a-z_]){crate}(?:\.\.|\d|17h)" for crate in crates))
    words = (line.split() for line in symbols.splitlines())
    return {int(offset, 16) for offset, kind, name in words if kind in "tTwW" and ours.search(name)}


def places(binary, offsets):
    """Source file and line of offsets."""
    offsets = sorted(offsets)
    asked = "\n".join(f"{offset:#x}" for offset in offsets)
    answer = subprocess.run(["addr2line", "-e", binary], input=asked, capture_output=True, text=True, check=True).stdout
    found = {}
    for offset, place in zip(offsets, answer.splitlines()):
        if match := re.match(r"(.*):(\d+)", place):
            found[offset] = (match.group(1), int(match.group(2)))
    return found


class Tracer:
    """One traced process and its worker thread."""

    def __init__(self, pid, binary, starts):
        self.pid = pid
        mapped = (line for line in open(f"/proc/{pid}/maps") if line.rstrip().endswith(os.path.realpath(binary)))
        self.base = int(next(mapped).split("-")[0], 16)
        self.starts = {self.base + offset for offset in starts}
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.original = {address: os.pread(self.memory.fileno(), 1, address) for address in self.starts}
        self.threads = set()
        self.worker = None
        self.armed = set()

    def attach(self):
        deadline = time.monotonic() + 20
        while self.worker is None:
            if time.monotonic() > deadline:
                raise RuntimeError("no thread of the server is named `worker...`")
            time.sleep(0.2)
            for name in os.listdir(f"/proc/{self.pid}/task"):
                thread = int(name)
                if thread in self.threads:
                    continue
                try:
                    named = pathlib.Path(f"/proc/{self.pid}/task/{name}/comm").read_text()
                    ptrace(SEIZE, thread, 0, TRACE_SYSGOOD | TRACE_CLONE)
                except OSError:
                    continue
                self.threads.add(thread)
                if named.startswith("worker"):
                    self.worker = thread
        ptrace(INTERRUPT, self.worker)

    def arm(self):
        for address in self.starts - self.armed:
            os.pwrite(self.memory.fileno(), b"\xcc", address)
        self.armed = set(self.starts)

    def disarm(self):
        for address in self.armed:
            os.pwrite(self.memory.fileno(), self.original[address], address)
        self.armed = set()

    def turns(self, seconds):
        """Yields each turn of the worker's loop: offsets of functions, and system calls as (name, descriptor, result)."""
        deadline = time.monotonic() + seconds
        events, inside, armed_once = [], None, False
        while time.monotonic() < deadline:
            thread, status = os.waitpid(-1, WALL | os.WNOHANG)
            if thread == 0:
                time.sleep(0.0002)
                continue
            if not os.WIFSTOPPED(status):
                if thread == self.pid:
                    raise RuntimeError("the server ended while it was traced")
                self.threads.discard(thread)
                continue
            number, event = os.WSTOPSIG(status), status >> 16
            resume = SYSCALL if thread == self.worker else CONT
            deliver = 0
            if number == signal.SIGTRAP | 0x80:
                registers = self.registers(thread)
                if inside is None:
                    inside = (registers.orig_rax, registers.rdi)
                    if registers.orig_rax in WAITS and armed_once:
                        # Nothing of the next turn is lost: it begins when this call returns.
                        yield events
                        events = []
                else:
                    call, descriptor = inside
                    inside = None
                    result = ctypes.c_longlong(registers.rax).value
                    if call in WAITS:
                        self.arm()
                        armed_once = True
                    elif (name := READS.get(call) or WRITES.get(call)) and armed_once:
                        events.append((name, descriptor, result))
            elif number == signal.SIGTRAP and event == 0:
                registers = self.registers(thread)
                address = registers.rip - 1
                if address in self.starts:
                    os.pwrite(self.memory.fileno(), self.original[address], address)
                    self.armed.discard(address)
                    registers.rip = address
                    ptrace(SETREGS, thread, 0, ctypes.addressof(registers))
                    if thread == self.worker:
                        events.append(address - self.base)
                else:
                    deliver = number
            elif event == EVENT_STOP and number in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
                resume = LISTEN
            elif event == 0:
                deliver = number
            self.threads.add(thread)
            try:
                ptrace(resume, thread, 0, deliver)
            except OSError:
                self.threads.discard(thread)

    def registers(self, thread):
        registers = Registers()
        ptrace(GETREGS, thread, 0, ctypes.addressof(registers))
        return registers


def paths(turns, reads, writes, needed):
    """Turns from a read of media to the first write of media, put together, until there are `needed`.

    `reads` and `writes` say of a system call whether it is media. A path ends with that write; the reads stay in it.
    """
    found, open_path = [], None
    for turn in turns:
        calls = [event for event in turn if isinstance(event, tuple)]
        if any(map(reads, calls)):
            open_path = []
        if open_path is None:
            continue
        for event in turn:
            if isinstance(event, tuple) and writes(event):
                found.append(open_path)
                open_path = None
                break
            open_path.append(event)
        if len(found) == needed:
            break
    return found
