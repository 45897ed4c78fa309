//! What publishers send: two seconds of H.264 and Opus, made by code, cut into packets as browsers
//! do, and repeated; or a recorded file, repeated.
//!
//! Made by code: 600 kbit/s of video at 30 frames a second, a key frame every 2 s, and an Opus
//! packet of 160 bytes every 20 ms: 71 + 50 packets a second. A frame that does not fit into a
//! packet is split into nearly equal ones, the last of which are a byte larger (FU-A, RFC 6184
//! section 5.8); parameter sets travel in a packet of their own before each key frame (STAP-A,
//! section 5.7.1). Sizes vary from frame to frame.
//!
//! Of a file ([`Recording`]), `rtp::packetize` makes the packets, once. Its Opus packets get
//! padding for marks; its video has no room for them. Sending is left to `publisher.rs`.

use ::media::bitstream::next_length_prefixed;
use ::media::{Codec, config};
use rtp::packetize::{self, PacketSlab, Sender};

use super::h264::{self, Unit};
use super::mark::{self, MARK_BYTES};
use super::opus;
use super::recording::{Recorded, Recording};

/// Which of the two tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Opus at 48 kHz.
    Audio,
    /// H.264 at 90 kHz.
    Video,
}

impl Track {
    /// Both, in the order of [`Track::index`].
    pub const ALL: [Track; 2] = [Track::Audio, Track::Video];

    /// 0 for audio, 1 for video.
    pub fn index(self) -> usize {
        self as usize
    }

    /// RTP units per second.
    pub fn clock_rate(self) -> u32 {
        match self {
            Track::Audio => 48_000,
            Track::Video => 90_000,
        }
    }
}

/// A payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// RTP payload.
    pub bytes: Vec<u8>,
    /// Whether a mark may be written into it.
    pub marked: bool,
    /// Where the picture id of VP8 or VP9 is, in 15 bits, which goes on when the media is repeated.
    pub picture_id: Option<usize>,
}

impl Payload {
    fn new(bytes: Vec<u8>, marked: bool) -> Payload {
        Payload { bytes, marked, picture_id: None }
    }
}

/// The repeated media; shared by all publishers.
#[derive(Clone, Debug)]
pub struct Media {
    lanes: [Lane; 2],
    /// How its video is coded.
    pub video: VideoCoding,
    /// Whether it is a file.
    pub is_recorded: bool,
}

/// Codec of the video, as offers name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoCoding {
    /// The codec.
    pub codec: Codec,
    /// Value of `a=fmtp`; empty where the payload format needs none.
    pub fmtp: String,
}

/// A track that is repeated for ever.
#[derive(Clone, Debug)]
struct Lane {
    /// In order of time.
    frames: Vec<LaneFrame>,
    /// Length of a repetition: nanoseconds, and RTP units.
    length: Time,
}

/// A frame and when it is due.
#[derive(Clone, Debug)]
struct LaneFrame {
    at: Time,
    is_key: bool,
    payloads: Vec<Payload>,
}

/// The same time in both clocks; counted from any zero, and wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Time {
    ns: u64,
    /// Of the track's RTP clock.
    units: u64,
}

impl Time {
    fn of_ns(ns: u64, track: Track) -> Time {
        let units = (u128::from(ns) * u128::from(track.clock_rate()) + 500_000_000) / 1_000_000_000;
        Time { ns, units: units as u64 }
    }

    /// Frame `index` of those that come `per_second`.
    fn of_frame(index: usize, per_second: u32, track: Track) -> Time {
        let units_each = track.clock_rate() / per_second;
        let ns = index as u64 * 1_000_000_000 / u64::from(per_second);
        Time { ns, units: index as u64 * u64::from(units_each) }
    }

    fn plus(self, other: Time) -> Time {
        Time { ns: self.ns.wrapping_add(other.ns), units: self.units.wrapping_add(other.units) }
    }

    fn minus(self, other: Time) -> Time {
        Time { ns: self.ns.wrapping_sub(other.ns), units: self.units.wrapping_sub(other.units) }
    }
}

