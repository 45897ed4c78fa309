//! A publisher that makes packets, viewers that note what they get, and a stream between them, in
//! virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Extension, ExtensionMap, Form};
use rtp::payload::{Codec, MediaKind};
use rtp::rtcp::{NtpTime, Rtcp};
use sfu::{
    DropReason, HEADER_LEN_MAX, KeyFrameRequest, LayersWanted, Limits, Outputs, Packet, PacketStream,
    PublisherInput, Received, Resend, TrackIndex, TrackInput, TrackPayload, ViewerId, ViewerInput,
    ViewerPayload, ViewerTrackInput, WallClock, plain_outlet,
};

/// Payload types of the publisher.
pub(crate) const H264: u8 = 96;
pub(crate) const H264_RTX: u8 = 97;
pub(crate) const VP8: u8 = 98;
pub(crate) const OPUS: u8 = 111;
pub(crate) const PCMU: u8 = 0;

/// SSRCs of the publisher.
pub(crate) const VIDEO_SSRC: u32 = 0x1000;
pub(crate) const VIDEO_RTX_SSRC: u32 = 0x1001;
pub(crate) const AUDIO_SSRC: u32 = 0x2000;
/// SSRC of the server towards the publisher.
pub(crate) const SERVER_SSRC: u32 = 1;

/// Ids of the publisher's extensions.
pub(crate) const MID_ID: u8 = 1;
pub(crate) const RID_ID: u8 = 2;
pub(crate) const REPAIRED_RID_ID: u8 = 3;
pub(crate) const LEVEL_ID: u8 = 4;
pub(crate) const TWCC_ID: u8 = 5;
pub(crate) const CAPTURE_ID: u8 = 6;
pub(crate) const SEND_TIME_ID: u8 = 7;
pub(crate) const DESCRIPTOR_ID: u8 = 8;

pub(crate) fn video() -> TrackIndex {
    TrackIndex::new(MediaKind::Video, 0).unwrap()
}

pub(crate) fn audio() -> TrackIndex {
    TrackIndex::new(MediaKind::Audio, 0).unwrap()
}

pub(crate) fn publisher_extensions() -> ExtensionMap {
    [
        (MID_ID, Extension::Mid),
        (RID_ID, Extension::Rid),
        (REPAIRED_RID_ID, Extension::RepairedRid),
        (LEVEL_ID, Extension::AudioLevel),
        (TWCC_ID, Extension::TransportCc),
        (CAPTURE_ID, Extension::AbsCaptureTime),
        (SEND_TIME_ID, Extension::AbsSendTime),
        (DESCRIPTOR_ID, Extension::DependencyDescriptor),
    ]
    .into_iter()
    .collect()
}

pub(crate) fn video_input() -> TrackInput {
    TrackInput {
        kind: MediaKind::Video,
        mid: "v".to_owned(),
        payloads: vec![
            TrackPayload {
                payload_type: H264,
                codec: Codec::H264,
                clock_rate: 90_000,
                rtx: Some(H264_RTX),
                red: None,
            },
            TrackPayload { payload_type: VP8, codec: Codec::Vp8, clock_rate: 90_000, rtx: None, red: None },
        ],
        extensions: publisher_extensions(),
        ssrcs: vec![(VIDEO_SSRC, Some(VIDEO_RTX_SSRC))],
        rids: Vec::new(),
        nack: true,
        pli: true,
        fir: false,
        transport_cc: false,
        remb: false,
    }
}

pub(crate) fn audio_input() -> TrackInput {
    TrackInput {
        kind: MediaKind::Audio,
        mid: "a".to_owned(),
        payloads: vec![
            TrackPayload { payload_type: OPUS, codec: Codec::Opus, clock_rate: 48_000, rtx: None, red: None },
            TrackPayload { payload_type: PCMU, codec: Codec::Pcmu, clock_rate: 8_000, rtx: None, red: None },
        ],
        extensions: publisher_extensions(),
        ssrcs: vec![(AUDIO_SSRC, None)],
        rids: Vec::new(),
        nack: false,
        pli: false,
        fir: false,
        transport_cc: false,
        remb: false,
    }
}

