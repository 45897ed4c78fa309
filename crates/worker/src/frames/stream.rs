//! The streams a worker knows (published here, or played here, or both), each with its channels: the stream
//! in one wire format, the bytes that its players share and the times they are served. Frames come in from
//! publishers on this worker, and from the home of a stream that is published on another.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use delivery::{DeliveryLog, Mark, QueueLimits, Received, Schedule, Stream};
use media::config::{AudioFormat, VideoFormat, audio_format, audio_frame_format, video_format};
use media::{Codec, CodecConfig, FlvBody, Frame, FrameRole, MediaKind, Timestamp};
use mpegts::{Muxer, NotCarried};
use rtmp::chunk;
use rtmp::flv::{self, TagBody};
use rtp::rtcp::NtpTime;
use rtsp::Outgoing;
use sfu::WallClock;

use super::{FrameAction, Frames};
use crate::context::Context;
use crate::ids::{FrameStreamId, TapId};
use crate::mailbox::{MessageBody, WorkerMessage};
use crate::net::Clock;
use crate::proto::{http, websocket};
use crate::publication::{Publication, Source};
use crate::registry::Lane;
use worker_api::settings::ApplicationSettings;
use worker_api::snapshot::{Protocol, SectionsSnapshot};

/// Largest header frame, bytes. Each new player gets a copy of its own; real ones have a few hundred bytes.
const HEADER_BYTES_MAX: usize = 64 << 10;

/// Time by which another worker may learn later of a frame whose players get it merged with others,
/// milliseconds: the distance of two slots of its schedule. So a worker is woken at most once in that time by
/// each of the others, however many streams they have.
const MERGED_WAIT_MS: u64 = 5;

/// Longest time that frames wait to be sent together by SRT and RTSP, milliseconds: receivers play each
/// packet as late as it was sent, so that what is merged comes in bursts. 40 ms would cost SRT players a
/// third less (decision 49), and 13 ms of delay.
const TIMED_MERGE_MS: u64 = 10;

/// Pictures after which the order that a publisher sends them in is known: more than an encoder keeps back.
const ORDER_PICTURES: u32 = 24;

/// A stream on this worker.
#[derive(Debug)]
pub(crate) struct FrameStream {
    pub(crate) publication: Publication,
    pub(crate) settings: Arc<ApplicationSettings>,
    pub(crate) queue_limits: QueueLimits,
    /// Its timeline, headers and GOP cache.
    pub(crate) delivery: Stream,
    /// The number of the newest frame that came, whatever became of it; a publication's first one has number 1.
    pub(crate) newest: u32,
    pub(crate) channels: [Option<Channel>; Format::COUNT],
    /// Players inside this process.
    pub(crate) taps: Vec<TapId>,
    /// What its publisher's frames would be as packets.
    pub(crate) description: Description,
    pub(crate) video: Option<(Codec, Option<VideoFormat>)>,
    pub(crate) audio: Option<(Codec, Option<AudioFormat>)>,
    pub(crate) sections: SectionsSnapshot,
}

