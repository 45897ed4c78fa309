"""Signatures of the native half; what the functions do stands in README.md and in their `help`."""

from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

__all__ = ["DecodeError", "instruction_sets", "pack", "pack_to", "unpack", "unpack_from"]

_Scalar = TypeVar("_Scalar", bound=np.generic)

class DecodeError(ValueError):
    index: int | None

def pack(array: npt.NDArray[Any] | np.generic | Buffer, *, bin: bool = False, isa: str | None = None) -> bytes: ...
def pack_to(
    array: npt.NDArray[Any] | np.generic | Buffer,
    out: bytearray,
    *,
    bin: bool = False,
    isa: str | None = None,
) -> int: ...
@overload
def unpack(
    data: Buffer,
    dtype: type[_Scalar] | np.dtype[_Scalar],
    *,
    ndim: int = 1,
    bin: bool = False,
    isa: str | None = None,
) -> npt.NDArray[_Scalar]: ...
@overload
def unpack(
    data: Buffer,
    dtype: npt.DTypeLike,
    *,
    ndim: int = 1,
    bin: bool = False,
    isa: str | None = None,
) -> npt.NDArray[Any]: ...
@overload
def unpack_from(
    data: Buffer,
    offset: int,
    dtype: type[_Scalar] | np.dtype[_Scalar],
    *,
    ndim: int = 1,
    bin: bool = False,
    isa: str | None = None,
) -> tuple[npt.NDArray[_Scalar], int]: ...
@overload
def unpack_from(
    data: Buffer,
    offset: int,
    dtype: npt.DTypeLike,
    *,
    ndim: int = 1,
    bin: bool = False,
    isa: str | None = None,
) -> tuple[npt.NDArray[Any], int]: ...
def instruction_sets() -> list[str]: ...