pub(crate) fn publisher(tracks: Vec<TrackInput>) -> PublisherInput {
    PublisherInput { tracks, feedback_ssrc: SERVER_SSRC, cname: "server".to_owned(), reduced_size: true }
}

/// A viewer of both tracks, with RTX for video.
pub(crate) fn viewer(token: u64) -> ViewerInput {
    let ssrc = 0x10_0000 + token as u32 * 16;
    let track = |track: TrackIndex, ssrc, rtx_ssrc, mid: &str, payloads| ViewerTrackInput {
        track,
        ssrc,
        rtx_ssrc,
        mid: mid.to_owned(),
        payloads,
        extensions: ExtensionMap::new(),
        form: Form::Either,
        fec: None,
        nack: true,
    };
    let payload = |codec, payload_type, rtx| ViewerPayload { codec, payload_type, rtx, red: None };
    let audio_packet = vec![payload(Codec::Opus, 50, None), payload(Codec::Pcmu, 0, None)];
    let video_frame = vec![payload(Codec::H264, 60, Some(61)), payload(Codec::Vp8, 62, Some(63))];
    ViewerInput {
        token,
        cname: "stream".to_owned(),
        tracks: vec![
            track(audio(), ssrc, None, "0", audio_packet),
            track(video(), ssrc + 1, Some(ssrc + 2), "1", video_frame),
        ],
    }
}

/// A packet of the publisher.
#[derive(Clone, Debug)]
pub(crate) struct Rtp {
    pub(crate) fields: HeaderFields,
    pub(crate) extensions: Vec<(u8, Vec<u8>)>,
    pub(crate) payload: Vec<u8>,
    pub(crate) padding: u8,
}

impl Rtp {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut block = [0; 256];
        let mut writer = BlockWriter::new(&mut block, Form::Either);
        for (id, data) in &self.extensions {
            writer.push(*id, data).unwrap();
        }
        let block_len = writer.finish();
        let mut bytes = vec![0; 12 + block_len];
        self.fields.write(&block[..block_len], &mut bytes);
        bytes.extend(&self.payload);
        if self.padding > 0 {
            bytes[0] |= 0x20;
            bytes.extend(std::iter::repeat_n(0, usize::from(self.padding) - 1));
            bytes.push(self.padding);
        }
        bytes
    }

    pub(crate) fn with(mut self, id: u8, data: &[u8]) -> Self {
        self.extensions.push((id, data.to_vec()));
        self
    }

    pub(crate) fn padded(mut self, padding: u8) -> Self {
        self.padding = padding;
        self
    }

    pub(crate) fn ssrc(mut self, ssrc: u32) -> Self {
        self.fields.ssrc = ssrc;
        self
    }

    /// The same packet as a retransmission.
    pub(crate) fn rtx(&self, ssrc: u32, payload_type: u8, sequence_number: u16) -> Self {
        let mut rtx = self.clone();
        rtx.payload = [&rtp::rtx::osn(self.fields.sequence_number)[..], &self.payload].concat();
        rtx.fields.ssrc = ssrc;
        rtx.fields.payload_type = payload_type;
        rtx.fields.sequence_number = sequence_number;
        rtx
    }
}

/// One packet of video that is a frame: H.264, an IDR slice or a plain one.
pub(crate) fn frame(sequence_number: u16, timestamp: u32, key: bool) -> Rtp {
    part(sequence_number, timestamp, key, true)
}

/// A packet of video; `marker` says that it is the last of its frame.
pub(crate) fn part(sequence_number: u16, timestamp: u32, key: bool, marker: bool) -> Rtp {
    let mut payload = vec![if key { 0x65 } else { 0x41 }, 0x88];
    payload.extend(sequence_number.to_be_bytes());
    payload.extend([0xab; 60]);
    let fields = HeaderFields { marker, payload_type: H264, sequence_number, timestamp, ssrc: VIDEO_SSRC };
    Rtp { fields, extensions: Vec::new(), payload, padding: 0 }
}