impl Frames {
    /// A frame of the stream's publisher.
    pub(crate) fn receive(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> FrameAction {
        if is_header(frame) && frame.bytes() > HEADER_BYTES_MAX {
            ctx.counters.frames_invalid += 1;
            tracing::trace!(?stream, bytes = frame.bytes(), "header dropped: too long");
            return FrameAction::None;
        }
        let received = self.fan_out(ctx, stream, frame);
        let local = &mut self.streams[stream];
        // What players have already, or need not know, a bridge may need.
        let is_for_bridges = matches!(frame.role, FrameRole::Config | FrameRole::End);
        let repeated = is_for_bridges.then_some(local.delivery.timeline_head());
        let Some(time) = received.map(|received| received.time).or(repeated) else {
            return FrameAction::None;
        };
        // Headers describe the tracks; without one, the first frame, or the first key frame where the header
        // says nothing; and B-frames, what can be done about them.
        let is_news = match frame.role {
            FrameRole::Config => received.is_some(),
            FrameRole::End => true,
            FrameRole::Metadata => false,
            _ => {
                let has_config = local.delivery.headers().first_config(frame.track.kind).is_some();
                local.description.note(frame, has_config)
            }
        };
        match local.publication.bridge {
            Some(bridge) => FrameAction::Bridge(bridge, time),
            None if is_news => FrameAction::Describe,
            None => FrameAction::None,
        }
    }

    /// Hands a frame that has come in here, from a publisher or a bridge, to other workers and the players of
    /// this one.
    pub(crate) fn fan_out(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> Option<Received> {
        let local = &mut self.streams[stream];
        local.note_format(frame);
        let Source { epoch, .. } = local.publication.source?;
        let id = local.publication.id;
        let before = local.newest;
        local.newest = before.wrapping_add(1);
        let number = local.newest;
        let wait_ms = MERGED_WAIT_MS.min(local.settings.merge_latency.as_millis() as u64);
        for remote in &mut local.publication.remotes {
            let (worker, after_loss) = (remote.worker, remote.lost);
            let mut send = |frame: &Arc<Frame>, number| {
                let body = MessageBody::Frame { frame: Arc::clone(frame), number, after_loss };
                let message = WorkerMessage { stream: id, epoch, lane: Lane::Frames, body };
                ctx.mailboxes.try_send(worker, message, ctx.now_ms + wait_ms)
            };
            // Ends and headers that had no room go ahead of what needs them, ends first: a track may have
            // gone on since. A worker that has a header ignores the copy.
            let ends = remote.lost_ends.iter().take_while(|end| send(end, before)).count();
            remote.lost_ends.drain(..ends);
            let headers = local.delivery.headers();
            let knows_tracks = remote.lost_ends.is_empty()
                && (!remote.lost_header || headers.iter().all(|header| send(header, before)));
            remote.lost_header &= !knows_tracks;
            remote.lost = !(knows_tracks && send(frame, number));
            if remote.lost {
                remote.lost_header |= is_header(frame);
                if frame.role == FrameRole::End {
                    remote.lost_ends.retain(|end| end.track != frame.track);
                    remote.lost_ends.push(Arc::clone(frame));
                }
                ctx.counters.ring_drops += 1;
                tracing::trace!(?stream, ?worker, "frame dropped: the ring is full");
            }
        }
        self.deliver(ctx, stream, frame)
    }

    /// Hands a frame to the players of this worker, and to those inside this process.
    pub(crate) fn deliver(
        &mut self,
        ctx: &mut Context,
        stream: FrameStreamId,
        frame: &Arc<Frame>,
    ) -> Option<Received> {
        let time = Time::of(ctx);
        let now_ms = ctx.now_ms;
        let Self { streams, players, timers, taps, served_taps, .. } = self;
        let FrameStream { delivery, channels, settings, taps: of_stream, .. } = &mut streams[stream];
        let received = delivery.receive(now_ms, frame);
        for &tap in of_stream.iter() {
            let headers = || delivery.headers().iter().cloned().collect();
            taps[tap].send(tap, frame, received, headers, served_taps);
        }
        let Some(received) = received else {
            // Of all that the timeline refuses, only video without its key frame is lost to players.
            let has_players = channels.iter().any(Option::is_some);
            ctx.counters.undecodable += u64::from(has_players && frame.role == FrameRole::Inter);
            return None;
        };
        if channels.iter().all(Option::is_none) {
            return Some(received);
        }
        let body = TagBody::of(frame);
        let is_flv_played = channels.iter().flatten().any(|channel| channel.format.is_flv());
        // What came in the body of an earlier frame has left with it.
        let is_media = frame.track.kind != MediaKind::Data;
        if body.is_none() && is_flv_played && is_media && frame.flv_body() == FlvBody::Missing {
            tracing::trace!(codec = %frame.codec, "frame dropped: FLV cannot carry its codec or size");
            ctx.counters.flv_drops += 1;
        }
        let messages_max = u64::from(settings.merge_messages);
        for channel in channels.iter_mut().flatten() {
            let message = match (&mut channel.ts, &mut channel.rtp) {
                (Some(ts), _) => ts.write(frame, received, &mut ctx.counters.ts_drops),
                (None, Some(rtp)) => rtp.write(time, frame, received),
                (None, None) => body.as_ref().map(Message::Flv),
            };
            let Some(message) = message else { continue };
            if channel.log.rolls(message.bytes_hint()) {
                // Bytes stay that a player has yet to get, or that new ones begin with.
                let entry = channel.log.entry().filter(|_| delivery.gop().frames().len() > 0);
                let all = channel.schedule.all_players();
                let positions = all.filter_map(|player| players.get(player)?.cursor.needed(&channel.log));
                let needed = positions.chain(entry.map(|(_, mark)| mark.position)).min();
                channel.log.evict(needed.unwrap_or(channel.log.head()));
            }
            append(channel.format, &mut channel.log, frame, &message, received, now_ms);
            if let Some(due_ms) = channel.arm(now_ms, messages_max) {
                timers.set((stream, channel.format as usize), &mut channel.armed_ms, due_ms);
            }
        }
        Some(received)
    }
}

/// Whether players begin with it.
pub(crate) fn is_header(frame: &Frame) -> bool {
    matches!(frame.role, FrameRole::Config | FrameRole::Metadata)
}

impl FrameStream {
    /// Notes the formats that its headers tell.
    pub(super) fn note_headers(&mut self) {
        let headers: Vec<_> = self.delivery.headers().iter().cloned().collect();
        headers.iter().for_each(|header| self.note_format(header));
    }

    /// Notes the formats that the API shows: of several tracks of a kind, the first.
    fn note_format(&mut self, frame: &Frame) {
        let (kind, codec, data) = (frame.track.kind, frame.codec, frame.data());
        match codec {
            mpegts::CUE => self.sections.cues += 1,
            mpegts::PRIVATE_SECTION => self.sections.private += 1,
            _ => {}
        }
        let is_known = match kind {
            MediaKind::Video => self.video.is_some(),
            MediaKind::Audio => self.audio.is_some(),
            MediaKind::Data => true,
        };
        if is_known && !matches!(frame.role, FrameRole::Config | FrameRole::End) {
            return;
        }
        let is_other = |config: &Arc<Frame>| config.track != frame.track;
        if self.delivery.headers().first_config(kind).is_some_and(is_other) {
            return;
        }
        let is_config = frame.role == FrameRole::Config;
        if frame.role == FrameRole::End {
            return self.track_ended(kind);
        }
        match kind {
            MediaKind::Video if is_config => self.video = Some((codec, video_format(codec, data))),
            MediaKind::Video if codec != Codec::None => self.video = Some((codec, None)),
            MediaKind::Audio if is_config => self.audio = Some((codec, audio_format(codec, data))),
            MediaKind::Audio if codec != Codec::None => {
                let told = CodecConfig { channels: frame.channels, ..CodecConfig::new(codec, Vec::new()) };
                let format = told.audio_format().or_else(|| audio_frame_format(codec, data));
                self.audio = Some((codec, format));
            }
            _ => {}
        }
    }

    /// Audio or video is over: what was known of it says nothing of what may come.
    pub(crate) fn track_ended(&mut self, kind: MediaKind) {
        match kind {
            MediaKind::Video => self.video = None,
            MediaKind::Audio => self.audio = None,
            MediaKind::Data => {}
        }
        self.description.track_ended(kind);
    }

    /// The channel of a format, made when its first player comes.
    pub(crate) fn channel_mut(&mut self, format: Format, time: Time) -> &mut Channel {
        let mut merge_ms = self.settings.merge_latency.as_millis() as u64;
        if matches!(format, Format::Srt | Format::Rtsp) {
            merge_ms = merge_ms.min(TIMED_MERGE_MS);
        }
        let delivery = &self.delivery;
        self.channels[format as usize].get_or_insert_with(|| Channel::new(format, merge_ms, delivery, time))
    }
}

/// What a publisher's frames have shown that says what they would be as packets, and how often they have been
/// looked at (`bridges/describe.rs`).
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// The first frame of audio, and of video, if no header came before it: nothing else describes the track.
    pub(crate) first: [Option<Arc<Frame>>; 2],
    /// Pictures that are sent before others which are shown earlier, as far as they are counted.
    out_of_order: u32,
    /// How often the stream has been described as packets without a pause.
    pub(crate) made: u8,
    /// When it is to be described again, because too little of it had been seen.
    pub(crate) due_ms: Option<u64>,
    /// The log has a warning about pictures that WebRTC cannot show.
    pub(crate) is_warned: bool,
}

impl Description {
    /// Takes in a frame that is no header, and says whether it tells something new. `has_config`: the header
    /// of its track came before it.
    pub(crate) fn note(&mut self, frame: &Arc<Frame>, has_config: bool) -> bool {
        // Some codecs say what they are only with a key frame.
        let is_awaited = frame.role == FrameRole::Key && self.due_ms.is_some();
        let is_first = !has_config && self.note_first(frame);
        let has_shown_order = self.note_order(frame);
        is_awaited || is_first || has_shown_order
    }

