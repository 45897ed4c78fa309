//! Which worker takes a new TCP connection: the one that the kernel gave it to, unless that is full.
//!
//! The kernel deals connections out by a hash of their addresses and knows nothing of load. A worker that is
//! full hands what it accepts to the one with the most room, before a byte of it was read: so TLS, RTMP, HTTP
//! and WebSocket are all the same here. It goes through a bounded queue (`mailbox.rs`); if that is full, or
//! no worker has more room, the connection stays. WebRTC sessions are placed by control, which sees each of
//! them before it begins.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::ids::WorkerIndex;

/// From this load on a worker is full, percent of a core. What is left is for what its players have yet to
/// get (a key frame to all of them), not for more of them.
const FULL_PERCENT: f32 = 80.0;
/// A worker takes what another hands over if its load is lower by this, percent of a core: less is within
/// what the load of a second says about the next.
const DISTANCE_PERCENT: f32 = 10.0;
/// One in so many places is kept for HTTP players that are sent to another node when all others are taken.
const PLACES_FOR_ANSWERS: usize = 64;
/// Load of a session before anything is known of those that a worker has, percent of a core: that of a player
/// of 600 kbit/s in real time.
const SESSION_PERCENT_LEAST: f32 = 0.04;

/// How full a worker is, written by itself and read by the others.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    /// Load of the last second, thousandths of a core, and sessions at its end.
    load_permille: AtomicU32,
    sampled_sessions: AtomicU32,
    /// Sessions now; `u32::MAX` when it takes none any more.
    sessions: AtomicU32,
    /// Connections that were handed to it and are in a queue still.
    promised: AtomicU32,
}

impl Fullness {
    /// A second has ended with this load.
    pub(crate) fn sample(&self, load_percent: f32, sessions: usize) {
        self.load_permille.store((load_percent * 10.0) as u32, Ordering::Relaxed);
        self.sampled_sessions.store(sessions as u32, Ordering::Relaxed);
    }

    /// So many sessions there are now.
    pub(crate) fn update(&self, sessions: usize) {
        self.sessions.store(sessions as u32, Ordering::Relaxed);
    }

    /// It takes no more.
    pub(crate) fn close(&self) {
        self.sessions.store(u32::MAX, Ordering::Relaxed);
    }

    /// A connection that was on its way is there. To be called when it is among the sessions, so that it is
    /// never counted in neither place.
    pub(crate) fn arrived(&self) {
        self.promised.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection is on its way to it.
    pub(crate) fn promise(&self) {
        self.promised.fetch_add(1, Ordering::Relaxed);
    }

    /// How full it is. The parts may be of different moments, which matters little: all are estimates.
    pub(crate) fn read(&self) -> Room {
        let sessions = self.sessions.load(Ordering::Relaxed);
        Room {
            load_percent: self.load_permille.load(Ordering::Relaxed) as f32 / 10.0,
            sampled_sessions: self.sampled_sessions.load(Ordering::Relaxed),
            sessions: sessions.saturating_add(self.promised.load(Ordering::Relaxed)),
        }
    }
}

/// How full a worker is at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    load_percent: f32,
    sampled_sessions: u32,
    /// Those promised included.
    sessions: u32,
}

impl Room {
    /// Load with the sessions that came since it was measured: each counts like the others, `load + new *
    /// load / sessions`. Otherwise all that comes in a second would go to the worker that was least loaded
    /// in the last one.
    fn expected_percent(self) -> f32 {
        let new = self.sessions.saturating_sub(self.sampled_sessions) as f32;
        let each = self.load_percent / self.sampled_sessions.max(1) as f32;
        self.load_percent + new * each.clamp(SESSION_PERCENT_LEAST, 1.0)
    }

    /// Sessions, those promised included.
    #[cfg(test)]
    pub(crate) fn sessions(self) -> u32 {
        self.sessions
    }

    fn has_place(self, sessions_max: usize) -> bool {
        (self.sessions as usize) < sessions_max.min(u32::MAX as usize)
    }

