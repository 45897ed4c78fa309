"""A remote file as Python's own libraries use files, against a server on loopback."""

import http.server
import io
import os
import signal
import threading
import zipfile
from collections.abc import Iterator

import pytest
import range_reader

CONTENT = bytes((at * 31 + at // 256) % 256 for at in range(1_500_000))


class Origin(http.server.ThreadingHTTPServer):
    """Serves bytes by ranges, and counts."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.requests: list[str] = []
        self.asked = threading.Event()
        self.closing = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Connections that the reader has cancelled."""

    def url(self, path: str = "/film") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Origin

    def do_GET(self) -> None:
        wanted = self.headers.get("range", "bytes=0-")
        self.server.requests.append(wanted)
        self.server.asked.set()
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/silent":
            self.server.closing.wait()
            self.close_connection = True
            return
        content = self.server.content
        if "," in wanted:
            self.send_parts(wanted.removeprefix("bytes=").split(","))
            return
        first, last = wanted.removeprefix("bytes=").split("-")
        start, end = int(first), min(int(last or len(content)) + 1, len(content))
        self.send_response(206)
        self.send_header("etag", '"1"')
        self.send_header("content-range", f"bytes {start}-{end - 1}/{len(content)}")
        self.send_header("content-length", str(end - start))
        self.end_headers()
        try:
            self.wfile.write(content[start:end])
        except ConnectionError:
            self.close_connection = True

    def send_parts(self, wanted: list[str]) -> None:
        content, body = self.server.content, b""
        for part in wanted:
            start, last = map(int, part.split("-"))
            body += f"\r\n--sea\r\ncontent-range: bytes {start}-{last}/{len(content)}\r\n\r\n".encode()
            body += content[start : last + 1]
        body += b"\r\n--sea--\r\n"
        self.send_response(206)
        self.send_header("etag", '"1"')
        self.send_header("content-type", "multipart/byteranges; boundary=sea")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def origin() -> Iterator[Origin]:
    origin = Origin(CONTENT)
    yield origin
    origin.closing.set()
    origin.shutdown()
    origin.server_close()


def test_it_reads_as_a_local_file(origin: Origin) -> None:
    local = io.BytesIO(CONTENT)
    with range_reader.open(origin.url(), any_address=True) as film:
        assert (film.tell(), film.readable(), film.seekable(), film.writable()) == (0, True, True, False)
        assert (film.size, film.mode, film.name) == (len(CONTENT), "rb", origin.url())
        for offset, whence, size in [
            (0, 0, 10),
            (5, 1, 100_000),
            (-20, 2, 50),
            (1_000_000, 0, 0),
            (-1_000, 1, 200_000),
            (10, 2, 5),
            (100, 0, -1),
        ]:
            assert film.seek(offset, whence) == local.seek(offset, whence)
            assert film.read(size) == local.read(size), (offset, whence, size)
            assert film.tell() == local.tell()
        film.seek(7)
        buffer = bytearray(300_000)
        assert film.readinto(buffer) == 300_000 and buffer == CONTENT[7:300_007]
        film.seek(-3, io.SEEK_END)
        assert film.readinto(memoryview(bytearray(10))) == 3
        assert film.readinto(bytearray(10)) == 0
        counters = film.counters
        assert counters["requests"] == len(origin.requests)
    assert film.closed
    for use in (film.read, film.tell, film.readable, lambda: film.size, lambda: film.counters):
        with pytest.raises(ValueError, match="closed"):
            use()
    film.close()


def test_a_zip_archive_is_opened_without_reading_all_of_it(origin: Origin) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for number in range(50):
            made.writestr(f"{number}.bin", CONTENT[number : number + 100_000])
    origin.content = archive.getvalue()
    with range_reader.open(origin.url(), any_address=True) as file, zipfile.ZipFile(file) as opened:
        assert len(opened.namelist()) == 50
        assert opened.read("33.bin") == CONTENT[33:100_033]
        received = file.counters["bytes_received"]
    assert received < len(origin.content) / 2, f"{received} of {len(origin.content)}"
    print(f"{len(origin.requests)} requests, {received} of {len(origin.content)} bytes")


def test_hints_and_buffers(origin: Origin) -> None:
    with range_reader.open(origin.url(), any_address=True) as film:
        film.will_need([(1_000_000, 1_100_000), (0, 100)])
        with io.BufferedReader(film, 8192) as buffered:
            buffered.seek(1_000_000)
            assert buffered.read(1000) == CONTENT[1_000_000:1_001_000]
            assert buffered.read(1000) == CONTENT[1_001_000:1_002_000]
        assert film.closed


def test_readers_of_arrow_read_it(origin: Origin) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"number": list(range(100_000)), "text": [str(at) for at in range(100_000)]})
    file = io.BytesIO()
    parquet.write_table(table, file)
    origin.content = file.getvalue()
    with range_reader.open(origin.url(), any_address=True) as remote:
        assert parquet.read_table(remote, columns=["number"]).column("number").to_pylist() == list(range(100_000))


def test_errors_are_those_of_files(origin: Origin) -> None:
    with range_reader.open(origin.url("/missing"), any_address=True) as film, pytest.raises(FileNotFoundError):
        film.read(10)
    with range_reader.open(origin.url()) as film, pytest.raises(PermissionError, match="127.0.0.1"):
        film.read(10)
    assert len(origin.requests) == 1
    with pytest.raises(OSError, match="scheme file"):
        range_reader.open("file:///etc/passwd")
    with pytest.raises(ValueError, match="url"):
        range_reader.open("no url")
    with pytest.raises(ValueError, match="headers: a b") as error:
        range_reader.open(origin.url(), headers={"a b": "secret"})
    assert "secret" not in str(error.value)
    with range_reader.open(origin.url(), any_address=True) as film:
        for wrong in (lambda: film.seek(-1), lambda: film.seek(0, 7), lambda: film.seek(-1, 1)):
            with pytest.raises((ValueError, OSError)):
                wrong()
        with pytest.raises((BufferError, TypeError)):
            film.readinto(b"constant")
        with pytest.raises(io.UnsupportedOperation):
            film.write(b"x")


def test_ctrl_c_ends_a_read_that_waits(origin: Origin) -> None:
    def interrupt() -> None:
        origin.asked.wait()
        os.kill(os.getpid(), signal.SIGINT)

    with range_reader.open(origin.url("/silent"), any_address=True) as film:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            film.read(10)


def test_threads_share_one_position(origin: Origin) -> None:
    parts: list[bytes] = []
    with range_reader.open(origin.url(), any_address=True) as film:

        def read() -> None:
            while part := film.read(1 << 20):
                parts.append(part)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(map(len, parts)) == len(CONTENT)
