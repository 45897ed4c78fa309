//! One viewer: which packets go to it, under which header.
//!
//! The state every packet needs is small and comes first ([`ViewerTrack`]); the rest is behind a
//! pointer ([`ColdState`]). A viewer of two tracks takes about 750 bytes, and 800 more once it has
//! asked for packets again; layers ([`ViewerLayers`]), repair packets ([`Protection`], some 6 kB
//! while it loses packets) and up to 128 packets that wait to be sent again (40 kB, for 0.4 s) come on top.

use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use super::batch::{BatchPackets, Forward};
use super::header_profile::{HEADER_LEN_MAX, ProfileId, ViewerFields};
use super::inputs::ViewerTrackInput;
use super::pacer::Pacer;
use super::packet_cache::PacketCache;
use super::pictures::{PayloadShift, PictureShift};
use super::protection::{Protection, ProtectionInput, REPAIR_LEN_MAX};
use super::rendition::RenditionId;
use super::repeats::WaitingRepeats;
use super::resend::ResendMemory;
use super::sent_numbers::SentNumbers;
use super::share::{LayerControl, Share, ShareControl};
use super::switching::ViewerLayers;
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
    /// Its headers have room for a transport-wide number.
    pub(crate) has_transport_number: bool,
    /// These are kept, as its packets are sent again as they were ([`ColdTrack::sent_numbers`]).
    pub(crate) keeps_numbers: bool,
    /// Repair packets may be made of it ([`ColdTrack::protection`]).
    pub(crate) is_protected: bool,
    /// Added to timestamps of the output that it gets.
    pub(crate) timestamp_shift: u32,
    /// Added to numbers of pictures in its payloads and extensions.
    pub(crate) pictures: PictureShift,
    /// The rendition it gets; [`RenditionId::NONE`] if timestamps or numbers of pictures are shifted.
    pub(crate) plain: RenditionId,
    /// It has had a target: what it gets of this track stands in [`ColdTrack::layers`].
    pub(crate) is_layered: bool,
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
    /// Only while some wait.
    pub(crate) repeats: Option<Box<WaitingRepeats>>,
    pub(crate) stats: ViewerStats,
    /// Bytes that may leave from the cache: what the pacer allows, or without one what was saved up
    /// until `backlog_at`.
    pub(crate) backlog_credit: f64,
    pub(crate) backlog_at: Instant,
    /// Its transport has congestion control, as was seen when it was served last, and when more may be sent.
    pub(crate) is_paced: bool,
    pub(crate) backlog_due: Instant,
    /// Which queue it is in.
    pub(crate) queued: Queued,
    /// How much of the video it gets.
    pub(crate) share: ShareControl,
    /// Layers with higher pictures than this are not for it.
    pub(crate) height_max: Option<u16>,
    /// When a key frame was asked for on its behalf.
    pub(crate) key_frame_asked_at: Option<Instant>,
    pub(crate) joined_at: Instant,
    /// Has not got the report that lets it play audio and video in sync.
    pub(crate) awaits_first_report: bool,
    /// How many of its tracks the first reports have covered, and when the first of them was sent.
    pub(crate) reported_tracks: u8,
    pub(crate) first_reported_at: Option<Instant>,
}

/// Which queue of the stream a viewer is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    /// In none: it gets everything live.
    No,
    /// `backlog`: it is served from the cache, or probed.
    ForBacklog,
    /// `waiting_for_key_frame`: it can be sent nothing else.
    ForKeyFrame,
}

/// State of one track that is needed now and then.
#[derive(Debug)]
pub(crate) struct ColdTrack {
    pub(crate) track: TrackIndex,
    pub(crate) rtx_ssrc: Option<u32>,
    pub(crate) rtx_sequence_number: u16,
    pub(crate) nack: bool,
    /// Where packets are sent again as they were, and had transport-wide numbers.
    pub(crate) sent_numbers: Option<Box<SentNumbers>>,
    pub(crate) state: Progress,
    /// What was sent last, from the cache, is not the end of a picture.
    pub(crate) is_mid_picture: bool,
    pub(crate) fir_sequence: Option<u8>,
    /// Its last report that was looked into: milliseconds since it joined, the highest number, and what its
    /// own path had lost, of 256.
    pub(crate) reported: Option<(u32, u32)>,
    pub(crate) own_fraction_lost: u8,
    /// Numbers that were left out since it reported ([`ViewerTrack::leave_gap`]).
    pub(crate) left_out: u8,
    /// What a viewer gets that has had a target; the main output without.
    pub(crate) layers: Option<Box<ViewerLayers>>,
    pub(crate) layer_control: LayerControl,
    pub(crate) protection: Option<Box<Protection>>,
}

