//! The clock of AAC's timestamps, where a description names two.
//!
//! By RFC 3640 section 4.1 the rtpmap says it. Cameras write something there that is not true,
//! while their AudioSpecificConfig is what every decoder needs; a few have it the other way round.
//! Audio on a wrong clock stretches the picture with it, since both are put on one time. So the
//! configuration counts, and where the two are far apart, the first packets are kept until the time
//! that passes has said which it is.

use std::time::{Duration, Instant};

use media::config::AudioSpecificConfig;

use crate::sdp::AnnouncedTrack;

/// The clock of RTP for video, which some senders give audio as well: no rate of samples.
const RTP_CLOCK_RATE: u32 = 90_000;
/// Rates that are closer cannot be told apart by a fifth of a second: the configuration counts.
const RATIO_MIN: f64 = 1.25;
/// What was kept until the session stood comes at once: it says nothing of the time that passes.
const SETTLING: Duration = Duration::from_millis(100);
/// Time that is measured. Packets come off by 20 ms at either end: a tenth each, less than half of
/// what the rates differ by.
const MEASURED: Duration = Duration::from_millis(200);
/// Bytes of packets that are kept at most; then the configuration counts.
const HELD_BYTES_MAX: usize = 256 << 10;

/// The clock rate of a track, or a trial of two.
pub(crate) fn of(track: &AnnouncedTrack) -> (u32, Option<Trial>) {
    let said = track.clock_rate;
    let config = track.aac.as_ref().and_then(|(record, _)| AudioSpecificConfig::read(record).ok());
    let Some(config) = config.filter(|config| config.sample_rate > 0) else { return (said, None) };
    // HE-AAC has two rates: that of its core, and twice that.
    let rates = [Some(config.sample_rate), config.extension_sample_rate, config.compatible_sample_rate];
    if said == RTP_CLOCK_RATE || rates.contains(&Some(said)) {
        return (said, None);
    }
    let rate = config.sample_rate;
    let ratio = f64::from(rate.max(said)) / f64::from(rate.min(said).max(1));
    (rate, (ratio >= RATIO_MIN).then(|| Trial { config: rate, said, ..Trial::default() }))
}

/// Two clock rates and the packets that are to say which it is.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    config: u32,
    said: u32,
    first: Option<Instant>,
    /// Where measuring began: when, and with which timestamp.
    began: Option<(Instant, u32)>,
    held: Vec<(Instant, Vec<u8>)>,
    held_bytes: usize,
}

impl Trial {
    /// Keeps a packet with this timestamp. The rate, once it is known.
    pub(crate) fn note(&mut self, now: Instant, timestamp: u32, packet: &[u8]) -> Option<u32> {
        self.held.push((now, packet.to_vec()));
        self.held_bytes += packet.len();
        if self.held_bytes > HELD_BYTES_MAX {
            return Some(self.config);
        }
        let first = *self.first.get_or_insert(now);
        let (at, from) = match self.began {
            Some(began) if began.0.saturating_duration_since(first) >= SETTLING => began,
            _ => *self.began.insert((now, timestamp)),
        };
        let passed = now.saturating_duration_since(at);
        let units = timestamp.wrapping_sub(from).cast_signed();
        if passed < MEASURED {
            return None;
        }
        if units <= 0 {
            // Its timestamps have begun again.
            self.began = Some((now, timestamp));
            return None;
        }
        let rate = f64::from(units) / passed.as_secs_f64();
        let off = |other: u32| (rate / f64::from(other)).ln().abs();
        Some(if off(self.said) < off(self.config) { self.said } else { self.config })
    }

    /// What was kept, and when each of it would have come had none been held up on its way: what a
    /// track begins with says how late it is.
    pub(crate) fn into_held(self, clock_rate: u32) -> Vec<(Instant, Vec<u8>)> {
        let timestamps = self.held.iter().map(|(_, packet)| rtp::Packet::parse(packet).ok());
        let timestamps = timestamps.map(|read| read.map_or(0, |read| read.timestamp())).collect::<Vec<_>>();
        let first = timestamps.first().copied().unwrap_or(0);
        // Microseconds of audio since the first packet.
        let media_us = |timestamp: u32| {
            let units = i64::from(timestamp.wrapping_sub(first).cast_signed());
            units * 1_000_000 / i64::from(clock_rate.max(1))
        };
        let moved = |at: Instant, us: i64| {
            let by = Duration::from_micros(us.unsigned_abs());
            if us < 0 { at.checked_sub(by).unwrap_or(at) } else { at + by }
        };
        let begins = self.held.iter().zip(&timestamps).map(|((at, _), time)| moved(*at, -media_us(*time)));
        let Some(begin) = begins.min() else { return Vec::new() };
        let held = self.held.into_iter().zip(timestamps);
        held.map(|((at, packet), time)| (moved(begin, media_us(time)).min(at), packet)).collect()
    }
}
