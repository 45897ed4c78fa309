//! Resending packets to a viewer that asks for them (RFC 4585 section 6.2.1, RFC 4588).
//!
//! From the shared cache, as often as asked, but not twice within a round trip, and in no 3 s more is taken
//! on than 30 % of what the viewer gets anyway (`recent.rs`), or two packets: beyond, a viewer's network is
//! so
//! bad that resending makes it worse, a new key frame brings it back sooner, and whoever asks for everything
//! over and over gets no more than that.
//!
//! As RTX, under a number of its own. A viewer without RTX gets the very same packet: its header is written
//! again, with the transport-wide number that it had (`sent_numbers.rs`), and `srtp` protects it under
//! its old index only if each byte of it is what was sent: anything else under that index would give the keys
//! away. Such a number is reported twice or late, so congestion control does not look at its delay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use congestion::Kind;
use rtp::payload::MediaKind;
use rtp::rtcp::Nack;
use rtp::rtx::{OSN_LEN, osn};
use rtp::{FIXED_HEADER_LEN, HeaderFields};
use tracing::trace;

use super::batch::Pending;
use super::header_profile::{HEADER_LEN_MAX, HeaderProfile, set_transport_number};
use super::outlet::{self, Header, Outlet};
use super::packet::Packet;
use super::packet_cache::{CachedPacket, PacketCache};
use super::pictures::PayloadShift;
use super::recent::RecentlyResent;
use super::rendition::RenditionId;
use super::repeats::WAITS_MAX;
use super::stream::PacketStream;
use super::switching::SEGMENTS_MAX;
use super::track::{Track, TrackIndex};
use super::viewer::{ColdTrack, Viewer, ViewerTrack};
use super::viewers::ViewerId;

/// One packet to be sent again.
#[derive(Debug, Clone)]
pub struct Resend {
    token: u64,
    packet: Arc<Packet>,
    header: [u8; HEADER_LEN_MAX],
    header_len: u16,
    form: ResendForm,
    shift: Option<PayloadShift>,
    /// Where it is remembered that it was sent ([`ResendMemory`]).
    entry: u8,
}

/// As what a packet is sent again.
#[derive(Debug, Clone, Copy)]
enum ResendForm {
    /// As RTX, with the number that it had.
    Rtx { original: u16, has_transport_number: bool },
    /// As it was, with the transport-wide number that it had.
    Same { transport_number: Option<u16>, is_red: bool },
}

impl Resend {
    /// The viewer, by the caller's name for it.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Where it is remembered that it was sent.
    pub(crate) fn entry(&self) -> u8 {
        self.entry
    }

    /// Audio or video.
    pub fn kind(&self) -> MediaKind {
        self.packet.track().kind()
    }

    /// Writes its transport-wide number, if it has room for one.
    pub(crate) fn set_transport_number(&mut self, number: u16) {
        if let ResendForm::Rtx { has_transport_number: true, .. } = self.form {
            set_transport_number(&mut self.header, number);
        }
    }

    /// It has the header and the payload that were sent before, so it has to be protected under the same
    /// index (`srtp::OutboundContext::protect_rtp_again`).
    pub fn is_same(&self) -> bool {
        matches!(self.form, ResendForm::Same { .. })
    }

    /// The transport-wide number of one that is the same.
    pub(crate) fn transport_number(&self) -> Option<u16> {
        match self.form {
            ResendForm::Same { transport_number, .. } => transport_number,
            ResendForm::Rtx { .. } => None,
        }
    }

    /// The header of the packet.
    pub fn header(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len)]
    }

    /// What follows the header and, in RTX, the original sequence number, as it was received.
    /// [`Resend::write`] changes numbers of pictures in it for viewers that have changed layers.
    pub fn payload(&self) -> &[u8] {
        match (self.form, self.packet.red()) {
            (ResendForm::Same { is_red: true, .. }, Some((_, payload))) => payload,
            _ => self.packet.payload(),
        }
    }

    /// Length of the whole packet, in bytes.
    pub fn packet_len(&self) -> usize {
        usize::from(self.header_len) + self.osn().map_or(0, |osn| osn.len()) + self.payload().len()
    }

    /// What RTX has ahead of the payload.
    fn osn(&self) -> Option<[u8; OSN_LEN]> {
        match self.form {
            ResendForm::Rtx { original, .. } => Some(osn(original)),
            ResendForm::Same { .. } => None,
        }
    }

    /// Writes the whole packet to the start of `out` and returns its length; `None` if it does not
    /// fit.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.packet_len();
        let (header, rest) = out.get_mut(..len)?.split_at_mut(usize::from(self.header_len));
        header.copy_from_slice(self.header());
        let osn = self.osn();
        let osn = osn.as_ref().map_or(&[][..], |osn| &osn[..]);
        let (number, payload) = rest.split_at_mut(osn.len());
        number.copy_from_slice(osn);
        payload.copy_from_slice(self.payload());
        if let Some(shift) = self.shift {
            shift.apply(payload);
        }
        Some(len)
    }
}

