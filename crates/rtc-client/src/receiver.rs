//! The packets of a server to frames: loss is asked for again, key frames where they are needed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridge::{FramesOut, RtpToFrame, RtpToFrameSettings};
use media::Frame;
use rtc::sdp::{Format, TrackDescription};
use rtp::payload::MediaKind;
use sfu::{Limits, PacketStream, PublisherInput, TrackIndex, TrackInput, TrackPayload, WallClock};

use crate::client::Outgoing;

/// Longest a packet that is missing is waited for.
const DELAY_MAX: Duration = Duration::from_millis(500);
/// Longest distance between key frames; the server is asked for one then.
const KEY_FRAME_INTERVAL_MAX: Duration = Duration::from_secs(20);
/// CNAME in reports to the server.
const CNAME: &str = "millstream";

/// The media of one session that plays.
///
/// **To be driven like this:** [`rtp`](Self::rtp) and [`rtcp`](Self::rtcp) for what arrives, then,
/// and at [`next_timeout`](Self::next_timeout), [`poll`](Self::poll), whose packets go to the
/// server; and [`next_frame`](Self::next_frame) until there is none.
pub struct Receiver {
    stream: PacketStream,
    bridge: RtpToFrame,
    out: FramesOut,
    frames: VecDeque<Arc<Frame>>,
    asks_for_video: bool,
}

impl Receiver {
    /// Takes the tracks that the server sends by its answer; `ssrc` is that of reports to the server.
    pub fn new(now: Instant, clock: WallClock, ssrc: u32, tracks: &[Option<TrackDescription>]) -> Self {
        // Nobody joins here: packets are kept until their frame is whole, by the bridge.
        let limits = Limits { gop_cache: false, history_packets_max: 1_024, ..Limits::default() };
        let mut stream = PacketStream::new(limits, clock);
        let tracks: Vec<TrackInput> = tracks.iter().flatten().map(track).collect();
        let asks_for_video = tracks.iter().any(|track| track.kind == MediaKind::Video);
        let input =
            PublisherInput { tracks, feedback_ssrc: ssrc, cname: CNAME.to_owned(), reduced_size: true };
        stream.publisher_started(now, 1, input);
        let settings = RtpToFrameSettings {
            delay_max: DELAY_MAX,
            key_frame_interval_max: KEY_FRAME_INTERVAL_MAX,
            audio_to_aac: false,
        };
        Self {
            stream,
            bridge: RtpToFrame::new(settings, now),
            out: FramesOut::default(),
            frames: VecDeque::new(),
            asks_for_video,
        }
    }

    /// Takes an RTP packet in plaintext.
    pub fn rtp(&mut self, now: Instant, packet: &[u8]) {
        if let Err(reason) = self.stream.receive(now, packet) {
            tracing::trace!(?reason, "packet of a server dropped");
            return;
        }
        let Self { stream, bridge, out, .. } = self;
        stream.take_arrivals(|packet, _| bridge.packet(now, packet, out));
        self.take(now);
    }

    /// Takes RTCP in plaintext; whether the server says that the stream is over.
    pub fn rtcp(&mut self, now: Instant, compound: &[u8]) -> bool {
        self.stream.receive_rtcp(now, compound).bye
    }

    /// Does what is due; reports and requests for the server go behind `packets`.
    pub fn poll(&mut self, now: Instant, packets: &mut Vec<Outgoing>) {
        self.bridge.poll(now, &mut self.out);
        self.take(now);
        if std::mem::take(&mut self.asks_for_video)
            && let Some(track) = TrackIndex::new(MediaKind::Video, 0)
        {
            self.stream.request_key_frame(now, track);
        }
        let mut compound = Vec::new();
        while self.stream.poll_feedback(now, &mut compound) {
            packets.push(Outgoing::Rtcp(std::mem::take(&mut compound)));
        }
    }

    /// When [`poll`](Self::poll) is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.bridge.next_timeout().into_iter().chain(self.stream.next_timeout()).min()
    }

    /// The next frame.
    pub fn next_frame(&mut self) -> Option<Arc<Frame>> {
        self.frames.pop_front()
    }

    fn take(&mut self, now: Instant) {
        self.frames.extend(self.out.frames.drain(..));
        if self.out.key_frame_wanted
            && let Some(track) = TrackIndex::new(MediaKind::Video, 0)
        {
            self.stream.request_key_frame(now, track);
        }
        self.out.clear();
    }
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("bridge", &self.bridge.stats()).finish_non_exhaustive()
    }
}

fn track(track: &TrackDescription) -> TrackInput {
    let feedback = track.format().feedback;
    TrackInput {
        kind: track.kind,
        mid: track.mid.clone(),
        payloads: track.formats.iter().map(payload).collect(),
        extensions: track.extensions,
        ssrcs: track.sources.iter().map(|source| (source.ssrc, source.rtx_ssrc)).collect(),
        rids: Vec::new(),
        nack: feedback.nack,
        pli: feedback.pli,
        fir: feedback.fir,
        transport_cc: false,
        remb: false,
    }
}

fn payload(format: &Format) -> TrackPayload {
    TrackPayload {
        payload_type: format.payload_type,
        codec: format.codec,
        clock_rate: format.clock_rate,
        rtx: format.rtx_payload_type,
        red: None,
    }
}
