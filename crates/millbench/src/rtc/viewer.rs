//! A viewer: counts packets, decrypts some or all of them, requests missing ones, sends reports.
//!
//! The header of a packet is readable without decrypting it, and is enough for loss, order and
//! jitter. Every packet is decrypted until some time after the first key frame, and then one in N
//! as configured; these prove the keys, yield the latency by the publisher's mark, and show whether
//! a server hid losses by renumbering.

use std::time::{Duration, Instant};

use rtp::payload::{self, Codec};
use rtp::rtcp::{Nack, NtpMiddle, Pli, ReceiverReport, ReportBlock, Rtcp, SenderInfo, SourceDescription};
use rtp::{Packet, rtx};

use super::arrivals::Arrivals;
use super::counters::Counters;
use super::link::{Link, MediaDatagram};
use super::mark::{self, Counted, Mark};
use super::media::Track;
use super::trace::Tracer;
use super::track::{Arrival, ReceivedTrack};

/// What a payload type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The track.
    pub track: Track,
    /// What is sent again of it (RFC 4588).
    pub again: bool,
}

/// What a viewer gets.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Codec of video.
    pub video_codec: Codec,
    /// What payload types stand for.
    pub meanings: Box<[Option<Meaning>; 128]>,
    /// For which tracks missing packets may be asked for.
    pub nack: [bool; 2],
    /// Id of the extension with the transport-wide number, if arrivals are to be reported.
    pub transport_cc: Option<u8>,
}

/// How a viewer behaves.
#[derive(Clone, Copy, Debug)]
pub struct ViewerConfig {
    /// One in as many packets is decrypted; 0 for none after the first key frame.
    pub decrypt_one_in: u32,
    /// Whether missing packets are asked for, of tracks for which that was agreed.
    pub nack: bool,
    /// Time until a missing packet is asked for again.
    pub retry: Duration,
    /// Whether it is up with its first packet, not with a whole key frame.
    pub begins_anywhere: bool,
    /// Streams that viewers play in turn.
    pub streams: usize,
}

/// State of a viewer.
pub struct Viewer {
    config: ViewerConfig,
    /// Codec of the video.
    codec: Codec,
    /// Which stream it plays.
    stream: usize,
    meanings: Box<[Option<Meaning>; 128]>,
    /// Tracks whose missing packets are asked for.
    nack: [bool; 2],
    /// Audio and video.
    pub tracks: [ReceivedTrack; 2],
    sources: [Option<Source>; 2],
    /// How far the wall clock of the sender's reports is ahead of that of the marks.
    report_lag_ns: Option<i64>,
    key_frame: KeyFrame,
    /// When the first key frame was complete.
    pub up_at: Option<Instant>,
    /// When media last came.
    pub last_media: Option<Instant>,
    /// Times between its packets.
    pub pauses: Pauses,
    until_decrypt: u32,
    arrivals: Option<Arrivals>,
    ssrc: u32,
    report_at: Instant,
    ask_for_key_at: Instant,
    /// Notes lengths and times of what it gets.
    pub tracer: Option<Box<Tracer>>,
}

/// Times between the packets of a viewer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    last_ns: Option<u64>,
    longest_ns: u64,
}

impl Pauses {
    fn note(&mut self, at_ns: u64) {
        let since = self.last_ns.map_or(0, |last| at_ns.saturating_sub(last));
        (self.last_ns, self.longest_ns) = (Some(at_ns), self.longest_ns.max(since));
    }

    /// Forgets the longest one.
    pub fn clear(&mut self) {
        self.longest_ns = 0;
    }

    /// The longest one, nanoseconds, that which lasts included; `None` before the first packet.
    pub fn longest_ns(&self, now_ns: u64) -> Option<u64> {
        let lasts = now_ns.saturating_sub(self.last_ns?);
        Some(self.longest_ns.max(lasts))
    }
}

/// The sender of a track.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    /// The last sender report and when it came.
    report: Option<(SenderInfo, Instant)>,
}

impl Source {
    /// The sender's wall clock at an RTP timestamp, nanoseconds, if a report has given it.
    fn wall_ns(&self, timestamp: u32, clock_rate: u32) -> Option<i64> {
        let (report, _) = self.report?;
        let units = i64::from(timestamp.wrapping_sub(report.rtp_timestamp) as i32);
        let ntp_ns = ((u128::from(report.ntp.0) * 1_000_000_000) >> 32) as i64;
        Some(ntp_ns + units * 1_000_000_000 / i64::from(clock_rate))
    }
}

