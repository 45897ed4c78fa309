//! RTP of a publisher that goes on as it came, to WebRTC and to all that play packets.
//!
//! What is changed: each track gets the SSRC that was announced for it inside this server, whatever its
//! publisher uses; and where parameter sets are in the description alone, a packet with them goes ahead of
//! key frames that come without, because who joins later has not seen the description. The packets behind it
//! are numbered on.

use std::time::Instant;

use media::config::reorder_frames;
use media::{Codec, MediaKind, h264_fmtp};
use rtp::rtcp::{self, Rtcp, SenderReport};
use rtp::{set_marker_payload_type, set_sequence_number, set_ssrc, set_timestamp};

use crate::incoming::Dropped;
use crate::reception::{Reception, ReceptionStats, Reports};
use crate::sdp::{AnnouncedTrack, parameter};

/// Longest packet of parameter sets; more of them are not sent ahead.
const SETS_BYTES_MAX: usize = 1_180;

impl AnnouncedTrack {
    /// Whether its packets can go on as they come: WebRTC takes its codec, and its pictures are shown in the
    /// order they are sent. Of H.265 that is not known ahead.
    pub fn passes_on(&self) -> bool {
        match self.codec {
            Codec::H264 => {
                let mut orders = self.parameter_sets.iter().filter_map(|set| reorder_frames(set));
                orders.next().unwrap_or(0) == 0
            }
            Codec::Av1 | Codec::Vp8 | Codec::Vp9 | Codec::Opus | Codec::Pcma | Codec::Pcmu => true,
            _ => false,
        }
    }

    /// Value of `a=fmtp` for those who get its packets.
    pub fn passed_fmtp(&self) -> String {
        if self.codec != Codec::H264 {
            return if self.kind == MediaKind::Video { self.fmtp.clone() } else { String::new() };
        }
        let sps = self.parameter_sets.iter().find(|set| set[0] & 0x1f == 7);
        match (sps.map(Vec::as_slice), parameter(&self.fmtp, "profile-level-id")) {
            (Some([_, profile, constraints, level, ..]), _) => h264_fmtp([*profile, *constraints, *level]),
            (_, Some(id)) if id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                format!("level-asymmetry-allowed=1;packetization-mode=1;profile-level-id={id}")
            }
            _ => h264_fmtp([0x42, 0xe0, 0x1f]),
        }
    }
}

/// What hands a publisher's packets on.
#[derive(Debug)]
pub struct Passing {
    tracks: Vec<Option<Track>>,
    reports: Reports,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Track {
    codec: Codec,
    payload_type: u8,
    clock_rate: u32,
    /// SSRC that its packets get.
    ssrc: u32,
    reception: Option<Reception>,
    /// A payload with the parameter sets of the description, if there are some.
    sets: Vec<u8>,
    /// Timestamp of the picture that has them.
    has_sets: Option<u32>,
    /// How far numbers are shifted, from this number on, and before.
    shift: u16,
    shifted_from: u64,
    shift_before: u16,
}

impl Passing {
    /// For tracks as they were announced, with the SSRC that packets of each get; `None` for those that are
    /// dropped.
    pub fn new(tracks: &[AnnouncedTrack], ssrcs: &[Option<u32>], now: Instant) -> Self {
        let track = |(track, ssrc): (&AnnouncedTrack, &Option<u32>)| {
            ssrc.map(|ssrc| Track {
                codec: track.codec,
                payload_type: track.payload_type,
                clock_rate: track.clock_rate,
                ssrc,
                reception: None,
                sets: aggregate(track),
                has_sets: None,
                shift: 0,
                shifted_from: 0,
                shift_before: 0,
            })
        };
        let tracks = tracks.iter().zip(ssrcs).map(track).collect();
        Self { tracks, reports: Reports::new(now), scratch: Vec::new() }
    }

