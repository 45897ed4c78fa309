"""A remote file as Python's libraries know files."""

import io
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from range_reader._native import Reader

PIECE_BYTES = 1 << 20


class RangeFile(io.RawIOBase):
    """A remote file, read only, by HTTP ranges. Nothing is sent before the first read or question for the size.

    A file object for `zipfile`, `pyarrow`, `io.BufferedReader` and whatever else takes one, with the attributes of
    fsspec's files. Unlike other raw files, `read(n)` and `readinto` give fewer bytes only at the end of the file. Any
    thread may use it, and there is one position.

    Errors are `OSError`: `FileNotFoundError`, `PermissionError` for 401, 403 and addresses that are not allowed,
    `ConnectionAbortedError` if the server cannot be reached, others with their reason.
    """

    mode = "rb"

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        any_address: bool = False,
        environment_proxies: bool = False,
        roots_pem: str | None = None,
        timeout: float | None = None,
        window_bytes: int | None = None,
        look_back_bytes: int | None = None,
        learn: bool = True,
    ) -> None:
        """`any_address`: private and loopback addresses too, for URLs that do not come from strangers.
        `timeout`: seconds that a connection, an answer, and silence within an answer may take."""
        self._reader = Reader(
            url,
            list((headers or {}).items()),
            any_address=any_address,
            environment_proxies=environment_proxies,
            roots_pem=roots_pem,
            timeout=timeout,
            window_bytes=window_bytes,
            look_back_bytes=look_back_bytes,
            learn=learn,
        )
        self.name = self.path = url

    @property
    def size(self) -> int | None:
        """Bytes of the file; None if the server does not say it."""
        return self._reader.size()

    def read(self, size: int | None = -1, /) -> bytes:
        return self._reader.read(-1 if size is None else size)

    def readall(self) -> bytes:
        return self._reader.read()

    def readinto(self, buffer: Any, /) -> int:
        room = memoryview(buffer).cast("B")
        if room.readonly:
            raise TypeError("the buffer is read only")
        done = 0
        # By pieces: nobody has seen yet that the file is as long as the buffer.
        while done < len(room) and (piece := self._reader.read(min(len(room) - done, PIECE_BYTES))):
            room[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._reader.seek(operator.index(offset), whence)

    def tell(self) -> int:
        return self._reader.seek(0, io.SEEK_CUR)

    def write(self, _: Any, /) -> int:
        raise io.UnsupportedOperation("not writable")

    def readable(self) -> bool:
        self._check_open()
        return True

    def seekable(self) -> bool:
        self._check_open()
        return True

    def will_need(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announces what will be read, in this order, as pairs of start and end; replaces earlier hints."""
        self._reader.will_need(list(ranges))

    @property
    def counters(self) -> dict[str, int]:
        """What reading has cost: requests, connections, retries, seeks, and bytes received, used, skipped, wasted,
        buffered."""
        return self._reader.counters()

    def close(self) -> None:
        # The base calls it for an object whose construction failed, too.
        if not self.closed and hasattr(self, "_reader"):
            self._reader.close()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def open(url: str, **options: Any) -> RangeFile:
    """The file at `url`; the options are those of `RangeFile`."""
    return RangeFile(url, **options)
