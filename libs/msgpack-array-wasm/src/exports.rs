//! The functions that JavaScript calls, on the one workspace of the module.
//!
//! A module without shared memory runs on one thread, and no function here calls out of it, so
//! none is entered while another one runs.

use core::cell::UnsafeCell;

use crate::workspace::{Report, Workspace};

struct Only(UnsafeCell<Workspace>);

// SAFETY: there is one thread, see above.
unsafe impl Sync for Only {}

static WORKSPACE: Only = Only(UnsafeCell::new(Workspace::new()));

fn workspace() -> &'static mut Workspace {
    // SAFETY: only the functions below call this, each once, and none runs while another one does;
    // JavaScript reads and writes the memory between calls, and any bytes are valid there.
    unsafe { &mut *WORKSPACE.0.get() }
}

/// Where the parts to be worked on are written.
#[unsafe(no_mangle)]
extern "C" fn input() -> *mut u8 {
    workspace().input_mut().as_mut_ptr()
}

/// Bytes of it.
#[unsafe(no_mangle)]
extern "C" fn input_size() -> usize {
    workspace().input_mut().len()
}

/// Where the results are.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    workspace().output().as_ptr()
}

/// Bytes of it.
#[unsafe(no_mangle)]
extern "C" fn output_size() -> usize {
    workspace().output().len()
}

/// Where the four words of [`Report`] are.
#[unsafe(no_mangle)]
extern "C" fn report() -> *const Report {
    workspace().report()
}

/// See [`Workspace::encode`].
#[unsafe(no_mangle)]
extern "C" fn encode(kind: u32, count: u32) -> u32 {
    workspace().encode(kind, count) as u32
}

/// See [`Workspace::decode`].
#[unsafe(no_mangle)]
extern "C" fn decode(kind: u32, from: u32, to: u32, wanted: u32) -> u32 {
    workspace().decode(kind, from, to, wanted) as u32
}
