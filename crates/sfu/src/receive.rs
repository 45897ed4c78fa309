//! Packets and RTCP of the publisher on their way in: whose they are, whether they are wanted, and where they go.
//!
//! Authentic packets only come here. Each is parsed once, and copied once, into the cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::extension::Extension;
use rtp::payload::MediaKind;
use rtp::rtcp::{Rtcp, packets};
use rtp::{FIXED_HEADER_LEN, HeaderFields};

use super::clock::NtpRtpMapping;
use super::encoding::Encoding;
use super::inputs::{TrackIndex, TrackPayload};
use super::packet::Packet;
use super::publisher::Publisher;
use super::reception::Sequence;
use super::rtp_rewriter::EncodingId;
use super::ssrc_table::{SsrcRole, UnknownSsrc};
use super::stream::{PacketStream, StreamStats};
use super::track::{Identified, Taken, Track};

/// What became of a received packet that was not dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its track.
    pub track: TrackIndex,
    /// Whether it goes to the viewers in this turn. Padding and layers that are not forwarded do not.
    pub forwarded: bool,
}

/// Why a received packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not RTP.
    Malformed,
    /// There is no publisher.
    NoPublisher,
    /// Nothing tells to which track it belongs.
    UnknownSsrc,
    /// The publisher has used too many SSRCs.
    SsrcFlood,
    /// Its SSRC was replaced by another one.
    RetiredSsrc,
    /// Its payload type was not negotiated for its track.
    UnknownPayloadType,
    /// Received before.
    Duplicate,
    /// Too late to be of use.
    TooOld,
    /// Its number is far from all others, and may be the first of a new beginning: the next one tells.
    Unconfirmed,
}

impl DropReason {
    /// All of them, for counters.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::NoPublisher,
        Self::UnknownSsrc,
        Self::SsrcFlood,
        Self::RetiredSsrc,
        Self::UnknownPayloadType,
        Self::Duplicate,
        Self::TooOld,
        Self::Unconfirmed,
    ];

    /// A name for counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoPublisher => "no_publisher",
            Self::UnknownSsrc => "unknown_ssrc",
            Self::SsrcFlood => "ssrc_flood",
            Self::RetiredSsrc => "retired_ssrc",
            Self::UnknownPayloadType => "unknown_payload_type",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too_old",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

/// What RTCP of the publisher said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherEvents {
    /// It said goodbye for all of its encodings that have sent something.
    pub bye: bool,
}

impl PacketStream {
    /// Takes in a packet of the publisher that has been authenticated: the plaintext of one RTP packet.
    ///
    /// # Errors
    /// [`DropReason`]; the packet changes nothing then, but for numbers that say that something was lost.
    pub fn receive(&mut self, now: Instant, rtp: &[u8]) -> Result<Received, DropReason> {
        let received = self.receive_wire(now, rtp);
        self.count_received(now, rtp.len(), received)
    }

    /// Takes in a packet of a publisher inside this process, as values: nothing is parsed. Its SSRC must be
    /// one the publisher signalled ([`TrackInput::ssrcs`](super::TrackInput::ssrcs)).
    ///
    /// # Errors
    /// As [`PacketStream::receive`].
    pub fn receive_packet(
        &mut self,
        now: Instant,
        fields: &HeaderFields,
        payload: &[u8],
    ) -> Result<Received, DropReason> {
        let received = self.receive_values(now, fields, payload);
        self.count_received(now, FIXED_HEADER_LEN + payload.len(), received)
    }

    fn count_received(
        &mut self,
        now: Instant,
        bytes: usize,
        received: Result<Received, DropReason>,
    ) -> Result<Received, DropReason> {
        match received {
            Ok(_) => {
                self.stats.received_packets += 1;
                self.stats.received_bytes += bytes as u64;
                self.rate.add(now, bytes);
            }
            Err(_) => self.stats.dropped_packets += 1,
        }
        received
    }

