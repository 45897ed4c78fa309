//! Frames of a stream to RTP, once for all of its players on a worker.
//!
//! ```text
//!  frame ─▶ NAL units, OBUs, audio ─▶ rtp::packetize ─▶ | "$" | channel | length | RTP | "$" | ...
//! ```
//! What comes out is what players get interleaved in their connections; those by UDP get the packets out of
//! it. So all of them have the same numbers, times and channels: video has track 0 with the channels 0 and 1,
//! audio track 1 with 2 and 3. Sender reports are among the packets, the same for all. Pictures are sent in
//! the order of decoding, with the times they are shown at (RFC 6184 section 5.1), B-frames included.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bridge::clock::{AudioTimestamps, StreamClock, VideoTimestamps, rtp_timestamp};
use media::bitstream::next_length_prefixed;
use media::config::{self, AudioSpecificConfig};
use media::{Codec, CodecConfig, Frame, FrameRole, MediaKind, Timestamp};
use rtp::packetize::{PacketSlab, Sender, audio, av1, h264, h265, vp8, vp9};
use rtp::rtcp::{NtpTime, SenderInfo, SenderReport, SourceDescription};

use crate::incoming::write_interleaved;
use crate::reception::CNAME;

/// Tracks of a player: video and audio.
pub const TRACKS: usize = 2;

/// Longest payload of a packet: with headers of IPv6, UDP and RTP it fits in an Ethernet frame, and in a
/// tunnel's.
const PAYLOAD_BYTES_MAX: usize = 1_200;
/// Time between two sender reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The channel of a track's RTP; that of its RTCP is the next one.
pub fn channel_of(track: usize) -> u8 {
    2 * track as u8
}

/// What makes RTP of a stream's frames.
#[derive(Debug)]
pub struct Outgoing {
    tracks: [Option<Track>; TRACKS],
    clock: StreamClock,
    slab: PacketSlab,
    reported: Instant,
    random: [u32; TRACKS],
    /// No further track is taken: what there is was described.
    is_described: bool,
    /// Why nothing goes on: a track has become what was not described.
    refusal: Option<&'static str>,
}

/// One track.
#[derive(Debug)]
struct Track {
    config: CodecConfig,
    /// Parameter sets, or OBUs of the configuration, that go ahead of key frames.
    ahead: Vec<Vec<u8>>,
    length_bytes: u8,
    payload_type: u8,
    clock_rate: u32,
    sender: Sender,
    picture_id: u16,
    video_times: VideoTimes,
    audio_times: AudioTimestamps,
}

/// Timestamps of pictures in the order of decoding.
#[derive(Debug, Default)]
struct VideoTimes(VideoTimestamps);

impl Track {
    /// The track that a frame begins, if that says what it is.
    fn of(frame: &Frame, random: u32) -> Option<Self> {
        let tells_itself = match frame.codec {
            Codec::Pcma | Codec::Pcmu => frame.channels <= 1,
            Codec::Vp8 | Codec::Vp9 => frame.is_key(),
            _ => false,
        };
        let record = match frame.role {
            FrameRole::Config => frame.data().to_vec(),
            _ if tells_itself => Vec::new(),
            _ => return None,
        };
        Self::new(CodecConfig::new(frame.codec, record), random)
    }

    /// `None` for what RTSP does not carry.
    fn new(config: CodecConfig, random: u32) -> Option<Self> {
        let codec = config.codec;
        let (clock_rate, payload_type) = match codec {
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 => (90_000, 96),
            Codec::Opus => (48_000, 97),
            Codec::Pcmu => (8_000, 0),
            Codec::Pcma => (8_000, 8),
            Codec::Aac => (AudioSpecificConfig::read(&config.record).ok()?.sample_rate, 97),
            _ => return None,
        };
        let mut length_bytes = 4;
        let ahead = match codec {
            Codec::H264 | Codec::H265 => {
                let read = match codec {
                    Codec::H264 => config::read_avcc(&config.record),
                    _ => config::read_hvcc(&config.record),
                };
                let read = read.ok()?;
                length_bytes = read.length_bytes;
                read.sets.iter().map(|set| set.to_vec()).collect()
            }
            Codec::Av1 => config.record.get(4..).map(<[u8]>::to_vec).into_iter().collect(),
            _ => Vec::new(),
        };
        let ssrc = random.max(1);
        Some(Self {
            config,
            ahead,
            length_bytes,
            payload_type,
            clock_rate: clock_rate.max(1),
            sender: Sender::new(ssrc, random as u16),
            picture_id: 0,
            video_times: VideoTimes::default(),
            audio_times: AudioTimestamps::new(clock_rate.max(1)),
        })
    }

