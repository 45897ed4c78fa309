//! Tests that run again behind a system call filter (`seccomp(2)`).
//!
//! A small Python program installs it, because that needs no privilege but pointers. The inner test
//! is one that is ignored otherwise, of the same binary.

use std::process::Command;

const FILTER: &str = r"
import ctypes, os, struct, sys
number, errno, *arguments = map(int, sys.argv[1:-2])
load, equal, result = 0x20, 0x15, 0x06
tests = [(0, number)] + [(16 + 8 * index, value) for index, value in zip((1, 2), arguments)]
code = b''
for left, (offset, value) in zip(range(len(tests), 0, -1), tests):
    code += struct.pack('HBBI', load, 0, 0, offset)
    code += struct.pack('HBBI', equal, 0, 2 * (left - 1) + 1, value)
code += struct.pack('HBBI', result, 0, 0, 0x00050000 | errno)
code += struct.pack('HBBI', result, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
assert libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[-2], [sys.argv[-2], '--exact', sys.argv[-1], '--ignored'])
";

/// Runs an ignored test of this binary with a system call that fails: its number, `errno`, and for
/// which second and third argument, if not for all.
pub(crate) fn refusing(filter: &[i64], test: &str) {
    let output = Command::new("python3")
        .args(["-c", FILTER])
        .args(filter.iter().map(i64::to_string))
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}
