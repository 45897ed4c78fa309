//! RTP of a publisher to frames, for streams whose packets WebRTC does not take as they are: AAC, pictures
//! that are not sent in the order they are shown, parameter sets that are in the description alone.
//!
//! Order, depacketizing and the common time of both tracks are the bridge's ([`bridge::RtpToFrame`]); here
//! are payload types, sender and receiver reports, and decoding times.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridge::clock::Stamp;
use bridge::rtp_to_frame::RtpPayload;
use bridge::{FramesOut, RtpToFrame, RtpToFrameSettings};
use media::config::{reorder_frames, reorder_pictures};
use media::{Codec, DecodingTimes, Frame, FrameRole, MediaKind};
use rtp::rtcp::{self, Rtcp};
use sfu::{NtpRtpMapping, RemoteClock};

use crate::clock_rate::{self, Trial};
use crate::input::{FRAMING_BYTES, MAGIC};
use crate::reception::{Reception, ReceptionStats, Reports};
use crate::sdp::{AnnouncedTrack, carried};

/// How packets become frames.
#[derive(Debug, Clone, Copy)]
pub struct IncomingSettings {
    /// Longest a packet that is missing is waited for.
    pub delay_max: Duration,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// It is no RTP, or no RTCP.
    Malformed,
    /// Its payload type was not announced.
    PayloadType,
    /// Its track is not carried: another medium than audio and video, or the second of its kind.
    NotCarried,
}

impl Dropped {
    /// For the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed RTP or RTCP",
            Self::PayloadType => "the payload type was not announced",
            Self::NotCarried => "the track is not carried",
        }
    }
}

/// What takes a publisher's packets.
#[derive(Debug)]
pub struct Incoming {
    tracks: Vec<Option<Track>>,
    bridge: RtpToFrame,
    out: FramesOut,
    times: DecodingTimes,
    clock: RemoteClock,
    reports: Reports,
    /// Headers that wait for the picture they are for.
    headers: Vec<Arc<Frame>>,
    frames: VecDeque<Arc<Frame>>,
}

#[derive(Debug)]
struct Track {
    kind: MediaKind,
    codec: Codec,
    payload_type: u8,
    clock_rate: u32,
    /// While it is not known which of two clock rates it is.
    trial: Option<Trial>,
    reception: Option<Reception>,
    mapping: Option<NtpRtpMapping>,
    /// Each source of a track is a publication of its own to the bridge.
    epoch: u64,
    /// The next number of a source that may have begun again.
    strayed: Option<u16>,
    /// The highest number that the bridge was given: it takes none twice, of whatever source.
    newest: u64,
    /// What makes numbers of the source those of the bridge.
    shift: u64,
}

impl Incoming {
    /// For tracks as they were announced.
    pub fn new(tracks: &[AnnouncedTrack], settings: IncomingSettings, now: Instant) -> Self {
        let mut bridge = RtpToFrame::new(
            RtpToFrameSettings {
                delay_max: settings.delay_max,
                key_frame_interval_max: Duration::from_secs(3_600),
                audio_to_aac: false,
            },
            now,
        );
        let mut times = DecodingTimes::default();
        let mut kept = Vec::new();
        for (track, is_carried) in tracks.iter().zip(carried(tracks)) {
            if !is_carried {
                kept.push(None);
                continue;
            }
            if let Some((config, packets)) = &track.aac {
                bridge = bridge.with_aac(config.clone(), packets.clone());
            }
            if track.kind == MediaKind::Video {
                bridge = bridge.with_parameter_sets(track.parameter_sets.clone());
                let reorder = |set: &Vec<u8>| match track.codec {
                    Codec::H264 => reorder_frames(set),
                    Codec::H265 => reorder_pictures(set),
                    _ => None,
                };
                let reorder = track.parameter_sets.iter().find_map(reorder);
                times = DecodingTimes::with_reorder(reorder.unwrap_or(0));
            }
            let (clock_rate, trial) = clock_rate::of(track);
            kept.push(Some(Track {
                kind: track.kind,
                codec: track.codec,
                payload_type: track.payload_type,
                clock_rate,
                trial,
                reception: None,
                mapping: None,
                epoch: 1,
                strayed: None,
                newest: 0,
                shift: 0,
            }));
        }
        Self {
            tracks: kept,
            bridge,
            out: FramesOut::default(),
            times,
            clock: RemoteClock::default(),
            reports: Reports::new(now),
            headers: Vec::new(),
            frames: VecDeque::new(),
        }
    }

    /// A packet of a track.
    pub fn rtp(&mut self, now: Instant, track: usize, packet: &[u8]) -> Result<(), Dropped> {
        let read = rtp::Packet::parse(packet).map_err(|_| Dropped::Malformed)?;
        let kept = self.tracks.get_mut(track).and_then(Option::as_mut).ok_or(Dropped::NotCarried)?;
        if read.payload_type() != kept.payload_type {
            return Err(Dropped::PayloadType);
        }
        let Some(trial) = &mut kept.trial else { return self.take(now, now, track, &read) };
        let Some(clock_rate) = trial.note(now, read.timestamp(), packet) else { return Ok(()) };
        kept.clock_rate = clock_rate;
        let held = kept.trial.take().map(|trial| trial.into_held(clock_rate)).unwrap_or_default();
        for (arrival, packet) in held {
            let packet = rtp::Packet::parse(&packet).map_err(|_| Dropped::Malformed)?;
            self.take(now, arrival, track, &packet)?;
        }
        Ok(())
    }

