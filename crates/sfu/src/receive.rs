//! Packets and RTCP from the publisher: which encoding they belong to and whether they are
//! forwarded.
//!
//! Only authenticated packets come here. Each is parsed once, and copied once, into the cache.

use std::sync::Arc;
use std::time::Instant;

use rtp::extension::Extension;
use rtp::payload::MediaKind;
use rtp::red::{Block, Red};
use rtp::rtcp::{Rtcp, packets};
use rtp::{FIXED_HEADER_LEN, HeaderFields};
use tracing::trace;

use super::batch::Forward;
use super::clock::NtpRtpMapping;
use super::inputs::TrackPayload;
use super::packet::{Packet, RedPrefix};
use super::reception::Sequence;
use super::relayed_encodings::is_encodings_report;
use super::rendition::RenditionId;
use super::rtp_rewriter::EncodingId;
use super::ssrc_table::{SsrcRole, UnknownSsrc};
use super::stream::PacketStream;
use super::track::{Identified, TrackIndex};

/// What became of a received packet that was not dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its track.
    pub track: TrackIndex,
    /// Whether it goes to the viewers in this turn. Padding and layers that are not forwarded do
    /// not.
    pub forwarded: bool,
    /// Whether it begins a key frame, as far as it shows.
    pub starts_key_frame: bool,
    /// Whether it ends a key frame, as far as is known: it may be read now
    /// ([`PacketStream::newest_key_frame`]).
    pub ends_key_frame: bool,
}

/// Why a received packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Not RTP.
    Malformed,
    /// There is no publisher.
    NoPublisher,
    /// Neither signalling nor the packet says to which track it belongs.
    UnknownSsrc,
    /// The publisher has used too many SSRCs.
    SsrcFlood,
    /// Its SSRC was replaced by another one.
    RetiredSsrc,
    /// Its payload type was not negotiated for its track.
    UnknownPayloadType,
    /// Not what RFC 2198 has redundant audio be, or its blocks are of other formats than the one that was
    /// agreed on.
    MalformedRed,
    /// Received before.
    Duplicate,
    /// Too late to be of use.
    TooOld,
    /// Its number is far from all others: a restart, if the next packet follows it.
    Unconfirmed,
    /// On a mirror: another publication begins with it, and its video cannot begin before a key frame.
    NoKeyFrame,
}

impl DropReason {
    /// A name for the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NoPublisher => "no_publisher",
            Self::UnknownSsrc => "unknown_ssrc",
            Self::SsrcFlood => "ssrc_flood",
            Self::RetiredSsrc => "retired_ssrc",
            Self::UnknownPayloadType => "unknown_payload_type",
            Self::MalformedRed => "malformed_red",
            Self::Duplicate => "duplicate",
            Self::TooOld => "too_old",
            Self::Unconfirmed => "unconfirmed",
            Self::NoKeyFrame => "no_key_frame",
        }
    }
}

/// What RTCP of the publisher asks of the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublisherEvents {
    /// It sent BYE for all of its SSRCs that have sent packets.
    pub bye: bool,
    /// Something in it could not be read.
    pub is_malformed: bool,
}

impl PacketStream {
    /// Says whether anybody plays the stream, on whichever worker and through a bridge as well: from when
    /// a session is opened, before it is a viewer here. Until this is said, somebody does.
    ///
    /// Of a stream that nobody plays less is kept. With the first player its publisher is asked for a key
    /// frame if none is kept. Cheap: to be called with each packet.
    #[inline]
    pub fn set_watched(&mut self, now: Instant, is_watched: bool) {
        if is_watched != self.unwatched_since.is_none() {
            self.unwatched_since = (!is_watched).then_some(now);
            for track in self.tracks.iter_mut().filter(|_| is_watched) {
                track.prepare_start(now, &self.limits);
            }
        }
    }

