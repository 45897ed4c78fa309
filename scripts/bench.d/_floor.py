"""The floor of the WebRTC benchmarks: the datagrams a viewer gets, encrypted and sent by a bare loop without a server.

A trace is taken first of what one viewer of the server gets; `millbench rtc floor` repeats it to as many viewers, on
the server's core, in the server's network, by the same back end. A row's `vs_floor` is its CPU per packet over the floor's
of the same network, back end and number of viewers, round by round.
"""

import json
import pathlib
import time

from _bench import free_port, median, say
from _rtc import Server

# Longer than `rtc play --trace` needs.
TRACE_SECONDS = 5.0
# No handshake: receivers are there at once.
RAMP = 10_000


def take_trace(bench, server, publish=None, name="sample"):
    """Traces what a viewer of `server` gets; returns the file, or the reason why there is none."""
    file = bench.directory / f"{name}.trace.json"
    say(f"  tracing what a viewer gets ({name})")
    report = bench.play(server, [1], TRACE_SECONDS, 0.2, more=["--trace", str(file)], publish=publish)
    if not file.exists():
        return f"no trace: {report.get('problem', 'the run failed')}"
    return file


def start(bench, net, backend, trace):
    """The floor on the server's core; returns a Server, or the reason why there is none."""
    why = net.problem()
    if why:
        return why
    address = f"{net.server_address}:{free_port()}"
    command = [bench.binary("millbench"), "rtc", "floor", "--listen", address, "--backend", backend, "--like", str(trace)]
    if backend == "af_xdp":
        if not net.interface:
            return "loopback has no device for AF_XDP"
        command += ["--interface", net.interface]
    process = bench.start_in(net, command)
    used = await_line(process)
    if not isinstance(used, dict):
        bench.stop(process)
        return used
    return Server("floor", used["backend"], net, process, f"floor://{address}", None)


def await_line(process):
    """The first line of its output, which is JSON; or what it said instead."""
    deadline = time.monotonic() + 5
    text = ""
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        text = pathlib.Path(process.log_name).read_text()
        line = text.split("\n", 1)[0]
        if "\n" in text and line.startswith("{"):
            return json.loads(line)
        if ended:
            break
        time.sleep(0.02)
    return (text.strip().splitlines() or ["the floor did not start"])[-1].removeprefix("millbench: ")


class Floors:
    """What the floor cost, and rows as multiples of it."""

    def __init__(self):
        # {(net, back end, viewers): {round: CPU-us per packet}}
        self.cells = {}

    def add(self, net, backend, step, number):
        self.cells.setdefault((net, backend, step["sessions"]), {})[number] = step["us_per_packet"]

    def times(self, net, backend, n, by_round):
        """Median over rounds of a row's figures, {round: us}, over the floor's of the same round; None without any.

        A server that sends in a way of its own is compared with the default back end.
        """
        cell = self.cells.get((net, backend, n)) or self.cells.get((net, "gso", n)) or {}
        return median([us / cell[number] for number, us in by_round.items() if us and cell.get(number)])
