//! Resending packets to a viewer that asks for them (RFC 4585 section 6.2.1, RFC 4588).
//!
//! From the shared cache, as often as asked, but not twice within a round trip, and in no 3 s more
//! than 30 % of what the viewer gets anyway (`recent.rs`), or two packets: beyond, a viewer's network is so
//! bad that resending makes it worse, a new key frame brings it back sooner, and whoever asks for everything
//! over and over gets no more than that. Only as RTX, under a number of its own: the same packet under the
//! same number would be the same index of SRTP, which `srtp` refuses to use twice. A format without RTX gets
//! nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::FIXED_HEADER_LEN;
use rtp::payload::MediaKind;
use rtp::rtcp::Nack;
use rtp::rtx::{OSN_LEN, osn};
use tracing::trace;

use super::batch::Pending;
use super::header_profile::{HEADER_LEN_MAX, HeaderProfile};
use super::packet::Packet;
use super::packet_cache::PacketCache;
use super::recent::RecentlyResent;
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

    /// Audio or video.
    pub fn kind(&self) -> MediaKind {
        self.packet.track().kind()
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
    bytes: RecentlyResent,
    /// When a packet of each entry was sent; packets share entries.
    sent_at_ms: [u32; REMEMBERED],
}

impl ResendMemory {
    fn new(now: Instant) -> Self {
        Self { bytes: RecentlyResent::new(now), sent_at_ms: [0; REMEMBERED] }
    }

    /// Whether the packet was not sent within `window` before `now`; it counts as sent now.
    ///
    /// Nor any other packet with the same entry: in doubt a viewer has to ask again.
    fn is_due(&mut self, now: Instant, track: usize, number: u64, window: Duration) -> bool {
        // 0 is long ago.
        let now_ms = (ROUND_TRIP_MAX + self.bytes.since_base(now)).as_millis() as u32;
        // Neighbours in number have neighbouring entries, so that a burst does not get in its own way.
        let entry = &mut self.sent_at_ms[(number as usize ^ track << 6) % REMEMBERED];
        let is_due = now_ms.wrapping_sub(*entry) >= window.as_millis() as u32;
        if is_due {
            *entry = now_ms;
        }
        is_due
    }
}

/// What resending needs of the track.
pub(crate) struct ResendSource<'a> {
    pub(crate) cache: &'a PacketCache,
    pub(crate) profile: &'a HeaderProfile,
    /// What the viewer has not been sent yet, but will be.
    pub(crate) pending: Pending<'a>,
    /// The least bytes of media that the viewer's tracks had in any 3 s of late.
    pub(crate) least_media: u64,
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
    let Some(cold) = viewer.cold.tracks.get(at) else { return };
    if !cold.nack {
        return;
    }
    let track = viewer.tracks[cold.track];
    let mut is_exhausted = false;
    for sequence_number in nack.lost().take(ANSWERED_MAX) {
        viewer.cold.stats.nacked_packets += 1;
        // Once the limit is reached there is nothing for smaller packets either: a storm would get these
        // only, and their headers cost more than what is in them.
        let sent = match is_exhausted {
            true => Err(NotSent::Limit),
            false => resend_one(now, viewer, at, &track, sequence_number, source),
        };
        match sent {
            Ok(packet) => {
                viewer.cold.stats.resent_packets += 1;
                viewer.cold.stats.resent_bytes += packet.payload().len() as u64;
                resend.push(packet);
            }
            Err(why) => {
                trace!(viewer = viewer.token(), sequence_number, ?why, "did not resend a packet");
                viewer.cold.stats.not_resent += 1;
                is_exhausted = why == NotSent::Limit;
            }
        }
    }
}

/// Why a packet is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotSent {
    /// It was never sent, is not kept any more, or has no RTX.
    Unavailable,
    /// It was sent again a moment ago.
    Repeat,
    /// The viewer has had its share.
    Limit,
}

