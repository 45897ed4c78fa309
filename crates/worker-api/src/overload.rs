//! When nobody more is let in: by what is measured, not only by counts.
//!
//! Each player takes a little of what all who are there have. So players are refused while there is still
//! something left, and publishers, each of whom has players that wait for it, later. Nobody who is
//! connected is disconnected.
//!
//! A worker measures a second and decides by the last two: what one second alone says may be the work of
//! another program. What has come since is counted at what those before cost, so that a thousand who come
//! within a second are not all let in by what the second before them was like.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::role::Role;

/// What there is too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overload {
    /// Work for a worker's core.
    Load,
    /// Work in one turn of a worker.
    LoopTime,
    /// Media that waits to be sent.
    SendDelay,
    /// Bits that leave.
    Egress,
    /// Memory in use.
    Memory,
}

impl Overload {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Load, Self::LoopTime, Self::SendDelay, Self::Egress, Self::Memory];

    /// For people.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Load => "the server is at its limit: its cores are busy",
            Self::LoopTime => "the server is at its limit: its turns take too long",
            Self::SendDelay => "the server is at its limit: media waits to be sent",
            Self::Egress => "the server is at its limit: it sends as much as it may",
            Self::Memory => "the server is at its limit: its memory is in use",
        }
    }

    /// For metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::LoopTime => "loop_time",
            Self::SendDelay => "send_delay",
            Self::Egress => "egress",
            Self::Memory => "memory",
        }
    }
}

/// Says why a worker takes nobody more in a role, if it does not.
pub type OverloadOf = dyn Fn(usize, Role) -> Option<Overload> + Send + Sync;

/// From when on somebody is refused. Zero: never for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverloadSettings {
    /// Load of a worker from which on it takes no player, percent of a core.
    pub load_percent: u32,
    /// The same for a publisher.
    pub publisher_load_percent: u32,
    /// Length of a worker's turns (p99 of a second).
    pub loop_time: Duration,
    /// How long media waits beyond its time before it is sent.
    pub send_delay: Duration,
    /// What the server sends in all.
    pub egress_bits_per_second: u64,
    /// What the process has.
    pub memory_bytes: u64,
}

/// What is known of a worker and the server when somebody comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// With those that have come since.
    pub load_percent: f32,
    /// The p99 of a second.
    pub loop_time: Duration,
    /// The longest of a second.
    pub send_delay: Duration,
    /// Of all workers, with those that have come since.
    pub egress_bits_per_second: u64,
    /// What the process has; zero if that is not known.
    pub memory_bytes: u64,
}

impl OverloadSettings {
    /// Part of the memory that is left to publishers, and to the growth of what is there: players are refused
    /// when no more is free.
    const MEMORY_LEFT_DIVISOR: u64 = 20;
    /// Part of the memory that caches leave alone: they shrink when no more is free.
    const MEMORY_OF_CACHES_DIVISOR: u64 = 7;

    /// Why one more in this role is refused, if it is.
    pub fn refuses(&self, role: Role, measured: &Measured) -> Option<Overload> {
        let publishes = role == Role::Publisher;
        let reaches = |value: Duration, limit: Duration| !limit.is_zero() && value >= limit;
        let load_percent = if publishes { self.publisher_load_percent } else { self.load_percent };
        if load_percent > 0 && measured.load_percent >= load_percent as f32 {
            return Some(Overload::Load);
        }
        if self.memory_bytes > 0 {
            let left = if publishes { 0 } else { self.memory_bytes / Self::MEMORY_LEFT_DIVISOR };
            if measured.memory_bytes >= self.memory_bytes - left {
                return Some(Overload::Memory);
            }
        }
        if publishes {
            // It is what the others wait for, and takes nothing of what leaves.
            return None;
        }
        if reaches(measured.loop_time, self.loop_time) {
            return Some(Overload::LoopTime);
        }
        if reaches(measured.send_delay, self.send_delay) {
            return Some(Overload::SendDelay);
        }
        let egress = self.egress_bits_per_second;
        (egress > 0 && measured.egress_bits_per_second >= egress).then_some(Overload::Egress)
    }