    /// Takes in a packet of the publisher that has been authenticated: the plaintext of one RTP
    /// packet.
    ///
    /// # Errors
    /// [`DropReason`]; the packet changes nothing then, except that its number may show that others
    /// are missing.
    pub fn receive(&mut self, now: Instant, rtp: &[u8]) -> Result<Received, DropReason> {
        let packet = rtp::Packet::parse(rtp).map_err(|_| DropReason::Malformed)?;
        let publisher = self.publisher.as_mut().ok_or(DropReason::NoPublisher)?;
        if let Some(arrivals) = &mut publisher.arrivals
            && !arrivals.note(now, &packet)
        {
            trace!("a packet is left out of the transport feedback: too many wait for it");
            self.stats.unacknowledged_packets += 1;
        }

        // Which encoding it belongs to.
        let role = match publisher.ssrcs.get(packet.ssrc()) {
            Some(role) => role,
            None => publisher.ssrcs.identify(&packet, &mut self.tracks).map_err(|unknown| match unknown {
                UnknownSsrc::NotIdentified => DropReason::UnknownSsrc,
                UnknownSsrc::TableFull => DropReason::SsrcFlood,
            })?,
        };
        let track = self.tracks.get_mut(role.track).ok_or(DropReason::UnknownSsrc)?;
        if role.is_retired && !publisher.ssrcs.reinstate(now, packet.ssrc(), role, track) {
            return Err(DropReason::RetiredSsrc);
        }

        // The media packet, taken out of its retransmission if it came in one (RFC 4588).
        let payload_type = Some(packet.payload_type());
        let payloads = track.input.as_ref().map_or(&[][..], |input| &input.payloads);
        let (format, sequence_number, payload) = if role.is_repair {
            let format = payloads.iter().find(|payload| payload.rtx == payload_type);
            let format = format.ok_or(DropReason::UnknownPayloadType)?;
            // Publishers probe the bandwidth with retransmissions of nothing.
            let Some((original, payload)) = rtp::rtx::unwrap(packet.payload()) else {
                self.count_received(now, rtp.len(), false);
                return Ok(Received {
                    track: role.track,
                    forwarded: false,
                    starts_key_frame: false,
                    ends_key_frame: false,
                });
            };
            (format, original, payload)
        } else {
            let format = payloads.iter().find(|payload| Some(payload.payload_type) == payload_type);
            let or_red = || payloads.iter().find(|payload| payload.red == payload_type);
            let format = format.or_else(or_red).ok_or(DropReason::UnknownPayloadType)?;
            (format, packet.sequence_number(), packet.payload())
        };
        let is_red = !role.is_repair && Some(format.payload_type) != payload_type && !payload.is_empty();
        let red = if is_red {
            Some(red_prefix(payload, format.payload_type).ok_or(DropReason::MalformedRed)?)
        } else {
            None
        };
        // A decoder of audio can start anywhere. Of video that cannot be read (end-to-end encrypted, say) no
        // key frame is known to begin with.
        let is_video = role.track.kind() == MediaKind::Video;
        let info = is_video.then(|| rtp::payload::inspect(format.codec, payload, packet.marker()));
        let is_readable = payload.is_empty() || info.as_ref().is_none_or(Option::is_some);
        let info = info.flatten().unwrap_or_default();
        let format = *format;
        if info.key_frame && is_video && (info.starts_frame || info.has_parameter_sets) {
            let sizes = rtp::payload::picture_sizes(format.codec, payload);
            let encoding = track.encodings.get_mut(usize::from(role.layer));
            if let Some(encoding) = encoding.filter(|_| !sizes.is_empty()) {
                encoding.sizes = sizes;
            }
        }
        let media = MediaPacket {
            role,
            format,
            sequence_number,
            timestamp: packet.timestamp(),
            marker: packet.marker(),
            is_key: info.key_frame,
            starts_key_frame: info.key_frame && info.starts_frame,
            is_readable,
            layers: (info.spatial_layer.unwrap_or(0), info.temporal_layer.unwrap_or(0)),
            bytes: rtp.len(),
            red,
        };
        let extensions = track.input.as_ref().map(|input| input.extensions).unwrap_or_default();
        let elements = packet
            .extensions()
            .filter_map(|(id, data)| extensions.extension_of(id).map(|extension| (extension, data)));
        self.accept(now, &media, elements, payload)
    }