    /// Takes a packet of a track; `take` gets it as it goes on, behind parameter sets if they are due.
    pub fn rtp(
        &mut self,
        now: Instant,
        track: usize,
        packet: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Dropped> {
        let read = rtp::Packet::parse(packet).map_err(|_| Dropped::Malformed)?;
        let track = self.tracks.get_mut(track).and_then(Option::as_mut).ok_or(Dropped::NotCarried)?;
        if read.payload_type() != track.payload_type {
            return Err(Dropped::PayloadType);
        }
        if track.reception.as_ref().is_some_and(|reception| reception.ssrc != read.ssrc()) {
            (track.reception, track.shifted_from) = (None, 0);
            track.shift_before = track.shift;
        }
        let reception = track.reception.get_or_insert_with(|| Reception::new(read.ssrc()));
        let arrival = self.reports.arrival_units(now, track.clock_rate);
        let before = reception.highest();
        let number = reception.packet(read.sequence_number(), read.timestamp(), arrival);
        let is_newest = before.is_none_or(|before| number > before);
        let out = &mut self.scratch;
        if !track.sets.is_empty() {
            let unit = Unit::of(track.codec, read.payload());
            if unit == Unit::ParameterSet {
                track.has_sets = Some(read.timestamp());
            } else if unit == Unit::KeyFrame && is_newest && track.has_sets != Some(read.timestamp()) {
                track.has_sets = Some(read.timestamp());
                let mut header = [0x80; rtp::FIXED_HEADER_LEN];
                set_marker_payload_type(&mut header, false, track.payload_type);
                set_sequence_number(&mut header, read.sequence_number().wrapping_add(track.shift));
                set_timestamp(&mut header, read.timestamp());
                set_ssrc(&mut header, track.ssrc);
                out.clear();
                out.extend_from_slice(&header);
                out.extend_from_slice(&track.sets);
                take(out);
                (track.shift_before, track.shifted_from) = (track.shift, number);
                track.shift = track.shift.wrapping_add(1);
            }
        }
        let shift = if number >= track.shifted_from { track.shift } else { track.shift_before };
        out.clear();
        out.extend_from_slice(packet);
        if let Some(header) = out.first_chunk_mut() {
            set_sequence_number(header, read.sequence_number().wrapping_add(shift));
            set_ssrc(header, track.ssrc);
        }
        take(out);
        Ok(())
    }

    /// Takes RTCP of a track; `take` gets the sender reports in it as they go on.
    pub fn rtcp(
        &mut self,
        now: Instant,
        track: usize,
        compound: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Dropped> {
        let track = self.tracks.get_mut(track).and_then(Option::as_mut).ok_or(Dropped::NotCarried)?;
        for packet in rtcp::packets(compound) {
            if let Rtcp::SenderReport(report) = packet.map_err(|_| Dropped::Malformed)? {
                if let Some(reception) = &mut track.reception {
                    reception.reported(report.info.ntp.middle(), now);
                }
                self.scratch.clear();
                SenderReport::write(&mut self.scratch, track.ssrc, &report.info, &[]);
                take(&self.scratch);
            }
        }
        Ok(())
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
}

/// What the beginning of a payload is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    ParameterSet,
    KeyFrame,
    Other,
}

impl Unit {
    fn of(codec: Codec, payload: &[u8]) -> Self {
        let kind = match (codec, payload) {
            // STAP-A: the first unit in it; FU-A: the unit whose beginning it is (RFC 6184 section 5).
            (Codec::H264, [head, _, _, first, ..]) if head & 0x1f == 24 => first & 0x1f,
            (Codec::H264, [head, fragment, ..]) if head & 0x1f == 28 => match fragment & 0x80 {
                0 => 0,
                _ => fragment & 0x1f,
            },
            (Codec::H264, [head, ..]) => head & 0x1f,
            _ => return Self::Other,
        };
        match kind {
            5 => Self::KeyFrame,
            7 | 8 => Self::ParameterSet,
            _ => Self::Other,
        }
    }
}

/// The parameter sets of a description in one payload (STAP-A, RFC 6184 section 5.7.1).
fn aggregate(track: &AnnouncedTrack) -> Vec<u8> {
    if track.codec != Codec::H264 || track.parameter_sets.is_empty() {
        return Vec::new();
    }
    let mut payload = vec![0x60 | 24];
    for set in &track.parameter_sets {
        payload.extend_from_slice(&u16::try_from(set.len()).unwrap_or_default().to_be_bytes());
        payload.extend_from_slice(set);
    }
    if payload.len() > SETS_BYTES_MAX { Vec::new() } else { payload }
}
