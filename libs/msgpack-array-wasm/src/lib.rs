//! The WebAssembly module below the npm package `msgpack-array`.
//!
//! JavaScript copies a part of an array into a fixed workspace, calls [`Workspace::encode`] or
//! [`Workspace::decode`], and copies the result out: `package/msgpack-array.js` does that, and
//! writes and reads headers. Nothing is allocated here, so the memory of a module never grows
//! however long the arrays are, and a part stays in the caches between the two copies.
//!
//! What crosses the border is numbers: a [`Kind`], counts and offsets into the workspace. Each is
//! checked here, whatever the JavaScript has checked before; bad ones are answers, never traps.

#[cfg(target_arch = "wasm32")]
mod exports;
mod workspace;

pub use workspace::{Kind, Report, Status, Workspace};
