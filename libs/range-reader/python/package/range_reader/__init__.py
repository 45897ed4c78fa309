"""Remote files by HTTP ranges as file objects, with few requests."""

from range_reader._file import RangeFile, open

__all__ = ["RangeFile", "open"]