    /// Takes in a packet of a publisher inside this process, as values: nothing is parsed. Its SSRC
    /// must be one the publisher signalled ([`TrackInput::ssrcs`](super::TrackInput::ssrcs)). `is_key`
    /// is set for all packets of a picture that a decoder can start with.
    ///
    /// # Errors
    /// As [`PacketStream::receive`].
    pub fn receive_packet(
        &mut self,
        now: Instant,
        fields: &HeaderFields,
        payload: &[u8],
        is_key: bool,
    ) -> Result<Received, DropReason> {
        let publisher = self.publisher.as_ref().ok_or(DropReason::NoPublisher)?;
        let role = publisher.ssrcs.get(fields.ssrc).filter(|role| !role.is_repair && !role.is_retired);
        let role = role.ok_or(DropReason::UnknownSsrc)?;
        let track = self.tracks.get(role.track).ok_or(DropReason::UnknownSsrc)?;
        let payloads = track.input.as_ref().map_or(&[][..], |input| &input.payloads);
        let format = payloads.iter().find(|format| format.payload_type == fields.payload_type);
        let timestamp =
            track.main.rewriter.timestamp_shift().map(|shift| fields.timestamp.wrapping_add(shift));
        let media = MediaPacket {
            role,
            format: *format.ok_or(DropReason::UnknownPayloadType)?,
            sequence_number: fields.sequence_number,
            timestamp: fields.timestamp,
            marker: fields.marker,
            is_key,
            // Inside a process none is lost or late: it is the first of its timestamp.
            starts_key_frame: is_key && track.main.key_frame.is_none_or(|newest| timestamp != Some(newest)),
            is_readable: true,
            layers: (0, 0),
            bytes: FIXED_HEADER_LEN + payload.len(),
            red: None,
        };
        self.accept(now, &media, std::iter::empty(), payload)
    }