impl ColdState {
    /// A packet of a track with this header has this transport-wide number.
    #[cold]
    #[inline(never)]
    fn keep_number(&mut self, track: TrackIndex, header: &[u8; HEADER_LEN_MAX], number: u16) {
        let cold = self.tracks.iter_mut().find(|cold| cold.track == track);
        if let Some(numbers) = cold.and_then(|cold| cold.sent_numbers.as_mut()) {
            numbers.note(header, number);
        }
    }
}

impl ColdTrack {
    pub(crate) fn new(input: &ViewerTrackInput) -> Self {
        Self {
            track: input.track,
            rtx_ssrc: input.rtx_ssrc,
            rtx_sequence_number: 0,
            nack: input.nack,
            sent_numbers: None,
            state: Progress::Waiting,
            is_mid_picture: false,
            fir_sequence: None,
            reported: None,
            own_fraction_lost: 0,
            left_out: 0,
            layers: None,
            layer_control: LayerControl::default(),
            protection: input.fec.map(|(payload_type, ssrc)| {
                let extensions = input.extensions;
                Box::new(Protection::new(&ProtectionInput { payload_type, ssrc, extensions }))
            }),
        }
    }

    /// Which output of the track it gets.
    pub(crate) fn rendition(&self) -> RenditionId {
        self.layers.as_ref().map_or(RenditionId::MAIN, |layers| layers.current)
    }
}