/// A packet of audio.
pub(crate) fn audio_packet(sequence_number: u16, timestamp: u32) -> Rtp {
    let mut payload = vec![0x78];
    payload.extend(sequence_number.to_be_bytes());
    let fields =
        HeaderFields { marker: false, payload_type: OPUS, sequence_number, timestamp, ssrc: AUDIO_SSRC };
    Rtp { fields, extensions: Vec::new(), payload, padding: 0 }
}

/// Sends what waits to no more than `left` viewers, and puts off video of those who are `full`.
fn send(
    stream: &mut PacketStream,
    kind: MediaKind,
    mut left: usize,
    full: &BTreeSet<u64>,
    note: &mut impl FnMut(u64, &[u8], &[u8]),
) {
    let mut header = [0; HEADER_LEN_MAX];
    while left > 0 && stream.waiting(kind).is_some() {
        let mut batch = stream.prepare_batch(kind);
        while left > 0 {
            let Some((viewer, packets)) = batch.next_viewer() else {
                if stream.finish_batch(kind) {
                    return;
                }
                break;
            };
            if kind == MediaKind::Video && full.contains(&viewer.token()) {
                batch.put_off();
                continue;
            }
            left -= 1;
            for index in 0..packets.len() {
                if let Some(len) = viewer.header_for(packets, index, None, &mut header) {
                    let mut payload = viewer.payload(packets, index).to_vec();
                    if let Some(shift) = viewer.payload_shift(packets, index) {
                        shift.apply(&mut payload);
                    }
                    note(viewer.token(), &header[..len], &payload);
                }
            }
        }
    }
}

/// What a viewer got: one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) at: Instant,
    pub(crate) bytes: Vec<u8>,
}

impl Got {
    pub(crate) fn packet(&self) -> rtp::Packet<'_> {
        rtp::Packet::parse(&self.bytes).unwrap()
    }

    pub(crate) fn number(&self) -> u16 {
        self.packet().sequence_number()
    }

    pub(crate) fn timestamp(&self) -> u32 {
        self.packet().timestamp()
    }

    /// The publisher's sequence number, which [`part`] puts into the payload.
    pub(crate) fn origin(&self) -> u16 {
        let payload = self.packet().payload();
        let at = if matches!(payload[0], 0x65 | 0x41) { 2 } else { 1 };
        u16::from_be_bytes([payload[at], payload[at + 1]])
    }
}

/// A stream with everything that is sent noted down.
pub(crate) struct World {
    pub(crate) stream: PacketStream,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    pub(crate) got: BTreeMap<(u64, u32), Vec<Got>>,
    pub(crate) reports: BTreeMap<u64, Vec<(Instant, Vec<u8>)>>,
    pub(crate) feedback: Vec<(Instant, Vec<u8>)>,
    /// Viewers whose sockets have no room for video.
    pub(crate) full: BTreeSet<u64>,
    /// Key frames that were requested while there is no publisher.
    pub(crate) home_requests: Vec<TrackIndex>,
    /// The same in full.
    pub(crate) requests: Vec<KeyFrameRequest>,
    /// What other workers may get, if somebody takes it.
    pub(crate) crossing: Option<Vec<(Arc<Packet>, Outputs)>>,
    /// What a mirror needs of its home, if it is one.
    pub(crate) wants: Option<Vec<(TrackIndex, LayersWanted)>>,
    pub(crate) epoch: u64,
}

/// Wall time at the beginning of each test.
pub(crate) const WALL: NtpTime = NtpTime(0xe000_0000_0000_0000);

impl World {
    pub(crate) fn new(limits: Limits) -> Self {
        // The only clock of these tests: a beginning to count from.
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let start = Instant::now() + Duration::from_secs(1_000);
        Self {
            stream: PacketStream::new(limits, WallClock { at: start, ntp: WALL }),
            start,
            now: start,
            got: BTreeMap::new(),
            reports: BTreeMap::new(),
            feedback: Vec::new(),
            full: BTreeSet::new(),
            home_requests: Vec::new(),
            requests: Vec::new(),
            crossing: None,
            wants: None,
            epoch: 0,
        }
    }