    /// Its part of a description.
    fn describe(&self, track: usize, out: &mut String) {
        use std::fmt::Write;
        let Self { config, payload_type: number, clock_rate, .. } = self;
        let (kind, name, channels) = match config.codec {
            Codec::H264 => ("video", "H264", ""),
            Codec::H265 => ("video", "H265", ""),
            Codec::Av1 => ("video", "AV1", ""),
            Codec::Vp8 => ("video", "VP8", ""),
            Codec::Vp9 => ("video", "VP9", ""),
            Codec::Opus => ("audio", "opus", "/2"),
            Codec::Pcmu => ("audio", "PCMU", ""),
            Codec::Pcma => ("audio", "PCMA", ""),
            _ => ("audio", "MPEG4-GENERIC", ""),
        };
        let base64 = |set: &Vec<u8>| STANDARD.encode(set);
        let fmtp = match config.codec {
            Codec::H264 => {
                let sets: Vec<String> = self.ahead.iter().map(base64).collect();
                let fmtp = config.fmtp().unwrap_or_else(|| "packetization-mode=1".to_owned());
                format!("{fmtp};sprop-parameter-sets={}", sets.join(","))
            }
            Codec::H265 => {
                let of_kind = |kind: u8| {
                    let sets = self.ahead.iter().filter(move |set| set[0] >> 1 & 0x3f == kind);
                    sets.map(base64).collect::<Vec<_>>().join(",")
                };
                format!("sprop-vps={};sprop-sps={};sprop-pps={}", of_kind(32), of_kind(33), of_kind(34))
            }
            Codec::Aac => {
                let hex: String = config.record.iter().map(|byte| format!("{byte:02x}")).collect();
                format!(
                    "streamtype=5;profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;\
                     indexdeltalength=3;config={hex}"
                )
            }
            Codec::Opus => "sprop-stereo=1".to_owned(),
            _ => config.fmtp().unwrap_or_default(),
        };
        let channels = match (config.codec, config.audio_format()) {
            (Codec::Aac, Some(format)) => format!("/{}", format.channels),
            _ => channels.to_owned(),
        };
        // Writing to a `String` cannot fail.
        let _ =
            write!(out, "m={kind} 0 RTP/AVP {number}\r\na=rtpmap:{number} {name}/{clock_rate}{channels}\r\n");
        if !fmtp.is_empty() {
            let _ = write!(out, "a=fmtp:{number} {fmtp}\r\n");
        }
        let _ = write!(out, "a=control:{}\r\n", crate::server::control_of(track));
    }
}

impl Outgoing {
    /// Without tracks, which frames bring along; `random` is for SSRCs and first numbers.
    pub fn new(random: [u32; TRACKS], now: Instant) -> Self {
        Self {
            tracks: [None, None],
            clock: StreamClock::new(now),
            slab: PacketSlab::default(),
            // What comes at once at the beginning says little of the time.
            reported: now,
            random,
            is_described: false,
            refusal: None,
        }
    }

    /// Whether RTSP carries this codec.
    pub fn carries(codec: Codec) -> bool {
        matches!(
            codec,
            Codec::H264
                | Codec::H265
                | Codec::Av1
                | Codec::Vp8
                | Codec::Vp9
                | Codec::Aac
                | Codec::Opus
                | Codec::Pcma
                | Codec::Pcmu
        )
    }

