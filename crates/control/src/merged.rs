//! What all workers say of a stream, as one.

use std::collections::BTreeMap;

use worker_api::snapshot::{BridgeSnapshot, StreamSnapshot, WorkerSnapshot};

/// One stream in the views of the workers.
pub(crate) struct Merged<'a> {
    /// What describes it.
    pub(crate) primary: &'a StreamSnapshot,
    /// Worker that has the publisher.
    pub(crate) home: Option<usize>,
    /// Players on all workers, of both kinds.
    pub(crate) players: u64,
    /// The bridge between the kinds, while it runs.
    pub(crate) bridge: Option<&'a BridgeSnapshot>,
    /// What the others say of it.
    pub(crate) others: Vec<&'a StreamSnapshot>,
}

/// Streams of all workers, by app and name.
pub(crate) fn merged(workers: &[WorkerSnapshot]) -> Vec<Merged<'_>> {
    let mut streams: BTreeMap<(&str, &str), Merged<'_>> = BTreeMap::new();
    for worker in workers {
        for view in &worker.streams {
            let home = view.publisher.is_some().then_some(worker.index);
            let players = u64::from(view.players);
            let merged = streams.entry((view.app.as_str(), view.name.as_str())).or_insert(Merged {
                primary: view,
                home: None,
                players: 0,
                bridge: None,
                others: Vec::new(),
            });
            merged.players += players;
            merged.bridge = merged.bridge.or(view.bridge.as_ref());
            // The home worker describes a stream best; next to it, one that gets media.
            let is_better = home.is_some() || (merged.home.is_none() && view.live && !merged.primary.live);
            let other = if is_better { std::mem::replace(&mut merged.primary, view) } else { view };
            merged.home = home.or(merged.home);
            if !std::ptr::eq(other, merged.primary) {
                merged.others.push(other);
            }
        }
    }
    streams.into_values().collect()
}