    fn note_first(&mut self, frame: &Arc<Frame>) -> bool {
        let first = match frame.track.kind {
            MediaKind::Audio => &mut self.first[0],
            MediaKind::Video => &mut self.first[1],
            MediaKind::Data => return false,
        };
        let is_first = first.is_none();
        if is_first {
            *first = Some(Arc::clone(frame));
        }
        is_first
    }

    /// Whether enough is known by now of a publisher that does not send pictures in the order they are shown.
    fn note_order(&mut self, frame: &Frame) -> bool {
        let is_counted = frame.track.kind == MediaKind::Video
            && self.out_of_order < ORDER_PICTURES
            && frame.pts != frame.dts
            && frame.pts.millis() != frame.dts.millis();
        self.out_of_order += u32::from(is_counted);
        is_counted && (self.out_of_order == 1 || self.out_of_order == ORDER_PICTURES)
    }

    /// A track is over: what was known of it says nothing of what may come.
    pub(crate) fn track_ended(&mut self, kind: MediaKind) {
        match kind {
            MediaKind::Audio => self.first[0] = None,
            MediaKind::Video => (self.first[1], self.out_of_order) = (None, 0),
            MediaKind::Data => {}
        }
    }
}

/// Wire format of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// RTMP chunk stream.
    Rtmp,
    /// FLV tags, one chunk each, as the body of an HTTP/1.1 response (RFC 9112 section 7.1).
    FlvChunked,
    /// FLV tags, as the body of an HTTP/1.0 response.
    Flv,
    /// One FLV tag per WebSocket message.
    WsFlv,
    /// A transport stream, the packets of a frame one chunk each, as the body of an HTTP/1.1 response.
    TsChunked,
    /// A transport stream, as the body of an HTTP/1.0 response.
    Ts,
    /// A transport stream by SRT.
    Srt,
    /// RTP, interleaved as in a connection of RTSP.
    Rtsp,
}

