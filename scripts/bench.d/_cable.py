"""Two hosts made of network namespaces, joined by a cable whose far end drops everything and counts it.

A veth has no wire. Without more ado it hands a frame to the peer's queue of the same core, and a soft interrupt works
it off before the sender's system call returns, at the sender's cost; that stands for the driver's work. So the far end
drops as early as it can, in a classifier at its ingress. Dropping in XDP would be dearer (a veth copies each socket
buffer into a page first: 1.15 instead of 1.05 us a datagram), as would a thread of the other core that the frames have
to go to (1.3 us).

The namespaces are named after this process. Those that a killed run left behind are removed by the next one.
"""

import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

PREFIX = "group-send-bench"
# One instruction of the classic Berkeley filter: return 2, which is TC_ACT_SHOT.
DROP = "1,6 0 0 2"


class Cable:
    """From near0 to far0; 10.77.0.0/16 is behind it and a router."""

    ROUTER, ROUTER_MAC = "10.76.0.2", "02:00:00:00:00:02"

    def __init__(self):
        remove_leftovers()
        self.near, self.far = f"{PREFIX}-{os.getpid()}-near", f"{PREFIX}-{os.getpid()}-far"
        atexit.register(self.remove)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
        for host in (self.near, self.far):
            command("ip", "netns", "add", host)
            command("ip", "-n", host, "link", "set", "lo", "up")
            # Router solicitations would be counted.
            for which in ("all", "default"):
                run_in(host, "sh", "-c", f"echo 1 > /proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        self.lay()

    def lay(self):
        near, far = ["ip", "-n", self.near], ["ip", "-n", self.far]
        command(*near, "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", self.far)
        command(*near, "addr", "add", "10.76.0.1/24", "dev", "near0")
        command(*far, "link", "set", "far0", "address", self.ROUTER_MAC, "up")
        command(*near, "link", "set", "near0", "up")
        command(*near, "neigh", "add", self.ROUTER, "lladdr", self.ROUTER_MAC, "dev", "near0", "nud", "permanent")
        command(*near, "route", "add", "10.77.0.0/16", "via", self.ROUTER)
        run_in(self.far, "tc", "qdisc", "add", "dev", "far0", "clsact")
        run_in(self.far, "tc", "filter", "add", "dev", "far0", "ingress", "bpf", "da", "bytecode", DROP)
        self.device_segments(False)

    def device_segments(self, enabled):
        """Whether the interface takes runs of datagrams whole, as devices with UDP segmentation do."""
        run_in(self.near, "ethtool", "-K", "near0", "tx-udp-segmentation", "on" if enabled else "off")

    def refuse(self):
        """From now on the far device takes no frame of more than 82 bytes: the veth drops it in the sender's hands."""
        command("ip", "-n", self.far, "link", "set", "far0", "mtu", "68")

    def dropped(self):
        """(packets, bytes) that reached the far end's classifier and were dropped there."""
        out = run_in(self.far, "tc", "-s", "-j", "qdisc", "show", "dev", "far0", "clsact")
        (counters,) = [qdisc for qdisc in json.loads(out) if qdisc["kind"] == "clsact"]
        return counters["drops"], counters["bytes"]

    def remove(self):
        for host in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", host], stderr=subprocess.DEVNULL)


def problem():
    """Installs what it takes if it may; returns why there can be no cable, or None."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return install({"ip": "iproute2", "tc": "iproute2", "ethtool": "ethtool"})


def install(packages):
    """Installs the packages of tools that are missing if it may; returns what is missing then, or None."""
    missing = sorted({package for tool, package in packages.items() if not shutil.which(tool)})
    if missing and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        apt = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
        subprocess.run(apt, env=environment, stdout=subprocess.DEVNULL)
        missing = [tool for tool in packages if not shutil.which(tool)]
    return f"{', '.join(missing)} not installed" if missing else None


def remove_leftovers(prefix=PREFIX):
    for host in pathlib.Path("/run/netns").glob(f"{prefix}-*-*"):
        pid = host.name.removeprefix(f"{prefix}-").split("-")[0]
        if not pathlib.Path("/proc", pid).exists():
            subprocess.run(["ip", "netns", "del", host.name], stderr=subprocess.DEVNULL)


def run_in(host, *arguments):
    return command("ip", "netns", "exec", host, *arguments)


def command(*arguments):
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(arguments)}\n{done.stderr.strip()}")
    return done.stdout
