//! A publisher: sends the generated media when it is due, sends again what is asked for, and reports.
//!
//! A packet that was sent is not kept: it is made again of its place in the media and its mark, of
//! which the last few hundred are remembered. Where packets go, encrypted or not, is a matter of
//! the [`Egress`].

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rtc::sdp::TrackDescription;
use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Extension, ExtensionMap, Form, abs_send_time_from_ntp};
use rtp::rtcp::{NtpTime, Rtcp, SenderInfo, SenderReport, SourceDescription};

use super::counters::Counters;
use super::describe;
use super::link::Link;
use super::mark::{self, Counted, Mark};
use super::media::{Frame, Media, Timeline, Track};
use crate::clock;

/// Where a publisher's packets go.
pub trait Egress {
    /// Sends a packet of media.
    fn send_rtp(&mut self, track: Track, header: &[u8], payload: &[u8], counters: &mut Counters);
    /// Sends RTCP.
    fn send_rtcp(&mut self, plain: &[u8], counters: &mut Counters);
}

/// A WHIP session.
pub struct Encrypted<'a> {
    /// The connection.
    pub link: &'a mut Link,
    /// The time.
    pub now: Instant,
}

impl Egress for Encrypted<'_> {
    fn send_rtp(&mut self, _: Track, header: &[u8], payload: &[u8], counters: &mut Counters) {
        self.link.send_rtp(self.now, header, payload, counters);
    }

    fn send_rtcp(&mut self, plain: &[u8], counters: &mut Counters) {
        self.link.send_rtcp(self.now, plain, counters);
    }
}

/// Plain RTP, as Janus's streaming plugin takes it: a port for each track, no RTCP.
#[derive(Debug)]
pub struct Plain {
    socket: UdpSocket,
    to: [SocketAddr; 2],
}

impl Plain {
    /// Audio goes to `audio`, video two ports above it.
    ///
    /// # Errors
    /// As the system calls report them.
    pub fn new(audio: SocketAddr) -> std::io::Result<Plain> {
        let video = SocketAddr::new(audio.ip(), audio.port().wrapping_add(2));
        let any: SocketAddr = if audio.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        Ok(Plain { socket: UdpSocket::bind(any)?, to: [audio, video] })
    }
}

impl Egress for Plain {
    fn send_rtp(&mut self, track: Track, header: &[u8], payload: &[u8], counters: &mut Counters) {
        let packet = [header, payload].concat();
        match self.socket.send_to(&packet, self.to[track.index()]) {
            Ok(_) => counters.writes += 1,
            Err(_) => counters.not_sent += 1,
        }
    }

    fn send_rtcp(&mut self, _: &[u8], _: &mut Counters) {}
}

/// State of a publisher.
pub struct Publisher {
    id: u64,
    pairs: Vec<Pair>,
    transport_sequence: u16,
    report_at: Instant,
    scratch: Vec<u8>,
}

/// An audio and a video track with the same beginning.
struct Pair {
    timeline: Timeline,
    tracks: [SentTrack; 2],
}

/// A track that is sent.
struct SentTrack {
    payload_type: u8,
    ssrc: u32,
    /// Payload type and SSRC of what is sent again.
    rtx: Option<(u8, u32)>,
    rtx_sequence: u16,
    mid: Box<[u8]>,
    extensions: ExtensionMap,
    sequence: u16,
    /// Offset of the RTP timestamps.
    timestamp: u32,
    packets: u64,
    bytes: u32,
    last_timestamp: u32,
    history: Vec<Sent>,
}

/// A packet that can be made again.
#[derive(Clone, Copy)]
struct Sent {
    sequence: u16,
    frame: Frame,
    /// Which of the frame's payloads.
    index: usize,
    marker: bool,
    mark: Mark,
}

impl Publisher {
    /// Begins now; `tracks` are those agreed on, audio and video in turn. None for plain RTP, which
    /// is one pair.
    pub fn new(
        id: u64,
        number: usize,
        tracks: &[Option<TrackDescription>],
        now: Instant,
        now_ns: u64,
    ) -> Publisher {
        let pairs = (tracks.len() / 2).max(1);
        let pair = |pair: usize| {
            let [audio, video, audio_rtx, video_rtx] = describe::ssrcs(number, pair);
            let agreed = |track: Track| tracks.get(2 * pair + track.index()).and_then(Option::as_ref);
            // Spread over the time between two frames, as if from independent sources.
            let offset_ns = pair as u64 * FRAME_NS / pairs as u64;
            Pair {
                timeline: Timeline::new(now_ns + offset_ns),
                tracks: [
                    SentTrack::new(agreed(Track::Audio), 111, audio, audio_rtx),
                    SentTrack::new(agreed(Track::Video), 102, video, video_rtx),
                ],
            }
        };
        Publisher {
            id,
            pairs: (0..pairs).map(pair).collect(),
            transport_sequence: number as u16,
            report_at: now + Duration::from_millis(number as u64 * 61 % 1000),
            scratch: Vec::new(),
        }
    }