impl Format {
    /// Number of formats; each indexes an array by `as usize`.
    pub(crate) const COUNT: usize = 8;

    /// What answers a request for a stream.
    pub(crate) fn of_body(form: &http::Form, chunked: bool) -> Self {
        match (form, chunked) {
            (http::Form::Ts, true) => Self::TsChunked,
            (http::Form::Ts, false) => Self::Ts,
            (_, true) => Self::FlvChunked,
            (_, false) => Self::Flv,
        }
    }

    /// Whether it is the body of an HTTP response, of this content type and in chunks or not.
    pub(crate) fn http_body(self) -> Option<(&'static str, bool)> {
        match self {
            Self::FlvChunked => Some((http::CONTENT_FLV, true)),
            Self::Flv => Some((http::CONTENT_FLV, false)),
            Self::TsChunked => Some((http::CONTENT_TS, true)),
            Self::Ts => Some((http::CONTENT_TS, false)),
            Self::Rtmp | Self::WsFlv | Self::Srt | Self::Rtsp => None,
        }
    }

    /// How sessions show who plays it by HTTP.
    pub(crate) fn protocol(self, tls: bool) -> Protocol {
        match (self.is_ts(), tls) {
            (true, true) => Protocol::HttpsTs,
            (true, false) => Protocol::HttpTs,
            (false, true) => Protocol::HttpsFlv,
            (false, false) => Protocol::HttpFlv,
        }
    }