impl Lane {
    /// Of frames at an even rate, the first of which is the key frame.
    fn even(payloads: Vec<Vec<Payload>>, per_second: u32, track: Track) -> Lane {
        let length = Time::of_frame(payloads.len(), per_second, track);
        let frame = |(index, payloads)| LaneFrame {
            at: Time::of_frame(index, per_second, track),
            is_key: index == 0,
            payloads,
        };
        Lane { frames: payloads.into_iter().enumerate().map(frame).collect(), length }
    }

    /// The first frame from `index` on, round and round, that is as wanted.
    fn next_from(&self, index: usize, is_wanted: impl Fn(&LaneFrame) -> bool) -> Option<usize> {
        let count = self.frames.len();
        (0..count).map(|step| (index + step) % count).find(|&index| is_wanted(&self.frames[index]))
    }
}

impl Media {
    /// Encodes it.
    pub fn new() -> Media {
        let mut video: Vec<_> = video_frames().iter().map(fragments).collect();
        video[0].insert(0, parameter_sets());
        let fmtp = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f".to_owned();
        Media {
            lanes: [silence(), Lane::even(video, VIDEO_FRAMES_PER_SECOND, Track::Video)],
            video: VideoCoding { codec: Codec::H264, fmtp },
            is_recorded: false,
        }
    }

    /// Makes packets of a file. One without audio gets that of [`Media::new`].
    ///
    /// # Errors
    /// A text for the user.
    pub fn recorded(recording: &Recording) -> Result<Media, String> {
        let Recording { video, frames: [audio, pictures] } = recording;
        let fmtp = video.fmtp().ok_or_else(|| format!("the {} configuration is damaged", video.codec))?;
        let length_ns = loop_ns(audio, pictures);
        let lane = |track, frames: Vec<(u64, bool, Vec<Payload>)>| Lane {
            frames: frames
                .into_iter()
                .map(|(ns, is_key, payloads)| LaneFrame { at: Time::of_ns(ns, track), is_key, payloads })
                .collect(),
            length: Time::of_ns(length_ns, track),
        };
        let mut packetizer = Packetizer { slab: PacketSlab::default(), sender: Sender::new(0, 0) };
        let pictures = pictures.iter().map(|picture| {
            let payloads = packetizer.picture(video.codec, &video.record, picture);
            payloads.map(|payloads| (picture.at_ns, picture.is_key, payloads))
        });
        let pictures = pictures.collect::<Option<Vec<_>>>();
        let pictures = pictures.ok_or_else(|| format!("its {} video is damaged", video.codec))?;
        let packets = audio.iter().map(|packet| {
            let marked = opus::with_room(&packet.data).filter(|padded| padded.len() <= PAYLOAD_MAX);
            let payload = match marked {
                Some(padded) => Payload::new(padded, true),
                None => Payload::new(packet.data.clone(), false),
            };
            (packet.at_ns, true, vec![payload])
        });
        let audio = if audio.is_empty() { silence() } else { lane(Track::Audio, packets.collect()) };
        Ok(Media {
            lanes: [audio, lane(Track::Video, pictures)],
            video: VideoCoding { codec: video.codec, fmtp },
            is_recorded: true,
        })
    }

    /// Payloads of a frame.
    pub fn payloads(&self, frame: Frame) -> &[Payload] {
        let frames = &self.lanes[frame.track.index()].frames;
        &frames[frame.position % frames.len()].payloads
    }

    /// Frames of video until it is repeated.
    pub fn group_length(&self) -> usize {
        self.lanes[Track::Video.index()].frames.len()
    }

    /// Packets per second of both tracks, on average.
    pub fn packets_per_second(&self) -> f64 {
        let of_lane = |lane: &Lane| {
            let packets: usize = lane.frames.iter().map(|frame| frame.payloads.len()).sum();
            packets as f64 * 1e9 / lane.length.ns as f64
        };
        self.lanes.iter().map(of_lane).sum()
    }
}

impl Default for Media {
    fn default() -> Media {
        Media::new()
    }
}

