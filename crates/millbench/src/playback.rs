//! Simulated playback of one player: would its viewer have seen the video freeze?
//!
//! The model is a clock without a decoder. Media arrives with timestamps; nothing plays until
//! `buffer_ms` of media are there (newest minus oldest timestamp); then the playhead moves with the wall
//! clock. When it reaches the newest timestamp received, playback is dry: one stall, which ends when
//! `buffer_ms` are buffered again. A stall in progress when the run ends counts.
//!
//! `playhead(now) = origin_media + (now - origin_wall) <= newest`
//!
//! Nothing is known of catching up by faster playback or of skipping: this is the plain player.

/// Media buffered before playback starts, if the command line says nothing else, milliseconds.
pub const DEFAULT_BUFFER_MS: u32 = 500;

/// Simulated playback of one session. All times are passed in: wall clock in nanoseconds of any epoch,
/// media time in RTMP timestamps (milliseconds, wrapping at 2^32).
#[derive(Clone, Copy, Debug, Default)]
pub struct Playback {
    state: State,
    stalls: u32,
    stalled_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Empty,
    /// Collecting `buffer_ms`; `dry_since_ns` is set when this is a stall rather than the start.
    Filling {
        oldest: u32,
        newest: u32,
        dry_since_ns: Option<u64>,
    },
    Playing {
        newest: u32,
        dry_at_ns: u64,
    },
}

impl Playback {
    /// Takes note of a media message that arrived at `now_ns`.
    pub fn handle_media(&mut self, now_ns: u64, timestamp: u32, buffer_ms: u32) {
        self.advance(now_ns);
        self.state = match self.state {
            State::Empty => State::Filling { oldest: timestamp, newest: timestamp, dry_since_ns: None },
            State::Filling { oldest, newest, dry_since_ns } => {
                let newest = later(newest, timestamp);
                State::Filling { oldest, newest, dry_since_ns }
            }
            State::Playing { newest, dry_at_ns } => {
                let gained = u64::from(later(newest, timestamp).wrapping_sub(newest));
                State::Playing { newest: later(newest, timestamp), dry_at_ns: dry_at_ns + gained * NS_PER_MS }
            }
        };
        if let State::Filling { oldest, newest, dry_since_ns } = self.state
            && newest.wrapping_sub(oldest) >= buffer_ms
        {
            self.stalled_ns += dry_since_ns.map_or(0, |since| now_ns.saturating_sub(since));
            let buffered_ns = u64::from(newest.wrapping_sub(oldest)) * NS_PER_MS;
            self.state = State::Playing { newest, dry_at_ns: now_ns + buffered_ns };
        }
    }

    /// Lets the playhead move up to `now_ns`; must be called once at the end of the run.
    pub fn advance(&mut self, now_ns: u64) {
        if let State::Playing { newest, dry_at_ns } = self.state
            && now_ns > dry_at_ns
        {
            self.stalls += 1;
            self.state = State::Filling { oldest: newest, newest, dry_since_ns: Some(dry_at_ns) };
        }
    }

    /// Times playback ran dry after it had started.
    pub fn stalls(&self) -> u32 {
        self.stalls
    }

    /// Wall time spent dry up to `now_ns`, the stall in progress included.
    pub fn stalled_ns(&self, now_ns: u64) -> u64 {
        match self.state {
            State::Filling { dry_since_ns: Some(since), .. } => {
                self.stalled_ns + now_ns.saturating_sub(since)
            }
            _ => self.stalled_ns,
        }
    }
}

/// The later of two wrapping timestamps (serial number arithmetic, RFC 1982 §3.2).
fn later(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a) < 1 << 31 { b } else { a }
}

const NS_PER_MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: u32 = 500;

    /// Feeds `(wall ms, media ms)` pairs and returns stalls and stalled milliseconds at `end_ms`.
    fn play(arrivals: &[(u64, u32)], end_ms: u64) -> (u32, u64) {
        let mut playback = Playback::default();
        for &(wall, media) in arrivals {
            playback.handle_media(wall * NS_PER_MS, media, BUFFER);
        }
        playback.advance(end_ms * NS_PER_MS);
        (playback.stalls(), playback.stalled_ns(end_ms * NS_PER_MS) / NS_PER_MS)
    }

    #[test]
    fn playback_runs_dry_exactly_when_media_is_late() {
        // Each row: arrivals, end, stalls, stalled ms, remark.
        type Case = (&'static [(u64, u32)], u64, u32, u64, &'static str);
        let cases: [Case; 7] = [
            (&[], 1000, 0, 0, "nothing received, nothing started"),
            (&[(0, 0), (400, 400)], 5000, 0, 0, "the start buffer was never full"),
            (&[(0, 0), (500, 500)], 1000, 0, 0, "dry only after the last buffered millisecond"),
            (&[(0, 0), (500, 500)], 1001, 1, 1, "one millisecond later it is dry"),
            (&[(0, 0), (0, 2000), (2000, 2500)], 2500, 0, 0, "a burst from a GOP cache carries two seconds"),
            (
                &[(0, 0), (500, 500), (1200, 1000)],
                1700,
                1,
                200,
                "late by 200 ms, then buffered 500 ms at once",
            ),
            (
                &[(0, 0), (500, 500), (1200, 900), (1300, 1000)],
                1800,
                1,
                300,
                "a stall lasts until the buffer is full again",
            ),
        ];
        for (arrivals, end, stalls, stalled, remark) in cases {
            assert_eq!(play(arrivals, end), (stalls, stalled), "{remark}");
        }
    }

    #[test]
    fn timestamps_may_wrap_and_step_back() {
        let start = u32::MAX - 99;
        let arrivals: Vec<(u64, u32)> =
            (0..50).map(|i| (i * 40, start.wrapping_add(i as u32 * 40))).collect();
        assert_eq!(play(&arrivals, 1960), (0, 0));
        // Audio behind video by 20 ms must not move the newest timestamp back.
        assert_eq!(play(&[(0, 20), (0, 0), (500, 520), (500, 500), (1000, 1020)], 1500), (0, 0));
    }

    #[test]
    fn regular_arrival_of_merged_writes_does_not_stall() {
        for period in [100u64, 350] {
            let mut playback = Playback::default();
            for turn in 1..100u64 {
                for media in (turn - 1) * period / 20..turn * period / 20 {
                    playback.handle_media(turn * period * NS_PER_MS, media as u32 * 20, BUFFER);
                }
            }
            assert_eq!(playback.stalls(), 0, "period {period}");
        }
    }
}
