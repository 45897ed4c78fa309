//! Frames to the packets of a publisher: what a bridge makes of them, sent again where the server
//! asks.
//!
//! Pictures that are not shown in the order they are sent are left out as for viewers
//! ([`bridge::BFrames`]). Loss is answered from a history that is bounded in packets and bytes;
//! without RTX a packet is sent again as it was.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bridge::{AUDIO_SSRC, BFrames, FrameToRtp, FrameToRtpSettings, PacketsOut, PublishedFormats, VIDEO_SSRC};
use media::{CodedAudio, Frame};
use rtc::sdp::{OfferMedia, TrackDescription};
use rtp::payload::{Codec, MediaKind, clock_rate};
use rtp::rtcp::{Bye, Rtcp, SenderInfo, SenderReport, SourceDescription, packets};
use rtp::{FIXED_HEADER_LEN, HeaderFields};
use sfu::{NtpRtpMapping, WallClock};

use crate::client::Outgoing;
use crate::offer::{Identity, carried};

/// How frames become packets.
const PACKETS: FrameToRtpSettings =
    FrameToRtpSettings { b_frames: BFrames::Drop, payload_bytes_max: PAYLOAD_BYTES_MAX };

/// Longest payload: with the headers of RTP, SRTP, UDP and IPv6 it fits in a frame of Ethernet, and
/// in a tunnel's.
const PAYLOAD_BYTES_MAX: usize = 1_200;
/// Packets of a track that can be sent again.
const HISTORY_PACKETS_MAX: usize = 2_048;
/// Their bytes.
const HISTORY_BYTES_MAX: usize = 4 << 20;
/// A packet is not sent again so soon after it was sent.
const AGAIN_EVERY: Duration = Duration::from_millis(20);
/// Packets that may wait to be sent: more of those that are asked for again are left out.
const WAITING_MAX: usize = 4_096;
/// Time between two sender reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Where the audio is among the tracks.
const AUDIO: usize = 1;
/// CNAME of what is sent.
const CNAME: &str = "millstream";

/// Why a frame is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// WebRTC, or the server, does not take its track; a sentence.
    Track(String),
    /// What was offered is not what comes; a sentence.
    Changed(&'static str),
}

/// Totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets sent again.
    pub sent_again: u64,
    /// Key frames that the server asked for.
    pub key_frames_asked: u64,
}

/// The packets of one publication.
///
/// **To be driven like this:** [`frame`](Self::frame) for each frame, [`audio`](Self::audio) for
/// what the transcoder makes of [`take_audio`](Self::take_audio), [`rtcp`](Self::rtcp) for what the
/// server says, [`poll`](Self::poll) at [`next_timeout`](Self::next_timeout), and
/// [`poll_packet`](Self::poll_packet) until it is empty.
#[derive(Debug)]
pub struct Sender {
    bridge: FrameToRtp,
    out: PacketsOut,
    clock: WallClock,
    /// Video, audio.
    offered: [bool; 2],
    tracks: [Option<Track>; 2],
    waiting: VecDeque<Outgoing>,
    reported: Option<Instant>,
    audio: Vec<CodedAudio>,
    stats: SenderStats,
    warning: Option<&'static str>,
}

/// A track that the server takes.
#[derive(Debug)]
struct Track {
    codec: Codec,
    payload_type: u8,
    ssrc: u32,
    /// Payload type, SSRC and next number of retransmissions.
    rtx: Option<(u8, u32, u16)>,
    nack: bool,
    /// What is added to the bridge's sequence numbers.
    offset: u16,
    sent: VecDeque<Sent>,
    sent_bytes: usize,
    packets: u32,
    payload_bytes: u32,
    mapping: Option<NtpRtpMapping>,
}

/// A packet in the history.
#[derive(Debug)]
struct Sent {
    number: u16,
    bytes: Vec<u8>,
    at: Instant,
}

impl Sender {
    /// Sends the tracks that the server takes by its answer.
    pub fn new(
        now: Instant,
        clock: WallClock,
        identity: &Identity,
        offered: &[OfferMedia],
        answered: &[Option<TrackDescription>],
    ) -> Self {
        let track = |kind, number| {
            let track = carried(answered, kind)?;
            let format = track.format();
            let source = track.sources.first();
            let rtx_ssrc = source.and_then(|source| source.rtx_ssrc);
            Some(Track {
                codec: format.codec,
                payload_type: format.payload_type,
                ssrc: source.map_or(identity.ssrc(number), |source| source.ssrc),
                rtx: format.rtx_payload_type.zip(rtx_ssrc).map(|(number, ssrc)| (number, ssrc, ssrc as u16)),
                nack: format.feedback.nack,
                offset: (identity.ssrc(number) >> 17) as u16,
                sent: VecDeque::new(),
                sent_bytes: 0,
                packets: 0,
                payload_bytes: 0,
                mapping: None,
            })
        };
        Self {
            bridge: FrameToRtp::new(PACKETS, now),
            out: PacketsOut::default(),
            clock,
            offered: [MediaKind::Video, MediaKind::Audio]
                .map(|kind| offered.iter().any(|media| media.kind == kind)),
            tracks: [track(MediaKind::Video, 2), track(MediaKind::Audio, 1)],
            waiting: VecDeque::new(),
            reported: None,
            audio: Vec::new(),
            stats: SenderStats::default(),
            warning: None,
        }
    }

