//! One viewer: which packets go to it, under which header.
//!
//! The state every packet needs is small and comes first ([`ViewerTrack`]); the rest is behind a
//! pointer ([`ColdState`]). A
//! viewer of two tracks takes about 700 bytes, and 800 more once it has asked for packets again.

use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use super::batch::{BatchPackets, Forward};
use super::header_profile::{HEADER_LEN_MAX, ProfileId, ViewerFields};
use super::inputs::ViewerTrackInput;
use super::packet::Packet;
use super::packet_cache::PacketCache;
use super::resend::ResendMemory;
use super::track::TrackIndex;

/// One viewer of a stream.
#[derive(Debug)]
pub struct Viewer {
    token: u64,
    /// By position; as many as the last track it takes needs.
    pub(crate) tracks: ViewerTracks,
    pub(crate) cold: Box<ColdState>,
}

/// What is needed for every packet of one track.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewerTrack {
    /// First number it gets; [`NEVER`] for a track it does not take, or that it has not begun with.
    pub(crate) from: u64,
    /// Numbers from here on come from the cache, not live; [`NEVER`] once it has caught up.
    pub(crate) until: u64,
    /// Numbers below come from the cache with timestamps compressed up to `catch_up_timestamp`.
    pub(crate) catch_up_until: u64,
    pub(crate) catch_up_timestamp: u32,
    pub(crate) ssrc: u32,
    pub(crate) payload_bytes: u64,
    pub(crate) packets: u32,
    pub(crate) sequence_shift: u16,
    pub(crate) profile: ProfileId,
}

/// What is needed for every packet, of all tracks. Indexed only by tracks the viewer takes.
#[derive(Debug)]
pub(crate) struct ViewerTracks(Box<[ViewerTrack]>);

impl Index<TrackIndex> for ViewerTracks {
    type Output = ViewerTrack;

    #[inline]
    fn index(&self, track: TrackIndex) -> &ViewerTrack {
        &self.0[track.position()]
    }
}

impl IndexMut<TrackIndex> for ViewerTracks {
    #[inline]
    fn index_mut(&mut self, track: TrackIndex) -> &mut ViewerTrack {
        &mut self.0[track.position()]
    }
}

/// A number no packet has.
pub(crate) const NEVER: u64 = u64::MAX;

/// State that is needed now and then.
#[derive(Debug)]
pub(crate) struct ColdState {
    pub(crate) generation: u32,
    pub(crate) cname: Box<str>,
    pub(crate) tracks: Vec<ColdTrack>,
    /// Smoothed round trip time, once a report has said.
    pub(crate) round_trip: Option<Duration>,
    /// Payload bytes sent again, for the limit, and what could not be saved up.
    pub(crate) resent_charged: u64,
    pub(crate) memory: Option<Box<ResendMemory>>,
    pub(crate) stats: ViewerStats,
    /// Pacing of what comes from the cache.
    pub(crate) backlog_credit: f64,
    pub(crate) backlog_at: Instant,
    pub(crate) joined_at: Instant,
    /// Has not got the report that lets it play audio and video in sync.
    pub(crate) awaits_first_report: bool,
    /// How many of its tracks the first reports have covered, and when the first of them was sent.
    pub(crate) reported_tracks: u8,
    pub(crate) first_reported_at: Option<Instant>,
}

/// State of one track that is needed now and then.
#[derive(Debug)]
pub(crate) struct ColdTrack {
    pub(crate) track: TrackIndex,
    pub(crate) rtx_ssrc: Option<u32>,
    pub(crate) rtx_sequence_number: u16,
    pub(crate) nack: bool,
    pub(crate) state: Progress,
    pub(crate) fir_sequence: Option<u8>,
}

impl ColdTrack {
    pub(crate) fn new(input: &ViewerTrackInput) -> Self {
        Self {
            track: input.track,
            rtx_ssrc: input.rtx_ssrc,
            rtx_sequence_number: 0,
            nack: input.nack,
            state: Progress::Waiting,
            fir_sequence: None,
        }
    }
}

