//! How full a worker is: measured by itself once a second, read by all that have to choose a worker or to
//! refuse somebody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use worker_api::overload::{Measured, MemoryGauge, Overload, OverloadSettings};
use worker_api::snapshot::Role;

/// From this load on a worker is full, percent of a core: connections go to others, if those have more room.
/// What is left is for what its players have yet to get (a key frame to all of them), not for more of them.
const FULL_PERCENT: f32 = 80.0;
/// One in so many places is kept for HTTP players that are sent to another node when all others are taken.
const PLACES_FOR_ANSWERS: usize = 64;
/// Load of a session before anything is known of those that a worker has, percent of a core: that of a player
/// of 600 kbit/s in real time.
const SESSION_PERCENT_LEAST: f32 = 0.04;
/// So many sessions say what one costs, at least.
const MEMBERS_TELLING: u32 = 20;
/// What such a player gets, bytes per second.
const SESSION_BYTES: u64 = 75_000;
/// And one of sound alone.
const SESSION_BYTES_LEAST: u64 = 8_000;

/// What a second was like.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Second {
    /// Percent of a core.
    pub(crate) load_percent: f32,
    /// Sessions at its end, of all protocols.
    pub(crate) sessions: u32,
    /// Those of them that publish or play.
    pub(crate) members: u32,
    /// Those that began to in this second.
    pub(crate) joined: u32,
    /// The p99 of its turns.
    pub(crate) loop_time: Duration,
    /// How long media waited beyond its time before it was sent, at most.
    pub(crate) send_delay: Duration,
    pub(crate) bytes_out: u64,
}

impl Second {
    /// Load with the sessions that came since it was measured: each counts like the others, `load + new *
    /// load / sessions`. Otherwise all that comes in a second would go to the worker that was least loaded
    /// in the last one.
    fn expected_percent(&self, sessions: u32) -> f32 {
        let new = sessions.saturating_sub(self.sessions) as f32;
        let each = self.load_percent / self.sessions.max(1) as f32;
        self.load_percent + new * each.clamp(SESSION_PERCENT_LEAST, 1.0)
    }

    /// Load with those that have begun to publish or play since. What only connects costs next to nothing,
    /// and refuses nobody.
    fn percent_with(&self, joined: u32) -> f32 {
        // With few of them, what streams and their bridges cost would count as theirs.
        let each = self.load_percent / self.members.max(MEMBERS_TELLING) as f32;
        self.load_percent + joined as f32 * each.clamp(SESSION_PERCENT_LEAST, 1.0)
    }

    /// The same of the bytes that leave.
    fn bytes_with(&self, joined: u32) -> u64 {
        let each = self.bytes_out.checked_div(self.members.into()).unwrap_or(SESSION_BYTES);
        self.bytes_out.saturating_add(each.max(SESSION_BYTES_LEAST).saturating_mul(joined.into()))
    }
}

/// The same, to be written by a worker and read by the others.
#[derive(Debug, Default)]
struct SharedSecond {
    load_permille: AtomicU32,
    sessions: AtomicU32,
    members: AtomicU32,
    joined: AtomicU32,
    loop_time_us: AtomicU32,
    send_delay_us: AtomicU32,
    bytes_out: AtomicU64,
}

impl SharedSecond {
    fn store(&self, second: Second) {
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.load_permille.store((second.load_percent * 10.0) as u32, Ordering::Relaxed);
        self.sessions.store(second.sessions, Ordering::Relaxed);
        self.members.store(second.members, Ordering::Relaxed);
        self.joined.store(second.joined, Ordering::Relaxed);
        self.loop_time_us.store(us(second.loop_time), Ordering::Relaxed);
        self.send_delay_us.store(us(second.send_delay), Ordering::Relaxed);
        self.bytes_out.store(second.bytes_out, Ordering::Relaxed);
    }