    /// With a publisher of audio and video.
    pub(crate) fn published() -> Self {
        let mut world = Self::new(Limits::default());
        world.publish(vec![audio_input(), video_input()]);
        world
    }

    pub(crate) fn publish(&mut self, tracks: Vec<TrackInput>) {
        self.epoch += 1;
        self.stream.publisher_started(self.now, self.epoch, publisher(tracks));
    }

    pub(crate) fn join(&mut self, token: u64) -> ViewerId {
        self.join_as(&viewer(token))
    }

    pub(crate) fn join_as(&mut self, input: &ViewerInput) -> ViewerId {
        let id = self.stream.join(self.now, input).unwrap();
        self.settle();
        id
    }

    /// Time passes; what falls due in it is done when it is due.
    pub(crate) fn wait(&mut self, duration: Duration) {
        let until = self.now + duration;
        for _ in 0..1_000_000 {
            match self.stream.next_timeout() {
                Some(due) if due <= until => {
                    // Nothing may claim to be due for ever.
                    self.now = self.now.max(due);
                    self.settle();
                }
                _ => {
                    self.now = until;
                    return self.settle();
                }
            }
        }
        panic!("next_timeout never gets anywhere");
    }

    /// Takes in one packet, and sends it on.
    pub(crate) fn receive(&mut self, rtp: &Rtp) -> Result<Received, DropReason> {
        let had_arrivals = self.stream.has_arrivals();
        let received = self.stream.receive(self.now, &rtp.bytes());
        // Whoever calls it forwards what is there once a packet was taken.
        let is_forwarded = received.is_ok() || self.stream.has_arrivals() == had_arrivals;
        assert!(is_forwarded, "{received:?}, and there is something to forward");
        self.settle();
        received
    }

    /// Takes in packets of one batch.
    pub(crate) fn receive_batch(&mut self, batch: &[Rtp]) {
        for rtp in batch {
            self.stream.receive(self.now, &rtp.bytes()).unwrap();
        }
        self.settle();
    }

    /// Plays `frames` single-packet frames at 25 a second from `sequence_number` on; every `gop`th
    /// is a key frame.
    pub(crate) fn play(&mut self, sequence_number: u16, timestamp: u32, frames: u16, gop: u16) {
        for at in 0..frames {
            let timestamp = timestamp.wrapping_add(u32::from(at) * 3_600);
            self.receive(&frame(sequence_number.wrapping_add(at), timestamp, at % gop == 0)).unwrap();
            self.wait(Duration::from_millis(40));
        }
    }

    /// What a worker does at the end of a turn of its loop.
    pub(crate) fn settle(&mut self) {
        self.turn(usize::MAX);
    }

    /// The same by a worker that sends video to no more than `viewers_max` viewers in a turn.
    pub(crate) fn turn(&mut self, viewers_max: usize) {
        let now = self.now;
        let got = &mut self.got;
        let mut note = |token: u64, header: &[u8], payload: &[u8]| {
            let bytes = [header, payload].concat();
            let ssrc = rtp::Packet::parse(&bytes).unwrap().ssrc();
            got.entry((token, ssrc)).or_default().push(Got { at: now, bytes });
        };
        while let Some(wants) = &mut self.wants
            && let Some(wanted) = self.stream.poll_layers_wanted(now, |_| false)
        {
            wants.push(wanted);
        }
        let crossing = &mut self.crossing;
        self.stream.take_arrivals(|packet, outputs| {
            if let Some(crossing) = crossing {
                crossing.push((Arc::clone(packet), outputs));
            }
        });
        send(&mut self.stream, MediaKind::Audio, usize::MAX, &self.full, &mut note);
        self.stream.send_backlog(
            now,
            usize::MAX,
            &mut plain_outlet(|token, _, header, payload| note(token, header, payload)),
        );
        send(&mut self.stream, MediaKind::Video, viewers_max, &self.full, &mut note);
        let reports = &mut self.reports;
        self.stream.send_reports(now, |token, rtcp| {
            reports.entry(token).or_default().push((now, rtcp.to_vec()));
        });
        while let Some(request) = self.stream.poll_key_frame_request(self.now) {
            self.home_requests.push(request.track);
            self.requests.push(request);
        }
        let mut out = Vec::new();
        if self.stream.poll_feedback(now, &mut out) {
            self.feedback.push((now, out));
        }
    }