/// Progress of a viewer with a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing has been sent: video needs a key frame, audio its next packet.
    Waiting,
    /// Gets what is in the cache.
    CatchingUp,
    /// Gets packets as they come.
    Live,
}

/// What a viewer was sent and what it reports.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ViewerStats {
    /// Packets sent, retransmissions left out.
    pub packets: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// Packets sent again.
    pub resent_packets: u64,
    /// Their payload bytes.
    pub resent_bytes: u64,
    /// NACKed packets that were not sent again: they are not there any more, or just were, or the
    /// limit was reached, or the format has no RTX.
    pub not_resent: u64,
    /// Packets asked for again by NACK.
    pub nacked_packets: u64,
    /// Key-frame requests.
    pub key_frame_requests: u64,
    /// Share of packets lost in its last report, `0.0..=1.0`; the worst of its tracks.
    pub fraction_lost: f32,
    /// Packets lost so far as it reports, over all tracks.
    pub lost: i64,
    /// Jitter it reports; the largest of its tracks.
    pub jitter: Duration,
    /// Round trip, from its reports on ours.
    pub round_trip: Option<Duration>,
}

impl Viewer {
    pub(crate) fn new(token: u64, cold: ColdState) -> Self {
        let needed = cold.tracks.iter().map(|track| track.track.position() + 1).max().unwrap_or(0);
        Self { token, tracks: ViewerTracks(vec![ViewerTrack::NONE; needed].into()), cold: Box::new(cold) }
    }

    /// The caller's name for it.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// How many packets of this turn are of tracks that the viewer takes and has begun with.
    pub fn takes(&self, packets: &BatchPackets<'_>) -> usize {
        let is_taken = |forward: &&Forward| {
            let track = self.tracks.0.get(forward.track.position());
            track.is_some_and(|track| (track.from..track.until).contains(&forward.number))
        };
        packets.forwards.iter().filter(is_taken).count()
    }

    /// Writes the header under which packet `index` of this turn goes to this viewer, and returns
    /// its length.
    ///
    /// `None` if it does not get the packet (now): it takes no such track or codec, or has not
    /// caught up yet. The packet counts as sent.
    #[inline]
    pub fn header_for(
        &mut self,
        packets: &BatchPackets<'_>,
        index: usize,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let forward = packets.forwards.get(index)?;
        let track = self.tracks.0.get_mut(forward.track.position())?;
        if forward.number < track.from || forward.number >= track.until {
            return None;
        }
        let len = match packets.template(index, track.profile) {
            Some(template) if template.len == 0 => None,
            Some(template) if forward.number >= track.catch_up_until => {
                Some(template.write(track.ssrc, track.sequence_number(forward.number), out))
            }
            _ => {
                let to = track.viewer_fields(forward.number, forward.timestamp);
                packets.profiles.get(track.profile)?.header(&forward.packet, to, out)
            }
        };
        let Some(len) = len else {
            packets.note_unsupported(index, self.token);
            return None;
        };
        track.packets = track.packets.wrapping_add(1);
        track.payload_bytes += forward.packet.payload().len() as u64;
        Some(len)
    }

    /// Counts and totals.
    pub fn stats(&self) -> ViewerStats {
        let mut stats = self.cold.stats;
        stats.packets = self.tracks.0.iter().map(|track| u64::from(track.packets)).sum();
        stats.payload_bytes = self.media_bytes();
        stats.round_trip = self.cold.round_trip;
        stats
    }

    /// Payload bytes sent, retransmissions left out.
    pub(crate) fn media_bytes(&self) -> u64 {
        self.tracks.0.iter().map(|track| track.payload_bytes).sum()
    }
}

impl ViewerTrack {
    pub(crate) const NONE: Self = Self {
        from: NEVER,
        until: NEVER,
        catch_up_until: 0,
        catch_up_timestamp: 0,
        ssrc: 0,
        payload_bytes: 0,
        packets: 0,
        sequence_shift: 0,
        profile: ProfileId::NONE,
    };