fn resend_one(
    now: Instant,
    viewer: &mut Viewer,
    at: usize,
    track: &ViewerTrack,
    sequence_number: u16,
    source: &ResendSource<'_>,
) -> Result<Resend, NotSent> {
    use NotSent::{Limit, Repeat, Unavailable};
    let newest = source.cache.end().checked_sub(1).ok_or(Unavailable)?;
    let back = track.sequence_number(newest).wrapping_sub(sequence_number);
    let number = newest.checked_sub(u64::from(back)).ok_or(Unavailable)?;
    if number < track.from || number >= track.until || source.pending.contains(number) {
        return Err(Unavailable);
    }
    let cached = source.cache.get(number).ok_or(Unavailable)?;
    // A codec the viewer does not take was never sent, and a format without RTX cannot be resent:
    // checked before anything is charged.
    let rtx = source.profile.payload_of(&cached.packet).and_then(|payload| payload.rtx);
    let payload_type = rtx.ok_or(Unavailable)?;
    let ssrc = viewer.cold.tracks.get(at).and_then(|track| track.rtx_ssrc).ok_or(Unavailable)?;
    let token = viewer.token();
    let earned = viewer.media_bytes() * SHARE_PERCENT / 100;
    let cold = &mut *viewer.cold;
    let position = cold.tracks.get(at).ok_or(Unavailable)?.track.position();
    let cost = FIXED_HEADER_LEN + OSN_LEN + cached.packet.payload().len();
    let memory = cold.memory.get_or_insert_with(|| Box::new(ResendMemory::new(now)));
    // No more is saved up than may be sent at once, so that whoever asks for everything gets its share
    // evenly and not every 3 s. Where pictures hardly change, the share of 3 s is less than one packet.
    let share = (source.least_media * SHARE_PERCENT / 100).max(SAVED_BYTES_MIN);
    let left = share.saturating_sub(memory.bytes.bytes(now));
    cold.resent_charged = cold.resent_charged.max(earned.saturating_sub(left));
    if cold.resent_charged + cost as u64 > earned {
        return Err(Limit);
    }
    let window = cold.round_trip.unwrap_or(ROUND_TRIP_UNKNOWN).min(ROUND_TRIP_MAX);
    if !memory.is_due(now, position, number, window * 7 / 8) {
        return Err(Repeat);
    }
    if !memory.bytes.note(now, cost) {
        return Err(Limit);
    }
    cold.resent_charged += cost as u64;

    let mut header = [0; HEADER_LEN_MAX];
    let mut to = track.viewer_fields(number, cached.timestamp);
    let original = to.sequence_number;
    let cold = cold.tracks.get_mut(at).ok_or(Unavailable)?;
    (to.ssrc, to.sequence_number) = (ssrc, cold.rtx_sequence_number);
    let header_len = source.profile.write(&cached.packet, to, payload_type, &mut header) as u16;
    cold.rtx_sequence_number = cold.rtx_sequence_number.wrapping_add(1);
    Ok(Resend { token, packet: Arc::clone(&cached.packet), header, header_len, original })
}

/// Numbers of one NACK that are looked at: more than the cache of most tracks, fewer than a
/// datagram can name.
const ANSWERED_MAX: usize = 1_024;
/// Retransmission, with headers, as a share of the media sent to the viewer, without.
const SHARE_PERCENT: u64 = 30;
/// What can be saved up of that share in any case, as for the rare packets of a still screen: two packets,
/// less than the share of 3 s of 22 kbit/s.
const SAVED_BYTES_MIN: u64 = 2_400;
/// Round trip assumed before one is measured.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(50);
/// Longest time for which a second request for the same packet is taken for a repeat.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(400);
/// Entries for packets sent again: more than there are packets of video in a round trip of 100 ms at
/// 12 Mbit/s, or of 400 ms at 3.
const REMEMBERED: usize = 128;
