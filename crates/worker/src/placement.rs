//! Which worker takes a new TCP connection: the one that the kernel gave it to, unless that is full.
//!
//! The kernel deals connections out by a hash of their addresses and knows nothing of load. A worker that is
//! full hands what it accepts to the one with the most room, before a byte of it was read: so TLS, RTMP, HTTP
//! and WebSocket are all the same here. It goes through a bounded queue (`mailbox.rs`); if that is full, or
//! no worker has more room, the connection stays. WebRTC sessions are placed by control, which sees each of
//! them before it begins.

use crate::fullness::Room;
use crate::ids::WorkerIndex;

/// A worker takes what another hands over if its load is lower by this, percent of a core: less is within
/// what the load of a second says about the next.
const DISTANCE_PERCENT: f32 = 10.0;

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
    use crate::fullness::{Fullness, Second};
    use crate::ids::TableId;

    /// A worker with this load when it had so many sessions, and so many now.
    fn room(load_percent: f32, sampled_sessions: u32, sessions: u32) -> Room {
        let last = Second { load_percent, sessions: sampled_sessions, ..Second::default() };
        Room { connections: sessions, sessions, joined: 0, last, before: last }
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
            worker.update(400, 0);
            worker.sample(Second { load_percent: load, sessions: 400, ..Second::default() });
        }
        for _ in 0..1400 {
            let others =
                workers.iter().enumerate().map(|(at, fullness)| (WorkerIndex::at(at), fullness.read()));
            let chosen = choose(busy, others, 5000).expect("a worker");
            workers[chosen.index()].promise();
        }
        let sessions = workers.each_ref().map(|worker| worker.read().connections);
        assert!(sessions[0] < 500 && sessions[1].abs_diff(sessions[2]) <= 1, "{sessions:?}");
        assert!(sessions[1] > 1000, "{sessions:?}");
    }
}
