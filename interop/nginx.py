"""A real nginx on ports of its own: files by HTTP with ranges, and live streams with its RTMP module."""

import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

from harness import TIMEOUT, Failed, Skipped

RTMP_MODULE = "/usr/lib/nginx/modules/ngx_rtmp_module.so"

CONFIGURATION = """
{modules}
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 256; }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    types {{ video/mp4 mp4; }}
    server {{
        listen 127.0.0.1:{http};
        root {root};
        # Else the kernel's buffers take the whole file, and no body is under way when nginx is killed.
        location /slow/ {{ alias {root}/; limit_rate {slow_bytes}; }}
    }}
}}
{rtmp}
"""


def free_port():
    """Below those that the system gives to outgoing connections: one of them would have it while its server is away."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Nginx:
    """Starts with `start`, ends with `kill` (in the middle of everything); then it may start again on the same ports."""

    def __init__(self, folder, root, slow_bytes=1_200_000):
        self.program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if not self.program:
            raise Skipped("nginx is not installed (scripts/setup)")
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder, prefix="nginx-"))
        self.http_port, self.rtmp_port = free_port(), free_port()
        has_rtmp = pathlib.Path(RTMP_MODULE).exists()
        rtmp = f"rtmp {{ server {{ listen 127.0.0.1:{self.rtmp_port}; chunk_size 4096; application live {{ live on; }} }} }}"
        text = CONFIGURATION.format(
            modules=f"load_module {RTMP_MODULE};" if has_rtmp else "",
            # Workers of a master that runs as root would be somebody who may not read the files.
            user="user root;" if pathlib.Path("/proc/self").owner() == "root" else "",
            folder=self.folder,
            root=root,
            http=self.http_port,
            slow_bytes=slow_bytes,
            rtmp=rtmp if has_rtmp else "",
        )
        (self.folder / "nginx.conf").write_text(text)
        self.has_rtmp, self.process = has_rtmp, None

    def start(self):
        command = [self.program, "-p", self.folder, "-e", self.folder / "error.log", "-c", self.folder / "nginx.conf"]
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = [self.http_port] + [self.rtmp_port] * self.has_rtmp
        end = time.monotonic() + TIMEOUT
        while not all(listens(port) for port in ports):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"nginx did not start: {(self.folder / 'error.log').read_text()[-1000:]}")
            time.sleep(0.05)
        return self

    def kill(self):
        """Ends it at once, its worker too, with whatever is under way."""
        if self.process and self.process.poll() is None:
            # SIGTERM is nginx's fast shutdown: connections are closed where they are.
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def url(self, name, slow=False):
        return f"http://127.0.0.1:{self.http_port}/{'slow/' if slow else ''}{name}"

    def live(self, name):
        if not self.has_rtmp:
            raise Skipped("nginx's RTMP module is not installed (scripts/setup)")
        return f"rtmp://127.0.0.1:{self.rtmp_port}/live/{name}"

    def requests(self, name):
        """Requests for a file that were answered: status and bytes of each, as nginx has logged them."""
        log = self.folder / "access.log"
        lines = [line for line in log.read_text().splitlines() if f"/{name} " in line] if log.exists() else []
        return [(int(status), int(size)) for status, size in (line.split('" ')[1].split()[:2] for line in lines)]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