    /// Sends what is due by `now_ns`; when the next frame is, wall clock nanoseconds.
    pub fn send_due(
        &mut self,
        media: &Media,
        now: Instant,
        now_ns: u64,
        egress: &mut impl Egress,
        counters: &mut Counters,
    ) -> u64 {
        let mut next_ns = u64::MAX;
        for pair in 0..self.pairs.len() {
            while self.pairs[pair].timeline.next_due_ns(media) <= now_ns {
                let timeline = &mut self.pairs[pair].timeline;
                counters.lateness.record_ns(now_ns - timeline.next_due_ns(media));
                let frame = timeline.take(media);
                let payloads = media.payloads(frame).len();
                for index in 0..payloads {
                    self.send(media, pair, frame, (index, index + 1 == payloads), egress, counters);
                }
            }
            next_ns = next_ns.min(self.pairs[pair].timeline.next_due_ns(media));
        }
        if now >= self.report_at {
            self.report_at = now + Duration::from_secs(1);
            self.report(egress, counters);
        }
        next_ns
    }

    fn send(
        &mut self,
        media: &Media,
        pair: usize,
        frame: Frame,
        (index, last): (usize, bool),
        egress: &mut impl Egress,
        counters: &mut Counters,
    ) {
        let track = &mut self.pairs[pair].tracks[frame.track.index()];
        let mark = Mark {
            publisher: self.id,
            sent_ns: clock::wall_ns(),
            number: track.packets,
            counts: Counted::Packets,
        };
        // Audio packets are marked only at the begin of talk; silence has none (RFC 3551 section 4.1).
        let marker = last && frame.track == Track::Video;
        let sent = Sent { sequence: track.sequence, frame, index, marker, mark };
        track.sequence = track.sequence.wrapping_add(1);
        track.packets += 1;
        track.last_timestamp = frame.timestamp.wrapping_add(track.timestamp);
        track.remember(sent);
        let mut head = [0; HEAD_BYTES];
        let length = track.header(&sent, None, &mut self.transport_sequence, &mut head);
        sent.payload(media, &[], &mut self.scratch);
        track.bytes = track.bytes.wrapping_add(self.scratch.len() as u32);
        egress.send_rtp(frame.track, &head[..length], &self.scratch, counters);
        counters.packets_sent += 1;
        counters.bytes_sent += (length + self.scratch.len()) as u64;
    }

    fn report(&mut self, egress: &mut impl Egress, counters: &mut Counters) {
        let ntp = NtpTime::from_unix(Duration::from_nanos(clock::wall_ns()));
        for pairs in self.pairs.chunks(PAIRS_PER_REPORT) {
            self.scratch.clear();
            for track in pairs.iter().flat_map(|pair| &pair.tracks) {
                let info = SenderInfo {
                    ntp,
                    rtp_timestamp: track.last_timestamp,
                    packets: track.packets as u32,
                    payload_bytes: track.bytes,
                };
                SenderReport::write(&mut self.scratch, track.ssrc, &info, &[]);
            }
            SourceDescription::write_cname(&mut self.scratch, pairs[0].tracks[0].ssrc, "millbench");
            egress.send_rtcp(&self.scratch, counters);
        }
    }

    /// Takes decrypted feedback of the server.
    pub fn receive_rtcp(
        &mut self,
        media: &Media,
        plain: &[u8],
        egress: &mut impl Egress,
        counters: &mut Counters,
    ) {
        for packet in rtp::rtcp::packets(plain) {
            match packet {
                Ok(Rtcp::Nack(nack)) => {
                    for sequence in nack.lost() {
                        counters.nacks.heard += 1;
                        self.send_again(media, nack.media_ssrc, sequence, egress, counters);
                    }
                }
                Ok(Rtcp::Pli(pli)) => {
                    counters.plis_received += 1;
                    self.want_key_frame(media, pli.media_ssrc);
                }
                Ok(Rtcp::Fir(fir)) => {
                    counters.plis_received += 1;
                    fir.entries().for_each(|entry| self.want_key_frame(media, entry.ssrc));
                }
                Ok(Rtcp::TransportFeedback(_)) => counters.transport_feedback += 1,
                Ok(Rtcp::ReceiverReport(_)) => counters.receiver_reports += 1,
                _ => {}
            }
        }
    }

