//! Behaviour of the controller in virtual time, over the paths of the benchmark.

// The benchmark needs more of them.
#[allow(dead_code)]
#[path = "../../benches/adapt/gcc.rs"]
mod gcc;
#[allow(dead_code)]
#[path = "../../benches/adapt/sender.rs"]
mod sender;
#[allow(dead_code)]
#[path = "../../benches/adapt/world.rs"]
mod world;

mod fallback;
mod hostile;
mod marks;
mod pacing;
mod paths;
mod routes;
mod silence;

use netsim::{bottleneck as path, bulk_tcp as tcp};
