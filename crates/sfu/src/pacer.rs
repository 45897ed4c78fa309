//! What leaves on one transport to a viewer, and when: transport-wide numbers, what the path carries
//! (`congestion`), and how much of the video may leave now.
//!
//! **The caller owns one for each transport and passes it along wherever something is sent on that
//! transport, or comes from its other end.** Nothing waits here: video that may not leave yet is in the
//! packet cache, and a viewer's position in it stands still (`joining.rs`).

use std::time::{Duration, Instant};

use congestion::{Bottleneck, Config, Controller, Kind, PacketReport};
use rtp::FIXED_HEADER_LEN;
use rtp::rtcp::{CongestionFeedback, Remb, TransportFeedback};

use super::header_profile::{HEADER_LEN_MAX, set_transport_number};
use super::socket_rate::SocketRate;
use super::stream_numbers::StreamNumbers;

/// What is known of a transport when it is made.
#[derive(Debug, Clone, Copy)]
pub struct PacerInput {
    /// The viewer reports each packet, by a number in its header (`transport-cc`).
    ///
    /// Without this and `reports_streams`, REMB or the losses of its receiver reports have to do, and
    /// nothing is probed.
    pub reports_packets: bool,
    /// The viewer reports each packet by SSRC and sequence number (RFC 8888).
    pub reports_streams: bool,
    /// What it is taken to carry before anything is known, in bits per second. Without reports of
    /// packets that is `most_bits_per_second`.
    pub start_bits_per_second: u64,
    /// More is never sent, in bits per second.
    pub most_bits_per_second: u64,
}

/// Congestion control and pacing of one transport.
#[derive(Debug)]
pub struct Pacer {
    controller: Controller,
    next_number: u16,
    reports_packets: bool,
    /// The viewer has sent REMB.
    has_remb: bool,
    /// Of a viewer over TCP: its socket, once it was looked at.
    socket: Option<SocketRate>,
    /// Where packets are reported by SSRC and sequence number.
    streams: Option<Box<StreamNumbers>>,
    most_bits_per_second: u64,
    demand: u64,
    /// When it was looked at what the viewer gets, and what its path carried then.
    reviewed: (Instant, u64),
    /// When to look next whether the viewer has been silent for too long; `None`: with the next call.
    check_at: Option<Instant>,
}

/// How much may leave now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Packets of video may be begun as long as fewer bytes than this were sent.
    pub(crate) bytes: usize,
    /// A packet of about this size is to be sent when there is no video, to see whether the path
    /// carries more.
    pub(crate) padding_bytes: usize,
    /// When to ask again.
    pub(crate) next: Instant,
}

/// What a console shows of a viewer's path.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathStats {
    /// What it carries for longer, in bits per second.
    pub estimate_bits_per_second: u64,
    /// What is to be sent now, less while a queue is to go away.
    pub target_bits_per_second: u64,
    /// What packets wait in the path.
    pub queue: Duration,
    /// Probes begun.
    pub probes: u64,
    /// No reports for too long: nothing is sent until there are.
    pub is_stopped: bool,
    /// Packets reported by SSRC and sequence number that were not sent, or too long ago, or are known to have
    /// arrived.
    pub unmatched_reports: u64,
}

impl Pacer {
    /// One that knows nothing of the path.
    pub fn new(now: Instant, input: PacerInput) -> Self {
        let PacerInput { start_bits_per_second, most_bits_per_second, .. } = input;
        let reports_packets = input.reports_packets || input.reports_streams;
        let streams = input.reports_streams.then(Box::default);
        let config = Config {
            // Without reports of packets nothing shows that there is room for more, and losses show
            // when it is too much: begin with all of it.
            start: if reports_packets { start_bits_per_second } else { most_bits_per_second },
            ceiling: most_bits_per_second,
            packet_reports: reports_packets,
            ..Config::default()
        };
        let controller = Controller::new(config, now);
        Self {
            controller,
            next_number: 0,
            reports_packets,
            has_remb: false,
            socket: None,
            streams,
            most_bits_per_second,
            demand: 0,
            reviewed: (now, u64::MAX),
            check_at: None,
        }
    }

    /// The transport-wide number of the next packet, for another process.
    pub fn next_number(&self) -> u16 {
        self.next_number
    }

    /// Goes on with this number where another process has ended.
    pub fn go_on_with(&mut self, next_number: u16) {
        self.next_number = next_number;
    }

