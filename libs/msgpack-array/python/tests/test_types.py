"""The stubs say what the module has, and mypy accepts both and a program that uses them."""

import pathlib
import subprocess
import sys

CONFIG = str(pathlib.Path(__file__).parent.parent / "pyproject.toml")


def check(*arguments, cwd):
    result = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr


def test_stubs_are_those_of_the_module(tmp_path):
    check("mypy.stubtest", "msgpack_array", "--mypy-config-file", CONFIG, cwd=tmp_path)


def test_package_is_typed(tmp_path):
    check("mypy", "--config-file", CONFIG, "-p", "msgpack_array", cwd=tmp_path)


def test_program_that_uses_it_is_typed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import array\n"
        "import numpy as np\n"
        "import numpy.typing as npt\n"
        "import msgpack_array\n"
        "packed: bytes = msgpack_array.pack(np.zeros(3)) + msgpack_array.pack(array.array('d'))\n"
        "doubles: npt.NDArray[np.float64] = msgpack_array.unpack(packed, np.float64)\n"
        "anything: tuple[npt.NDArray[np.int8], int] = msgpack_array.unpack_from(packed, 0, 'int8', ndim=2)\n"
        "length: int = msgpack_array.pack_to(doubles, bytearray(), isa='scalar')\n"
        "document = msgpack_array.unpackb(packed, {'a': np.int8, 'b': [{'c': 'f4'}]})\n"
    )
    check("mypy", "--config-file", CONFIG, str(program), cwd=tmp_path)
