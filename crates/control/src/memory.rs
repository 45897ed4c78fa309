//! How much memory this process has.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use worker_api::overload::MemoryGauge;

/// How often it is looked up for those that refuse players by it.
const LOOKED_UP_EVERY: Duration = Duration::from_millis(500);

/// Notes it in `gauge`, and keeps that up to date for as long as the server runs.
pub fn watch(gauge: Arc<MemoryGauge>) {
    // Before anybody comes.
    gauge.set(resident_bytes().unwrap_or(0));
    tokio::spawn(keep_up_to_date(gauge));
}

async fn keep_up_to_date(gauge: Arc<MemoryGauge>) {
    let mut ticks = interval(LOOKED_UP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_known = true;
    loop {
        ticks.tick().await;
        let bytes = resident_bytes();
        if is_known && bytes.is_none() {
            tracing::warn!(
                "/proc/self/status cannot be read: `limits.memory_bytes` has no effect, if it is set"
            );
        }
        is_known = bytes.is_some();
        gauge.set(bytes.unwrap_or(0));
    }
}

/// `VmRSS` of proc_pid_status(5), in kB there.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
