//! Packets and RTCP from the publisher: which encoding they belong to and whether they are
//! forwarded.
//!
//! Only authenticated packets come here. Each is parsed once, and copied once, into the cache.

use std::sync::Arc;
use std::time::Instant;

use rtp::extension::Extension;
use rtp::payload::MediaKind;
use rtp::rtcp::{Rtcp, packets};
use rtp::{FIXED_HEADER_LEN, HeaderFields};
use tracing::trace;

use super::clock::NtpRtpMapping;
use super::inputs::TrackPayload;
use super::packet::Packet;
use super::reception::Sequence;
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
            let format = format.ok_or(DropReason::UnknownPayloadType)?;
            (format, packet.sequence_number(), packet.payload())
        };
        // A decoder of audio can start anywhere. Of video that cannot be read (end-to-end encrypted, say) no
        // key frame is known to begin with.
        let is_video = role.track.kind() == MediaKind::Video;
        let info = is_video.then(|| rtp::payload::inspect(format.codec, payload, packet.marker()));
        let is_readable = payload.is_empty() || info.as_ref().is_none_or(Option::is_some);
        let info = info.flatten().unwrap_or_default();
        let media = MediaPacket {
            role,
            format: *format,
            sequence_number,
            timestamp: packet.timestamp(),
            marker: packet.marker(),
            is_key: info.key_frame,
            starts_key_frame: info.key_frame && info.starts_frame,
            is_readable,
            bytes: rtp.len(),
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
        let timestamp = track.rewriter.timestamp_shift().map(|shift| fields.timestamp.wrapping_add(shift));
        let media = MediaPacket {
            role,
            format: *format.ok_or(DropReason::UnknownPayloadType)?,
            sequence_number: fields.sequence_number,
            timestamp: fields.timestamp,
            marker: fields.marker,
            is_key,
            // Inside a process none is lost or late: it is the first of its timestamp.
            starts_key_frame: is_key && track.key_frame.is_none_or(|newest| timestamp != Some(newest)),
            is_readable: true,
            bytes: FIXED_HEADER_LEN + payload.len(),
        };
        self.accept(now, &media, std::iter::empty(), payload)
    }

    /// Takes in a packet the home worker forwarded.
    ///
    /// # Errors
    /// [`DropReason::Duplicate`], [`DropReason::TooOld`] and [`DropReason::NoKeyFrame`].
    pub fn receive_mirrored(&mut self, now: Instant, packet: &Arc<Packet>) -> Result<Received, DropReason> {
        // A publisher that came back: the cache is needed again.
        self.expires_at = None;
        self.note_epoch(now, packet.epoch());
        let track = packet.track();
        let stored = self.tracks.get_or_new(track).store_mirrored(now, packet, &self.limits);
        let forward = stored.inspect_err(|reason| trace!(reason = reason.name(), "dropped a packet"))?;
        self.add_to_batch(now, forward);
        self.count_received(now, packet.payload().len(), true);
        Ok(Received { track, forwarded: true, starts_key_frame: false, ends_key_frame: false })
    }

    /// Counts a media packet for its encoding, stores it, and adds it to the next batch if its encoding
    /// is forwarded.
    fn accept<'a>(
        &mut self,
        now: Instant,
        media: &MediaPacket,
        extensions: impl Iterator<Item = (Extension, &'a [u8])>,
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
        if !media.role.is_repair {
            encoding.arrived(now, media.bytes);
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
        };
        let is_watched = self.unwatched_since.is_none();
        let stored = track.store(now, &identified, extensions, payload, &self.limits, is_watched)?;
        if let Some(since) = self.unwatched_since {
            track.try_publisher(now, since);
        }
        let forwarded = stored.is_some();
        // One that was missing may be what completes a key frame.
        let is_late_part = stored.as_ref().is_some_and(|forward| {
            forward.number + 1 < track.cache.end() && track.cache.is_of_key_frame(forward.timestamp)
        });
        let mut ends_key_frame = is_late_part || forwarded && track.cache.ends_with_key_frame();
        if let Some(forward) = stored {
            let encoding = EncodingId {
                epoch: identified.epoch,
                layer: media.role.layer,
                generation: identified.generation,
            };
            let early = track.early.release(now, encoding, sequence);
            self.add_to_batch(now, forward);
            // The track begins with this one: what came before it and belongs behind it follows.
            for held in early {
                let Some(track) = self.tracks.get_mut(media.role.track) else { break };
                let identified = Identified {
                    media: &held.media,
                    sequence: held.sequence,
                    is_padding: held.payload.is_empty(),
                    ..identified
                };
                let extensions = held.extensions.iter().map(|(extension, data)| (*extension, &data[..]));
                let stored =
                    track.store(now, &identified, extensions, &held.payload, &self.limits, is_watched);
                if let Ok(Some(forward)) = stored {
                    ends_key_frame |= track.cache.is_of_key_frame(forward.timestamp);
                    self.add_to_batch(now, forward);
                }
            }
        }
        self.count_received(now, media.bytes, forwarded);
        let starts_key_frame = media.starts_key_frame;
        Ok(Received { track: media.role.track, forwarded, starts_key_frame, ends_key_frame })
    }

    fn count_received(&mut self, now: Instant, bytes: usize, forwarded: bool) {
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
    /// Length as it arrived, header included.
    bytes: usize,
}
