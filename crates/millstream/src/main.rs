//! The binary: everything is in the library of the same name.

use std::process::ExitCode;

/// Holding the frames of thousands of streams, glibc's allocator took 40 % of a worker
/// (docs/decisions/0005-allocator.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    millstream::main()
}