    /// The sequence number under which this viewer gets a packet.
    #[inline]
    pub(crate) fn sequence_number(&self, number: u64) -> u16 {
        (number as u16).wrapping_add(self.sequence_shift)
    }

    /// Begins with `number`, or goes on with it without a gap.
    ///
    /// The first sequence number must be below 2^15: a receiver that loses the first packets before
    /// a rollover would guess its counter wrong and authenticate nothing more (RFC 3711 section
    /// 3.3.1).
    pub(crate) fn begin(&mut self, number: u64, cache: &PacketCache) {
        self.sequence_shift = match self.packets {
            0 => number as u16 & 0x8000,
            // What it got so far ends where the cache has brought it.
            _ => self.sequence_number(self.until).wrapping_sub(number as u16),
        };
        (self.from, self.until) = (number, number);
        if let Some(newest) = cache.newest_timestamp() {
            (self.catch_up_until, self.catch_up_timestamp) = (cache.end(), newest);
        }
    }

    /// How this viewer gets the packet with this number and timestamp: each time the same.
    pub(crate) fn viewer_fields(&self, number: u64, timestamp: u32) -> ViewerFields {
        let is_catch_up = number < self.catch_up_until;
        let timestamp = if is_catch_up { self.compress(timestamp) } else { timestamp };
        let sequence_number = self.sequence_number(number);
        ViewerFields { ssrc: self.ssrc, sequence_number, timestamp, is_catch_up }
    }

    /// Timestamps of what a viewer gets from the cache: in order and distinct, but so near to the
    /// time it joined that its player shows the newest picture at once. With the true ones it would
    /// play the whole cache at normal speed, and stay as late as that is long.
    fn compress(&self, timestamp: u32) -> u32 {
        let before = self.catch_up_timestamp.wrapping_sub(timestamp);
        // A cache is shorter than half a cycle, so what seems later is.
        if before.cast_signed() <= 0 {
            timestamp
        } else {
            self.catch_up_timestamp.wrapping_sub(before.div_ceil(COMPRESSION))
        }
    }

    /// Counts a packet from the cache.
    pub(crate) fn count(&mut self, packet: &Packet) {
        self.packets = self.packets.wrapping_add(1);
        self.payload_bytes += packet.payload().len() as u64;
    }
}

/// How much the timestamps of the cache are squeezed: ten seconds into 160 ms, frames of 60 Hz to
/// 23 units of 90 kHz.
const COMPRESSION: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_of_two_tracks_takes_less_than_1_5_kb_with_all_it_may_ever_need() {
        let of_tracks = 2 * (size_of::<ViewerTrack>() + size_of::<ColdTrack>());
        let at_first = size_of::<Viewer>() + size_of::<ColdState>() + of_tracks;
        assert!(at_first < 700, "{at_first}");
        let with_memory = at_first + size_of::<ResendMemory>();
        assert!(with_memory < 1_250, "{with_memory}");
    }

    #[test]
    fn squeezed_timestamps_rise_and_never_pass_the_newest() {
        for newest in [0u32, 1_000, 90_000, u32::MAX, 0x8000_0000] {
            let track = ViewerTrack { catch_up_timestamp: newest, ..ViewerTrack::NONE };
            let back = [900_000u32, 899_000, 90_000, 3_003, 3_000, 64, 63, 1, 0];
            let squeezed: Vec<u32> = back
                .iter()
                .map(|back| newest.wrapping_sub(track.compress(newest.wrapping_sub(*back))))
                .collect();
            assert!(squeezed.windows(2).all(|pair| pair[0] >= pair[1]), "{squeezed:?}");
            assert_eq!(squeezed.last(), Some(&0));
            assert!(squeezed[0] <= 900_000 / 64 + 1);
            assert_eq!(
                track.compress(newest.wrapping_add(7)),
                newest.wrapping_add(7),
                "what is later is left alone"
            );
        }
    }
}