    fn receive_wire(&mut self, now: Instant, rtp: &[u8]) -> Result<Received, DropReason> {
        let packet = rtp::Packet::parse(rtp).map_err(|_| DropReason::Malformed)?;
        let publisher = self.publisher.as_mut().ok_or(DropReason::NoPublisher)?;
        publisher.note_arrival(now, &packet);
        let role = match publisher.ssrcs.get(packet.ssrc()) {
            Some(role) => role,
            None => publisher.ssrcs.identify(&packet, &mut self.tracks).map_err(|unknown| match unknown {
                UnknownSsrc::NotIdentified => DropReason::UnknownSsrc,
                UnknownSsrc::TableFull => DropReason::SsrcFlood,
            })?,
        };
        let track = self.tracks.get_mut(usize::from(role.track)).ok_or(DropReason::UnknownSsrc)?;
        if role.is_retired && !publisher.ssrcs.return_to(now, packet.ssrc(), role, track) {
            return Err(DropReason::RetiredSsrc);
        }
        let index = track.index;
        let Some((media, payload)) = MediaPacket::of(&packet, role, track)? else {
            return Ok(Received { track: index, forwarded: false });
        };
        let extensions = track.input.as_ref().map(|input| input.extensions).unwrap_or_default();
        let elements = packet
            .extensions()
            .filter_map(|(id, data)| extensions.extension_of(id).map(|extension| (extension, data)));
        self.accept(now, &media, elements, payload)
    }

    fn receive_values(
        &mut self,
        now: Instant,
        fields: &HeaderFields,
        payload: &[u8],
    ) -> Result<Received, DropReason> {
        let publisher = self.publisher.as_ref().ok_or(DropReason::NoPublisher)?;
        let role = publisher.ssrcs.get(fields.ssrc).filter(|role| !role.is_repair && !role.is_retired);
        let role = role.ok_or(DropReason::UnknownSsrc)?;
        let track = self.tracks.get(usize::from(role.track)).ok_or(DropReason::UnknownSsrc)?;
        let payloads = track.input.as_ref().map_or(&[][..], |input| &input.payloads);
        let format = payloads.iter().find(|format| format.payload_type == fields.payload_type);
        let media = MediaPacket {
            role,
            format: *format.ok_or(DropReason::UnknownPayloadType)?,
            sequence_number: fields.sequence_number,
            timestamp: fields.timestamp,
            marker: fields.marker,
            is_padding: payload.is_empty(),
            bytes: FIXED_HEADER_LEN + payload.len(),
        };
        self.accept(now, &media, std::iter::empty(), payload)
    }

    /// Gives an identified packet its place in the output of its track.
    fn accept<'a>(
        &mut self,
        now: Instant,
        media: &MediaPacket,
        elements: impl Iterator<Item = (Extension, &'a [u8])>,
        payload: &[u8],
    ) -> Result<Received, DropReason> {
        let publisher = self.publisher.as_mut().ok_or(DropReason::NoPublisher)?;
        let track = self.tracks.get_mut(usize::from(media.role.track)).ok_or(DropReason::UnknownSsrc)?;
        let index = track.index;
        let identified = identify(now, media, payload, track, publisher, &mut self.stats)?;
        let taken = track.receive(now, &identified, (elements, payload), &self.limits, &mut self.pool);
        let forwarded = self.note_taken(index, taken)?;
        Ok(Received { track: index, forwarded })
    }

    /// Says which instant a timestamp of a track stands for: what a sender report says, for a publisher inside
    /// this process, whose clock is ours. For tracks with one layer.
    pub fn set_clock(&mut self, track: TrackIndex, mapping: NtpRtpMapping) {
        let Some(publisher) = &mut self.publisher else { return };
        let Some(track) = self.tracks.get_mut(track.position()) else { return };
        let Some(encoding) = track.encodings.first_mut() else { return };
        publisher.clock.set(self.clock.ntp(mapping.at), mapping.at);
        encoding.sender_report = Some((mapping.at, mapping.timestamp));
        let id = EncodingId { epoch: publisher.epoch, layer: 0, generation: encoding.generation };
        track.reported(id);
    }

    /// Takes in a packet the home worker forwarded.
    ///
    /// # Errors
    /// [`DropReason::Duplicate`] and [`DropReason::TooOld`].
    pub fn receive_mirrored(&mut self, now: Instant, packet: &Arc<Packet>) -> Result<Received, DropReason> {
        // A publisher that came back: what is there is wanted again.
        self.expires_at = None;
        self.note_epoch(now, packet.epoch());
        let index = packet.track();
        let track = self.tracks.get_or_new(index);
        let taken = track.receive_mirrored(packet, &self.limits, &mut self.pool);
        let forwarded = self.note_taken(index, taken)?;
        self.stats.received_packets += 1;
        self.stats.received_bytes += packet.payload().len() as u64;
        self.rate.add(now, packet.payload().len());
        Ok(Received { track: index, forwarded })
    }

