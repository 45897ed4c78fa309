"""Where the time of scripts/bench relay goes, by samples of the origin's core (perf record -e cpu-clock).

The origin switches sampling on while it measures time, and only then. Samples of its process and of its
core's soft interrupt thread are what its meter counts; each is of one kind:

own        the process's own code and the C library's, but for the stubs of system calls: sealing, lists, loops
interrupt  waking the other core when it has nothing to do. In a virtual machine that leaves the guest
cable      else within the virtual cable: handing a frame to the other core, and soft interrupts on the origin's core. On a
           real cable a network card's driver is there instead
send       all other time in the kernel, and the stubs: the send path
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

FREQUENCY = 5000
KINDS = ("own", "interrupt", "cable", "send")
INTERRUPT = ("native_write_msr", "x2apic_send_IPI", "native_send_call_func_single_ipi", "__smp_call_single_queue")
CABLE = ("veth_xmit", "handle_softirqs", "__do_softirq", "run_ksoftirqd")
RECEIVES = ("ip_rcv", "ip_list_rcv", "udp_queue_rcv_skb")
STUBS = ("sendmsg", "sendmmsg", "sendto", "syscall", "__libc_send")


def problem():
    if not shutil.which("perf"):
        return "perf is not installed"
    if os.geteuid() != 0:
        return "needs root, to look into the kernel"
    done = subprocess.run(["perf", "record", "-q", "-e", "cpu-clock", "-C", "0", "-o", "/dev/null", "--", "true"], capture_output=True)
    return "perf may not sample a core" if done.returncode else None


class Profile:
    """Samples of a core between `begin` and `end`, as far as the origin has them taken."""

    def __init__(self, core):
        self.folder = tempfile.TemporaryDirectory(prefix="relay-profile-")
        self.core = core
        folder = pathlib.Path(self.folder.name)
        self.data, self.commands, self.answers = (folder / name for name in ("data", "commands", "answers"))
        os.mkfifo(self.commands)
        os.mkfifo(self.answers)

    def arguments(self):
        """Of the origin."""
        return ["--profiler", f"{self.commands},{self.answers}"]

    def begin(self):
        """Once the origin runs, so that its symbols are found."""
        command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-C", self.core, "-g", "-D", "-1"]
        command += ["--control", f"fifo:{self.commands},{self.answers}", "-o", self.data]
        self.perf = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        with open(self.commands, "r+b", buffering=0) as commands, open(self.answers, "r+b", buffering=0) as answers:
            commands.write(b"ping\n")
            answers.read(5)

    def end(self):
        """{kind: part of all}, and `receives`: the part that is work of a receiver."""
        self.perf.send_signal(signal.SIGINT)
        self.perf.wait()
        command = ["perf", "script", "-i", self.data, "-F", "comm,ip,sym"]
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        self.folder.cleanup()
        return shares(text)


def shares(text):
    counts = dict.fromkeys((*KINDS, "receives"), 0)
    for sample in text.split("\n\n"):
        comm, *stack = sample.strip("\n").split("\n")
        if not stack or not comm.strip().startswith(("relay-bench", "ksoftirqd", "iou-")):
            continue
        frames = [line.split(maxsplit=1) for line in stack]
        symbols = [frame[1] if len(frame) > 1 else "" for frame in frames]
        counts[kind(comm.strip(), frames[0][0], symbols)] += 1
        counts["receives"] += any(symbol.startswith(RECEIVES) for symbol in symbols)
    whole = sum(counts[kind] for kind in KINDS)
    return {name: count / whole if whole else float("nan") for name, count in counts.items()} | {"samples": whole}


def kind(comm, address, symbols):
    """Of a sample, whose innermost function comes first."""
    if any(symbol.startswith(INTERRUPT) for symbol in symbols):
        return "interrupt"
    if comm.startswith("ksoftirqd") or any(symbol.startswith(CABLE) for symbol in symbols):
        return "cable"
    in_kernel = len(address) == 16 and address.startswith("ffff")
    return "send" if in_kernel or any(stub in symbols[0] for stub in STUBS) else "own"