    /// Positions of the tracks there are.
    pub fn tracks(&self) -> impl Iterator<Item = usize> + '_ {
        (0..TRACKS).filter(|track| self.tracks[*track].is_some())
    }

    /// How the SDP describes it. Tracks that come later are left out from now on. `None` if there is
    /// nothing that RTSP carries.
    pub fn description(&mut self, name: &str) -> Option<String> {
        let mut out = String::new();
        for (at, track) in self.tracks.iter().enumerate() {
            if let Some(track) = track {
                track.describe(at, &mut out);
            }
        }
        self.is_described |= !out.is_empty();
        let name: String = name.chars().filter(|char| !char.is_control()).collect();
        (!out.is_empty()).then(|| {
            format!(
                "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns={name}\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=control:*\r\n\
                 a=range:npt=now-\r\n{out}"
            )
        })
    }

    /// Takes the track of a frame in, if that says what it is, and sends nothing.
    pub fn learn(&mut self, frame: &Frame) {
        let Some(at) = track_of(frame.track.kind).filter(|_| frame.track.index == 0) else { return };
        let is_track = !matches!(frame.role, FrameRole::Metadata | FrameRole::End | FrameRole::Other);
        if is_track && !self.is_described && self.tracks[at].is_none() {
            self.tracks[at] = Track::of(frame, self.random[at]);
        }
    }

    /// Whether there is a track of this kind.
    pub(crate) fn has_track(&self, kind: MediaKind) -> bool {
        track_of(kind).is_some_and(|at| self.tracks[at].is_some())
    }

    /// Whether a frame says what its track is, as far as RTSP carries that.
    pub(crate) fn would_describe(&self, frame: &Frame) -> bool {
        frame.role != FrameRole::End && Track::of(frame, 1).is_some()
    }

    /// Why nothing goes on, if nothing does: what was described is not what comes.
    pub fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// Appends the packets of a frame, which is decoded at `time` on the stream's timeline.
    pub fn write(&mut self, now: Instant, ntp: NtpTime, time: Timestamp, frame: &Frame, out: &mut Vec<u8>) {
        let Some(at) = track_of(frame.track.kind).filter(|_| frame.track.index == 0) else { return };
        if matches!(frame.role, FrameRole::Metadata | FrameRole::End | FrameRole::Other) {
            return;
        }
        self.learn(frame);
        let Some(track) = &mut self.tracks[at] else { return };
        if frame.codec != track.config.codec {
            self.refusal = Some("the stream has changed its codec");
            return;
        }
        if frame.role == FrameRole::Config {
            return self.configure(at, frame);
        }
        self.clock.arrived(now, time.micros());
        self.slab.clear();
        let shown = time + (frame.pts - frame.dts);
        track.packetize(shown, frame, &mut self.slab);
        for (fields, payload) in self.slab.iter() {
            write_interleaved(out, channel_of(at), |out| {
                let mut header = [0; rtp::FIXED_HEADER_LEN];
                fields.write(&[], &mut header);
                out.extend_from_slice(&header);
                out.extend_from_slice(payload);
            });
        }
        if now.saturating_duration_since(self.reported) >= REPORT_INTERVAL {
            self.reported = now;
            self.report(now, ntp, out);
        }
    }

    /// Appends what a player gets before a frame that is decoded at `time`: sender reports that tell the time
    /// of that frame, so that it need not guess until the next ones.
    pub fn write_start(&self, now: Instant, ntp: NtpTime, time: Timestamp, out: &mut Vec<u8>) {
        let Some(now_us) = self.clock.time_us(now) else { return };
        let ago = Duration::from_micros(u64::try_from(now_us - time.micros()).unwrap_or(0));
        let units = (ago.as_nanos() << 32) / 1_000_000_000;
        self.report_at(time.micros(), NtpTime(ntp.0.wrapping_sub(units as u64)), out);
    }

    /// Appends a sender report of each track that has sent something.
    fn report(&self, now: Instant, ntp: NtpTime, out: &mut Vec<u8>) {
        if let Some(time_us) = self.clock.time_us(now) {
            self.report_at(time_us, ntp, out);
        }
    }

    fn report_at(&self, time_us: i64, ntp: NtpTime, out: &mut Vec<u8>) {
        for (at, track) in self.tracks.iter().enumerate() {
            let Some(track) = track.as_ref().filter(|track| track.sender.packets > 0) else { continue };
            let info = SenderInfo {
                ntp,
                rtp_timestamp: rtp_timestamp(time_us, track.clock_rate),
                packets: track.sender.packets,
                payload_bytes: track.sender.payload_bytes,
            };
            write_interleaved(out, channel_of(at) + 1, |out| {
                SenderReport::write(out, track.sender.ssrc, &info, &[]);
                SourceDescription::write_cname(out, track.sender.ssrc, CNAME);
            });
        }
    }

    /// A configuration: parameter sets may change, what the description says of audio may not.
    fn configure(&mut self, at: usize, frame: &Frame) {
        let Some(track) = &mut self.tracks[at] else { return };
        if track.config.record == frame.data() {
            return;
        }
        let is_audio = frame.track.kind == MediaKind::Audio;
        let config = CodecConfig { record: frame.data().to_vec(), ..track.config.clone() };
        match Track::new(config, 1) {
            Some(new) if !is_audio => {
                track.config = new.config;
                (track.ahead, track.length_bytes) = (new.ahead, new.length_bytes);
            }
            _ if is_audio && frame.codec != Codec::Aac => {}
            _ => self.refusal = Some("the stream has changed its configuration"),
        }
    }
}