    /// Whether caches are to shrink.
    pub fn is_short_of_memory(&self, memory_bytes: u64) -> bool {
        let limit = self.memory_bytes - self.memory_bytes / Self::MEMORY_OF_CACHES_DIVISOR;
        self.memory_bytes > 0 && memory_bytes >= limit
    }
}

/// What the process has of memory, as it was looked up last.
#[derive(Debug, Default)]
pub struct MemoryGauge(AtomicU64);

impl MemoryGauge {
    /// The process has so much.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Zero: it is not known.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Those that were refused, by what there was too much of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverloadCounters {
    players: [u64; Overload::ALL.len()],
    publishers: [u64; Overload::ALL.len()],
}

impl OverloadCounters {
    /// One more.
    pub fn count(&mut self, role: Role, overload: Overload) {
        let counts = if role == Role::Publisher { &mut self.publishers } else { &mut self.players };
        counts[overload as usize] += 1;
    }

    /// All of them: role, reason, count.
    pub fn iter(self) -> impl Iterator<Item = (Role, Overload, u64)> {
        Overload::ALL.into_iter().flat_map(move |overload| {
            let at = overload as usize;
            [(Role::Player, overload, self.players[at]), (Role::Publisher, overload, self.publishers[at])]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: OverloadSettings = OverloadSettings {
        load_percent: 90,
        publisher_load_percent: 97,
        loop_time: Duration::from_millis(250),
        send_delay: Duration::from_millis(250),
        egress_bits_per_second: 1_000_000_000,
        memory_bytes: 1_000_000,
    };

    #[test]
    fn players_are_refused_before_publishers() {
        let well = Measured::default();
        let cases = [
            (well, None, None),
            (Measured { load_percent: 89.9, ..well }, None, None),
            (Measured { load_percent: 90.0, ..well }, Some(Overload::Load), None),
            (Measured { load_percent: 97.0, ..well }, Some(Overload::Load), Some(Overload::Load)),
            (Measured { loop_time: Duration::from_millis(250), ..well }, Some(Overload::LoopTime), None),
            (Measured { send_delay: Duration::from_secs(2), ..well }, Some(Overload::SendDelay), None),
            (Measured { egress_bits_per_second: 1 << 30, ..well }, Some(Overload::Egress), None),
            (Measured { memory_bytes: 949_999, ..well }, None, None),
            (Measured { memory_bytes: 950_000, ..well }, Some(Overload::Memory), None),
            (Measured { memory_bytes: 1_000_000, ..well }, Some(Overload::Memory), Some(Overload::Memory)),
        ];
        for (measured, player, publisher) in cases {
            assert_eq!(SETTINGS.refuses(Role::Player, &measured), player, "{measured:?}");
            assert_eq!(SETTINGS.refuses(Role::Publisher, &measured), publisher, "{measured:?}");
        }
    }

    #[test]
    fn what_is_not_limited_refuses_nobody() {
        let most = Measured {
            load_percent: 100.0,
            loop_time: Duration::MAX,
            send_delay: Duration::MAX,
            egress_bits_per_second: u64::MAX,
            memory_bytes: u64::MAX,
        };
        assert_eq!(OverloadSettings::default().refuses(Role::Player, &most), None);
        assert_eq!(OverloadSettings::default().refuses(Role::Publisher, &most), None);
        assert!(!OverloadSettings::default().is_short_of_memory(u64::MAX));
    }

    #[test]
    fn caches_shrink_before_anybody_is_refused() {
        assert!(!SETTINGS.is_short_of_memory(850_000));
        assert!(SETTINGS.is_short_of_memory(860_000));
        let measured = Measured { memory_bytes: 860_000, ..Measured::default() };
        assert_eq!(SETTINGS.refuses(Role::Player, &measured), None);
    }

    #[test]
    fn refusals_are_counted_by_role_and_reason() {
        let mut counters = OverloadCounters::default();
        counters.count(Role::Player, Overload::Egress);
        counters.count(Role::Player, Overload::Egress);
        counters.count(Role::Publisher, Overload::Memory);
        let counted: Vec<_> = counters.iter().filter(|(_, _, count)| *count > 0).collect();
        let expected = [(Role::Player, Overload::Egress, 2), (Role::Publisher, Overload::Memory, 1)];
        assert_eq!(counted, expected);
    }
}