    /// SSRCs whose packets are sent again as they were.
    pub fn remembered(&self) -> impl Iterator<Item = u32> + '_ {
        let tracks = self.tracks.iter().flatten();
        tracks.filter(|track| track.nack && track.rtx.is_none()).map(|track| track.ssrc)
    }

    /// Takes a frame in.
    ///
    /// # Errors
    /// Why it is not sent. [`NotSent::Changed`] is for the whole session: it cannot go on.
    pub fn frame(&mut self, now: Instant, frame: &Frame) -> Result<(), NotSent> {
        let kind = frame.track.kind;
        if frame.track.index != 0 && kind != MediaKind::Data {
            return Err(NotSent::Track("WebRTC takes one video and one audio track".to_owned()));
        }
        self.bridge.frame(now, frame.dts, frame, &mut self.out);
        self.audio.append(&mut self.out.audio);
        self.flush(now);
        let formats = self.bridge.formats();
        let refused = formats.refused.as_ref();
        let (known, refusal, at) = match kind {
            MediaKind::Video => (
                formats.video.as_ref().map(|video| video.codec),
                refused.and_then(|refused| refused.video),
                0,
            ),
            MediaKind::Audio => (formats.audio, refused.and_then(|refused| refused.audio), 1),
            MediaKind::Data => return Ok(()),
        };
        match (known, refusal, &self.tracks[at]) {
            (_, Some(refusal), _) => Err(NotSent::Track(refusal.to_string())),
            (Some(codec), None, Some(track)) if codec == track.codec => Ok(()),
            (Some(_), None, Some(_)) => Err(NotSent::Changed("the stream has changed its codec")),
            (Some(_), None, None) if !self.offered[at] => {
                Err(NotSent::Changed("the stream has a further track"))
            }
            (Some(codec), None, None) => Err(NotSent::Track(format!("the server does not take {codec}"))),
            (None, None, _) => Ok(()),
        }
    }

    /// Audio that is to be transcoded to Opus, in order.
    pub fn take_audio(&mut self) -> Vec<CodedAudio> {
        std::mem::take(&mut self.audio)
    }

    /// A packet of the transcoder.
    pub fn audio(&mut self, now: Instant, audio: &CodedAudio) {
        self.bridge.audio(now, audio, &mut self.out);
        let is_first = self.tracks[AUDIO].as_ref().is_some_and(|track| track.packets == 0);
        if is_first && self.out.packets().len() > 0 {
            // Its picture has left long ago: the transcoder takes its time with what came at once
            // when the connection stood, tenths of a second on a busy machine. A server without a
            // report takes the time a packet arrives for that of its capture, and moves the picture
            // when it learns better. So the report goes ahead; and again behind the packet, since
            // some servers know a source by its packets alone.
            self.note_mappings(now);
            self.report(now);
            self.reported = None;
        }
        self.flush(now);
    }

    /// Audio cannot be transcoded, for this reason.
    pub fn refuse_audio(&mut self, reason: &'static str) {
        self.bridge.refuse_audio(reason, &mut self.out);
        self.out.clear();
    }

    /// Takes RTCP of the server in plaintext.
    pub fn rtcp(&mut self, now: Instant, compound: &[u8]) {
        for packet in packets(compound) {
            match packet {
                Ok(Rtcp::Nack(nack)) => {
                    let Some(track) =
                        self.tracks.iter_mut().flatten().find(|track| track.ssrc == nack.media_ssrc)
                    else {
                        continue;
                    };
                    for number in nack.lost() {
                        if self.waiting.len() >= WAITING_MAX {
                            return;
                        }
                        let again = track.again(now, number);
                        self.stats.sent_again += u64::from(again.is_some());
                        self.waiting.extend(again);
                    }
                }
                Ok(Rtcp::Pli(_) | Rtcp::Fir(_)) => self.stats.key_frames_asked += 1,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Does what is due: sender reports.
    pub fn poll(&mut self, now: Instant) {
        let is_news = self.note_mappings(now);
        let is_due = self.reported.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if is_news || is_due {
            self.report(now);
        }
    }

    /// Whether the bridge has said again which timestamps belong to now.
    fn note_mappings(&mut self, now: Instant) -> bool {
        let mappings = self.bridge.report(now);
        let mappings = [mappings.video, mappings.audio];
        for (track, mapping) in self.tracks.iter_mut().zip(mappings) {
            if let Some(track) = track {
                track.mapping = mapping.or(track.mapping);
            }
        }
        mappings.iter().any(Option::is_some)
    }

    fn report(&mut self, now: Instant) {
        let ntp = self.clock.ntp(now);
        let mut compound = Vec::new();
        for track in self.tracks.iter().flatten() {
            let Some(mapping) = track.mapping else { continue };
            let info = SenderInfo {
                ntp,
                rtp_timestamp: mapping.timestamp_at(now, clock_rate(track.codec)),
                packets: track.packets,
                payload_bytes: track.payload_bytes,
            };
            SenderReport::write(&mut compound, track.ssrc, &info, &[]);
            SourceDescription::write_cname(&mut compound, track.ssrc, CNAME);
        }
        if !compound.is_empty() {
            self.reported = Some(now);
            self.waiting.push_back(Outgoing::Rtcp(compound));
        }
    }

    /// When to call [`poll`](Self::poll) at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let report = self.reported.map(|at| at + REPORT_INTERVAL);
        self.bridge.next_timeout().into_iter().chain(report).min()
    }

    /// The next packet to send, in order.
    pub fn poll_packet(&mut self) -> Option<Outgoing> {
        self.waiting.pop_front()
    }

    /// Packets that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Says goodbye, behind what waits.
    pub fn end(&mut self) {
        let ssrcs: Vec<u32> = self.tracks.iter().flatten().map(|track| track.ssrc).collect();
        if let Some(first) = ssrcs.first() {
            let mut compound = Vec::new();
            rtp::rtcp::ReceiverReport::write(&mut compound, *first, &[]);
            SourceDescription::write_cname(&mut compound, *first, CNAME);
            Bye::write(&mut compound, &ssrcs, "");
            self.waiting.push_back(Outgoing::Rtcp(compound));
        }
    }

    /// A warning for the operator, once.
    pub fn take_warning(&mut self) -> Option<&'static str> {
        self.warning.take()
    }

    /// Totals.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    fn flush(&mut self, now: Instant) {
        let Self { out, tracks, waiting, .. } = self;
        self.warning = self.warning.or(out.warning);
        let [video, audio] = tracks;
        for (fields, payload, _) in out.packets() {
            let track = match fields.ssrc {
                VIDEO_SSRC => &mut *video,
                AUDIO_SSRC => &mut *audio,
                _ => continue,
            };
            // The server does not take it.
            let Some(track) = track else { continue };
            // Or not any more, under its payload type.
            if fields.payload_type == bridge::payload_type(track.codec) {
                waiting.push_back(Outgoing::Rtp(track.packet(now, fields, payload)));
            }
        }
        out.clear();
    }
}

