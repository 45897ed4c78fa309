"""A file system for fsspec: `fsspec.open("range+https://example.org/film.mp4")`.

Needs `fsspec`, which finds this module by itself. Read only; a server has no directories.
"""

from collections.abc import Sequence
from typing import Any

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]
from range_reader._file import RangeFile

PREFIX = "range+"
# What fsspec itself knows; everything else is for the files.
FSSPEC_OPTIONS = ("asynchronous", "loop", "skip_instance_cache", "use_listings_cache")


class RangeFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Remote files by HTTP ranges. The options are those of `RangeFile`."""

    protocol = ("range+https", "range+http")
    root_marker = ""

    def __init__(self, **options: Any) -> None:
        own = {name: options[name] for name in FSSPEC_OPTIONS if name in options}
        super().__init__(**own)
        self.file_options = {name: value for name, value in options.items() if name not in FSSPEC_OPTIONS}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """The URL as servers know it."""
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return str(path).removeprefix(PREFIX)

    def unstrip_protocol(self, name: str) -> str:
        return PREFIX + str(self._strip_protocol(name))

    def _open(self, path: str, mode: str = "rb", *_: Any, **options: Any) -> RangeFile:
        if mode != "rb":
            raise NotImplementedError(f"mode {mode}: files behind HTTP are read only")
        for name in ("block_size", "autocommit", "cache_options", "cache_type", "size"):
            options.pop(name, None)
        return RangeFile(self._strip_protocol(path), **{**self.file_options, **options})

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name and size of a file, which costs a request."""
        with self._open(path) as file:
            return {"name": self._strip_protocol(path), "size": file.size, "type": "file"}

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        """The file itself."""
        found = self.info(path, **options)
        return [found] if detail else [found["name"]]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        with self._open(path, **options) as file:
            if (start or 0) >= 0 and (end is None or end >= 0):
                return read_pieces(file, [(start or 0, end)])[0]
            first, last, _ = slice(start, end).indices(file.size or 0)
            return read_pieces(file, [(first, last)])[0]

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int],
        ends: int | Sequence[int],
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """Pieces of files. All of one file are asked for together."""
        if max_gap is not None:
            raise NotImplementedError("gaps are the reader's own matter")
        first = [starts] * len(paths) if isinstance(starts, int) else list(starts)
        last = [ends] * len(paths) if isinstance(ends, int) else list(ends)
        if not len(paths) == len(first) == len(last):
            raise ValueError("as many starts and ends as paths, please")
        pieces: list[Any] = [b""] * len(paths)
        for path in dict.fromkeys(paths):
            places = [place for place, other in enumerate(paths) if other == path]
            try:
                with self._open(path, **options) as file:
                    found: list[Any] = list(read_pieces(file, [(first[at], last[at]) for at in places]))
            except OSError as error:
                if on_error != "return":
                    raise
                found = [error] * len(places)
            for place, piece in zip(places, found, strict=True):
                pieces[place] = piece
        return pieces


def read_pieces(file: RangeFile, ranges: Sequence[tuple[int, int | None]]) -> list[bytes]:
    """What these ranges hold, announced before the first is read. Without an end: to that of the file."""
    file.will_need([(start, end) for start, end in ranges if end is not None and start < end])
    pieces = []
    for start, end in ranges:
        file.seek(start)
        pieces.append(file.read(-1 if end is None else max(0, end - start)))
    return pieces