impl Viewer {
    /// A viewer of these formats; `number` spreads reports over time.
    pub fn new(config: ViewerConfig, formats: Formats, number: usize, now: Instant) -> Viewer {
        let phase = Duration::from_millis(number as u64 * 37 % 1000);
        Viewer {
            config,
            stream: number % config.streams.max(1),
            codec: formats.video_codec,
            meanings: formats.meanings,
            nack: formats.nack.map(|agreed| agreed && config.nack),
            tracks: Default::default(),
            sources: [None; 2],
            report_lag_ns: None,
            key_frame: KeyFrame::default(),
            up_at: None,
            last_media: None,
            pauses: Pauses::default(),
            until_decrypt: number as u32 % config.decrypt_one_in.max(1),
            arrivals: formats.transport_cc.map(|id| Arrivals::new(id, number, now)),
            ssrc: 0x4d00_0000 | number as u32,
            report_at: now + REPORT_INTERVAL + phase,
            ask_for_key_at: now + KEY_FRAME_WAIT,
            tracer: None,
        }
    }

    /// Takes a datagram of media.
    pub fn receive(
        &mut self,
        link: &mut Link,
        now: Instant,
        datagram: MediaDatagram<'_>,
        counters: &mut Counters,
    ) {
        if !datagram.is_rtp {
            return self.receive_rtcp(link, now, datagram, counters);
        }
        let Some(head) = Head::read(datagram.bytes) else { return counters.unknown += 1 };
        let Some(meaning) = self.meanings[usize::from(head.payload_type)] else {
            return counters.unknown += 1;
        };
        counters.packets_received += 1;
        counters.bytes_received += datagram.bytes.len() as u64;
        let at_ns = datagram.at_ns;
        self.pauses.note(at_ns);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.note(datagram.bytes, at_ns);
        }
        if meaning.track == Track::Video && !meaning.again && self.up_at.is_some() {
            counters.delays.arrived(self.stream, head.timestamp, at_ns);
        }
        if let Some(tracer) = self.tracer.as_mut().filter(|_| !meaning.again) {
            let tag_bytes = link.profile().map_or(0, srtp::Profile::rtp_overhead);
            tracer.note(datagram.bytes, tag_bytes, meaning.track, at_ns);
        }
        if meaning.again || self.is_joining(now) || self.is_decrypted() {
            self.receive_open(link, now, head, meaning, datagram, counters);
        } else {
            self.note(now, head, meaning, head.sequence, datagram.at_ns);
        }
        if meaning.track == Track::Audio
            && !meaning.again
            && !self.is_joining(now)
            && let Some(latency_ns) = self.audio_latency_ns(head, at_ns)
        {
            counters.audio_latency.record_ns(latency_ns);
        }
    }

    /// Whether a server may still be bringing it up to date: it gets what came since the last key
    /// frame, and may be moved on when the next one comes first.
    fn is_joining(&self, now: Instant) -> bool {
        self.up_at.is_none_or(|up_at| now.saturating_duration_since(up_at) < JOIN_TIME)
    }

    fn is_decrypted(&mut self) -> bool {
        if self.config.decrypt_one_in == 0 {
            return false;
        }
        if self.until_decrypt == 0 {
            self.until_decrypt = self.config.decrypt_one_in;
        }
        self.until_decrypt -= 1;
        self.until_decrypt == 0
    }

    /// A packet that is looked into.
    fn receive_open(
        &mut self,
        link: &mut Link,
        now: Instant,
        head: Head,
        meaning: Meaning,
        datagram: MediaDatagram<'_>,
        counters: &mut Counters,
    ) {
        let at_ns = datagram.at_ns;
        let Some(plain) = link.unprotect(datagram, counters) else { return };
        let Ok(packet) = Packet::parse(plain) else { return counters.unknown += 1 };
        let (sequence, payload) = match meaning.again {
            false => (head.sequence, packet.payload()),
            true => match rtx::unwrap(packet.payload()) {
                Some((sequence, payload)) if !payload.is_empty() => (sequence, payload),
                // A probe: padding only.
                _ => return,
            },
        };
        if !self.note(now, head, meaning, sequence, at_ns) {
            return;
        }
        let info = match meaning.track {
            Track::Video => payload::inspect(self.codec, payload, head.marker),
            Track::Audio => None,
        }
        .unwrap_or_default();
        if info.key_frame
            && let Some(tracer) = self.tracer.as_mut().filter(|_| !meaning.again)
        {
            tracer.note_key();
        }
        // The formats of VP8 and VP9 have no parameter sets ahead of a key frame.
        let begins = match self.codec {
            Codec::Vp8 | Codec::Vp9 => info.key_frame && info.starts_frame,
            _ => info.has_parameter_sets,
        };
        if let Some(mark) = mark::find(payload) {
            let may_skip = info.key_frame && self.is_joining(now);
            self.tracks[meaning.track.index()].note_mark(sequence, mark, may_skip);
            self.note_lag(meaning.track, head.timestamp, &mark);
            if !meaning.again {
                counters.latency.record_ns(at_ns.saturating_sub(mark.sent_ns));
                if self.up_at.is_some() {
                    let key = Some(head.timestamp).filter(|_| info.key_frame);
                    counters.delays.note(self.stream, meaning.track, key, mark.sent_ns, at_ns);
                }
            }
        }
        if self.up_at.is_none() && self.config.begins_anywhere {
            self.up_at = Some(now);
        }
        if self.up_at.is_none()
            && meaning.track == Track::Video
            && self.key_frame.note(head.timestamp, sequence, head.marker, begins)
        {
            self.up_at = Some(now);
        }
    }

    /// What a mark in a frame reveals about the sender's reports.
    fn note_lag(&mut self, track: Track, timestamp: u32, mark: &Mark) {
        if track == Track::Video && mark.counts == Counted::Frames {
            let wall_ns =
                self.sources[track.index()].and_then(|it| it.wall_ns(timestamp, track.clock_rate()));
            self.report_lag_ns = wall_ns.map(|wall_ns| wall_ns - mark.sent_ns as i64);
        }
    }

    /// Audio that a server transcoded has no marks. Its publication time follows from reports: they
    /// map it to a frame, and that frame's mark has its send time.
    fn audio_latency_ns(&self, head: Head, at_ns: u64) -> Option<u64> {
        let wall_ns =
            self.sources[Track::Audio.index()]?.wall_ns(head.timestamp, Track::Audio.clock_rate())?;
        u64::try_from(at_ns as i64 - (wall_ns - self.report_lag_ns?)).ok()
    }

    /// Counts a packet; `false` if it is a duplicate.
    fn note(&mut self, now: Instant, head: Head, meaning: Meaning, sequence: u16, at_ns: u64) -> bool {
        self.last_media = Some(now);
        let index = meaning.track.index();
        if !meaning.again && self.sources[index].is_none_or(|source| source.ssrc != head.ssrc) {
            self.sources[index] = Some(Source { ssrc: head.ssrc, report: None });
        }
        let ends_frame = head.marker && meaning.track == Track::Video;
        let arrival =
            Arrival { sequence, timestamp: head.timestamp, at_ns, again: meaning.again, ends_frame };
        self.tracks[index].receive(now, arrival, meaning.track.clock_rate())
    }

    fn receive_rtcp(
        &mut self,
        link: &mut Link,
        now: Instant,
        datagram: MediaDatagram<'_>,
        counters: &mut Counters,
    ) {
        let Some(plain) = link.unprotect(datagram, counters) else { return };
        for packet in rtp::rtcp::packets(plain) {
            let Ok(Rtcp::SenderReport(report)) = packet else { continue };
            counters.sender_reports += 1;
            for source in self.sources.iter_mut().flatten() {
                if source.ssrc == report.ssrc {
                    source.report = Some((report.info, now));
                }
            }
        }
    }

    /// Asks for what is missing; call it after each batch.
    pub fn ask(&mut self, link: &mut Link, now: Instant, scratch: &mut Vec<u8>, counters: &mut Counters) {
        if !self.tracks.iter().any(ReceivedTrack::is_missing_any) {
            return;
        }
        scratch.clear();
        for ((track, source), nack) in self.tracks.iter_mut().zip(&self.sources).zip(self.nack) {
            let (Some(source), true) = (source, nack) else { continue };
            let mut missing = Vec::new();
            track.poll_missing(now, self.config.retry, &mut missing);
            counters.nacks.asked += Nack::write(scratch, self.ssrc, source.ssrc, &missing) as u64;
        }
        if !scratch.is_empty() {
            link.send_rtcp(now, scratch, counters);
        }
    }

    /// Sends a report when it is time, and requests a key frame that does not arrive.
    pub fn report(&mut self, link: &mut Link, now: Instant, scratch: &mut Vec<u8>, counters: &mut Counters) {
        scratch.clear();
        if now >= self.report_at {
            self.report_at = now + REPORT_INTERVAL;
            let mut blocks = Vec::with_capacity(2);
            for (track, source) in self.tracks.iter_mut().zip(&self.sources) {
                blocks.extend(source.and_then(|source| report_block(track, &source, now)));
            }
            ReceiverReport::write(scratch, self.ssrc, &blocks);
            SourceDescription::write_cname(scratch, self.ssrc, "millbench");
        }
        if self.up_at.is_none() && now >= self.ask_for_key_at {
            self.ask_for_key_at = now + KEY_FRAME_WAIT;
            if let Some(source) = self.sources[Track::Video.index()] {
                counters.plis_sent += 1;
                Pli { sender_ssrc: self.ssrc, media_ssrc: source.ssrc }.write(scratch);
            }
        }
        if !scratch.is_empty() {
            link.send_rtcp(now, scratch, counters);
        }
        let Some(arrivals) = &mut self.arrivals else { return };
        let media_ssrc = self.sources.iter().flatten().next().map_or(0, |source| source.ssrc);
        while arrivals.poll(now, self.ssrc, media_ssrc, scratch) {
            counters.transport_reports_sent += 1;
            link.send_rtcp(now, scratch, counters);
        }
    }
}

