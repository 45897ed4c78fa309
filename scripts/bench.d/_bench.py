"""What the benchmarks share: building, free ports, servers pinned to cores, the load generator, cleaning up.

Everything a benchmark starts is ended by process id, also on Ctrl-C, and everything it writes is under one
temporary directory. The server under test gets core 0 and the load generator core 1.
"""

import atexit
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER_CORE = "0"
LOAD_CORE = "1"
DESCRIPTORS = 20_000

# A generator that sleeps in epoll_wait is woken by the server's writes, at the server's cost: 12 to
# 20 % of the floor's CPU here, and by how much depends on how idle the machine is. Clients
# elsewhere cost no wake-ups. Looking at the sockets every millisecond instead adds at most that to
# each latency.
TURN_MS = "1"


class Bench:
    """One run of a benchmark."""

    def __init__(self):
        self.target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="millstream-bench-"))
        self.running = []
        atexit.register(self.clean_up)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
        if (os.cpu_count() or 1) < 2:
            sys.exit("this benchmark needs two cores: one for the server, one for the load")
        raise_descriptor_limit()

    def build(self):
        """Builds console, server and load generator in release mode; quick when nothing changed."""
        say("building")
        run(["make", "--quiet", "console"])
        run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "millstream", "-p", "millbench", "--bins"])

    def binary(self, name):
        return str(self.target / "release" / name)

    def start(self, command, port, **options):
        """Starts a server on the server's core and waits until it accepts connections on `port`."""
        command = ["taskset", "-c", SERVER_CORE, *command]
        log = open(self.directory / f"server-{len(self.running)}.log", "w")
        options.setdefault("stdout", log)
        errors = subprocess.STDOUT if options["stdout"] is log else log
        process = subprocess.Popen(command, stderr=errors, start_new_session=True, **options)
        process.log_name = log.name
        prefer(process)
        self.running.append(process)
        if port is not None:
            self.await_port(process, port)
        return process

    def await_port(self, process, port):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        text = pathlib.Path(process.log_name).read_text()[-2000:]
        sys.exit(f"the server did not start: {' '.join(process.args)}\n{text}")

    def stop(self, process):
        """Asks politely, then insists."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self.running:
            self.running.remove(process)

    def load(self, arguments, allow_failures=False):
        """Runs the load generator on its core and returns its report."""
        command = [self.binary("millbench"), *arguments, "--core", LOAD_CORE, "--turn-ms", TURN_MS, "--json", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        prefer(process)
        self.running.append(process)
        output, _ = process.communicate()
        self.running.remove(process)
        if process.returncode not in (0, 1):
            sys.exit(f"the load generator could not run: {' '.join(command)}")
        report = json.loads(output)
        if not report["outcome"]["ok"] and not allow_failures:
            say(f"  not everything worked: {outcome_text(report['outcome'])}")
        return report

    def clean_up(self):
        for process in list(self.running):
            self.stop(process)
        shutil.rmtree(self.directory, ignore_errors=True)


def prefer(process):
    """Lets other work on a shared machine disturb server and load less, where this is allowed.

    A process that gets its core late finds more to do at once and looks cheaper than it is. The group of a session
    (sched(7), autogroup) is weighed against other sessions; niceness only counts within.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, -15)
        pathlib.Path(f"/proc/{process.pid}/autogroup").write_text("-15")
    except OSError:
        pass


def outcome_text(outcome):
    parts = [f"{count} x {reason}" for reason, count in outcome["failures"].items()]
    if outcome["missing_bytes"] or outcome["missing_messages"]:
        parts.append(f"missing {outcome['missing_messages']} messages, {outcome['missing_bytes']} bytes")
    if outcome["excess_bytes"]:
        parts.append(f"excess {outcome['excess_bytes']} bytes")
    return "; ".join(parts)


def say(text):
    """Progress goes to standard output too: the RESULT lines come last."""
    print(text, flush=True)


def run(command):
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def raise_descriptor_limit():
    """Servers inherit it. Without the right to raise the hard limit, take what there is."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= DESCRIPTORS:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, max(hard, DESCRIPTORS)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def spread(values):
    """(max - min) / median, the figure that tells how far to trust a median."""
    middle = median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def decimal(value, digits=4):
    """A plain decimal; `nan` for what was not measured."""
    return "nan" if value is None else f"{value:.{digits}f}"


def nginx_problem():
    """Installs nginx with its RTMP module if it may; returns why it cannot run, or None."""

    def problem():
        if not nginx_binary():
            return "nginx is not installed"
        if not NGINX_MODULE.exists():
            return "the nginx RTMP module (libnginx-mod-rtmp) is not installed"
        return None

    why = problem()
    if why and os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing nginx with its RTMP module")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = ["nginx-light", "libnginx-mod-rtmp"]
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        why = problem()
    return why


def nginx_binary():
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")


NGINX_MODULE = pathlib.Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")

# One process, so that its id is the worker's; module defaults otherwise.
NGINX_CONFIGURATION = """
load_module {module};
daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log warn;
events {{ worker_connections {descriptors}; use epoll; }}
rtmp {{
    access_log off;
    server {{
        listen 127.0.0.1:{port};
        application live {{ live on; }}
    }}
}}
"""


def start_nginx(bench):
    """nginx-rtmp on the server's core; returns the process and the URL to publish to."""
    port = free_port()
    directory = bench.directory / f"nginx-{port}"
    directory.mkdir()
    configuration = directory / "nginx.conf"
    values = {"module": NGINX_MODULE, "descriptors": DESCRIPTORS, "directory": directory, "port": port}
    configuration.write_text(NGINX_CONFIGURATION.format(**values))
    command = [nginx_binary(), "-p", str(directory), "-c", str(configuration), "-e", str(directory / "nginx-error.log")]
    return bench.start(command, port), f"rtmp://127.0.0.1:{port}/live/sample"


# Application names say the merge latency: 0 hands every message over as soon as it is there.
MILLSTREAM_APPLICATIONS = {"350ms": ("m350", 350), "100ms": ("m100", 100), "lowlat": ("lowlat", 0)}


def start_millstream(bench, mode):
    """Millstream with one worker on the server's core; returns the process and the URL to publish to."""
    rtmp, http = free_port(), free_port()
    lines = [
        "[server]",
        "workers = 1",
        "[rtmp]",
        f'listen = "127.0.0.1:{rtmp}"',
        "[http]",
        f'listen = "127.0.0.1:{http}"',
    ]
    for name, latency in MILLSTREAM_APPLICATIONS.values():
        lines += ["[[application]]", f'name = "{name}"', f"merge_latency_ms = {latency}"]
    configuration = bench.directory / f"millstream-{rtmp}.toml"
    configuration.write_text("\n".join(lines) + "\n")
    process = bench.start([bench.binary("millstream"), "serve", "--config", str(configuration)], rtmp)
    return process, f"rtmp://127.0.0.1:{rtmp}/{MILLSTREAM_APPLICATIONS[mode][0]}/sample"


def start_floor(bench, mode):
    """The floor: plain writes and no server, on the server's core."""
    port = free_port()
    command = [bench.binary("millbench"), "floor", "--listen", f"127.0.0.1:{port}", "--mode", mode]
    return bench.start(command, port), f"rtmp://127.0.0.1:{port}/live/sample"