    /// The transport-wide number of the next packet, which is taken.
    #[inline]
    pub(crate) fn take_number(&mut self, ssrc: u32, sequence_number: u16) -> u16 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        if let Some(streams) = &mut self.streams {
            streams.sent(ssrc, sequence_number, number);
        }
        number
    }

    /// The same of the packet that this header is of.
    #[inline]
    pub(crate) fn take_number_of(&mut self, header: &[u8]) -> u16 {
        let Some(fixed) = header.first_chunk::<FIXED_HEADER_LEN>() else { return self.next_number };
        let [_, _, s0, s1, _, _, _, _, ssrc @ ..] = *fixed;
        self.take_number(u32::from_be_bytes(ssrc), u16::from_be_bytes([s0, s1]))
    }

    /// Whether packets need no number in their headers to be reported.
    pub(crate) fn knows_streams(&self) -> bool {
        self.streams.is_some()
    }

    /// Takes the number of the next packet, and writes it into a header that has room for one.
    #[inline]
    pub(crate) fn number(&mut self, header: &mut [u8; HEADER_LEN_MAX], has_room: bool) -> u16 {
        let number = self.take_number_of(header);
        if has_room {
            set_transport_number(header, number);
        }
        number
    }

    /// A packet of so many bytes has left, under the number that was taken last.
    #[inline]
    pub fn sent(&mut self, now: Instant, bytes: usize, kind: Kind) {
        let bytes = bytes + OVERHEAD_BYTES;
        match self.reports_packets {
            true => self.controller.sent(self.next_number.wrapping_sub(1), bytes, now, kind),
            false => self.controller.sent_unreported(bytes, now, kind),
        }
    }

    /// A packet of so many bytes has left again as it was, under the number that it had then.
    pub(crate) fn sent_again(&mut self, now: Instant, bytes: usize, number: Option<u16>) {
        let bytes = bytes + OVERHEAD_BYTES;
        match number.filter(|_| self.reports_packets) {
            Some(number) => self.controller.sent_again(number, bytes, now),
            None => self.controller.sent_unreported(bytes, now, Kind::Repeat),
        }
    }

    /// How many bytes of video may leave now; a packet that was begun is finished.
    #[inline]
    pub fn room(&mut self, now: Instant) -> usize {
        self.ask(now).bytes
    }

    /// The same, and when to ask again.
    pub(crate) fn ask(&mut self, now: Instant) -> Room {
        // Without a timer of its own: silence matters only where something is to be sent.
        if self.check_at.is_none_or(|at| at <= now) {
            self.controller.handle_timeout(now);
            self.check_at = self.controller.next_timeout().map(|at| at.min(now + CHECK_INTERVAL));
        }
        let allowance = self.controller.pacing(now);
        let next = match allowance.next {
            Some(next) => next,
            None if allowance.bytes > 0 => now,
            None => now + STOPPED_INTERVAL,
        };
        // What its socket has not taken is a queue of ours, in which nothing can be overtaken.
        let left = match self.socket.map(|socket| socket.room(self.estimate())) {
            Some(Err(wait)) => return Room { bytes: 0, padding_bytes: 0, next: next.max(now + wait) },
            Some(Ok(left)) => left,
            None => usize::MAX,
        };
        Room { bytes: allowance.bytes.min(left), padding_bytes: allowance.padding_bytes, next }
    }

    /// No reports for too long: nothing is sent, audio included (RFC 8083 section 4).
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.controller.is_stopped()
    }

    /// What the path carries for longer, in bits per second.
    pub(crate) fn estimate(&self) -> u64 {
        let estimate = self.controller.estimate();
        self.socket.map_or(estimate, |socket| socket.bound(estimate))
    }

    /// What the bottleneck of its path was seen to carry, where reports of packets show that.
    pub(crate) fn bottleneck(&self, now: Instant) -> Option<Bottleneck> {
        self.controller.bottleneck(now).filter(|_| self.reports_packets && self.socket.is_none())
    }

    /// What the TCP socket of the viewer does, to be said before each question for room: bytes that wait for
    /// it, and that it has taken since it was opened.
    ///
    /// Over TCP nothing is lost, so that a viewer that reports no packets has nothing else that shows
    /// what its path carries; and one that reports them sees a queue later than the socket does.
    pub fn socket(&mut self, now: Instant, waiting: usize, taken: u64) {
        let bits_per_second = self.controller.estimate();
        self.socket.get_or_insert_with(|| SocketRate::new(now, taken)).note(
            now,
            waiting,
            taken,
            bits_per_second,
        );
    }

    /// Whether the viewer's path is a TCP connection.
    pub(crate) fn has_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// The viewer's path is no TCP connection, or another one.
    pub fn forget_socket(&mut self) {
        self.socket = None;
    }

    /// The most that could be sent: nothing above it is probed for.
    pub(crate) fn demand(&mut self, bits_per_second: u64) {
        let bits_per_second = bits_per_second.min(self.most_bits_per_second);
        self.demand = bits_per_second;
        self.controller.demand(bits_per_second);
    }

    /// Whether the viewer says what its path carries by more than losses.
    pub(crate) fn sees_queues(&self) -> bool {
        self.reports_packets || self.has_remb
    }

    /// Whether the viewer reports each packet.
    pub fn reports_packets(&self) -> bool {
        self.reports_packets
    }

    /// Whether packets of a probe are still to be sent.
    pub(crate) fn is_probing(&self) -> bool {
        self.controller.is_probing()
    }

    /// Whether it is worth finding out if the path carries more: packets besides the media can show it.
    pub(crate) fn wants_more(&self) -> bool {
        self.reports_packets && self.demand > self.estimate() + self.estimate() / 20
    }

    /// Whether a report may change what the viewer gets. Where its path carries more than there is to send,
    /// and no less than before, that is looked at now and then: it costs as much as the report itself.
    pub(crate) fn is_review_due(&mut self, now: Instant) -> bool {
        let estimate = self.estimate();
        let (at, before) = self.reviewed;
        let is_settled = self.reports_packets && !self.wants_more() && estimate + estimate / 16 >= before;
        if is_settled && now.saturating_duration_since(at) < REVIEW_INTERVAL {
            return false;
        }
        self.reviewed = (now, estimate);
        true
    }

    /// Whether packets are to leave as ECT(1) (RFC 9331): the viewer reports marks, and nothing was seen to
    /// take them off on the way.
    #[inline]
    pub fn sends_ect(&self) -> bool {
        self.streams.is_some() && self.controller.is_ecn_usable()
    }

    /// The viewer has sent RTCP.
    pub(crate) fn heard_from(&mut self, now: Instant) {
        self.controller.heard_from(now);
    }

    /// Takes the reports of packets.
    pub(crate) fn transport_feedback(&mut self, now: Instant, feedback: &TransportFeedback<'_>) {
        if self.reports_packets {
            self.controller.feedback(feedback.packets().map(PacketReport::from), now);
        }
    }

    /// Takes the reports of packets by SSRC and sequence number.
    pub(crate) fn congestion_feedback(&mut self, now: Instant, feedback: &CongestionFeedback<'_>) {
        if let Some(streams) = &mut self.streams {
            let reports = streams.take(feedback);
            self.controller.feedback(reports, now);
        }
    }

    /// Takes the receiver's own estimate.
    pub(crate) fn remb(&mut self, now: Instant, remb: &Remb<'_>) {
        self.has_remb = true;
        self.controller.remb(remb.bits_per_second, now);
    }

    /// Takes what the path has lost by a receiver report on video, or on audio if there is no video.
    pub(crate) fn report(&mut self, now: Instant, fraction_lost: u8, round_trip: Option<Duration>) {
        self.controller.receiver_report(fraction_lost, round_trip, now);
    }

    /// What to show.
    pub fn stats(&self, now: Instant) -> PathStats {
        let snapshot = self.controller.snapshot(now);
        PathStats {
            estimate_bits_per_second: self.estimate(),
            target_bits_per_second: snapshot.target.min(self.estimate()),
            queue: snapshot.queue,
            probes: snapshot.probes,
            is_stopped: self.controller.is_stopped(),
            unmatched_reports: self.streams.as_ref().map_or(0, |streams| streams.unmatched),
        }
    }
}

/// IPv4 and UDP headers: links carry them as well, and of a packet of audio they are a fourth.
const OVERHEAD_BYTES: usize = 28;
/// How often it is looked at what a viewer gets whose path carries all of it.
const REVIEW_INTERVAL: Duration = Duration::from_millis(250);
/// How often silence is looked for at least.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often a stopped transport is asked again: the report that ends it does not wake the viewer.
const STOPPED_INTERVAL: Duration = Duration::from_millis(100);