    pub(crate) fn got(&self, token: u64, ssrc: u32) -> &[Got] {
        self.got.get(&(token, ssrc)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn video(&self, token: u64) -> &[Got] {
        self.got(token, video_ssrc(token))
    }

    pub(crate) fn audio(&self, token: u64) -> &[Got] {
        self.got(token, audio_ssrc(token))
    }

    pub(crate) fn numbers(&self, token: u64) -> Vec<u16> {
        self.video(token).iter().map(Got::number).collect()
    }

    pub(crate) fn timestamps(&self, token: u64) -> Vec<u32> {
        self.video(token).iter().map(Got::timestamp).collect()
    }

    /// What a viewer says by RTCP, and what it is sent again.
    pub(crate) fn viewer_says(&mut self, id: ViewerId, write: impl FnOnce(&mut Vec<u8>)) -> Vec<Resend> {
        let mut rtcp = Vec::new();
        write(&mut rtcp);
        let mut resend = Vec::new();
        self.stream.viewer_rtcp(self.now, id, &rtcp, None, &mut resend);
        self.settle();
        resend
    }

    /// Calls `with` for each RTCP packet sent to the publisher so far, and forgets them.
    pub(crate) fn told(&mut self, mut with: impl FnMut(Instant, Rtcp<'_>)) {
        for (at, compound) in std::mem::take(&mut self.feedback) {
            for packet in rtp::rtcp::packets(&compound) {
                with(at, packet.unwrap());
            }
        }
    }

    /// When the publisher was asked for a key frame, and of which SSRC; forgets all feedback.
    pub(crate) fn key_frame_requests(&mut self) -> Vec<(Duration, u32)> {
        let start = self.start;
        let mut requests = Vec::new();
        self.told(|at, packet| match packet {
            Rtcp::Pli(pli) => requests.push((at - start, pli.media_ssrc)),
            Rtcp::Fir(fir) => requests.extend(fir.entries().map(|entry| (at - start, entry.ssrc))),
            _ => {}
        });
        requests
    }

    /// Sequence numbers the publisher was asked for; forgets all feedback.
    pub(crate) fn nacked(&mut self) -> Vec<(u32, u16)> {
        let mut lost = Vec::new();
        self.told(|_, packet| {
            if let Rtcp::Nack(nack) = packet {
                lost.extend(nack.lost().map(|number| (nack.media_ssrc, number)));
            }
        });
        lost
    }
}

pub(crate) fn audio_ssrc(token: u64) -> u32 {
    0x10_0000 + token as u32 * 16
}

pub(crate) fn video_ssrc(token: u64) -> u32 {
    audio_ssrc(token) + 1
}

pub(crate) fn rtx_ssrc(token: u64) -> u32 {
    audio_ssrc(token) + 2
}

/// The packet a resend writes.
pub(crate) fn written(resend: &Resend) -> Vec<u8> {
    let mut out = [0; 2_000];
    let len = resend.write(&mut out).unwrap();
    assert_eq!(len, resend.packet_len());
    out[..len].to_vec()
}

impl World {
    /// The middle of the wall time that was `ago`.
    pub(crate) fn stream_ntp_middle(&self, ago: Duration) -> rtp::rtcp::NtpMiddle {
        WallClock { at: self.start, ntp: WALL }.ntp(self.now - ago).middle()
    }
}
