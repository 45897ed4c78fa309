//! A browser that publishes: 600 kbit/s of H.264 and Opus, 30 pictures and 50 audio frames a second.
//!
//! The first eight bytes behind each payload's head number the packets of a track, so that viewers
//! can tell what they got whatever became of headers and order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::{NtpTime, Rtcp, SenderInfo, SenderReport, SourceDescription, packets};
use rtp::{HeaderFields, rtx};
use sfu::{PublisherInput, TrackInput, TrackPayload};

/// Where its numbers begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) sequence_number: u16,
    pub(crate) timestamp: u32,
    pub(crate) ntp: NtpTime,
}

impl Default for Beginning {
    fn default() -> Self {
        Self { sequence_number: 1000, timestamp: 5000, ntp: NtpTime(0xe000_0000 << 32) }
    }
}

/// Audio comes first, then video.
pub(crate) const AUDIO: usize = 0;
pub(crate) const VIDEO: usize = 1;

/// Bytes ahead of the number in each payload: what the codec's inspection reads.
pub(crate) const PAYLOAD_HEAD: usize = 2;

pub(crate) struct Publisher {
    tracks: [Track; 2],
    start: Instant,
    pub(crate) beginning: Beginning,
    /// Packets of a video that is no key frame.
    pub(crate) slices: u32,
    next_frame: [Instant; 2],
    next_report: Instant,
    wants_key_frame: bool,
    /// Key frames sent because they were asked for.
    pub(crate) key_frames_on_demand: u32,
    /// Packets sent again.
    pub(crate) resent: u64,
    until: Instant,
}

struct Track {
    /// When each packet was sent for the first time.
    sent_at: Vec<Instant>,
    ssrc: u32,
    payload_type: u8,
    first_sequence: u16,
    cache: VecDeque<(u16, Vec<u8>)>,
    rtx_sequence: u16,
    payload_bytes: u32,
}

impl Publisher {
    /// Publishes from `now` on for `duration`.
    pub(crate) fn new(now: Instant, duration: Duration, beginning: Beginning) -> Self {
        let track = |ssrc, payload_type| Track {
            sent_at: Vec::new(),
            ssrc,
            payload_type,
            first_sequence: beginning.sequence_number,
            cache: VecDeque::new(),
            rtx_sequence: 77,
            payload_bytes: 0,
        };
        Self {
            tracks: [track(0x1000, 111), track(0x2000, 102)],
            start: now,
            beginning,
            slices: 2,
            next_frame: [now; 2],
            next_report: now + Duration::from_millis(300),
            wants_key_frame: true,
            key_frames_on_demand: 0,
            resent: 0,
            until: now + duration,
        }
    }

    /// What was negotiated with it.
    pub(crate) fn input() -> PublisherInput {
        let track = |kind, mid: &str, payload_type, codec: Codec, ssrc| TrackInput {
            kind,
            mid: mid.to_owned(),
            payloads: vec![TrackPayload {
                payload_type,
                codec,
                clock_rate: rtp::payload::clock_rate(codec),
                rtx: Some(payload_type + 1),
                red: None,
            }],
            extensions: ExtensionMap::new(),
            ssrcs: vec![(ssrc, Some(ssrc + 1))],
            rids: Vec::new(),
            nack: true,
            pli: true,
            fir: true,
            transport_cc: false,
            remb: false,
        };
        PublisherInput {
            tracks: vec![
                track(MediaKind::Audio, "0", 111, Codec::Opus, 0x1000),
                track(MediaKind::Video, "1", 102, Codec::H264, 0x2000),
            ],
            feedback_ssrc: 1,
            cname: "server".to_owned(),
            reduced_size: true,
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let next = self.next_frame.into_iter().min()?.min(self.next_report);
        (next < self.until).then_some(next)
    }

    /// Sends what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, mut send: impl FnMut(Vec<u8>)) {
        if now >= self.until {
            return;
        }
        if self.next_frame[AUDIO] <= now {
            let at = self.next_frame[AUDIO];
            self.next_frame[AUDIO] += Duration::from_millis(20);
            send(self.packet(AUDIO, at, &[0xfc, 0xff], 78, true));
        }
        if self.next_frame[VIDEO] <= now {
            let at = self.next_frame[VIDEO];
            self.next_frame[VIDEO] += Duration::from_micros(33_333);
            self.frame(at, &mut send);
        }
        if self.next_report <= now {
            self.next_report += Duration::from_secs(1);
            (0..2).for_each(|track| send(self.report(track, now)));
        }
    }