    fn want_key_frame(&mut self, media: &Media, ssrc: u32) {
        let of = |pair: &&mut Pair| pair.tracks.iter().any(|track| track.ssrc == ssrc);
        if let Some(pair) = self.pairs.iter_mut().find(of) {
            pair.timeline.want_key_frame(media);
        }
    }

    /// By RTX only: without it the same packet would have to be encrypted twice, which SRTP forbids.
    fn send_again(
        &mut self,
        media: &Media,
        ssrc: u32,
        sequence: u16,
        egress: &mut impl Egress,
        counters: &mut Counters,
    ) {
        let mut tracks = self.pairs.iter_mut().flat_map(|pair| &mut pair.tracks);
        let Some(track) = tracks.find(|track| track.ssrc == ssrc) else { return };
        let Some(rtx) = track.rtx else { return };
        let Some(sent) = track.find(sequence) else { return };
        let again = (rtx, track.rtx_sequence);
        track.rtx_sequence = track.rtx_sequence.wrapping_add(1);
        let mut head = [0; HEAD_BYTES];
        let length = track.header(&sent, Some(again), &mut self.transport_sequence, &mut head);
        sent.payload(media, &rtp::rtx::osn(sequence), &mut self.scratch);
        egress.send_rtp(sent.frame.track, &head[..length], &self.scratch, counters);
        counters.nacks.answered += 1;
    }
}

impl SentTrack {
    fn new(agreed: Option<&TrackDescription>, payload_type: u8, ssrc: u32, rtx_ssrc: u32) -> SentTrack {
        let format = agreed.map(TrackDescription::format);
        SentTrack {
            payload_type: format.map_or(payload_type, |format| format.payload_type),
            ssrc,
            rtx: format.and_then(|format| format.rtx_payload_type).map(|kind| (kind, rtx_ssrc)),
            rtx_sequence: ssrc as u16,
            mid: agreed.map_or_else(Box::default, |agreed| agreed.mid.as_bytes().into()),
            extensions: agreed.map_or_else(ExtensionMap::new, |agreed| agreed.extensions),
            // Near the wrap, so that a run meets it.
            sequence: 65_000,
            timestamp: ssrc.wrapping_mul(0x9e37_79b9),
            packets: 0,
            bytes: 0,
            last_timestamp: 0,
            history: Vec::new(),
        }
    }

    /// Writes RTP header and extensions; `again` is payload type, SSRC and sequence number of a repetition.
    fn header(
        &self,
        sent: &Sent,
        again: Option<((u8, u32), u16)>,
        transport_sequence: &mut u16,
        out: &mut [u8; HEAD_BYTES],
    ) -> usize {
        let ((payload_type, ssrc), sequence_number) =
            again.unwrap_or(((self.payload_type, self.ssrc), sent.sequence));
        let fields = HeaderFields {
            marker: sent.marker,
            payload_type,
            sequence_number,
            timestamp: sent.frame.timestamp.wrapping_add(self.timestamp),
            ssrc,
        };
        let mut block = [0; EXTENSION_BYTES];
        let mut writer = BlockWriter::new(&mut block, Form::OneByte);
        for (id, extension) in self.extensions.iter() {
            let sent_at = NtpTime::from_unix(Duration::from_nanos(sent.mark.sent_ns));
            let full = match extension {
                Extension::AbsSendTime => writer.push(id, &abs_send_time_from_ntp(sent_at)),
                Extension::Mid => writer.push(id, &self.mid),
                // -127 dBov: silence, no voice.
                Extension::AudioLevel => writer.push(id, &[127]),
                Extension::TransportCc => {
                    *transport_sequence = transport_sequence.wrapping_add(1);
                    writer.push(id, &transport_sequence.to_be_bytes())
                }
                _ => Ok(()),
            };
            debug_assert!(full.is_ok(), "four short elements fit");
        }
        let length = writer.finish();
        fields.write(&block[..length], out)
    }

    fn remember(&mut self, sent: Sent) {
        let slot = usize::from(sent.sequence) % HISTORY;
        if self.history.len() < HISTORY {
            self.history.resize(HISTORY, sent);
        }
        self.history[slot] = sent;
    }