    /// Takes a packet that has its payload type, and came at `arrival`, into the bridge.
    fn take(
        &mut self,
        now: Instant,
        arrival: Instant,
        track: usize,
        packet: &rtp::Packet<'_>,
    ) -> Result<(), Dropped> {
        let track = self.tracks.get_mut(track).and_then(Option::as_mut).ok_or(Dropped::NotCarried)?;
        let sequence = packet.sequence_number();
        let known = track.reception.as_ref();
        let is_other = known.is_some_and(|known| known.ssrc != packet.ssrc());
        let is_stray = !is_other && known.is_some_and(|known| known.is_far_behind(sequence));
        let begins_again = is_other || is_stray && track.strayed == Some(sequence);
        track.strayed = (is_stray && !begins_again).then_some(sequence.wrapping_add(1));
        if begins_again {
            // With other numbers and times.
            (track.reception, track.mapping) = (None, None);
            track.epoch += 1;
        }
        let reception = track.reception.get_or_insert_with(|| Reception::new(packet.ssrc()));
        let arrival_units = self.reports.arrival_units(arrival, track.clock_rate);
        let number = reception.packet(sequence, packet.timestamp(), arrival_units);
        if begins_again {
            track.shift = (track.newest + 1).wrapping_sub(number);
        }
        let number = number.wrapping_add(track.shift);
        track.newest = track.newest.max(number);
        let payload = RtpPayload {
            number,
            epoch: track.epoch,
            codec: track.codec,
            marker: packet.marker(),
            stamp: Stamp {
                kind: track.kind,
                timestamp: packet.timestamp(),
                clock_rate: track.clock_rate,
                arrival,
                mapping: track.mapping,
            },
            media: packet.payload().into(),
        };
        self.bridge.payload(now, &payload, &mut self.out);
        self.collect();
        Ok(())
    }

    /// RTCP of a track. Whether its source says goodbye.
    pub fn rtcp(&mut self, now: Instant, track: usize, compound: &[u8]) -> Result<bool, Dropped> {
        let track = self.tracks.get_mut(track).and_then(Option::as_mut).ok_or(Dropped::NotCarried)?;
        let mut is_goodbye = false;
        for packet in rtcp::packets(compound) {
            match packet.map_err(|_| Dropped::Malformed)? {
                Rtcp::SenderReport(report) => {
                    let info = report.info;
                    let continued = track.mapping.and_then(|mapping| {
                        let units = info.rtp_timestamp.wrapping_sub(mapping.timestamp).cast_signed();
                        let seconds = f64::from(units.unsigned_abs()) / f64::from(track.clock_rate);
                        let distance = Duration::from_secs_f64(seconds);
                        if units < 0 {
                            mapping.at.checked_sub(distance)
                        } else {
                            mapping.at.checked_add(distance)
                        }
                    });
                    let at = self.clock.instant_of(info.ntp, continued, now);
                    track.mapping = Some(NtpRtpMapping { at, timestamp: info.rtp_timestamp });
                    if let Some(reception) = &mut track.reception {
                        reception.reported(info.ntp.middle(), now);
                    }
                }
                Rtcp::Bye(_) => is_goodbye = true,
                _ => {}
            }
        }
        Ok(is_goodbye)
    }

    /// What time has made due.
    pub fn poll(&mut self, now: Instant) {
        self.bridge.poll(now, &mut self.out);
        self.collect();
    }

    /// When to call [`Incoming::poll`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.bridge.next_timeout()
    }

    /// The next frame.
    pub fn next_frame(&mut self) -> Option<Arc<Frame>> {
        self.frames.pop_front()
    }

    /// Receiver reports of all tracks, if they are due, each handed to `send` with its track.
    pub fn report(&mut self, now: Instant, send: impl FnMut(usize, &[u8])) {
        let receptions = self.tracks.iter_mut().map(|track| track.as_mut()?.reception.as_mut());
        self.reports.write(now, receptions, send);
    }

    /// How packets arrive.
    pub fn stats(&self) -> ReceptionStats {
        let tracks = self.tracks.iter().flatten();
        ReceptionStats::of(tracks.filter_map(|track| Some((track.reception.as_ref()?, track.clock_rate))))
    }

    /// Gives what the bridge has made the times of its decoding.
    fn collect(&mut self) {
        for frame in self.out.frames.drain(..) {
            let is_video = frame.track.kind == MediaKind::Video;
            let is_header = matches!(frame.role, FrameRole::Config | FrameRole::Metadata);
            if is_header && (is_video || frame.role == FrameRole::Metadata) {
                self.headers.push(frame);
                continue;
            }
            let mut frame = frame;
            if is_video {
                Arc::make_mut(&mut frame).dts = self.times.next(frame.pts);
            }
            // A configuration of video waits for its picture, which audio may get ahead of.
            let is_due = |header: &mut Arc<Frame>| is_video || header.role == FrameRole::Metadata;
            for mut header in self.headers.extract_if(.., is_due) {
                let times = Arc::make_mut(&mut header);
                (times.dts, times.pts) = (frame.dts, frame.dts);
                self.frames.push_back(header);
            }
            self.frames.push_back(frame);
        }
        self.out.clear();
    }
}

/// Puts a packet into the framing of interleaved ones.
pub(crate) fn write_interleaved(out: &mut Vec<u8>, channel: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let from = out.len();
    out.extend_from_slice(&[MAGIC, channel, 0, 0]);
    write(out);
    let length = out.len() - from - FRAMING_BYTES;
    // No packet is longer than a datagram.
    let length = u16::try_from(length).unwrap_or_default();
    out[from + 2..from + FRAMING_BYTES].copy_from_slice(&length.to_be_bytes());
}