/// What was sent again lately.
#[derive(Debug)]
pub(crate) struct ResendMemory {
    bytes: RecentlyResent,
    /// When a packet of each entry was sent; packets share entries.
    sent_at_ms: [u32; REMEMBERED + REMEMBERED_AUDIO],
}

impl ResendMemory {
    fn new(now: Instant) -> Self {
        Self { bytes: RecentlyResent::new(now), sent_at_ms: [0; REMEMBERED + REMEMBERED_AUDIO] }
    }

    /// The entry of a packet. Neighbours in number have neighbouring entries, so that a burst does not get in
    /// its own way; audio has some of its own, as it does not wait for video.
    fn entry_of(track: TrackIndex, number: u64) -> u8 {
        match track.kind() {
            MediaKind::Audio => (REMEMBERED + number as usize % REMEMBERED_AUDIO) as u8,
            _ => ((number as usize ^ track.position() << 6) % REMEMBERED) as u8,
        }
    }

    /// Whether the packet was not sent within `window` before `now`; it counts as sent now.
    ///
    /// Nor any other packet with the same entry: in doubt a viewer has to ask again.
    fn is_due(&mut self, now: Instant, entry: u8, window: Duration) -> bool {
        let passed = self.millis(now).wrapping_sub(self.sent_at_ms[usize::from(entry)]);
        let is_to_be_sent = (1..=WAITS_MAX.as_millis() as u32).contains(&passed.wrapping_neg());
        let is_due = passed >= window.as_millis() as u32 && !is_to_be_sent;
        if is_due {
            self.note_sent(entry, now);
        }
        is_due
    }

    /// A packet was sent, or is by then.
    pub(crate) fn note_sent(&mut self, entry: u8, at: Instant) {
        self.sent_at_ms[usize::from(entry)] = self.millis(at);
    }

    fn millis(&self, at: Instant) -> u32 {
        // 0 is long ago.
        (ROUND_TRIP_MAX + self.bytes.since_base(at)).as_millis() as u32
    }
}

/// What resending needs of the track.
pub(crate) struct ResendSource<'a> {
    pub(crate) track: &'a Track,
    pub(crate) profile: &'a HeaderProfile,
    /// What the viewer has not been sent yet of an output, but will be.
    pub(crate) pending: &'a dyn Fn(RenditionId) -> Pending<'a>,
    /// The least bytes of media that the viewer's tracks had in any 3 s of late.
    pub(crate) least_media: u64,
}

/// Packets of one output that a viewer got in a row.
struct Stretch<'a> {
    track: ViewerTrack,
    cache: &'a PacketCache,
    pending: Pending<'a>,
}

impl Stretch<'_> {
    /// The packet that the viewer was sent under this number.
    fn find(&self, sequence_number: u16) -> Option<(&ViewerTrack, u64, &CachedPacket)> {
        let number = self.track.number_of(self.cache, sequence_number)?;
        if self.pending.contains(number) {
            return None;
        }
        Some((&self.track, number, self.cache.get(number)?))
    }
}