    /// Counts a media packet for its encoding, stores it, and adds it to the next batch if its encoding
    /// is forwarded.
    fn accept<'a>(
        &mut self,
        now: Instant,
        media: &MediaPacket,
        extensions: impl Iterator<Item = (Extension, &'a [u8])> + Clone,
        payload: &[u8],
    ) -> Result<Received, DropReason> {
        let publisher = self.publisher.as_mut().ok_or(DropReason::NoPublisher)?;
        let track = self.tracks.get_mut(media.role.track).ok_or(DropReason::UnknownSsrc)?;
        let nack = track.input.as_ref().is_some_and(|input| input.nack);
        let encoding = track.encodings.get_mut(usize::from(media.role.layer));
        let encoding = encoding.ok_or(DropReason::UnknownSsrc)?;

        // Its extended number, and what that says about those that are missing.
        let highest = encoding.reception.highest();
        let taken = match media.role.is_repair {
            true => encoding.reception.take_repair(media.sequence_number),
            false => encoding.reception.take(media.sequence_number),
        };
        let sequence = match (taken, highest) {
            (Sequence::Duplicate, _) => return Err(DropReason::Duplicate),
            (Sequence::Unconfirmed, _) => return Err(DropReason::Unconfirmed),
            (Sequence::Restarted(sequence), _) => {
                encoding.restart(now);
                sequence
            }
            (Sequence::Fresh(sequence), Some(highest)) if nack && sequence > highest + 1 => {
                // Packets lost in a long silence, or too many to ask for, are not repaired: the
                // output goes on without a gap at the next key frame, so that no viewer asks for
                // what cannot come.
                let silence = encoding.last_arrival.map(|last| now.saturating_duration_since(last));
                if silence.is_some_and(|silence| silence > publisher.repairs)
                    || !encoding.nacks.skipped(now, highest + 1, sequence)
                {
                    encoding.restart(now);
                }
                sequence
            }
            (Sequence::Fresh(sequence), highest) => {
                if highest.is_some_and(|highest| sequence < highest)
                    && let Some(found) = encoding.nacks.arrived(now, sequence)
                {
                    self.stats.repaired_packets += u64::from(found.was_asked);
                    publisher.note_round_trip(found.round_trip);
                }
                sequence
            }
        };

        let is_padding = payload.is_empty();
        let frame = encoding.read_descriptor(extensions.clone());
        let has_targets = encoding.dependencies.as_ref().is_some_and(|known| known.has_choice());
        if !media.role.is_repair {
            encoding.arrived(now, media.bytes);
            if let Some(frame) = frame.as_ref().filter(|_| has_targets) {
                encoding.arrived_in_targets(now, frame, media.bytes);
            } else if has_targets {
                // Padding, or its structure is missing.
            } else if media.layers != (0, 0) || encoding.layers.is_some() {
                encoding.arrived_in_layer(now, media.layers, media.bytes);
            }
            if !is_padding {
                encoding.reception.measure_jitter(media.timestamp, now, media.format.clock_rate);
            }
        }

        if media.starts_key_frame {
            encoding.key_frames.satisfied();
            encoding.answers.key_frame(now);
        }

        let identified = Identified {
            media,
            generation: encoding.generation,
            epoch: publisher.epoch,
            sequence,
            is_padding,
            is_clock_known: publisher.clock.is_known(),
            may_estimate_clock: publisher.may_estimate_clock(now),
            place: None,
            frame: frame.as_ref(),
        };
        let track = if track.layered > 0 {
            self.review_targets(now, media.role.track);
            self.tracks.get_mut(media.role.track).ok_or(DropReason::UnknownSsrc)?
        } else {
            track
        };
        let is_watched = self.unwatched_since.is_none();
        let mut is_placed = false;
        let stored = if track.renditions.is_empty() {
            track.store(now, &identified, extensions, payload, &self.limits, is_watched)
        } else {
            let of_main = extensions.clone();
            let mut stored = track.store(now, &identified, of_main, payload, &self.limits, is_watched);
            let shared = stored.as_ref().ok().and_then(Option::as_ref);
            let shared = shared.map(|forward| &forward.packet).filter(|packet| !packet.meta.filler);
            let (shared, placed) = (shared.map(Arc::clone), &mut self.placed);
            track.store_in_renditions(now, &identified, extensions, payload, &self.limits, shared, placed);
            is_placed = !placed.is_empty();
            // Other workers get a packet of two outputs once.
            if let Ok(Some(Forward { outputs: Some(outputs), packet, .. })) = &mut stored {
                let whole =
                    placed.iter_mut().find(|it| it.outputs.is_some() && Arc::ptr_eq(&it.packet, packet));
                outputs.in_encoding = whole.and_then(|whole| whole.outputs.take()?.in_encoding);
            }
            stored
        };
        let is_layered = track.layered > 0 || is_placed;
        if is_layered {
            self.forward_placed(now, media.role.track);
        }
        // Too late for the main output, from which an encoding may come since a moment ago, is not too late for
        // viewers who have had that encoding for longer.
        let stored = match stored {
            Err(reason) if !is_placed => return Err(reason),
            stored => stored.ok().flatten(),
        };
        let track = self.tracks.get_mut(media.role.track).ok_or(DropReason::UnknownSsrc)?;
        if let Some(since) = self.unwatched_since {
            track.try_publisher(now, since);
        }
        let (is_forwarded, forwarded) = (stored.is_some(), stored.is_some() || is_placed);
        // One that was missing may be what completes a key frame.
        let is_late_part = stored.as_ref().is_some_and(|forward| {
            forward.number + 1 < track.main.cache.end() && track.main.cache.is_of_key_frame(forward.timestamp)
        });
        let added = stored.as_ref().map(|forward| forward.number);
        let mut ends_key_frame = is_late_part || is_forwarded && track.main.cache.ends_with_key_frame();
        if let Some(forward) = stored {
            let encoding = EncodingId {
                epoch: identified.epoch,
                layer: media.role.layer,
                generation: identified.generation,
            };
            let early = track.main.early.release(now, encoding, sequence);
            self.add_to_batch(now, forward);
            // The track begins with this one: what came before it and belongs behind it follows.
            for held in early {
                let Some(track) = self.tracks.get_mut(media.role.track) else { break };
                let identified = Identified {
                    media: &held.media,
                    sequence: held.sequence,
                    is_padding: held.payload.is_empty(),
                    frame: None,
                    ..identified
                };
                let extensions = held.extensions.iter().map(|(extension, data)| (*extension, &data[..]));
                let stored =
                    track.store(now, &identified, extensions, &held.payload, &self.limits, is_watched);
                if let Ok(Some(forward)) = stored {
                    ends_key_frame |= track.main.cache.is_of_key_frame(forward.timestamp);
                    self.add_to_batch(now, forward);
                }
            }
        }
        if let Some(added) = added.filter(|_| is_layered) {
            self.switch_waiting(now, media.role.track, RenditionId::MAIN, added);
        }
        self.count_received(now, media.bytes, forwarded);
        let starts_key_frame = media.starts_key_frame;
        Ok(Received { track: media.role.track, forwarded, starts_key_frame, ends_key_frame })
    }

    pub(crate) fn count_received(&mut self, now: Instant, bytes: usize, forwarded: bool) {
        self.stats.received_bytes += bytes as u64;
        self.rate.add(now, bytes);
        if !forwarded {
            trace!(bytes, "a packet is not forwarded: padding, or a layer nobody gets");
            self.stats.not_forwarded_packets += 1;
        }
    }

    /// Says which instant a timestamp of a track stands for: what a sender report says, for a
    /// publisher inside this process, whose clock is ours. For tracks of one layer.
    pub fn set_clock(&mut self, track: TrackIndex, mapping: NtpRtpMapping) {
        let Some(publisher) = &mut self.publisher else { return };
        let Some(track) = self.tracks.get_mut(track) else { return };
        let Some(encoding) = track.encodings.first_mut() else { return };
        publisher.clock.set(self.clock.ntp(mapping.at), mapping.at);
        encoding.sender_report = Some(mapping);
        let id = EncodingId { epoch: publisher.epoch, layer: 0, generation: encoding.generation };
        track.reported(id);
    }