    /// Whether it is FLV, or carries the same bodies.
    pub(crate) fn is_flv(self) -> bool {
        !self.is_ts() && self != Self::Rtsp
    }

    /// Whether it is a transport stream.
    pub(crate) fn is_ts(self) -> bool {
        matches!(self, Self::TsChunked | Self::Ts | Self::Srt)
    }
}

/// A frame as players get it, but for what its format puts around it.
#[derive(Debug)]
enum Message<'a> {
    /// The body of an FLV tag or RTMP message.
    Flv(&'a TagBody<'a>),
    /// Packets of a transport stream, or of RTP.
    Ts(&'a [u8]),
}

impl Message<'_> {
    /// Most bytes it takes in any format.
    fn bytes_hint(&self) -> usize {
        match self {
            Self::Flv(body) => body.len() + overhead(body.len()),
            Self::Ts(packets) => packets.len() + CHUNK_OVERHEAD,
        }
    }
}

/// Bytes around a chunk: its size in hexadecimal and two line ends.
const CHUNK_OVERHEAD: usize = 20;

/// Serialises a frame for all players.
fn append(
    format: Format,
    log: &mut DeliveryLog,
    frame: &Frame,
    message: &Message<'_>,
    received: Received,
    now_ms: u64,
) {
    let Received { time, entry } = received;
    let time_ms = time.millis().max(0) as u64;
    let mark = Mark { position: log.head(), time_ms, arrived_ms: now_ms, entry };
    log.append(mark, message.bytes_hint(), |out| match message {
        Message::Flv(body) => write(format, out, frame, body, time_ms),
        Message::Ts(packets) => {
            write_framed(format, out, packets.len(), |out| out.extend_from_slice(packets))
        }
    });
}

/// What makes the packets of a transport stream, once for all players.
#[derive(Debug)]
pub(crate) struct TsChannel {
    muxer: Muxer,
    /// Packets of the frame at hand.
    packets: Vec<u8>,
    /// A frame that players would begin with is not carried.
    refusal: Option<NotCarried>,
}

impl TsChannel {
    /// One that knows the configurations ahead of the GOP cache.
    fn new(stream: &Stream) -> Self {
        let mut ts = Self { muxer: Muxer::default(), packets: Vec::new(), refusal: None };
        let has_gop = stream.gop().frames().len() > 0;
        let headers = if has_gop { stream.entry_headers() } else { stream.headers() };
        for header in headers.iter() {
            ts.write(header, Received { time: stream.timeline_head(), entry: false }, &mut 0);
        }
        ts
    }

    /// The packets of a frame, if there are any. One that is not carried is dropped and counted; if
    /// players could begin with it, there is nothing for them: they get a packet without content, so
    /// that they are served, and learn why.
    fn write(&mut self, frame: &Frame, received: Received, drops: &mut u64) -> Option<Message<'_>> {
        self.packets.clear();
        let Received { time, entry } = received;
        let written = self.muxer.write(&mut self.packets, frame, time, entry);
        if entry {
            self.refusal = written.err();
        }
        if let Err(error) = written {
            tracing::trace!(codec = %frame.codec, %error, "frame dropped");
            *drops += u64::from(!is_header(frame));
            if entry {
                Muxer::write_nothing(&mut self.packets);
            }
        }
        (!self.packets.is_empty()).then_some(Message::Ts(&self.packets))
    }

    fn publisher_started(&mut self) {
        self.muxer.restart();
        self.refusal = None;
    }

    /// What a player gets before its first frame, and again after frames were left out.
    fn write_start(&self, format: Format, out: &mut Vec<u8>, begins_again: bool) {
        let mut packets = Vec::new();
        self.muxer.write_start(&mut packets, begins_again);
        if !packets.is_empty() {
            write_framed(format, out, packets.len(), |out| out.extend_from_slice(&packets));
        }
    }
}