/// A frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Of which track.
    pub track: Track,
    /// Position in what is repeated; 0 is a key frame.
    pub position: usize,
    /// RTP units since the begin.
    pub timestamp: u32,
    /// Number among those of its track, from 0, wrapping: the picture id of VP8 and VP9.
    pub number: u16,
}

/// When a publisher sends what.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// Audio and video.
    cursors: [Cursor; 2],
}

/// Where a publisher is in a track.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    next: usize,
    /// When the present repetition began.
    origin: Time,
    taken: u16,
}

impl Cursor {
    fn due(&self, lane: &Lane) -> Time {
        self.origin.plus(lane.frames[self.next].at)
    }

    /// Goes on with another frame, when the next one would have been due.
    fn jump(&mut self, lane: &Lane, to: usize) {
        self.origin = self.due(lane).minus(lane.frames[to].at);
        self.next = to;
    }
}

impl Timeline {
    /// Begins with a key frame at `origin_ns`.
    pub fn new(origin_ns: u64) -> Timeline {
        let cursor = Cursor { next: 0, origin: Time { ns: origin_ns, units: 0 }, taken: 0 };
        Timeline { cursors: [cursor; 2] }
    }

    /// When the next frame is due, in the clock of `origin_ns`.
    pub fn next_due_ns(&self, media: &Media) -> u64 {
        self.due_ns(self.next_track(media), media)
    }

    /// The next frame; the one after it is due later or at the same time.
    pub fn take(&mut self, media: &Media) -> Frame {
        let track = self.next_track(media);
        let (lane, cursor) = (&media.lanes[track.index()], &mut self.cursors[track.index()]);
        let frame = Frame {
            track,
            position: cursor.next,
            timestamp: cursor.due(lane).units as u32,
            number: cursor.taken,
        };
        cursor.taken = cursor.taken.wrapping_add(1);
        cursor.next += 1;
        if cursor.next == lane.frames.len() {
            cursor.next = 0;
            cursor.origin = cursor.origin.plus(lane.length);
        }
        frame
    }

    /// Makes the next frame a key frame, unless the last one was. Nobody can encode one of a file:
    /// it goes on from its next key frame, audio with it.
    pub fn want_key_frame(&mut self, media: &Media) {
        let [audio, video] = &media.lanes;
        let [heard, shown] = &mut self.cursors;
        let last = shown.next.checked_sub(1).unwrap_or(video.frames.len() - 1);
        let is_key = |frame: &LaneFrame| frame.is_key;
        if shown.taken > 0 && is_key(&video.frames[last]) {
            return;
        }
        let Some(key) = video.next_from(shown.next, is_key) else { return };
        let shown_ns = shown.due(video).ns;
        shown.jump(video, key);
        // What is heard with that picture, and so much later as audio is due later.
        let later_ns = heard.due(audio).ns.wrapping_sub(shown_ns) as i64;
        let at_ns = (video.frames[key].at.ns as i64 + later_ns).rem_euclid(audio.length.ns as i64) as u64;
        if let Some(with) = audio.next_from(0, |frame| frame.at.ns >= at_ns).or(Some(0)) {
            heard.jump(audio, with);
        }
    }

    fn next_track(&self, media: &Media) -> Track {
        let [audio, video] = Track::ALL.map(|track| self.due_ns(track, media));
        if audio <= video { Track::Audio } else { Track::Video }
    }

    fn due_ns(&self, track: Track, media: &Media) -> u64 {
        self.cursors[track.index()].due(&media.lanes[track.index()]).ns
    }
}

/// How long a file is, both tracks of which are repeated at once: a whole number of audio packets.
fn loop_ns(audio: &[Recorded], pictures: &[Recorded]) -> u64 {
    let end = |frames: &[Recorded]| {
        let (first, last) = (frames.first().map_or(0, |frame| frame.at_ns), frames.last());
        let last_ns = last.map_or(0, |frame| frame.at_ns);
        let steps = (frames.len() as u64).saturating_sub(1).max(1);
        last_ns + (last_ns - first) / steps
    };
    end(audio).max(end(pictures)).max(1).next_multiple_of(AUDIO_PACKET_NS)
}