    fn find(&self, sequence: u16) -> Option<Sent> {
        let sent = self.history.get(usize::from(sequence) % HISTORY)?;
        (sent.sequence == sequence).then_some(*sent)
    }
}

impl Sent {
    /// Writes the payload, after `before`, into `out`.
    fn payload(&self, media: &Media, before: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(before);
        let Some(payload) = media.payloads(self.frame).get(self.index) else { return };
        out.extend_from_slice(&payload.bytes);
        if let Some(at) = payload.picture_id.map(|at| before.len() + at) {
            out[at..at + 2].copy_from_slice(&(self.frame.number | 0x8000).to_be_bytes());
        }
        if payload.marked {
            mark::write(out, &self.mark);
        }
    }
}

/// Time between two frames.
const FRAME_NS: u64 = 1_000_000_000 / 30;

/// Packets of a track that can be sent again: 3 s of video. A power of two, so that it divides the
/// sequence numbers.
const HISTORY: usize = 256;

/// Sender reports of 28 bytes, two a pair, that fit in one datagram with a name.
const PAIRS_PER_REPORT: usize = 16;

/// Four elements of up to 4 bytes, their heads, and the block's.
const EXTENSION_BYTES: usize = 32;
const HEAD_BYTES: usize = 12 + EXTENSION_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtc::describe::{Repair, Wanted};
    use rtp::Packet;
    use rtp::rtcp::{Nack, Pli};

    /// Keeps what is sent.
    #[derive(Default)]
    struct Collected {
        rtp: Vec<(Track, Vec<u8>)>,
        rtcp: Vec<Vec<u8>>,
    }

    impl Egress for Collected {
        fn send_rtp(&mut self, track: Track, header: &[u8], payload: &[u8], _: &mut Counters) {
            self.rtp.push((track, [header, payload].concat()));
        }

        fn send_rtcp(&mut self, plain: &[u8], _: &mut Counters) {
            self.rtcp.push(plain.to_vec());
        }
    }

    const BEGIN_NS: u64 = 1_795_000_000_000_000_000;

    fn publisher() -> (Publisher, Media, Instant) {
        let offer_tracks = [None, Some(track_with_rtx())];
        let now = clock::monotonic();
        (Publisher::new(5, 0, &offer_tracks, now, BEGIN_NS), Media::new(), now)
    }

    fn track_with_rtx() -> TrackDescription {
        let certificate = rtc::dtls::Certificate::generate().expect("random numbers");
        let repair = Repair { rtx: true, audio: false };
        let video = &Media::new().video;
        let wanted =
            Wanted { publish: true, number: 0, repair, pairs: 1, shape: 0, video, transport_cc: true };
        let offer = describe::offer(&wanted, describe::credentials(1), &certificate);
        let media = &offer.media[1];
        TrackDescription {
            mid: media.mid.clone(),
            kind: media.kind,
            formats: media.formats.clone(),
            extensions: media.extensions,
            sources: media.sources.clone(),
            rids: Vec::new(),
            red: None,
            fec: None,
            extmap_allow_mixed: true,
        }
    }

    #[test]
    fn two_seconds_are_numbered_marked_and_reported() {
        let (mut publisher, media, now) = publisher();
        let (mut collected, mut counters) = (Collected::default(), Counters::default());
        publisher.send_due(
            &media,
            now + Duration::from_secs(1),
            BEGIN_NS + 1_999_999_999,
            &mut collected,
            &mut counters,
        );
        assert_eq!((collected.rtp.len(), counters.packets_sent), (242, 242));
        let video: Vec<Packet<'_>> = collected
            .rtp
            .iter()
            .filter(|(track, _)| *track == Track::Video)
            .map(|(_, packet)| Packet::parse(packet).expect("a packet"))
            .collect();
        for (index, packet) in video.iter().enumerate() {
            assert_eq!(packet.sequence_number(), 65_000 + index as u16);
            assert_eq!(packet.extensions().count(), 3, "MID, send time and transport sequence number");
            if let Some(mark) = mark::find(packet.payload()) {
                assert_eq!((mark.publisher, mark.number), (5, index as u64));
            }
        }
        assert_eq!(video.iter().filter(|packet| packet.marker()).count(), 60);
        let reports = rtp::rtcp::packets(&collected.rtcp[0])
            .filter(|it| matches!(it, Ok(Rtcp::SenderReport(_))))
            .count();
        assert_eq!((collected.rtcp.len(), reports), (1, 2));
    }

    #[test]
    fn several_pairs_have_sources_of_their_own_and_one_transport_sequence() {
        let (media, now) = (Media::new(), clock::monotonic());
        let tracks: Vec<_> = (0..6).map(|_| Some(track_with_rtx())).collect();
        let mut publisher = Publisher::new(5, 1, &tracks, now, BEGIN_NS);
        let (mut collected, mut counters) = (Collected::default(), Counters::default());
        publisher.send_due(&media, now, BEGIN_NS + 1_000_000_000, &mut collected, &mut counters);
        let packets: Vec<Packet<'_>> =
            collected.rtp.iter().map(|(_, packet)| Packet::parse(packet).expect("a packet")).collect();
        let sources: std::collections::BTreeSet<u32> = packets.iter().map(Packet::ssrc).collect();
        assert_eq!(sources.len(), 6);
        let transport_id = track_with_rtx().extensions.id_of(Extension::TransportCc).expect("offered");
        let numbers: std::collections::BTreeSet<Vec<u8>> = packets
            .iter()
            .filter_map(|packet| packet.extensions().find(|(id, _)| *id == transport_id))
            .map(|(_, number)| number.to_vec())
            .collect();
        assert_eq!(numbers.len(), packets.len());
    }

    #[test]
    fn reports_of_many_tracks_fit_in_datagrams() {
        let (media, now) = (Media::new(), clock::monotonic());
        let tracks: Vec<_> = (0..100).map(|_| Some(track_with_rtx())).collect();
        let mut publisher = Publisher::new(5, 1, &tracks, now, BEGIN_NS);
        let (mut collected, mut counters) = (Collected::default(), Counters::default());
        let later = now + Duration::from_secs(1);
        publisher.send_due(&media, later, BEGIN_NS + 1_000_000_000, &mut collected, &mut counters);
        let mut reported = std::collections::BTreeSet::new();
        for datagram in &collected.rtcp {
            assert!(datagram.len() <= 1200, "{}", datagram.len());
            reported.extend(rtp::rtcp::packets(datagram).filter_map(|packet| match packet {
                Ok(Rtcp::SenderReport(report)) => Some(report.ssrc),
                _ => None,
            }));
        }
        assert_eq!(reported.len(), 100);
    }

    #[test]
    fn what_is_asked_for_is_sent_again_unchanged() {
        let (mut publisher, media, now) = publisher();
        let (mut collected, mut counters) = (Collected::default(), Counters::default());
        publisher.send_due(&media, now, BEGIN_NS + 100_000_000, &mut collected, &mut counters);
        let first = collected.rtp.iter().find(|(track, _)| *track == Track::Video).expect("video").1.clone();
        let first = Packet::parse(&first).expect("a packet");
        let mut ask = Vec::new();
        Nack::write(&mut ask, 1, first.ssrc(), &[65_000, 60_000]);
        collected.rtp.clear();
        publisher.receive_rtcp(&media, &ask, &mut collected, &mut counters);
        let again = Packet::parse(&collected.rtp[0].1).expect("a packet");
        assert_eq!((again.payload_type(), again.ssrc()), (103, first.ssrc() + 2));
        assert_eq!(rtp::rtx::unwrap(again.payload()), Some((65_000, first.payload())));
        assert_eq!((collected.rtp.len(), counters.nacks.heard, counters.nacks.answered), (1, 2, 1));
    }

    #[test]
    fn a_frame_loss_is_answered_by_a_key_frame() {
        let (mut publisher, media, now) = publisher();
        let (mut collected, mut counters) = (Collected::default(), Counters::default());
        publisher.send_due(&media, now, BEGIN_NS + 500_000_000, &mut collected, &mut counters);
        let mut ask = Vec::new();
        Pli { sender_ssrc: 1, media_ssrc: describe::ssrcs(0, 0)[1] }.write(&mut ask);
        publisher.receive_rtcp(&media, &ask, &mut collected, &mut counters);
        collected.rtp.clear();
        publisher.send_due(&media, now, BEGIN_NS + 540_000_000, &mut collected, &mut counters);
        let video = collected.rtp.iter().find(|(track, _)| *track == Track::Video).expect("video");
        let payload = Packet::parse(&video.1).expect("a packet").payload()[0];
        assert_eq!((payload & 0x1f, counters.plis_received), (24, 1), "parameter sets come first");
    }
}