/// The time of a turn, for what is made of frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) now: Instant,
    pub(crate) now_ms: u64,
}

impl Time {
    /// That of this turn.
    pub(crate) fn of(ctx: &Context) -> Self {
        Self { now: ctx.now, now_ms: ctx.now_ms }
    }
}

/// What makes RTP of the frames, once for all players.
#[derive(Debug)]
pub(crate) struct RtpChannel {
    pub(crate) outgoing: Outgoing,
    clock: WallClock,
    /// Packets of the frame at hand.
    packets: Vec<u8>,
}

impl RtpChannel {
    /// One that knows the configurations ahead of the GOP cache.
    fn new(stream: &Stream, time: Time) -> Self {
        let hasher = RandomState::new();
        let random = std::array::from_fn(|track| hasher.hash_one(track) as u32);
        let clock = WallClock { at: time.now, ntp: NtpTime::from_unix(Clock::since_1970()) };
        let mut rtp = Self { outgoing: Outgoing::new(random, time.now), clock, packets: Vec::new() };
        let has_gop = stream.gop().frames().len() > 0;
        let headers = if has_gop { stream.entry_headers() } else { stream.headers() };
        for header in headers.iter() {
            rtp.write(time, header, Received { time: stream.timeline_head(), entry: false });
        }
        rtp
    }

    /// What a player gets before its first frame, which has this time.
    pub(crate) fn write_start(&self, now: Instant, entry_ms: u64, out: &mut Vec<u8>) {
        let time = Timestamp::from_millis(i64::try_from(entry_ms).unwrap_or(i64::MAX / 1_000_000));
        self.outgoing.write_start(now, self.clock.ntp(now), time, out);
    }

    /// The packets of a frame, if there are any.
    fn write(&mut self, time: Time, frame: &Frame, received: Received) -> Option<Message<'_>> {
        self.packets.clear();
        let ntp = self.clock.ntp(time.now);
        self.outgoing.write(time.now, ntp, received.time, frame, &mut self.packets);
        (!self.packets.is_empty()).then_some(Message::Ts(&self.packets))
    }
}

/// Bytes a message may be larger than its payload: headers, one chunk header per chunk, WebSocket frame
/// header.
const fn overhead(payload: usize) -> usize {
    64 + payload / chunk::PLAY_CHUNK_SIZE as usize * 8
}

/// One stream in one wire format on one worker.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) format: Format,
    pub(crate) log: DeliveryLog,
    /// What makes a transport stream of the frames, if the format is one.
    pub(crate) ts: Option<Box<TsChannel>>,
    /// What makes RTP of the frames, if the format is that.
    pub(crate) rtp: Option<Box<RtpChannel>>,
    pub(crate) schedule: Schedule,
    /// When the worker will look at the schedule next, if at all.
    pub(crate) armed_ms: Option<u64>,
}