/// Makes payloads of coded pictures.
struct Packetizer {
    slab: PacketSlab,
    sender: Sender,
}

impl Packetizer {
    /// Payloads of a picture; `None` if it cannot be read.
    fn picture(&mut self, codec: Codec, record: &[u8], picture: &Recorded) -> Option<Vec<Payload>> {
        self.slab.clear();
        let mut writer = self.sender.frame(0, 0, &mut self.slab);
        let (data, mut picture_id) = (&picture.data[..], None);
        match codec {
            Codec::H264 | Codec::H265 => {
                let units = units(codec, record, picture)?;
                let units = units.iter().copied();
                match codec {
                    Codec::H264 => packetize::h264::packetize(units, PAYLOAD_MAX, &mut writer),
                    _ => packetize::h265::packetize(units, PAYLOAD_MAX, &mut writer),
                }
            }
            Codec::Av1 => {
                let is_whole = !picture.is_key || packetize::av1::has_sequence_header(data);
                // Behind four bytes, an `av1C` record has the sequence header.
                let ahead = if is_whole { &[][..] } else { record.get(4..)? };
                packetize::av1::packetize(ahead, data, picture.is_key, PAYLOAD_MAX, &mut writer)
                    .then_some(())?;
            }
            Codec::Vp8 => {
                picture_id = Some(2);
                packetize::vp8::packetize(data, 0, PAYLOAD_MAX, &mut writer);
            }
            Codec::Vp9 => {
                picture_id = Some(1);
                packetize::vp9::packetize(data, 0, picture.is_key, PAYLOAD_MAX, &mut writer);
            }
            _ => return None,
        }
        writer.end_frame(true);
        let payload = |bytes: &[u8]| Payload { bytes: bytes.to_vec(), marked: false, picture_id };
        let payloads: Vec<Payload> = self.slab.iter().map(|(_, bytes)| payload(bytes)).collect();
        (!payloads.is_empty()).then_some(payloads)
    }
}

/// NAL units of a picture, without delimiters and filler, with parameter sets ahead of a key picture.
fn units<'a>(codec: Codec, record: &'a [u8], picture: &'a Recorded) -> Option<Vec<&'a [u8]>> {
    let is_h264 = codec == Codec::H264;
    let kind =
        |unit: &[u8]| unit.first().map_or(0, |first| if is_h264 { first & 0x1f } else { first >> 1 & 0x3f });
    let (sets, sps, unwanted) = match is_h264 {
        true => (config::read_avcc(record).ok()?.sets, 7, [9, 12]),
        false => (config::read_hvcc(record).ok()?.sets, 33, [35, 38]),
    };
    let mut rest = &picture.data[..];
    let own: Vec<&[u8]> = std::iter::from_fn(|| next_length_prefixed(&mut rest, 4)).collect();
    let mut units = Vec::with_capacity(own.len());
    if picture.is_key && !own.iter().any(|unit| kind(unit) == sps) {
        units.extend(sets);
    }
    units.extend(own.into_iter().filter(|unit| !unwanted.contains(&kind(unit))));
    Some(units)
}

/// The audio that is made by code.
fn silence() -> Lane {
    Lane::even(vec![vec![opus_payload()]], AUDIO_PACKETS_PER_SECOND, Track::Audio)
}

/// The frames of a group, the key frame first.
pub(super) fn video_frames() -> Vec<Unit> {
    let changed = frame_sizes().into_iter().zip(1..).map(|(raw, number)| h264::changed_frame(number, raw));
    std::iter::once(h264::key_frame(KEY_RAW)).chain(changed).collect()
}