fn report_block(track: &mut ReceivedTrack, source: &Source, now: Instant) -> Option<ReportBlock> {
    let (fraction_lost, cumulative_lost, highest_sequence_number, jitter_rtp_units) = track.report()?;
    let (last_report, since) = source.report.map_or((NtpMiddle(0), Duration::ZERO), |(report, at)| {
        (report.ntp.middle(), now.saturating_duration_since(at))
    });
    Some(ReportBlock {
        ssrc: source.ssrc,
        fraction_lost,
        cumulative_lost,
        highest_sequence_number,
        jitter_rtp_units,
        last_report,
        delay_since_last_report: NtpMiddle::from_duration(since),
    })
}

/// The readable part of an encrypted packet (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    marker: bool,
    payload_type: u8,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
}

impl Head {
    fn read(packet: &[u8]) -> Option<Head> {
        let &[_, kind, s0, s1, t0, t1, t2, t3, a, b, c, d] = packet.first_chunk()?;
        Some(Head {
            marker: kind & 0x80 != 0,
            payload_type: kind & 0x7f,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([a, b, c, d]),
        })
    }
}

/// Waits until all packets of a key frame have arrived; the first one has the parameter sets.
#[derive(Debug, Default)]
struct KeyFrame {
    timestamp: Option<u32>,
    first: Option<u16>,
    last: Option<u16>,
    received: u16,
}

