//! Parsers of what the kernel writes, for the fuzz targets.
//!
//! Behind the feature `internals`. No promise is kept about anything here.

#[cfg(target_os = "linux")]
pub use crate::cmsg::{ControlMessage, parse as parse_control, parse_address};
#[cfg(target_os = "linux")]
pub use crate::route::{Flow, Interface, KnownHops, NextHop, NextHops, Unresolved};
