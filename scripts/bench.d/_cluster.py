"""A cluster in network namespaces: NATS and the clients in one, each node in its own, on two networks.

Clients and NATS reach a node by 10.78.0.0/24. What nodes send each other goes by 10.79.0.0/24 and nothing
else does, so that its bytes can be counted at an interface. The namespaces are named after this process;
those that a killed run left behind are removed by the next one.
"""

import atexit
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import time

import _cable
from _bench import SERVER_CORE, prefer
from _cable import command, remove_leftovers, run_in

PREFIX = "millstream-cluster"
CLIENTS, NODES = "10.78.0", "10.79.0"
# Clients are not on the server's own machine: they need one to publish.
TOKEN = "bench"


class Cluster:
    """NATS and nodes named `a`, `b`, `c` and so on. All of it ends with this process."""

    def __init__(self, bench, nodes, settings=""):
        self.bench = bench
        self.names = [chr(ord("a") + number) for number in range(nodes)]
        # What else a node's configuration has, below `[cluster]`.
        self.settings = settings
        self.processes = {}
        self.hub = f"{PREFIX}-{os.getpid()}-hub"
        remove_leftovers(PREFIX)
        atexit.register(self.remove)
        self.lay()
        self.secret = bench.directory / "cluster-secret"
        self.secret.write_text(secrets.token_hex(32) + "\n")
        self.secret.chmod(0o600)
        self.start_nats()
        for name in self.names:
            self.start_node(name)

    def lay(self):
        self.add_namespace(self.hub)
        for bridge, network in (("clients", CLIENTS), ("nodes", NODES)):
            command("ip", "-n", self.hub, "link", "add", bridge, "type", "bridge")
            command("ip", "-n", self.hub, "addr", "add", f"{network}.1/24", "dev", bridge)
            command("ip", "-n", self.hub, "link", "set", bridge, "up")
        for name in self.names:
            self.add_namespace(self.host(name))
            for bridge, network in (("clients", CLIENTS), ("nodes", NODES)):
                end = f"{bridge}-{name}"
                command("ip", "-n", self.hub, "link", "add", end, "type", "veth", "peer", "name", bridge, "netns", self.host(name))
                command("ip", "-n", self.hub, "link", "set", end, "master", bridge, "up")
                command("ip", "-n", self.host(name), "addr", "add", f"{network}.{self.number(name)}/24", "dev", bridge)
                command("ip", "-n", self.host(name), "link", "set", bridge, "up")

    def add_namespace(self, host):
        command("ip", "netns", "add", host)
        command("ip", "-n", host, "link", "set", "lo", "up")
        # Neighbour discovery would be counted.
        run_in(host, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")

    def host(self, name):
        return f"{PREFIX}-{os.getpid()}-{name}"

    def number(self, name):
        return 11 + self.names.index(name)

    def address(self, name):
        """Where clients reach a node."""
        return f"{CLIENTS}.{self.number(name)}"

    def start_nats(self):
        """Starts NATS, or starts it again."""
        folder = self.bench.directory / "nats"
        nats = [shutil.which("nats-server", path=os.environ["PATH"] + ":/usr/sbin"), "-js", "-a", f"{CLIENTS}.1"]
        self.processes["nats"] = self.start([*nats, "-sd", str(folder)], self.hub, core="1")

    def start_node(self, name):
        """Starts a node, or starts it again, and waits until it answers."""
        configuration = self.bench.directory / f"node-{name}.toml"
        configuration.write_text(self.configuration(name))
        serve = [self.bench.binary("millstream"), "serve", "--config", str(configuration)]
        self.processes[name] = process = self.start(serve, self.host(name), core=SERVER_CORE)
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and process.poll() is None:
            if self.get(name, "/readyz")[0] == 200:
                return
            time.sleep(0.05)
        sys.exit(f"node {name} did not start:\n{pathlib.Path(process.log_name).read_text()[-3000:]}")

    def configuration(self, name):
        here, between = self.address(name), f"{NODES}.{self.number(name)}"
        return f"""
[server]
workers = 1
[rtmp]
listen = "*:1935"
[http]
listen = "*:8080"
[rtc]
udp_listen = "{here}:8189"
[auth]
publish_token = "{TOKEN}"
manage = "loopback"
[cluster]
nats = ["nats://{CLIENTS}.1:4222"]
node_name = "{name}"
relay_listen = "{between}:8190"
relay_public_address = "{between}:8190"
secret_file = "{self.secret}"
{self.settings}
"""

    def start(self, program, host, core):
        process = self.bench.start(["ip", "netns", "exec", host, *program], None)
        # `taskset` of the benchmark put it on the server's core; its address is in a namespace that the
        # benchmark cannot connect to.
        subprocess.run(["taskset", "-a", "-p", "-c", core, str(process.pid)], stdout=subprocess.DEVNULL)
        prefer(process)
        return process

    def stop(self, name):
        """Asks politely."""
        self.bench.stop(self.processes.pop(name))

    def kill(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self.bench.running.remove(process)

    def in_hub(self, *program):
        """A client's command line."""
        return ["ip", "netns", "exec", self.hub, *program]

    def get(self, name, path):
        """(status, body) of a request to a node from its own machine; status 0 where nobody answers."""
        curl = ["curl", "--silent", "--max-time", "3", "--write-out", "\n%{http_code}", f"http://127.0.0.1:8080{path}"]
        done = subprocess.run(["ip", "netns", "exec", self.host(name), *curl], stdout=subprocess.PIPE, text=True)
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body

    def cut(self, name, is_cut=True):
        """Takes a node off the network of nodes, or puts it back."""
        command("ip", "-n", self.hub, "link", "set", f"nodes-{name}", "down" if is_cut else "up")

    def shape(self, name, kilobits, queue_ms=50):
        """What reaches this node from others has this rate at most, and waits as long at most; None is unlimited."""
        if kilobits is None:
            subprocess.run(["tc", "-n", self.hub, "qdisc", "del", "dev", f"nodes-{name}", "root"], stderr=subprocess.DEVNULL)
            return
        limit = ["tbf", "rate", f"{kilobits}kbit", "burst", "4kb", "latency", f"{queue_ms}ms"]
        command("tc", "-n", self.hub, "qdisc", "replace", "dev", f"nodes-{name}", "root", *limit)

    def received(self, name, network="nodes"):
        """Bytes that have come to a node by one of its two interfaces, Ethernet's headers left out."""
        folder = f"/sys/class/net/{network}/statistics"
        text = run_in(self.host(name), "cat", f"{folder}/rx_bytes", f"{folder}/rx_packets")
        octets, packets = map(int, text.split())
        return octets - 14 * packets

    def remove(self):
        for process in list(self.processes.values()):
            self.bench.stop(process)
        for host in (self.hub, *map(self.host, self.names)):
            subprocess.run(["ip", "netns", "del", host], stderr=subprocess.DEVNULL)


def problem():
    """Installs what it takes if it may; returns why there can be no cluster, or None."""
    return _cable.problem() or _cable.install({"nats-server": "nats-server", "curl": "curl"})
