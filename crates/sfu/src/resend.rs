//! Resending packets to a viewer that asks for them (RFC 4585 section 6.2.1, RFC 4588).
//!
//! From the shared cache, as often as asked, but not twice within a round trip, and never more than
//! 30 % of what the viewer gets anyway: beyond, a viewer's network is so bad that resending makes
//! it worse, and whoever asks for everything over and over gets no more than that. Only as RTX,
//! under a number of its own: the same packet under the same number would be the same index of
//! SRTP, which `srtp` refuses to use twice. A format without RTX gets nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::rtcp::Nack;
use rtp::rtx::{OSN_LEN, osn};
use tracing::trace;

use super::header_profile::{HEADER_LEN_MAX, HeaderProfile};
use super::packet_cache::{Packet, PacketCache};
use super::viewer::{Viewer, ViewerTrack};

/// One packet to be sent again.
#[derive(Debug, Clone)]
pub struct Resend {
    token: u64,
    packet: Arc<Packet>,
    header: [u8; HEADER_LEN_MAX],
    header_len: u16,
    original: u16,
}

impl Resend {
    /// The viewer, by the caller's name for it.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The header of the packet.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    /// What follows the header and the original sequence number.
    pub fn payload(&self) -> &[u8] {
        self.packet.payload()
    }

    /// Length of the whole packet, in bytes.
    pub fn packet_len(&self) -> usize {
        usize::from(self.header_len) + OSN_LEN + self.payload().len()
    }

    /// Writes the whole packet to the start of `out` and returns its length; `None` if it does not
    /// fit.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.packet_len();
        let (header, rest) = out.get_mut(..len)?.split_at_mut(usize::from(self.header_len));
        header.copy_from_slice(self.header());
        let (number, payload) = rest.split_at_mut(OSN_LEN);
        number.copy_from_slice(&osn(self.original));
        payload.copy_from_slice(self.payload());
        Some(len)
    }
}

/// What was sent again lately.
#[derive(Debug)]
pub(crate) struct ResendMemory {
    base: Instant,
    entries: [Remembered; REMEMBERED],
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    /// Track in the top bits, low bits of the number below.
    key: u32,
    at_ms: u32,
}

impl ResendMemory {
    fn new(now: Instant) -> Self {
        Self { base: now, entries: [Remembered { key: u32::MAX, at_ms: 0 }; REMEMBERED] }
    }

    /// Whether the packet was not sent within `window` before `now`; it counts as sent now.
    fn is_due(&mut self, now: Instant, track: usize, number: u64, window: Duration) -> bool {
        let key = (track as u32) << 24 | number as u32 & 0x00ff_ffff;
        let at_ms = now.saturating_duration_since(self.base).as_millis() as u32;
        // Neighbours in number have neighbouring entries, so that a burst displaces nothing of
        // itself.
        let entry = &mut self.entries[(number as usize ^ track << 5) % REMEMBERED];
        if entry.key == key && at_ms.wrapping_sub(entry.at_ms) < window.as_millis() as u32 {
            return false;
        }
        *entry = Remembered { key, at_ms };
        true
    }
}

/// What resending needs of the track.
pub(crate) struct ResendSource<'a> {
    pub(crate) cache: &'a PacketCache,
    pub(crate) profile: &'a HeaderProfile,
}

/// Answers a NACK for the track at `at` of the viewer's cold state.
pub(crate) fn answer(
    now: Instant,
    viewer: &mut Viewer,
    at: usize,
    nack: &Nack<'_>,
    source: &ResendSource<'_>,
    resend: &mut Vec<Resend>,
) {
    viewer.cold.stats.nacks += 1;
    let Some(cold) = viewer.cold.tracks.get(at) else { return };
    if !cold.nack {
        return;
    }
    let track = viewer.tracks[cold.track];
    for sequence_number in nack.lost().take(ANSWERED_MAX) {
        let sent = resend_one(now, viewer, at, &track, sequence_number, source);
        match sent {
            Some(packet) => {
                viewer.cold.stats.resent_packets += 1;
                viewer.cold.stats.resent_bytes += packet.payload().len() as u64;
                resend.push(packet);
            }
            None => {
                trace!(viewer = viewer.token(), sequence_number, "did not resend a packet");
                viewer.cold.stats.not_resent += 1;
            }
        }
    }
}

fn resend_one(
    now: Instant,
    viewer: &mut Viewer,
    at: usize,
    track: &ViewerTrack,
    sequence_number: u16,
    source: &ResendSource<'_>,
) -> Option<Resend> {
    let newest = source.cache.end().checked_sub(1)?;
    let back = track.sequence_number(newest).wrapping_sub(sequence_number);
    let number = newest.checked_sub(u64::from(back))?;
    if number < track.from || number >= track.until {
        return None;
    }
    let cached = source.cache.get(number)?;
    // A codec the viewer does not take was never sent, and a format without RTX cannot be resent:
    // checked before anything is charged.
    let payload_type = source.profile.payload_of(&cached.packet)?.rtx?;
    let ssrc = viewer.cold.tracks.get(at)?.rtx_ssrc?;
    let token = viewer.token();
    let earned = viewer.media_bytes() * SHARE_PERCENT / 100;
    let cold = &mut *viewer.cold;
    let position = cold.tracks.get(at)?.track.position();
    let cost = cached.packet.payload().len() as u64 + OSN_LEN as u64;
    cold.resent_charged = cold.resent_charged.max(earned.saturating_sub(BURST_BYTES));
    if cold.resent_charged + cost > earned {
        return None;
    }
    let window = cold.round_trip.unwrap_or(ROUND_TRIP_UNKNOWN).min(ROUND_TRIP_MAX);
    let memory = cold.memory.get_or_insert_with(|| Box::new(ResendMemory::new(now)));
    if !memory.is_due(now, position, number, window * 7 / 8) {
        return None;
    }
    cold.resent_charged += cost;

    let mut header = [0; HEADER_LEN_MAX];
    let mut to = track.viewer_fields(number, cached.timestamp);
    let original = to.sequence_number;
    let cold = cold.tracks.get_mut(at)?;
    (to.ssrc, to.sequence_number) = (ssrc, cold.rtx_sequence_number);
    let header_len = source.profile.write(&cached.packet, to, payload_type, &mut header) as u16;
    cold.rtx_sequence_number = cold.rtx_sequence_number.wrapping_add(1);
    Some(Resend { token, packet: Arc::clone(&cached.packet), header, header_len, original })
}

/// Numbers of one NACK that are looked at: more than the cache of most tracks, fewer than a
/// datagram can name.
const ANSWERED_MAX: usize = 1_024;
/// Retransmission as a share of the media sent to the viewer.
const SHARE_PERCENT: u64 = 30;
/// How much of that share can be saved up: two seconds of 2 Mbit/s, so that a burst of loss can be
/// repaired.
const BURST_BYTES: u64 = 512 << 10;
/// Round trip assumed before one is measured.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(50);
/// Longest time for which a second request for the same packet is taken for a repeat.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(400);
/// Packets remembered; more than a viewer misses within a round trip unless the limit stops it
/// anyway.
const REMEMBERED: usize = 64;