    fn load(&self) -> Second {
        let time = |us: &AtomicU32| Duration::from_micros(us.load(Ordering::Relaxed).into());
        Second {
            load_percent: self.load_permille.load(Ordering::Relaxed) as f32 / 10.0,
            sessions: self.sessions.load(Ordering::Relaxed),
            members: self.members.load(Ordering::Relaxed),
            joined: self.joined.load(Ordering::Relaxed),
            loop_time: time(&self.loop_time_us),
            send_delay: time(&self.send_delay_us),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// How full a worker is, written by itself and read by the others.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    last: SharedSecond,
    before: SharedSecond,
    /// Connections now, each of which has a place, and callers by SRT; `u32::MAX` when it takes none any more.
    connections: AtomicU32,
    /// Sessions without a place: by WebRTC.
    others: AtomicU32,
    /// Connections that were handed to it and are in a queue still.
    promised: AtomicU32,
    /// Sessions that have begun to publish or play since the last second.
    joined: AtomicU32,
}

impl Fullness {
    /// A second has ended. It counts itself who has joined.
    pub(crate) fn sample(&self, second: Second) {
        self.before.store(self.last.load());
        self.last.store(Second { joined: self.joined.swap(0, Ordering::Relaxed), ..second });
    }

    /// A session begins to publish or play.
    pub(crate) fn join(&self) {
        self.joined.fetch_add(1, Ordering::Relaxed);
    }

    /// So many there are now.
    pub(crate) fn update(&self, connections: usize, others: usize) {
        self.connections.store(connections as u32, Ordering::Relaxed);
        self.others.store(others as u32, Ordering::Relaxed);
    }

    /// It takes no more.
    pub(crate) fn close(&self) {
        self.connections.store(u32::MAX, Ordering::Relaxed);
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
        let connections = self.connections.load(Ordering::Relaxed);
        let connections = connections.saturating_add(self.promised.load(Ordering::Relaxed));
        Room {
            connections,
            sessions: connections.saturating_add(self.others.load(Ordering::Relaxed)),
            joined: self.joined.load(Ordering::Relaxed),
            last: self.last.load(),
            before: self.before.load(),
        }
    }
}

/// How full a worker is at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Those promised included.
    pub(crate) connections: u32,
    /// With those that have no place.
    pub(crate) sessions: u32,
    /// Sessions that have begun to publish or play since.
    pub(crate) joined: u32,
    /// The newest second, and the one before.
    pub(crate) last: Second,
    pub(crate) before: Second,
}

impl Room {
    /// Load with the sessions that came since it was measured.
    pub(crate) fn expected_percent(self) -> f32 {
        self.last.expected_percent(self.sessions)
    }

    /// Whether it has a place for one more.
    pub(crate) fn has_place(self, sessions_max: usize) -> bool {
        (self.connections as usize) < sessions_max.min(u32::MAX as usize)
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

    /// What decides whether anybody is refused: what both of the last two seconds say.
    fn measured(self) -> Measured {
        let Self { joined, last, before, .. } = self;
        let joined_before = joined.saturating_add(last.joined);
        let bytes = last.bytes_with(joined).min(before.bytes_with(joined_before));
        Measured {
            load_percent: last.percent_with(joined).min(before.percent_with(joined_before)),
            loop_time: last.loop_time.min(before.loop_time),
            send_delay: last.send_delay.min(before.send_delay),
            egress_bits_per_second: bytes.saturating_mul(8),
            memory_bytes: 0,
        }
    }
}

/// What is measured of all workers, from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Gauges {
    workers: Arc<[Arc<Fullness>]>,
    memory: Arc<MemoryGauge>,
}

impl Gauges {
    /// Of these workers, in order.
    pub(crate) fn new(workers: impl Iterator<Item = Arc<Fullness>>) -> Self {
        Self { workers: workers.collect(), memory: Arc::default() }
    }

    /// Where the memory of the process is noted.
    pub(crate) fn memory(&self) -> &Arc<MemoryGauge> {
        &self.memory
    }

