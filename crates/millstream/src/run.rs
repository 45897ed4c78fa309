//! Starts the server and stops it.

use std::sync::Arc;

use crate::config::Config;
use crate::config::resolve::Resolved;
use crate::worker::Workers;
use crate::worker::link::HANDOFFS_MAX;

/// Runs until a signal ends it.
pub fn run(_config: &Config, resolved: Resolved) -> Result<(), String> {
    let (handoffs, _receiver) = tokio::sync::mpsc::channel(HANDOFFS_MAX);
    let policy = Arc::new(resolved.policy);
    let workers = Workers::start(resolved.worker, policy, handoffs).map_err(|error| error.to_string())?;
    println!("{:?}", workers.addresses());
    workers.join();
    Ok(())
}