/// Progress of a viewer with a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Gets nothing: video needs a key frame, audio its next packet.
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
    /// limit was reached, or this format of a track with RTX has none.
    pub not_resent: u64,
    /// Packets asked for again by NACK.
    pub nacked_packets: u64,
    /// Key-frame requests.
    pub key_frame_requests: u64,
    /// Bytes of padding: packets that it had, sent again to see whether its path carries more.
    pub padding_bytes: u64,
    /// Times that video waited for its path for so long that it goes on with the next key frame.
    pub times_behind: u64,
    /// Changes to a higher layer.
    pub switches_up: u32,
    /// Changes to a lower layer.
    pub switches_down: u32,
    /// How much of its video it gets.
    pub share: Share,
    /// When it was sent its first key frame.
    pub video_began: Option<Instant>,
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
            let Some(track) = self.tracks.0.get(forward.track.position()) else { return false };
            match track.plain == forward.rendition {
                true => (track.from..track.until).contains(&forward.number),
                false => track.is_layered && self.segment_of(forward).is_some(),
            }
        };
        packets.forwards.iter().filter(is_taken).count()
    }

    /// Writes the header under which packet `index` of this turn goes to this viewer, and returns
    /// its length.
    ///
    /// `None` if it does not get the packet (now): it takes no such track or codec, or has not
    /// caught up yet. The packet counts as sent. `pacer` is that of the viewer's transport, if it has one; it
    /// has to be given the length of what is sent ([`Pacer::sent`]).
    #[inline]
    pub fn header_for(
        &mut self,
        packets: &BatchPackets<'_>,
        index: usize,
        pacer: Option<&mut Pacer>,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let forward = packets.forwards.get(index)?;
        let track = self.tracks.0.get_mut(forward.track.position())?;
        if forward.rendition != track.plain {
            return if track.is_layered { self.header_of_layer(packets, index, pacer, out) } else { None };
        }
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
        if let Some(pacer) = pacer {
            let number = pacer.number(out, track.has_transport_number);
            if track.keeps_numbers {
                self.cold.keep_number(forward.track, out, number);
            }
        }
        track.count(packets.payload(forward, track.profile).len());
        Some(len)
    }

    /// The viewer's path has no room for this batch from packet `index` on: the rest comes from the
    /// cache when there is room ([`PacketStream::send_backlog`](super::PacketStream::send_backlog)),
    /// except late packets, which still go now. `false` if nothing is left to the cache.
    pub(crate) fn fall_behind(&mut self, packets: &BatchPackets<'_>, index: usize) -> bool {
        let mut is_behind = false;
        for forward in packets.forwards.iter().skip(index).filter(|forward| !forward.is_late) {
            let Some(track) = self.tracks.0.get_mut(forward.track.position()) else { continue };
            let cold = self.cold.tracks.iter_mut().find(|cold| cold.track == forward.track);
            let Some(cold) = cold.filter(|cold| cold.rendition() == forward.rendition) else { continue };
            if (track.from..track.until).contains(&forward.number) {
                track.until = forward.number;
                is_behind = true;
                cold.state = Progress::CatchingUp;
            }
        }
        is_behind
    }

    /// [`Viewer::header_for`] for a viewer that has had a target: the header differs by more than a
    /// template does, and the packet may be one of the rendition that it got before.
    #[cold]
    #[inline(never)]
    fn header_of_layer(
        &mut self,
        packets: &BatchPackets<'_>,
        index: usize,
        pacer: Option<&mut Pacer>,
        out: &mut [u8; HEADER_LEN_MAX],
    ) -> Option<usize> {
        let forward = packets.forwards.get(index)?;
        let segment = *self.segment_of(forward)?;
        let to = segment.viewer_fields(forward.number, forward.timestamp);
        let Some(len) = packets.profiles.get(segment.profile)?.header(&forward.packet, to, out) else {
            packets.note_unsupported(index, self.token);
            return None;
        };
        if let Some(pacer) = pacer {
            let number = pacer.number(out, segment.has_transport_number);
            if segment.keeps_numbers {
                self.cold.keep_number(forward.track, out, number);
            }
        }
        let bytes = packets.payload(forward, segment.profile).len();
        self.tracks[forward.track].count(bytes);
        Some(len)
    }

    /// Packet `index` of this turn was sent with this header: repair packets may be made of it.
    /// Whether one is to be sent now ([`Viewer::poll_repair`]).
    #[inline]
    pub fn protect(&mut self, now: Instant, packets: &BatchPackets<'_>, index: usize, header: &[u8]) -> bool {
        let Some(forward) = packets.forwards.get(index) else { return false };
        let is_protected =
            self.tracks.0.get(forward.track.position()).is_some_and(|track| track.is_protected);
        is_protected && self.protect_packet(now, forward, header)
    }

    #[cold]
    fn protect_packet(&mut self, now: Instant, forward: &Forward, header: &[u8]) -> bool {
        let cold = self.cold.tracks.iter_mut().find(|cold| cold.track == forward.track);
        let Some(protection) = cold.and_then(|cold| cold.protection.as_mut()) else { return false };
        protection.handle_packet(now, header, forward.packet.payload());
        protection.has_repair()
    }

    /// Writes the next repair packet to the start of `out`. The length of its header, and of all of it.
    pub fn poll_repair(
        &mut self,
        packets: &BatchPackets<'_>,
        pacer: Option<&mut Pacer>,
        out: &mut [u8; REPAIR_LEN_MAX],
    ) -> Option<(usize, usize)> {
        let due = self.cold.tracks.iter_mut().find_map(|cold| {
            let protection = cold.protection.as_mut().filter(|protection| protection.has_repair())?;
            Some((cold.track, protection))
        });
        let (track, protection) = due?;
        let hot = &self.tracks[track];
        packets.profiles.get(hot.profile)?.write_repair(protection, pacer, out)
    }

    /// What follows the header of packet `index` of this turn ([`Viewer::header_for`]).
    #[inline]
    pub fn payload<'a>(&self, packets: &BatchPackets<'a>, index: usize) -> &'a [u8] {
        let Some(forward) = packets.forwards.get(index) else { return &[] };
        let track = self.tracks.0.get(forward.track.position());
        packets.payload(forward, track.map_or(ProfileId::NONE, |track| track.profile))
    }

    /// What has to be changed in the payload of packet `index` of this turn for this viewer; `None`, nearly
    /// always, if it goes out as it is ([`Viewer::payload`]).
    #[inline]
    pub fn payload_shift(&self, packets: &BatchPackets<'_>, index: usize) -> Option<PayloadShift> {
        let forward = packets.forwards.get(index)?;
        let track = self.tracks.0.get(forward.track.position()).filter(|track| track.is_layered)?;
        if forward.rendition == track.plain {
            return None;
        }
        self.segment_of(forward)?.pictures.of_payload(forward.packet.codec())
    }

    /// How this viewer gets a packet, if it does.
    fn segment_of(&self, forward: &Forward) -> Option<&ViewerTrack> {
        let cold = self.cold.tracks.iter().find(|cold| cold.track == forward.track)?;
        let layers = cold.layers.as_ref()?;
        layers.segment_of(&self.tracks[forward.track], forward.rendition, forward.number)
    }

    /// Counts and totals.
    pub fn stats(&self) -> ViewerStats {
        let mut stats = self.cold.stats;
        stats.packets = self.tracks.0.iter().map(|track| u64::from(track.packets)).sum();
        stats.payload_bytes = self.media_bytes();
        stats.round_trip = self.cold.round_trip;
        stats.share = self.cold.share.current();
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
        has_transport_number: false,
        keeps_numbers: false,
        is_protected: false,
        timestamp_shift: 0,
        pictures: PictureShift::NONE,
        plain: RenditionId::MAIN,
        is_layered: false,
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

    /// Leaves out what comes before `number`; sequence numbers go on. How many are left out with it.
    pub(crate) fn skip_to(&mut self, number: u64, is_mid_picture: bool) -> u8 {
        let left_out = self.leave_gap(is_mid_picture);
        self.sequence_shift = self.sequence_number(self.until).wrapping_sub(number as u16);
        (self.from, self.until) = (number, number);
        left_out
    }

    /// Whether what comes next belongs to a key frame of which something was sent.
    pub(crate) fn is_within_key_frame(&self, cache: &PacketCache) -> bool {
        let before = self.until.checked_sub(1).filter(|before| *before >= self.from);
        let before = before.and_then(|before| cache.get(before)).map(|kept| kept.timestamp);
        let next = cache.get(self.until);
        next.is_some_and(|next| next.packet.is_key_frame() && Some(next.timestamp) == before)
    }

    /// What comes next is left out. In the middle of a picture a number is left out with it, or the receiver
    /// would take the part that it has for the whole. How many that are.
    pub(crate) fn leave_gap(&mut self, is_mid_picture: bool) -> u8 {
        let left_out = u8::from(is_mid_picture && self.from < self.until);
        self.sequence_shift = self.sequence_shift.wrapping_add(left_out.into());
        self.from = self.until;
        left_out
    }

    /// Whether what comes next belongs to the picture of what was sent last; `None`: they are not
    /// kept any more.
    pub(crate) fn is_mid_picture(&self, cache: &PacketCache) -> Option<bool> {
        let last = self.until.checked_sub(1).filter(|last| *last >= self.from)?;
        let timestamp = |number: u64| cache.get(number).map(|kept| kept.timestamp);
        Some(timestamp(last)? == timestamp(self.until)?)
    }

    /// How this viewer gets the packet with this number and timestamp: each time the same.
    pub(crate) fn viewer_fields(&self, number: u64, timestamp: u32) -> ViewerFields {
        let is_catch_up = number < self.catch_up_until;
        let timestamp = if is_catch_up { self.compress(timestamp) } else { timestamp };
        let timestamp = timestamp.wrapping_add(self.timestamp_shift);
        let sequence_number = self.sequence_number(number);
        let frames = self.pictures.frames;
        let is_first = number.wrapping_sub(self.from) < SAID_ACTIVE_FOR;
        let all_active = self.pictures.all_active.filter(|_| is_first);
        ViewerFields { ssrc: self.ssrc, sequence_number, timestamp, is_catch_up, frames, all_active }
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

    /// Counts a packet that is sent.
    #[inline]
    pub(crate) fn count(&mut self, payload_bytes: usize) {
        self.packets = self.packets.wrapping_add(1);
        self.payload_bytes += payload_bytes as u64;
    }
}

/// Packets in which it is said that all decode targets are active again: what is lost of them is sent again.
const SAID_ACTIVE_FOR: u64 = 64;

/// How much the timestamps of the cache are squeezed: ten seconds into 160 ms, frames of 60 Hz to
/// 23 units of 90 kHz.
const COMPRESSION: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_of_two_tracks_takes_less_than_1_5_kb_without_layers_and_repair_packets() {
        let of_tracks = 2 * (size_of::<ViewerTrack>() + size_of::<ColdTrack>());
        let at_first = size_of::<Viewer>() + size_of::<ColdState>() + of_tracks;
        assert!(at_first < 770, "{at_first}");
        let with_memory = at_first + size_of::<ResendMemory>();
        assert!(with_memory < 1_536, "{with_memory}");
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