impl Track {
    fn packetize(&mut self, shown: Timestamp, frame: &Frame, slab: &mut PacketSlab) {
        let (data, limit) = (frame.data(), PAYLOAD_BYTES_MAX);
        let codec = self.config.codec;
        if codec.kind() == MediaKind::Audio {
            return self.packetize_audio(shown, data, slab);
        }
        let timestamp = self.video_times.of(frame, shown);
        let mut writer = self.sender.frame(self.payload_type, timestamp, slab);
        let ahead = if frame.is_key() { &self.ahead[..] } else { &[] };
        match codec {
            Codec::H264 | Codec::H265 => {
                let length_bytes = self.length_bytes;
                let mut rest = data;
                let own = std::iter::from_fn(move || next_length_prefixed(&mut rest, length_bytes));
                let is_waste = move |unit: &&[u8]| match (codec, unit.first()) {
                    (Codec::H264, Some(head)) => head & 0x1f == 9,
                    (_, Some(head)) => head >> 1 & 0x3f == 35,
                    (_, None) => true,
                };
                let units = ahead.iter().map(Vec::as_slice).chain(own).filter(move |unit| !is_waste(unit));
                let units: Vec<&[u8]> = units.collect();
                match codec {
                    Codec::H265 => h265::packetize(units.iter().copied(), limit, &mut writer),
                    _ => h264::packetize(units.iter().copied(), limit, &mut writer),
                }
            }
            Codec::Av1 => {
                let has_header = frame.is_key() && av1::has_sequence_header(data);
                let ahead = ahead.first().filter(|_| !has_header).map_or(&[][..], Vec::as_slice);
                let begins = has_header || !ahead.is_empty();
                let _ = av1::packetize(ahead, data, begins, limit, &mut writer);
            }
            Codec::Vp8 => vp8::packetize(data, self.picture_id, limit, &mut writer),
            _ => vp9::packetize(data, self.picture_id, frame.is_key(), limit, &mut writer),
        }
        writer.end_frame(true);
        self.picture_id = self.picture_id.wrapping_add(1) & 0x7fff;
    }

    fn packetize_audio(&mut self, shown: Timestamp, data: &[u8], slab: &mut PacketSlab) {
        let (us, number) = (shown.micros(), self.payload_type);
        match self.config.codec {
            Codec::Opus => {
                let samples = rtp::payload::opus::Toc::parse(data).map_or(960, |toc| toc.samples);
                let timestamp = self.audio_times.next(us, u32::from(samples));
                let mut writer = self.sender.frame(number, timestamp, slab);
                audio::whole(data, PAYLOAD_BYTES_MAX, &mut writer);
                writer.end_frame(false);
            }
            Codec::Pcma | Codec::Pcmu => {
                let mut ahead = 0;
                for piece in audio::g711_pieces(data) {
                    let timestamp = self.audio_times.next(us + ahead * 125, piece.len() as u32);
                    let mut writer = self.sender.frame(number, timestamp, slab);
                    audio::whole(piece, PAYLOAD_BYTES_MAX, &mut writer);
                    writer.end_frame(false);
                    ahead += piece.len() as i64;
                }
            }
            _ => {
                if data.is_empty() || data.len() > AAC_BYTES_MAX {
                    return;
                }
                let timestamp = self.audio_times.next(us, 1_024);
                let mut writer = self.sender.frame(number, timestamp, slab);
                // Sizes of 13 bits, indices of 3 (RFC 3640 section 3.3.6).
                let header = ((data.len() as u16) << 3).to_be_bytes();
                for piece in data.chunks(PAYLOAD_BYTES_MAX - 4) {
                    writer.begin();
                    writer.put(&[0, 16]);
                    writer.put(&header);
                    writer.put(piece);
                }
                writer.end_frame(true);
            }
        }
    }
}

impl VideoTimes {
    /// Regular where pictures are shown in the order of decoding; else as they are.
    fn of(&mut self, frame: &Frame, shown: Timestamp) -> u32 {
        if frame.pts != frame.dts {
            self.0 = VideoTimestamps::default();
            return rtp_timestamp(shown.micros(), 90_000);
        }
        self.0.next(shown.micros())
    }
}

fn track_of(kind: MediaKind) -> Option<usize> {
    match kind {
        MediaKind::Video => Some(0),
        MediaKind::Audio => Some(1),
        MediaKind::Data => None,
    }
}

/// What sizes of 13 bits can say.
const AAC_BYTES_MAX: usize = 8_191;