    /// A video: 12 packets if it is a key frame, else `slices`.
    fn frame(&mut self, at: Instant, send: &mut impl FnMut(Vec<u8>)) {
        let is_key_frame = std::mem::take(&mut self.wants_key_frame);
        if is_key_frame {
            send(self.packet(VIDEO, at, &[0x67, 0x42], 30, false));
        }
        let slices = if is_key_frame { 11 } else { self.slices };
        for slice in 0..slices {
            let head = [if is_key_frame { 0x65 } else { 0x41 }, if slice == 0 { 0x88 } else { 0x48 }];
            send(self.packet(VIDEO, at, &head, 1150, slice == slices - 1));
        }
    }

    fn packet(&mut self, track: usize, at: Instant, head: &[u8; 2], len: usize, marker: bool) -> Vec<u8> {
        let timestamp = self.timestamp(track, at);
        let track = &mut self.tracks[track];
        let number = track.sent_at.len() as u64;
        let sequence_number = track.first_sequence.wrapping_add(number as u16);
        let fields = HeaderFields {
            marker,
            payload_type: track.payload_type,
            sequence_number,
            timestamp,
            ssrc: track.ssrc,
        };
        let mut packet = vec![0; 12];
        fields.write(&[], &mut packet);
        packet.extend(head);
        packet.extend(number.to_be_bytes());
        packet.resize(12 + len, 0x55);
        track.sent_at.push(at);
        track.payload_bytes = track.payload_bytes.wrapping_add(len as u32);
        track.cache.push_back((sequence_number, packet.clone()));
        if track.cache.len() > HISTORY_PACKETS {
            track.cache.pop_front();
        }
        packet
    }

    fn timestamp(&self, track: usize, at: Instant) -> u32 {
        let clock_rate = if track == AUDIO { 48_000 } else { 90_000 };
        let units = (at - self.start).as_nanos() * clock_rate / 1_000_000_000;
        self.beginning.timestamp.wrapping_add(units as u32)
    }

    fn report(&self, track: usize, now: Instant) -> Vec<u8> {
        let info = SenderInfo {
            ntp: ntp_at(self.beginning.ntp, now - self.start),
            rtp_timestamp: self.timestamp(track, now),
            packets: self.sent(track) as u32,
            payload_bytes: self.tracks[track].payload_bytes,
        };
        let mut out = Vec::new();
        SenderReport::write(&mut out, self.tracks[track].ssrc, &info, &[]);
        SourceDescription::write_cname(&mut out, self.tracks[track].ssrc, "publisher");
        out
    }

    /// Takes in RTCP of the server.
    pub(crate) fn handle_rtcp(&mut self, rtcp: &[u8], mut send: impl FnMut(Vec<u8>)) {
        for packet in packets(rtcp) {
            match packet.expect("valid RTCP of the server") {
                Rtcp::Nack(nack) => nack.lost().for_each(|lost| {
                    if let Some(packet) = self.resend(nack.media_ssrc, lost) {
                        self.resent += 1;
                        send(packet);
                    }
                }),
                Rtcp::Pli(_) | Rtcp::Fir(_) => {
                    self.key_frames_on_demand += u32::from(!self.wants_key_frame);
                    self.wants_key_frame = true;
                }
                _ => {}
            }
        }
    }

    /// The packet as its retransmission stream has it.
    fn resend(&mut self, ssrc: u32, sequence_number: u16) -> Option<Vec<u8>> {
        let track = self.tracks.iter_mut().find(|track| track.ssrc == ssrc)?;
        let (_, original) = track.cache.iter().find(|(number, _)| *number == sequence_number)?;
        let fields = rtp::Packet::parse(original).ok()?.fields();
        let resent = HeaderFields {
            payload_type: track.payload_type + 1,
            sequence_number: track.rtx_sequence,
            ssrc: ssrc + 1,
            ..fields
        };
        track.rtx_sequence = track.rtx_sequence.wrapping_add(1);
        let mut packet = vec![0; 12];
        resent.write(&[], &mut packet);
        packet.extend(rtx::osn(sequence_number));
        packet.extend(&original[12..]);
        Some(packet)
    }

    /// How many packets of a track were sent for the first time.
    pub(crate) fn sent(&self, track: usize) -> u64 {
        self.tracks[track].sent_at.len() as u64
    }

    /// When a packet was sent for the first time.
    pub(crate) fn sent_at(&self, track: usize, number: u64) -> Instant {
        self.tracks[track].sent_at[number as usize]
    }
}

/// NTP time `later` than `ntp`; wraps.
pub(crate) fn ntp_at(ntp: NtpTime, later: Duration) -> NtpTime {
    let units = (later.as_nanos() << 32) / 1_000_000_000;
    NtpTime(ntp.0.wrapping_add(units as u64))
}

/// Two seconds and more of each track.
const HISTORY_PACKETS: usize = 600;