impl Track {
    fn packet(&mut self, now: Instant, fields: &HeaderFields, payload: &[u8]) -> Vec<u8> {
        let fields = HeaderFields {
            payload_type: self.payload_type,
            ssrc: self.ssrc,
            sequence_number: fields.sequence_number.wrapping_add(self.offset),
            ..*fields
        };
        let bytes = written(fields, &[], payload);
        self.packets = self.packets.wrapping_add(1);
        self.payload_bytes = self.payload_bytes.wrapping_add(payload.len() as u32);
        if self.nack {
            while self.sent.len() >= HISTORY_PACKETS_MAX || self.sent_bytes > HISTORY_BYTES_MAX {
                let Some(oldest) = self.sent.pop_front() else { break };
                self.sent_bytes -= oldest.bytes.len();
            }
            self.sent_bytes += bytes.len();
            self.sent.push_back(Sent { number: fields.sequence_number, bytes: bytes.clone(), at: now });
        }
        bytes
    }

    /// The packet of this number, as it is sent again.
    fn again(&mut self, now: Instant, number: u16) -> Option<Outgoing> {
        // Their numbers count up by one.
        let first = self.sent.front()?.number;
        let sent = self.sent.get_mut(usize::from(number.wrapping_sub(first)))?;
        if sent.number != number || now.saturating_duration_since(sent.at) < AGAIN_EVERY {
            return None;
        }
        sent.at = now;
        let Some((payload_type, ssrc, next)) = &mut self.rtx else {
            return Some(Outgoing::Again(sent.bytes.clone()));
        };
        let packet = rtp::Packet::parse(&sent.bytes).ok()?;
        let fields = HeaderFields {
            marker: packet.marker(),
            payload_type: *payload_type,
            sequence_number: *next,
            timestamp: packet.timestamp(),
            ssrc: *ssrc,
        };
        *next = next.wrapping_add(1);
        Some(Outgoing::Rtp(written(fields, &rtp::rtx::osn(number), packet.payload())))
    }
}

fn written(fields: HeaderFields, head: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; FIXED_HEADER_LEN];
    fields.write(&[], &mut bytes);
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(payload);
    bytes
}

/// What a server would be offered of a stream that begins with these frames.
pub fn formats<'a>(begin: impl IntoIterator<Item = &'a Frame>) -> PublishedFormats {
    let begin = begin.into_iter().filter(|frame| frame.track.index == 0);
    bridge::describe(&PACKETS, [], begin)
}