    /// Whether it has room beyond the last places, which are kept for players that are sent to another node:
    /// a connection is refused without an answer if there is no place for it.
    pub(crate) fn has_room_for_player(self, sessions_max: usize) -> bool {
        self.has_place(sessions_max - (sessions_max / PLACES_FOR_ANSWERS).max(1))
    }

    /// Whether it should not take another connection, if it can help it.
    pub(crate) fn is_full(self, sessions_max: usize) -> bool {
        !self.has_place(sessions_max) || self.expected_percent() >= FULL_PERCENT
    }
}

/// The worker that takes a connection of a full one: the least loaded of those that have a place, if it is
/// less loaded than `own` by enough, or `own` has no place.
pub(crate) fn choose(
    own: Room,
    others: impl Iterator<Item = (WorkerIndex, Room)>,
    sessions_max: usize,
) -> Option<WorkerIndex> {
    let most = match own.has_place(sessions_max) {
        true => own.expected_percent() - DISTANCE_PERCENT,
        false => f32::INFINITY,
    };
    others
        .filter(|(_, room)| room.has_place(sessions_max) && room.expected_percent() <= most)
        .min_by(|(_, a), (_, b)| a.expected_percent().total_cmp(&b.expected_percent()))
        .map(|(worker, _)| worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TableId;

    /// A worker with this load when it had so many sessions, and so many now.
    fn room(load_percent: f32, sampled_sessions: u32, sessions: u32) -> Room {
        Room { load_percent, sampled_sessions, sessions }
    }

    #[test]
    fn a_full_worker_hands_over_to_the_least_loaded_with_a_place() {
        let busy = room(85.0, 1000, 1000);
        let cases = [
            (room(50.0, 1000, 1000), vec![room(0.0, 0, 0)], None, "not full"),
            (busy, vec![room(60.0, 900, 900), room(40.0, 900, 900)], Some(1), "the least loaded"),
            (busy, vec![room(80.0, 900, 900)], None, "as full as the first"),
            (busy, vec![room(10.0, 5000, 5000), room(70.0, 900, 900)], Some(1), "the other has no place"),
            (room(20.0, 5000, 5000), vec![room(79.0, 4000, 4000)], Some(0), "no place: any will do"),
            (room(20.0, 5000, 5000), vec![room(1.0, 0, u32::MAX)], None, "the other is stopping"),
            (room(70.0, 1000, 1150), vec![room(10.0, 100, 100)], Some(0), "full by what came since"),
            (
                busy,
                vec![room(10.0, 100, 800), room(70.0, 900, 900)],
                Some(1),
                "much was promised to the first",
            ),
            (busy, vec![], None, "the only worker"),
        ];
        for (own, others, expected, remark) in cases {
            let others = others.into_iter().enumerate().map(|(at, room)| (WorkerIndex::at(at), room));
            let chosen = own.is_full(5000).then(|| choose(own, others, 5000)).flatten();
            assert_eq!(chosen.map(TableId::index), expected, "{remark}");
        }
    }

    #[test]
    fn a_burst_is_spread_over_all_that_have_room() {
        let busy = room(95.0, 1000, 1000);
        let workers = [Fullness::default(), Fullness::default(), Fullness::default()];
        for (worker, load) in workers.iter().zip([60.0, 20.0, 20.0]) {
            worker.sample(load, 400);
            worker.update(400);
        }
        for _ in 0..1400 {
            let others =
                workers.iter().enumerate().map(|(at, fullness)| (WorkerIndex::at(at), fullness.read()));
            let chosen = choose(busy, others, 5000).expect("a worker");
            workers[chosen.index()].promise();
        }
        let sessions = workers.each_ref().map(|worker| worker.read().sessions);
        assert!(sessions[0] < 500 && sessions[1].abs_diff(sessions[2]) <= 1, "{sessions:?}");
        assert!(sessions[1] > 1000, "{sessions:?}");
    }
}