    /// Why a worker takes nobody more in a role, if it does not.
    pub(crate) fn overload(
        &self,
        settings: &OverloadSettings,
        role: Role,
        worker: usize,
    ) -> Option<Overload> {
        let of = |fullness: &Arc<Fullness>| fullness.read().measured();
        let mut measured = self.workers.get(worker).map(of).unwrap_or_default();
        measured.memory_bytes = self.memory.bytes();
        // All workers are only looked at where it matters.
        if settings.egress_bits_per_second > 0 {
            let egress = self.workers.iter().map(|fullness| of(fullness).egress_bits_per_second);
            measured.egress_bits_per_second = egress.fold(0, u64::saturating_add);
        }
        settings.refuses(role, &measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(load_percent: f32, members: u32) -> Second {
        let sessions = members;
        Second {
            load_percent,
            sessions,
            members,
            bytes_out: u64::from(members) * 10_000,
            ..Second::default()
        }
    }

    fn join(fullness: &Fullness, count: u32) {
        (0..count).for_each(|_| fullness.join());
    }

    #[test]
    fn one_bad_second_refuses_nobody() {
        let fullness = Fullness::default();
        fullness.sample(second(50.0, 100));
        let late = Second { loop_time: Duration::from_secs(1), ..second(99.0, 100) };
        fullness.sample(late);
        let measured = fullness.read().measured();
        assert_eq!((measured.load_percent, measured.loop_time), (50.0, Duration::ZERO));
        fullness.sample(Second { send_delay: Duration::from_secs(1), ..late });
        let measured = fullness.read().measured();
        assert_eq!((measured.load_percent, measured.loop_time), (99.0, Duration::from_secs(1)));
        assert_eq!(measured.send_delay, Duration::ZERO, "only one second had it");
    }

    #[test]
    fn who_has_joined_since_counts_like_the_others() {
        let fullness = Fullness::default();
        fullness.sample(second(30.0, 300));
        join(&fullness, 300);
        fullness.sample(second(60.0, 600));
        join(&fullness, 300);
        let measured = fullness.read().measured();
        assert!((measured.load_percent - 90.0).abs() < 0.5, "{measured:?}");
        assert_eq!(measured.egress_bits_per_second, 900 * 80_000);
    }

    #[test]
    fn a_bridge_for_one_player_is_not_what_the_next_ones_cost() {
        let fullness = Fullness::default();
        (0..2).for_each(|_| fullness.sample(second(4.0, 2)));
        join(&fullness, 400);
        let measured = fullness.read().measured();
        assert!(measured.load_percent <= 84.5, "{measured:?}");
    }

    #[test]
    fn who_only_connects_refuses_nobody() {
        let fullness = Fullness::default();
        (0..2).for_each(|_| fullness.sample(second(40.0, 10)));
        fullness.update(10_000, 0);
        assert_eq!(fullness.read().measured().load_percent, 40.0);
    }

    #[test]
    fn a_rush_to_a_publisher_without_players_is_bounded() {
        let fullness = Fullness::default();
        (0..2).for_each(|_| fullness.sample(Second { members: 1, ..Second::default() }));
        join(&fullness, 1000);
        assert_eq!(fullness.read().measured().egress_bits_per_second, 1000 * 64_000);
    }

    #[test]
    fn what_leaves_is_counted_over_all_workers() {
        let workers = [Arc::new(Fullness::default()), Arc::new(Fullness::default())];
        for worker in &workers {
            (0..2).for_each(|_| worker.sample(second(1.0, 10)));
        }
        let gauges = Gauges::new(workers.into_iter());
        let refuses = |settings| gauges.overload(&settings, Role::Player, 1);
        let egress = |bits| OverloadSettings { egress_bits_per_second: bits, ..OverloadSettings::default() };
        assert_eq!(refuses(egress(2 * 800_000)), Some(Overload::Egress));
        assert_eq!(refuses(egress(2 * 800_000 + 1)), None);
        let memory = OverloadSettings { memory_bytes: 100, ..OverloadSettings::default() };
        gauges.memory().set(94);
        assert_eq!(refuses(memory), None);
        gauges.memory().set(95);
        assert_eq!(refuses(memory), Some(Overload::Memory));
    }

    #[test]
    fn a_worker_that_stops_is_full_and_nothing_overflows() {
        let fullness = Fullness::default();
        fullness.update(10, u32::MAX as usize);
        fullness.close();
        let room = fullness.read();
        assert!(!room.has_place(1 << 20) && room.measured().egress_bits_per_second == 0);
    }
}