/// Answers a NACK for the track at `at` of the viewer's cold state.
pub(crate) fn answer(
    now: Instant,
    viewer: &mut Viewer,
    at: usize,
    nack: &Nack<'_>,
    source: &ResendSource<'_>,
    left: &mut usize,
    resend: &mut Vec<Resend>,
) {
    let Some(cold) = viewer.cold.tracks.get(at) else { return };
    if !cold.nack {
        return;
    }
    let track = viewer.tracks[cold.track];
    // What it gets now, and what it got before it changed from another output to that.
    let current = (cold.rendition(), track);
    let mut stretches: [Option<Stretch<'_>>; STRETCHES_MAX] = std::array::from_fn(|_| None);
    let before = cold.layers.iter().flat_map(|layers| layers.previous.iter().rev());
    let all = std::iter::once(current).chain(before.map(|before| (before.rendition, before.track)));
    let found = all.filter_map(|(rendition, track)| {
        let cache = &source.track.rendition(rendition)?.cache;
        Some(Stretch { track, cache, pending: (source.pending)(rendition) })
    });
    stretches.iter_mut().zip(found).for_each(|(to, stretch)| *to = Some(stretch));
    let mut is_exhausted = false;
    for sequence_number in nack.lost().take(*left) {
        *left -= 1;
        viewer.cold.stats.nacked_packets += 1;
        // Once the limit is reached there is nothing for smaller packets either: a storm would get these
        // only, and their headers cost more than what is in them.
        let sent = match is_exhausted {
            true => Err(NotSent::Limit),
            false => resend_one(now, viewer, at, &stretches, sequence_number, source),
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
    /// It was never sent, is not kept any more, or is of a format without RTX on a track that has it.
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
    stretches: &[Option<Stretch<'_>>],
    sequence_number: u16,
    source: &ResendSource<'_>,
) -> Result<Resend, NotSent> {
    use NotSent::{Limit, Repeat, Unavailable};
    let stretch = stretches.iter().flatten();
    let (track, number, cached) =
        stretch.filter_map(|stretch| stretch.find(sequence_number)).next().ok_or(Unavailable)?;
    // A codec the viewer does not take was never sent: checked before anything is charged.
    let payload = source.profile.payload_of(&cached.packet).ok_or(Unavailable)?;
    let ssrc = viewer.cold.tracks.get(at).ok_or(Unavailable)?.rtx_ssrc;
    let rtx = match ssrc {
        Some(ssrc) => Some((ssrc, payload.rtx.ok_or(Unavailable)?)),
        None => None,
    };
    let token = viewer.token();
    let earned = viewer.media_bytes() * SHARE_PERCENT / 100;
    let cold = &mut *viewer.cold;
    let index = cold.tracks.get(at).ok_or(Unavailable)?.track;
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
    let window = cold.round_trip.unwrap_or(ROUND_TRIP_UNKNOWN).clamp(ROUND_TRIP_MIN, ROUND_TRIP_MAX);
    let entry = ResendMemory::entry_of(index, number);
    if !memory.is_due(now, entry, window * 7 / 8) {
        return Err(Repeat);
    }
    if !memory.bytes.note(now, cost) {
        return Err(Limit);
    }
    cold.resent_charged += cost as u64;

    let cold = cold.tracks.get_mut(at).ok_or(Unavailable)?;
    let packet = match rtx {
        Some((ssrc, payload_type)) => {
            resend(token, (cold, ssrc), track, cached, source.profile, payload_type, number)
        }
        None => resend_same(token, cold, track, cached, source.profile, number),
    };
    Ok(Resend { entry, ..packet })
}

/// Writes a packet as it was sent.
fn resend_same(
    token: u64,
    cold: &ColdTrack,
    track: &ViewerTrack,
    cached: &CachedPacket,
    profile: &HeaderProfile,
    number: u64,
) -> Resend {
    let mut header = [0; HEADER_LEN_MAX];
    let to = track.viewer_fields(number, cached.timestamp);
    let header_len = profile.header(&cached.packet, to, &mut header).unwrap_or_default() as u16;
    let sent = profile.sent(&cached.packet);
    let is_red = sent.is_some_and(|(_, payload)| payload.len() > cached.packet.payload().len());
    let numbers = cold.sent_numbers.as_ref();
    let transport_number = numbers.and_then(|numbers| numbers.of(to.sequence_number));
    if let Some(number) = transport_number {
        set_transport_number(&mut header, number);
    }
    let shift = track.pictures.of_payload(cached.packet.codec());
    let form = ResendForm::Same { transport_number, is_red };
    Resend { token, packet: Arc::clone(&cached.packet), header, header_len, form, shift, entry: 0 }
}

/// Writes a packet under the next number of its retransmissions.
fn resend(
    token: u64,
    (cold, ssrc): (&mut ColdTrack, u32),
    track: &ViewerTrack,
    cached: &CachedPacket,
    profile: &HeaderProfile,
    payload_type: u8,
    number: u64,
) -> Resend {
    let mut header = [0; HEADER_LEN_MAX];
    let mut to = track.viewer_fields(number, cached.timestamp);
    let shift = track.pictures.of_payload(cached.packet.codec());
    let original = to.sequence_number;
    (to.ssrc, to.sequence_number) = (ssrc, cold.rtx_sequence_number);
    let header_len = profile.write(&cached.packet, to, payload_type, &mut header) as u16;
    cold.rtx_sequence_number = cold.rtx_sequence_number.wrapping_add(1);
    let form = ResendForm::Rtx { original, has_transport_number: track.has_transport_number };
    Resend { token, packet: Arc::clone(&cached.packet), header, header_len, form, shift, entry: 0 }
}

impl PacketStream {
    /// Sends a viewer a packet that it has, again, as padding: of the newest the one that is
    /// nearest to this size. Without any, an empty one of the same source. `false` if it takes no
    /// retransmissions.
    pub(crate) fn send_padding(
        &mut self,
        now: Instant,
        id: ViewerId,
        bytes: usize,
        outlet: &mut impl Outlet,
    ) -> bool {
        let Some(viewer) = self.viewers.get_mut(id) else { return false };
        let token = viewer.token();
        let knows_streams = outlet.pacer(token).is_some_and(|pacer| pacer.knows_streams());
        for cold in &mut viewer.cold.tracks {
            let (index, Some(ssrc)) = (cold.track, cold.rtx_ssrc) else { continue };
            let hot = viewer.tracks[index];
            let (Some(track), Some(profile)) = (self.tracks.get(index), self.profiles.get(hot.profile))
            else {
                continue;
            };
            let has_transport_number = hot.has_transport_number;
            // What nobody reports shows nothing.
            if index.kind() != MediaKind::Video || !(has_transport_number || knows_streams) {
                continue;
            }
            let Some(output) = track.rendition(cold.rendition()) else { continue };
            let end = output.cache.end().min(hot.until);
            let newest = (hot.from.min(end)..end).rev().take(PADDING_LOOKED_AT);
            // What it is about to get live is nothing that it has.
            let pending = self.batches.pending(id.slot(), index, cold.rendition());
            let kept = newest.filter(|number| !pending.contains(*number));
            let kept = kept.filter_map(|number| Some((number, output.cache.get(number)?)));
            let kept = kept
                .filter_map(|(number, kept)| Some((number, kept, profile.payload_of(&kept.packet)?.rtx?)));
            let apart = |cached: &CachedPacket| cached.packet.payload().len().abs_diff(bytes);
            let sent = match kept.min_by_key(|(_, cached, _)| apart(cached)) {
                Some((number, cached, rtx)) => {
                    let mut packet = resend(token, (cold, ssrc), &hot, cached, profile, rtx, number);
                    outlet::send_again(outlet, now, &mut packet, Kind::Padding)
                }
                None => {
                    let Some(payload_type) = profile.any_rtx() else { continue };
                    let sequence_number = cold.rtx_sequence_number;
                    cold.rtx_sequence_number = sequence_number.wrapping_add(1);
                    let fields =
                        HeaderFields { marker: false, payload_type, sequence_number, timestamp: 0, ssrc };
                    let mut header = [0; HEADER_LEN_MAX];
                    let len = profile.write_padding(&fields, &mut header);
                    let mut padding = [0; PADDING_BYTES_MAX];
                    let padding = &mut padding[..bytes.clamp(1, PADDING_BYTES_MAX)];
                    let count = padding.len() as u8;
                    padding.last_mut().into_iter().for_each(|last| *last = count);
                    let header = Header { bytes: &mut header, len, has_transport_number, keeps: None };
                    outlet::send_cached(outlet, now, token, Kind::Padding, header, padding)
                }
            };
            viewer.cold.stats.padding_bytes += sent as u64;
            return sent > 0;
        }
        false
    }
}

/// Longest padding of a packet (RFC 3550 section 5.1).
const PADDING_BYTES_MAX: usize = 255;
/// Among so many of the newest packets padding is looked for.
const PADDING_LOOKED_AT: usize = 16;
/// What a viewer gets and what it got before.
const STRETCHES_MAX: usize = 1 + SEGMENTS_MAX;
/// Numbers of the NACKs of one datagram that are looked at: more than the cache of most tracks, fewer than
/// it can name.
pub(crate) const ANSWERED_MAX: usize = 1_024;
/// Retransmission, with headers, as a share of the media sent to the viewer, without.
const SHARE_PERCENT: u64 = 30;
/// What can be saved up of that share in any case, as for the rare packets of a still screen: two packets,
/// less than the share of 3 s of 22 kbit/s.
const SAVED_BYTES_MIN: u64 = 2_400;
/// Round trip assumed before one is measured.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(50);
/// A viewer says how long it is: nothing twice in one report in any case.
const ROUND_TRIP_MIN: Duration = Duration::from_millis(5);
/// Longest time for which a second request for the same packet is taken for a repeat.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(400);
/// Entries for packets sent again: more than there are packets of video in a round trip of 100 ms at
/// 10 Mbit/s, or of 400 ms at 2.5.
const REMEMBERED: usize = 112;
/// The same for audio: 320 ms of packets of 20 ms.
const REMEMBERED_AUDIO: usize = 16;