impl Channel {
    /// A channel that begins with the stream's GOP cache.
    pub(crate) fn new(format: Format, merge_ms: u64, stream: &Stream, time: Time) -> Self {
        let schedule = Schedule::new(merge_ms);
        let (mut log, mut ts, mut rtp) = (DeliveryLog::default(), None, None);
        match format {
            Format::Rtsp => rtp = Some(Box::new(RtpChannel::new(stream, time))),
            format if format.is_ts() => ts = Some(Box::new(TsChannel::new(stream))),
            _ => {}
        }
        for (at, (stream_time, frame)) in stream.gop().frames().enumerate() {
            let received = Received { time: *stream_time, entry: at == 0 };
            let body = TagBody::of(frame).filter(|_| format.is_flv());
            let message = match (&mut ts, &mut rtp) {
                // Whoever came earlier has been counted for.
                (Some(ts), _) => ts.write(frame, received, &mut 0),
                (None, Some(rtp)) => rtp.write(time, frame, received),
                (None, None) => body.as_ref().map(Message::Flv),
            };
            if let Some(message) = message {
                append(format, &mut log, frame, &message, received, time.now_ms);
            }
        }
        Self { format, log, ts, rtp, schedule, armed_ms: None }
    }

    /// A publisher begins: players do not begin with what there was before.
    pub(crate) fn publisher_started(&mut self) {
        self.log.forget_entry();
        if let Some(ts) = &mut self.ts {
            ts.publisher_started();
        }
    }

    /// Why its players are to leave, if they are.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        let of_ts = self.ts.as_ref().and_then(|ts| ts.refusal).map(NotCarried::reason);
        of_ts.or(self.rtp.as_ref().and_then(|rtp| rtp.outgoing.refusal()))
    }

    /// When the schedule is to be looked at: when its next slot is due, or now if a slot holds back
    /// `messages_max` messages.
    pub(crate) fn arm(&mut self, now_ms: u64, messages_max: u64) -> Option<u64> {
        if self.armed_ms.is_none() {
            self.schedule.resume(now_ms);
        }
        let log_end = self.log_end();
        match self.schedule.is_full(log_end, messages_max) {
            true => Some(now_ms),
            false => self.schedule.next_due(log_end),
        }
    }

    /// Log position and message count, as the schedule wants them.
    pub(crate) fn log_end(&self) -> (u64, u64) {
        (self.log.head(), self.log.next_message())
    }

    /// What a player gets before its first frame, and again after frames were left out. Headers have the time
    /// of the key frame that follows; but audio ahead of that may be what the player has had last, and time
    /// does not go back within a track.
    pub(crate) fn write_headers(
        &self,
        out: &mut Vec<u8>,
        stream: &Stream,
        entry_ms: u64,
        begins_again: bool,
    ) {
        if let Some(ts) = &self.ts {
            return ts.write_start(self.format, out, begins_again);
        }
        if self.rtp.is_some() {
            return;
        }
        let audio_ms = stream.entry_audio().millis().max(0) as u64;
        for frame in stream.entry_headers().iter() {
            if let Some(body) = TagBody::of(frame) {
                let may_be_behind = begins_again && frame.track.kind == MediaKind::Audio;
                let time_ms = if may_be_behind { entry_ms.max(audio_ms) } else { entry_ms };
                write(self.format, out, frame, &body, time_ms);
            }
        }
    }
}

/// What an FLV player gets once, before everything else.
pub(crate) fn write_file_header(format: Format, out: &mut Vec<u8>, stream: &Stream) {
    // A player waits for each track that the header names: name only those that exist or that the metadata
    // announces.
    let metadata = stream.headers().metadata.as_ref();
    let promised = |key: &[u8]| {
        metadata.is_some_and(|frame| frame.data().windows(key.len()).any(|window| window == key))
    };
    let described = metadata.and_then(|frame| frame.described()).copied().unwrap_or_default();
    let has_audio = stream.has_audio() || described.audio.is_some() || promised(b"audiocodecid");
    let has_video = stream.has_video() || described.video.is_some() || promised(b"videocodecid");
    let mut header = Vec::with_capacity(16);
    flv::write_file_header(&mut header, has_audio, has_video);
    write_framed(format, out, header.len(), |out| out.extend_from_slice(&header));
}