/// Raw macroblocks of each frame after the key frame: 59 frames of one to three packets, 600
/// kbit/s in all.
fn frame_sizes() -> Vec<u32> {
    // How often each size occurs. Sizes from 7 on take three packets, 3 to 6 take two.
    let mut sizes: Vec<u32> = [(4, 6), (5, 8), (6, 32), (7, 5), (8, 5), (9, 3)]
        .iter()
        .flat_map(|&(raw, times)| vec![raw; times])
        .collect();
    // Mixed, always in the same way.
    let mut random = 0x9e37_79b9u32;
    for last in (1..sizes.len()).rev() {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        sizes.swap(last, random as usize % (last + 1));
    }
    sizes
}

/// In one packet, before each key frame.
fn parameter_sets() -> Payload {
    let mut bytes = vec![STAP_A | 0x60];
    for set in [h264::sequence_parameters(), h264::picture_parameters()] {
        bytes.extend_from_slice(&(set.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&set);
    }
    Payload::new(bytes, false)
}

/// Cuts a NAL unit into payloads: whole if it fits, otherwise into nearly equal parts, larger ones last.
fn fragments(unit: &Unit) -> Vec<Payload> {
    let (header, length) = (unit.bytes[0], unit.bytes.len());
    if length <= PAYLOAD_MAX {
        return vec![Payload::new(unit.bytes.clone(), is_free(unit, mark_range(0, 0, length)))];
    }
    let body = &unit.bytes[1..];
    let count = body.len().div_ceil(PAYLOAD_MAX - FU_HEADER);
    let (small, larger) = (body.len() / count, body.len() % count);
    let mut begin = 0;
    let mut cut = |index: usize| {
        let end = begin + small + usize::from(index >= count - larger);
        let ends = u8::from(index == 0) << 7 | u8::from(index + 1 == count) << 6;
        let mut bytes = vec![FU_A | header & 0xe0, ends | header & 0x1f];
        bytes.extend_from_slice(&body[begin..end]);
        let marked = is_free(unit, mark_range(1 + begin, FU_HEADER, bytes.len()));
        begin = end;
        Payload::new(bytes, marked)
    };
    (0..count).map(&mut cut).collect()
}

/// Bytes of the NAL unit that a mark would take in a payload of `length` whose bytes from `skipped`
/// on are those of the unit from `begin` on.
fn mark_range(begin: usize, skipped: usize, length: usize) -> Option<std::ops::Range<usize>> {
    let at = mark::place(length)?.checked_sub(skipped)? + begin;
    Some(at..at + MARK_BYTES)
}

fn is_free(unit: &Unit, range: Option<std::ops::Range<usize>>) -> bool {
    range.is_some_and(|mark| unit.free.iter().any(|free| free.start <= mark.start && mark.end <= free.end))
}

/// 20 ms of silence and padding (RFC 6716 sections 3.1 and 3.2.5): full band, mono, one frame.
fn opus_payload() -> Payload {
    let padding = OPUS_BYTES - 5;
    // Configuration 31, code 3; one frame with padding; its length; CELT's frame of silence.
    let mut bytes = vec![31 << 3 | 3, 0x41, padding as u8, 0xff, 0xfe];
    bytes.resize(OPUS_BYTES, 0);
    Payload::new(bytes, true)
}

/// Raw macroblocks of a key frame.
const KEY_RAW: u32 = 28;

/// Browsers keep packets at 1200 bytes with RTP header and extensions.
const PAYLOAD_MAX: usize = 1168;

const VIDEO_FRAMES_PER_SECOND: u32 = 30;
const AUDIO_PACKETS_PER_SECOND: u32 = 50;
const AUDIO_PACKET_NS: u64 = 1_000_000_000 / AUDIO_PACKETS_PER_SECOND as u64;

const OPUS_BYTES: usize = 160;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
const FU_HEADER: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtc::mark::Mark;

    fn pictures(media: &Media) -> impl Iterator<Item = &Vec<Payload>> {
        media.lanes[Track::Video.index()].frames.iter().map(|frame| &frame.payloads)
    }

    #[test]
    fn a_second_has_the_promised_packets_and_bits() {
        let media = Media::new();
        let video: Vec<&Payload> = pictures(&media).flatten().collect();
        assert_eq!(media.group_length(), 60);
        assert_eq!((video.len(), media.packets_per_second()), (2 * 71, 121.0));
        let bits_per_second = video.iter().map(|payload| payload.bytes.len() * 8).sum::<usize>() / 2;
        assert!((595_000..605_000).contains(&bits_per_second), "{bits_per_second}");
    }

    #[test]
    fn frames_are_cut_nearly_equally_with_larger_packets_last() {
        for (index, payloads) in pictures(&Media::new()).enumerate() {
            let cut = &payloads[usize::from(index == 0)..];
            let (first, last) = (cut[0].bytes.len(), cut[cut.len() - 1].bytes.len());
            assert!(last - first <= 1 && cut.is_sorted_by_key(|payload| payload.bytes.len()), "{index}");
            assert!(last <= PAYLOAD_MAX && (cut.len() == 1 || first > PAYLOAD_MAX / 2), "{index}: {first}");
        }
    }

    /// Reassembles the packets of a frame (RFC 6184 section 5.8).
    fn reassemble(payloads: &[Payload]) -> Vec<u8> {
        let mut unit = Vec::new();
        for payload in payloads {
            let bytes = &payload.bytes;
            match bytes[0] & 0x1f {
                FU_A if bytes[1] & 0x80 != 0 => unit.push(bytes[0] & 0xe0 | bytes[1] & 0x1f),
                FU_A => {}
                _ => return bytes.clone(),
            }
            unit.extend_from_slice(&bytes[2..]);
        }
        unit
    }

    #[test]
    fn fragments_are_the_frame_again() {
        for raw in 0..40 {
            let unit = h264::key_frame(raw);
            assert_eq!(reassemble(&fragments(&unit)), unit.bytes, "{raw}");
        }
    }

    #[test]
    fn marks_change_samples_only() {
        let media = Media::new();
        for (position, raw) in frame_sizes().into_iter().enumerate() {
            let unit = h264::changed_frame(position as u32 + 1, raw);
            let mut payloads = pictures(&media).nth(position + 1).expect("a frame").clone();
            for payload in payloads.iter_mut().filter(|payload| payload.marked) {
                let mark = Mark { publisher: 1, sent_ns: 2, number: 3, ..Mark::default() };
                mark::write(&mut payload.bytes, &mark);
            }
            let marked = reassemble(&payloads);
            for (at, (before, after)) in unit.bytes.iter().zip(&marked).enumerate() {
                assert!(
                    before == after || unit.free.iter().any(|free| free.contains(&at)),
                    "{position}: {at}"
                );
            }
        }
    }

    #[test]
    fn most_packets_can_be_marked() {
        let media = Media::new();
        let video: Vec<&Payload> = pictures(&media).flatten().collect();
        let marked = video.iter().filter(|payload| payload.marked).count();
        assert!(marked * 10 >= video.len() * 8, "{marked} of {}", video.len());
        assert!(opus_payload().marked && opus_payload().bytes.len() == OPUS_BYTES);
    }

    #[test]
    fn frames_come_in_time_order_at_both_rates() {
        let (media, mut timeline) = (Media::new(), Timeline::new(1_000));
        let mut last = 0;
        let mut frames = Vec::new();
        while timeline.next_due_ns(&media) < 1_000 + 4_000_000_000 {
            assert!(timeline.next_due_ns(&media) >= last);
            last = timeline.next_due_ns(&media);
            frames.push(timeline.take(&media));
        }
        let video: Vec<&Frame> = frames.iter().filter(|frame| frame.track == Track::Video).collect();
        assert_eq!((frames.len(), video.len()), (4 * 80, 4 * 30));
        assert_eq!(video.iter().filter(|frame| frame.position == 0).count(), 2);
        assert!(video.windows(2).all(|pair| pair[1].timestamp - pair[0].timestamp == 3000));
    }

    #[test]
    fn a_wanted_key_frame_is_the_next_one() {
        let (media, mut timeline) = (Media::new(), Timeline::new(0));
        let next_frame = |timeline: &mut Timeline| loop {
            let frame = timeline.take(&media);
            if frame.track == Track::Video {
                break frame.position;
            }
        };
        assert_eq!((next_frame(&mut timeline), next_frame(&mut timeline)), (0, 1));
        timeline.want_key_frame(&media);
        assert_eq!(next_frame(&mut timeline), 0);
        timeline.want_key_frame(&media);
        assert_eq!(next_frame(&mut timeline), 1, "the last one was a key frame: not again");
    }

    fn recorded(name: &str) -> Media {
        let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples")).join(name);
        Media::recorded(&Recording::open(&path).expect(name)).expect(name)
    }

    const SAMPLES: [&str; 3] = ["h264-opus.mp4", "vp8-opus.webm", "av1-opus.webm"];

    #[test]
    fn a_file_is_repeated_with_rising_times() {
        for name in SAMPLES {
            let (media, mut timeline) = (recorded(name), Timeline::new(0));
            assert_eq!(media.group_length(), 80, "{name}");
            let mut last = [None; 2];
            let (mut taken, mut due_ns) = ([0; 2], 0);
            while timeline.next_due_ns(&media) < 12_000_000_000 {
                assert!(timeline.next_due_ns(&media) >= due_ns, "{name}");
                due_ns = timeline.next_due_ns(&media);
                let frame = timeline.take(&media);
                let track = frame.track.index();
                taken[track] += 1;
                let step = last[track].replace(frame.timestamp).map(|last| frame.timestamp - last);
                let bounds = if frame.track == Track::Audio { 480..=2880 } else { 4500..=9000 };
                assert!(step.is_none_or(|step| bounds.contains(&step)), "{name}: {frame:?} {step:?}");
            }
            assert!((236..=241).contains(&taken[1]) && (590..=602).contains(&taken[0]), "{name}: {taken:?}");
        }
    }

    #[test]
    fn every_packet_of_a_file_fits_and_audio_can_be_marked() {
        for name in SAMPLES {
            let media = recorded(name);
            let [audio, video] = &media.lanes;
            assert!(audio.frames.iter().all(|frame| frame.payloads.len() == 1 && frame.payloads[0].marked));
            let payloads: Vec<&Payload> = video.frames.iter().flat_map(|frame| &frame.payloads).collect();
            assert!(payloads.iter().all(|payload| payload.bytes.len() <= PAYLOAD_MAX), "{name}");
            let packets = (payloads.len() + audio.frames.len()) as f64 / 4.0;
            assert!((media.packets_per_second() - packets).abs() < 2.0, "{name}: {packets}");
            // Where viewers look for key frames, they are.
            for frame in &video.frames {
                let (first, last) = (&frame.payloads[0], frame.payloads.len() == 1);
                let info = rtp::payload::inspect(media.video.codec, &first.bytes, last).expect("readable");
                assert_eq!(info.key_frame, frame.is_key, "{name}");
            }
        }
    }

    #[test]
    fn a_file_goes_on_from_its_next_key_frame_with_its_audio() {
        let (media, mut timeline) = (recorded("vp8-opus.webm"), Timeline::new(0));
        while timeline.next_due_ns(&media) < 3_200_000_000 {
            timeline.take(&media);
        }
        let due_ns = timeline.next_due_ns(&media);
        timeline.want_key_frame(&media);
        assert_eq!(timeline.next_due_ns(&media), due_ns, "nothing is late or early");
        let (mut audio, mut video) = (None, None);
        while audio.is_none() || video.is_none() {
            let frame = timeline.take(&media);
            match frame.track {
                Track::Audio => audio = audio.or(Some(frame)),
                Track::Video => video = video.or(Some(frame)),
            }
        }
        let (audio, video) = (audio.expect("audio"), video.expect("video"));
        // From the end to the beginning, and both go on in time.
        assert_eq!((video.position, video.timestamp, video.number), (0, 64 * 4500, 64));
        assert!(audio.position <= 1, "{audio:?}");
        assert!((3_180..=3_220).contains(&(audio.timestamp / 48)), "{audio:?}");
    }
}
