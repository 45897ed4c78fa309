//! Figures of this worker: columns of sessions, snapshots for the API, and load.

pub(crate) mod columns;
pub(crate) mod load;
pub(crate) mod report;