impl KeyFrame {
    /// Takes a new packet; `true` once the frame is complete.
    fn note(&mut self, timestamp: u32, sequence: u16, marker: bool, begins: bool) -> bool {
        if self.timestamp != Some(timestamp) {
            *self = KeyFrame { timestamp: Some(timestamp), ..KeyFrame::default() };
        }
        self.received += 1;
        // Parameter sets can be in several packets.
        if begins && self.first.is_none_or(|first| (sequence.wrapping_sub(first) as i16) < 0) {
            self.first = Some(sequence);
        }
        if marker {
            self.last = Some(sequence);
        }
        let length = |first: u16, last: u16| last.wrapping_sub(first).wrapping_add(1);
        self.first.zip(self.last).is_some_and(|(first, last)| length(first, last) == self.received)
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Two key frame intervals.
const JOIN_TIME: Duration = Duration::from_secs(4);

/// After this time without a key frame a viewer requests one, as browsers do.
const KEY_FRAME_WAIT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_frame_is_complete_when_all_its_packets_have_arrived() {
        /// Timestamp, sequence number, marker, whether it begins a key frame.
        type Noted = (u32, u16, bool, bool);
        let cases: [(&[Noted], &str); 6] = [
            (&[(9, 1, false, true), (9, 2, false, false), (9, 3, true, false)], "in order"),
            (&[(9, 65_535, false, true), (9, 1, true, false), (9, 0, false, false)], "late, across the wrap"),
            (&[(9, 2, true, false), (9, 1, false, true)], "the last one first"),
            (&[(8, 1, true, false), (9, 2, true, true)], "after another frame"),
            (
                &[(9, 1, false, true), (9, 2, false, true), (9, 3, true, false)],
                "two packets of parameter sets",
            ),
            (
                &[(9, 1, false, true), (9, 3, true, false), (12, 4, true, true)],
                "the first one never was whole",
            ),
        ];
        for (packets, remark) in cases {
            let mut frame = KeyFrame::default();
            for (index, &(timestamp, sequence, marker, key)) in packets.iter().enumerate() {
                let complete = frame.note(timestamp, sequence, marker, key);
                assert_eq!(complete, index + 1 == packets.len(), "{remark}: {sequence}");
            }
        }
    }

    #[test]
    fn a_header_is_read_or_is_too_short() {
        let packet = [0x90, 0x80 | 102, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        let head = Head {
            marker: true,
            payload_type: 102,
            sequence: 0x102,
            timestamp: 0x0304_0506,
            ssrc: 0x0708_090a,
        };
        assert_eq!(Head::read(&packet), Some(head));
        assert!((0..12).all(|length| Head::read(&packet[..length]).is_none()));
    }
}
