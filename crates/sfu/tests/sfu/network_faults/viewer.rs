//! A browser that plays: decrypts, finds what is missing by sequence numbers, asks for it, reports.
//!
//! It keeps what the tests judge by: which packets it got, when, and when it could show a video.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rtp::Packet;
use rtp::extension::{ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::{Nack, NtpMiddle, Pli, ReceiverReport, ReportBlock, Rtcp, SenderInfo, packets};
use rtp::rtx;
use rtp::sequence::SequenceUnwrapper;
use sfu::{TrackIndex, ViewerInput, ViewerPayload, ViewerTrackInput};
use srtp::InboundContext;

use crate::network_faults::publisher::{AUDIO, PAYLOAD_HEAD, VIDEO};

/// SSRCs of what it gets: audio 10 and 11, video 20 and 21.
const SSRCS: [u32; 2] = [10, 20];

pub(crate) struct Viewer {
    srtp: InboundContext,
    pub(crate) tracks: [Track; 2],
    next_report: Instant,
    /// Packets that did not decrypt: replays, as network duplicates are.
    pub(crate) refused: u64,
}

/// What it got of one track.
pub(crate) struct Track {
    ssrc: u32,
    sequence: SequenceUnwrapper,
    /// Sequence number minus the publisher's number: one entry, and one more for each gap the
    /// server closed.
    shifts: Vec<u64>,
    /// The publisher's number by sequence number.
    numbers: BTreeMap<u64, u64>,
    /// By the publisher's number: when it came, and in which order.
    pub(crate) received: BTreeMap<u64, Instant>,
    missing: BTreeMap<u64, Missing>,
    /// Packets given up.
    pub(crate) given_up: u64,
    /// Packets that came by retransmission.
    pub(crate) repaired: u64,
    /// A packet a second time, after decryption: one that was resent twice.
    pub(crate) repeated: u64,
    /// Waits for a key frame since something was given up.
    stalled_since: Option<Instant>,
    next_pli: Option<Instant>,
    /// How long pictures stood still.
    pub(crate) stalls: Vec<(Instant, Instant)>,
    report: Option<(SenderInfo, Instant)>,
    /// Sender reports as they came.
    pub(crate) reports: Vec<(SenderInfo, Instant)>,
    /// Timestamps by the publisher's number.
    pub(crate) timestamps: BTreeMap<u64, u32>,
}

struct Missing {
    since: Instant,
    due: Instant,
    asked: u32,
}

impl Viewer {
    pub(crate) fn new(now: Instant, srtp: InboundContext) -> Self {
        let track = |ssrc| Track {
            ssrc,
            sequence: SequenceUnwrapper::new(),
            shifts: Vec::new(),
            numbers: BTreeMap::new(),
            received: BTreeMap::new(),
            missing: BTreeMap::new(),
            given_up: 0,
            repaired: 0,
            repeated: 0,
            stalled_since: None,
            next_pli: None,
            stalls: Vec::new(),
            report: None,
            reports: Vec::new(),
            timestamps: BTreeMap::new(),
        };
        Self { srtp, tracks: SSRCS.map(track), next_report: now + REPORT_INTERVAL, refused: 0 }
    }

    /// What is negotiated with it.
    pub(crate) fn input(token: u64) -> ViewerInput {
        let track = |kind, ssrc, codec, payload_type, mid: &str| ViewerTrackInput {
            track: TrackIndex::new(kind, 0).expect("the first track"),
            ssrc,
            rtx_ssrc: Some(ssrc + 1),
            mid: mid.to_owned(),
            payloads: vec![ViewerPayload { codec, payload_type, rtx: Some(payload_type + 1), red: None }],
            extensions: ExtensionMap::new(),
            form: Form::OneByte,
            fec: None,
            nack: true,
        };
        ViewerInput {
            token,
            cname: "stream".to_owned(),
            tracks: vec![
                track(MediaKind::Audio, SSRCS[AUDIO], Codec::Opus, 96, "a"),
                track(MediaKind::Video, SSRCS[VIDEO], Codec::H264, 98, "v"),
            ],
        }
    }

    /// Takes in an SRTP packet.
    pub(crate) fn handle_rtp(&mut self, now: Instant, mut datagram: Vec<u8>) {
        let Ok(len) = self.srtp.unprotect_rtp(&mut datagram) else {
            self.refused += 1;
            return;
        };
        let packet = Packet::parse(&datagram[..len]).expect("RTP of the server");
        let ssrc = packet.ssrc();
        let at =
            SSRCS.iter().position(|known| ssrc == *known || ssrc == *known + 1).expect("an SSRC it was told");
        self.tracks[at].receive(now, &packet, ssrc != SSRCS[at]);
    }

    /// Takes in RTCP.
    pub(crate) fn handle_rtcp(&mut self, now: Instant, rtcp: &[u8]) {
        for packet in packets(rtcp) {
            if let Rtcp::SenderReport(report) = packet.expect("valid RTCP of the server") {
                let track = self.tracks.iter_mut().find(|track| track.ssrc == report.ssrc);
                let track = track.expect("an SSRC it was told");
                track.report = Some((report.info, now));
                track.reports.push((report.info, now));
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let tracks = self.tracks.iter().filter_map(Track::next_timeout).min();
        tracks.into_iter().chain([self.next_report]).min()
    }

    /// Asks for what is missing and reports what came.
    pub(crate) fn handle_timeout(&mut self, now: Instant, mut send: impl FnMut(Vec<u8>)) {
        for track in &mut self.tracks {
            track.ask(now, &mut send);
        }
        if self.next_report <= now {
            self.next_report = now + REPORT_INTERVAL;
            let blocks: Vec<ReportBlock> = self.tracks.iter().filter_map(|track| track.block(now)).collect();
            let mut out = Vec::new();
            ReceiverReport::write(&mut out, OWN_SSRC, &blocks);
            send(out);
        }
    }
}

impl Track {
    fn receive(&mut self, now: Instant, packet: &Packet<'_>, is_repair: bool) {
        let highest = self.sequence.highest();
        let (sequence, payload) = match packet.payload() {
            resent if is_repair => rtx::unwrap(resent).expect("a retransmission"),
            payload => (packet.sequence_number(), payload),
        };
        let full = self.sequence.unwrap(sequence);
        let is_repair = is_repair || self.missing.get(&full).is_some_and(|missing| missing.asked > 0);
        if payload.is_empty() {
            return;
        }
        let number = u64::from_be_bytes(*payload[PAYLOAD_HEAD..].first_chunk().expect("a number"));
        self.check_number(full, number, highest);
        if let Some(highest) = highest
            && full > highest
        {
            let due = now + REORDERING;
            let gap = highest + 1..full;
            self.missing.extend(gap.map(|missing| (missing, Missing { since: now, due, asked: 0 })));
        }
        self.missing.remove(&full);
        self.repaired += u64::from(is_repair);
        if self.received.insert(number, now).is_some() {
            self.repeated += 1;
        }
        let timestamp = *self.timestamps.entry(number).or_insert(packet.timestamp());
        assert_eq!(timestamp, packet.timestamp(), "packet {number} came with another timestamp");
        let is_key_frame = self.ssrc == SSRCS[VIDEO] && payload[0] == 0x67;
        if let Some(since) = self.stalled_since.take_if(|_| is_key_frame) {
            self.stalls.push((since, now));
            self.next_pli = None;
        }
    }

    /// Whatever is lost, packets keep their distance to each other, but where the server leaves
    /// some out for good: it closes the gap, and further packets are nearer.
    fn check_number(&mut self, full: u64, number: u64, highest: Option<u64>) {
        let known = *self.numbers.entry(full).or_insert(number);
        assert_eq!(known, number, "two packets under one number");
        let shift = full.wrapping_sub(number);
        if self.shifts.contains(&shift) {
            return;
        }
        let is_nearer = self.shifts.last().is_none_or(|last| shift < *last);
        let is_new = highest.is_none_or(|highest| full > highest);
        assert!(is_nearer && is_new, "packet {number} came as {full}; shifts so far {:?}", self.shifts);
        self.shifts.push(shift);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.missing.values().map(|missing| missing.due).chain(self.next_pli).min()
    }

    fn ask(&mut self, now: Instant, send: &mut impl FnMut(Vec<u8>)) {
        let before = self.missing.len();
        let past_hope =
            |missing: &Missing| missing.asked >= ASKED_MAX || now - missing.since >= MISSING_AGE_MAX;
        self.missing.retain(|_, missing| missing.due > now || !past_hope(missing));
        let given_up = before - self.missing.len();
        self.given_up += given_up as u64;
        if given_up > 0 && self.ssrc == SSRCS[VIDEO] && self.stalled_since.is_none() {
            self.stalled_since = Some(now);
            self.next_pli = Some(now);
        }
        let mut lost = Vec::new();
        for (full, missing) in self.missing.iter_mut().filter(|(_, missing)| missing.due <= now) {
            lost.push(*full as u16);
            missing.asked += 1;
            missing.due = now + RETRY;
        }
        if !lost.is_empty() {
            let mut out = Vec::new();
            Nack::write(&mut out, OWN_SSRC, self.ssrc, &lost);
            send(out);
        }
        if self.next_pli.is_some_and(|at| at <= now) {
            self.next_pli = Some(now + PLI_INTERVAL);
            let mut out = Vec::new();
            Pli { sender_ssrc: OWN_SSRC, media_ssrc: self.ssrc }.write(&mut out);
            send(out);
        }
    }

    fn block(&self, now: Instant) -> Option<ReportBlock> {
        let highest = self.sequence.highest()?;
        let (last_report, delay) = self
            .report
            .map_or(Default::default(), |(info, at)| (info.ntp.middle(), NtpMiddle::from_duration(now - at)));
        Some(ReportBlock {
            ssrc: self.ssrc,
            highest_sequence_number: highest as u32,
            last_report,
            delay_since_last_report: delay,
            ..ReportBlock::default()
        })
    }

    /// How often the server closed a gap.
    pub(crate) fn gaps_closed(&self) -> usize {
        self.shifts.len().saturating_sub(1)
    }

    /// How many sequence numbers lie between the first and the last that came, and how many of them
    /// never did.
    pub(crate) fn expected_and_lost(&self) -> (u64, u64) {
        let (Some((first, _)), Some((last, _))) =
            (self.numbers.first_key_value(), self.numbers.last_key_value())
        else {
            return (0, 0);
        };
        let expected = last - first + 1;
        (expected, expected - self.numbers.len() as u64)
    }
}

const OWN_SSRC: u32 = 5;
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// As Chromium has them: a little patience for reordered packets, ten requests a packet, a round
/// trip of 100 ms where none is known.
const REORDERING: Duration = Duration::from_millis(10);
const RETRY: Duration = Duration::from_millis(100);
const ASKED_MAX: u32 = 10;
const MISSING_AGE_MAX: Duration = Duration::from_millis(1_400);
const PLI_INTERVAL: Duration = Duration::from_millis(300);