/// What ends the stream in this format, where the format has an end.
pub(crate) fn write_end(format: Format, out: &mut Vec<u8>) {
    if let Format::FlvChunked | Format::TsChunked = format {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Puts `length` bytes of FLV or of a transport stream into the frame of what carries them.
fn write_framed(format: Format, out: &mut Vec<u8>, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
    match format {
        Format::FlvChunked | Format::TsChunked => {
            // Writing to a `Vec` cannot fail.
            let _ = write!(out, "{length:x}\r\n");
            write(out);
            out.extend_from_slice(b"\r\n");
        }
        Format::WsFlv => {
            websocket::write_binary_header(out, length);
            write(out);
        }
        Format::Flv | Format::Rtmp | Format::Ts | Format::Srt | Format::Rtsp => write(out),
    }
}

fn write(format: Format, out: &mut Vec<u8>, frame: &Frame, body: &TagBody<'_>, time_ms: u64) {
    let kind = frame.track.kind;
    // Stream time wraps at 2^32 ms on the wire, as RTMP and FLV have it. Metadata is of no time: ffmpeg takes
    // any other time for that of a subtitle.
    let timestamp = if frame.role == FrameRole::Metadata { 0 } else { time_ms as u32 };
    if format == Format::Rtmp {
        return chunk::write_play_parts(out, kind, timestamp, body.parts());
    }
    write_framed(format, out, body.len() + FLV_TAG_OVERHEAD, |out| {
        flv::write_tag_parts(out, kind, timestamp, body.parts());
    });
}

/// Bytes of an FLV tag besides its body: header and previous tag size.
const FLV_TAG_OVERHEAD: usize = 15;

#[cfg(test)]
mod tests {
    use media::TrackId;

    use super::*;

    fn frame_of(track: TrackId, role: FrameRole, data: Vec<u8>) -> Frame {
        Frame::new(track, role, Codec::H264, (Timestamp::ZERO, Timestamp::ZERO), data)
    }

    fn write_frame(format: Format, out: &mut Vec<u8>, frame: &Frame, time_ms: u64) {
        write(format, out, frame, &TagBody::of(frame).expect("a body"), time_ms);
    }

    #[test]
    fn the_hint_covers_every_format_and_size() {
        for bytes in [0, 1, 125, 126, 65_535, 65_536, 200_000] {
            let frame = frame_of(TrackId::VIDEO, FrameRole::Key, vec![0; bytes]);
            let hint = Message::Flv(&TagBody::of(&frame).expect("a body")).bytes_hint();
            for format in [Format::Rtmp, Format::FlvChunked, Format::Flv, Format::WsFlv] {
                let mut out = Vec::new();
                write_frame(format, &mut out, &frame, 0xffff_ffff);
                assert!(out.len() <= hint, "{format:?} {bytes}: {}", out.len());
            }
        }
    }

    #[test]
    fn metadata_is_of_no_time() {
        for (role, expected) in [(FrameRole::Metadata, 0), (FrameRole::Config, 0x0102_0304)] {
            let frame = frame_of(TrackId::DATA, role, vec![2; 20]);
            let mut out = Vec::new();
            write_frame(Format::Flv, &mut out, &frame, 0x0102_0304);
            assert_eq!(u32::from_be_bytes([out[7], out[4], out[5], out[6]]), expected, "{role:?}");
        }
    }

    #[test]
    fn chunks_hold_exactly_one_tag() {
        let mut out = Vec::new();
        write_framed(Format::FlvChunked, &mut out, 26, |out| out.extend_from_slice(&[7; 26]));
        write_end(Format::FlvChunked, &mut out);
        assert_eq!(out, [&b"1a\r\n"[..], &[7; 26], b"\r\n0\r\n\r\n"].concat());
    }

    #[test]
    fn websocket_messages_hold_exactly_one_tag() {
        let frame = frame_of(TrackId::DATA, FrameRole::Other, vec![7; 300]);
        let mut out = Vec::new();
        write_frame(Format::WsFlv, &mut out, &frame, 5);
        assert_eq!(out[..2], [0x82, 126]);
        assert_eq!(usize::from(u16::from_be_bytes([out[2], out[3]])), out.len() - 4);
    }
}