    fn note_taken(&mut self, track: TrackIndex, taken: Taken) -> Result<bool, DropReason> {
        match taken {
            Taken::Forward(number) => {
                if self.batch.arrived.len() >= BATCH_PACKETS_MAX {
                    self.batch.arrived.clear();
                }
                self.batch.arrived.push((track, number));
                self.has_new_entry |= self.is_entry(track, number);
                self.stats.forwarded_packets += 1;
                Ok(true)
            }
            Taken::NotForwarded => Ok(false),
            Taken::Duplicate => Err(DropReason::Duplicate),
            Taken::TooOld => Err(DropReason::TooOld),
        }
    }

    /// Whether a viewer that waits may have something to begin with now, or to ask for: the first packet of a track tells
    /// that there is somebody who can be asked for a key frame.
    fn is_entry(&self, track: TrackIndex, number: u64) -> bool {
        let Some(track) = self.tracks.get(track.position()) else { return false };
        let is_first = track.cache.first() == number;
        is_first || track.cache.get(number).is_some_and(|kept| kept.packet.is_key_frame())
    }

    /// Takes in RTCP of the publisher that has been authenticated: a compound packet.
    pub fn receive_rtcp(&mut self, now: Instant, rtcp: &[u8]) -> PublisherEvents {
        let mut events = PublisherEvents::default();
        for packet in packets(rtcp).flatten() {
            match packet {
                Rtcp::SenderReport(report) => self.note_sender_report(now, report.ssrc, &report.info),
                Rtcp::Bye(bye) => events.bye |= self.is_last_bye(&bye),
                _ => {}
            }
        }
        events
    }

    fn note_sender_report(&mut self, now: Instant, ssrc: u32, info: &rtp::rtcp::SenderInfo) {
        let Some(publisher) = &mut self.publisher else { return };
        let Some(role) = publisher.ssrcs.get(ssrc).filter(|role| !role.is_repair && !role.is_retired) else {
            return;
        };
        let Some(track) = self.tracks.get_mut(usize::from(role.track)) else { return };
        let clock_rate = track.clock_rate;
        let Some(encoding) = track.encodings.get_mut(usize::from(role.layer)) else { return };
        encoding.reception.note_sender_report(info.ntp.middle(), now);
        // A sender that does not know the time says 0 (RFC 3550 section 6.4.1).
        if info.ntp.0 != 0 {
            let continued = encoding.reported_instant(info.rtp_timestamp, clock_rate);
            let instant = publisher.clock.instant_of(info.ntp, continued, now);
            encoding.sender_report = Some((instant, info.rtp_timestamp));
            let id =
                EncodingId { epoch: publisher.epoch, layer: role.layer, generation: encoding.generation };
            track.reported(id);
        }
    }

    fn is_last_bye(&mut self, bye: &rtp::rtcp::Bye<'_>) -> bool {
        let mut is_known = false;
        for ssrc in bye.ssrcs() {
            for encoding in self.tracks.iter_mut().flat_map(|track| &mut track.encodings) {
                if encoding.ssrc == Some(ssrc) {
                    is_known = true;
                    encoding.last_arrival = None;
                    encoding.nacks.clear();
                }
            }
        }
        let mut encodings = self.tracks.iter().flat_map(|track| &track.encodings);
        is_known && encodings.all(|encoding| encoding.last_arrival.is_none())
    }
}

/// A packet of the media, taken out of its retransmission if it came in one.
#[derive(Debug, Clone, Copy)]
struct MediaPacket {
    role: SsrcRole,
    format: TrackPayload,
    sequence_number: u16,
    timestamp: u32,
    marker: bool,
    is_padding: bool,
    bytes: usize,
}