    /// Takes in RTCP of the publisher that has been authenticated: a compound packet.
    pub fn receive_rtcp(&mut self, now: Instant, rtcp: &[u8]) -> PublisherEvents {
        let mut events = PublisherEvents::default();
        for packet in packets(rtcp) {
            let Ok(packet) = packet else {
                events.is_malformed = true;
                continue;
            };
            match packet {
                Rtcp::SenderReport(report) => self.note_sender_report(now, report.ssrc, &report.info),
                Rtcp::Bye(bye) => events.bye |= self.take_bye(&bye),
                Rtcp::Other { packet_type, format, body } if is_encodings_report(packet_type) => {
                    let is_relayed = self.publisher.as_ref().is_some_and(|publisher| !publisher.takes_rtcp);
                    let taken = is_relayed.then(|| self.take_encodings_report(now, format, body));
                    events.is_malformed |= taken.is_some_and(|taken| taken.is_none());
                }
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
        let Some(track) = self.tracks.get_mut(role.track) else { return };
        let clock_rate = track.clock_rate;
        let Some(encoding) = track.encodings.get_mut(usize::from(role.layer)) else { return };
        encoding.reception.note_sender_report(info.ntp.middle(), now);
        // A sender that does not know the time says 0 (RFC 3550 section 6.4.1).
        if info.ntp.0 != 0 {
            let continued = encoding.reported_instant(info.rtp_timestamp, clock_rate);
            let instant = publisher.clock.instant_of(info.ntp, continued, now);
            encoding.sender_report = Some(NtpRtpMapping { at: instant, timestamp: info.rtp_timestamp });
            let id =
                EncodingId { epoch: publisher.epoch, layer: role.layer, generation: encoding.generation };
            track.reported(id);
        }
    }

    /// Whether nothing more is expected of the publisher then.
    fn take_bye(&mut self, bye: &rtp::rtcp::Bye<'_>) -> bool {
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

/// A packet of the media of one encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MediaPacket {
    pub(crate) role: SsrcRole,
    pub(crate) format: TrackPayload,
    sequence_number: u16,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
    /// Of a picture that a decoder can start with, as far as it shows.
    pub(crate) is_key: bool,
    /// And the first of it.
    pub(crate) starts_key_frame: bool,
    /// Key frames would be known; true of padding.
    pub(crate) is_readable: bool,
    /// Spatial and temporal layer inside its encoding.
    layers: (u8, u8),
    /// Length as it arrived, header included.
    bytes: usize,
    /// What is ahead of its own payload in redundant audio.
    pub(crate) red: Option<RedPrefix>,
}

/// What is ahead of a packet's own payload in redundant audio, all of which has to be of this payload type:
/// viewers get it as it is, and may have no other number in it, nor RED in RED. `None` if it is not so.
fn red_prefix(payload: &[u8], media_payload_type: u8) -> Option<RedPrefix> {
    let red = Red::parse(payload)?;
    let is_of_media = |block: Block<'_>| block.payload_type == media_payload_type;
    if red.payload_type != media_payload_type || !red.redundant().all(is_of_media) {
        return None;
    }
    let len = u16::try_from(payload.len() - red.primary.len()).ok()?;
    Some(RedPrefix { len, media_payload_type })
}

impl MediaPacket {
    /// A packet of an encoding as another worker has taken it in, under its number there.
    pub(crate) fn mirrored(packet: &Packet, number: u64) -> Self {
        let meta = &packet.meta;
        Self {
            role: SsrcRole {
                track: meta.track,
                layer: meta.source.encoding,
                is_repair: false,
                is_retired: false,
            },
            format: TrackPayload {
                payload_type: 0,
                codec: meta.codec,
                clock_rate: meta.clock_rate,
                rtx: None,
                red: None,
            },
            sequence_number: number as u16,
            timestamp: meta.source.timestamp,
            marker: meta.marker,
            is_key: meta.key_frame,
            starts_key_frame: meta.starts_key_frame,
            is_readable: true,
            layers: (0, 0),
            bytes: FIXED_HEADER_LEN + packet.payload().len(),
            // Of audio only whole packets cross.
            red: None,
        }
    }
}