impl MediaPacket {
    /// `None` for retransmissions that hold nothing: publishers probe with them.
    fn of<'a>(
        packet: &rtp::Packet<'a>,
        role: SsrcRole,
        track: &Track,
    ) -> Result<Option<(Self, &'a [u8])>, DropReason> {
        let payloads = track.input.as_ref().map_or(&[][..], |input| &input.payloads);
        let payload_type = Some(packet.payload_type());
        let (sequence_number, payload, format) = if role.is_repair {
            let format = payloads.iter().find(|payload| payload.rtx == payload_type);
            let format = format.ok_or(DropReason::UnknownPayloadType)?;
            let Some((original, payload)) = rtp::rtx::unwrap(packet.payload()) else { return Ok(None) };
            (original, payload, format)
        } else {
            let format = payloads.iter().find(|payload| Some(payload.payload_type) == payload_type);
            (packet.sequence_number(), packet.payload(), format.ok_or(DropReason::UnknownPayloadType)?)
        };
        let media = Self {
            role,
            format: *format,
            sequence_number,
            timestamp: packet.timestamp(),
            marker: packet.marker(),
            is_padding: payload.is_empty(),
            bytes: packet.bytes().len(),
        };
        Ok(Some((media, payload)))
    }
}

/// Counts the packet for its source, gives it its extended number, and looks into it.
fn identify(
    now: Instant,
    media: &MediaPacket,
    payload: &[u8],
    track: &mut Track,
    publisher: &mut Publisher,
    stats: &mut StreamStats,
) -> Result<Identified, DropReason> {
    let nack = track.input.as_ref().is_some_and(|input| input.nack);
    let encoding = track.encodings.get_mut(usize::from(media.role.layer)).ok_or(DropReason::UnknownSsrc)?;
    let sequence = take_number(now, media, nack, encoding, publisher, stats)?;
    if !media.role.is_repair {
        encoding.arrived(now, media.bytes);
        if !media.is_padding {
            encoding.reception.measure_jitter(media.timestamp, now, media.format.clock_rate);
        }
    }
    // What cannot be read (end-to-end encrypted, say) is passed through; only its key frames are not known.
    let info = rtp::payload::inspect(media.format.codec, payload, media.marker).unwrap_or_default();
    if info.key_frame && info.starts_frame && media.format.codec.kind() == MediaKind::Video {
        encoding.key_frames.satisfied();
        stats.key_frames +=
            u64::from(encoding.key_timestamp.replace(media.timestamp) != Some(media.timestamp));
    }
    Ok(Identified {
        generation: encoding.generation,
        layer: media.role.layer,
        epoch: publisher.epoch,
        sequence,
        timestamp: media.timestamp,
        marker: media.marker,
        is_padding: media.is_padding,
        format: media.format,
        info,
        may_guess: publisher.may_guess(now),
    })
}

/// The extended number of a packet; and what it says about those that are missing.
fn take_number(
    now: Instant,
    media: &MediaPacket,
    nack: bool,
    encoding: &mut Encoding,
    publisher: &mut Publisher,
    stats: &mut StreamStats,
) -> Result<u64, DropReason> {
    let highest = encoding.reception.highest();
    let taken = match media.role.is_repair {
        true => encoding.reception.take_repair(media.sequence_number),
        false => encoding.reception.take(media.sequence_number),
    };
    let sequence = match taken {
        Sequence::Fresh(sequence) => sequence,
        Sequence::Restarted(sequence) => {
            encoding.restart(now);
            return Ok(sequence);
        }
        Sequence::Duplicate => return Err(DropReason::Duplicate),
        Sequence::Unconfirmed => return Err(DropReason::Unconfirmed),
    };
    let Some(highest) = highest else { return Ok(sequence) };
    if nack && sequence > highest + 1 {
        // What was lost in a long silence, or is too much to ask for, is not repaired: the output goes on without a gap
        // at the next key frame, and no viewer asks for what cannot come.
        let silence =
            encoding.last_arrival.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        if silence > publisher.repairs || !encoding.nacks.skipped(now, highest + 1, sequence) {
            encoding.restart(now);
        }
    } else if sequence < highest
        && let Some(found) = encoding.nacks.arrived(now, sequence)
    {
        stats.repaired_packets += u64::from(found.was_asked);
        publisher.note_round_trip(found.round_trip);
    }
    Ok(sequence)
}

/// Packets of one turn. More than a receive batch holds; a caller that takes no turns loses them, and nothing grows.
const BATCH_PACKETS_MAX: usize = 8_192;
