//! `media::Frame` as it crosses a link: a short head, then its bytes.
//!
//! ```text
//! flags: 76543210   10 kind of track, 432 role, 5 index follows, 6 pts differs, 7 times in units
//! form:  76543210   43210 codec, 65 where the data is, 7 channels follow
//! [index:1] [fourcc:4] [channels:1] dts - dts of the frame before, [pts - dts]
//! length of the bytes, and of a body: where its data begins, bytes behind it
//! ```
//! Times are milliseconds when all of them are whole ones, else units of [`Timestamp`]. With frames of 40 ms
//! a head takes 7 bytes, because at 70 frames a second every byte of it is half a kilobit.
//!
//! Metadata that was given as values are values here.

use std::ops::Range;

use media::{Codec, FlvBody, FourCc, Frame, FrameRole, MediaKind, Metadata, Timestamp, TrackId};

use crate::error::LinkError;
use crate::limits::FRAME_BYTES_MAX;
use crate::wire::{Reader, put_number, put_signed};

/// What is known of a frame before its bytes.
#[derive(Debug)]
pub(crate) struct Head {
    track: TrackId,
    role: FrameRole,
    codec: Codec,
    channels: u8,
    dts: Timestamp,
    pts: Timestamp,
    form: Form,
    /// Bytes that follow.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
enum Form {
    Bare,
    /// The bytes are an FLV tag body with the data in this range.
    Body(Range<usize>),
    EarlierBody,
    Metadata(Box<Metadata>),
}

/// The bytes of a frame that follow its head.
pub(crate) fn bytes(frame: &Frame) -> &[u8] {
    match frame.flv_body() {
        FlvBody::Original(body) => body,
        FlvBody::Sent | FlvBody::Missing => frame.data(),
    }
}

/// Credit that a frame takes besides its bytes: frames without any take memory too.
pub(crate) const FRAME_COST: usize = 64;

/// Credit that a frame takes; what [`Link::used`](crate::Link::used) gives back.
pub fn cost(frame: &Frame) -> usize {
    bytes(frame).len() + FRAME_COST
}

/// Writes the head of a frame that follows one of time `before` on its stream.
pub(crate) fn put_head(out: &mut Vec<u8>, frame: &Frame, before: Timestamp) {
    // Exact whatever the times are: the other side wraps around the same way.
    let dts = frame.dts.units().wrapping_sub(before.units());
    let pts = frame.pts.units().wrapping_sub(frame.dts.units());
    let in_units = dts % UNITS_PER_MS != 0 || pts % UNITS_PER_MS != 0;
    let scale = if in_units { 1 } else { UNITS_PER_MS };
    let kind = KINDS.iter().position(|kind| *kind == frame.track.kind).expect("all kinds are listed");
    let role = ROLES.iter().position(|role| *role == frame.role).expect("all roles are listed");
    let has_index = frame.track.index != 0;
    let flags = [
        kind as u8,
        (role as u8) << 2,
        u8::from(has_index) << 5,
        u8::from(pts != 0) << 6,
        u8::from(in_units) << 7,
    ];
    out.push(flags.iter().sum());
    let (form, range) = match (frame.flv_body(), frame.described()) {
        (_, Some(_)) => (METADATA, None),
        (FlvBody::Original(_), _) => (BODY, Some(frame.data_range())),
        (FlvBody::Sent, _) => (EARLIER_BODY, None),
        (FlvBody::Missing, _) => (BARE, None),
    };
    out.push(frame.codec.number() | form << 5 | u8::from(frame.channels != 0) << 7);
    if has_index {
        out.push(frame.track.index);
    }
    put_fourcc(out, frame.codec);
    if frame.channels != 0 {
        out.push(frame.channels);
    }
    put_signed(out, dts / scale);
    if pts != 0 {
        put_signed(out, pts / scale);
    }
    if let Some(metadata) = frame.described() {
        return put_metadata(out, metadata);
    }
    let bytes = bytes(frame).len();
    put_number(out, bytes as u64);
    if let Some(range) = range {
        put_number(out, range.start as u64);
        put_number(out, (bytes - range.end) as u64);
    }
}

impl Head {
    /// Reads the head of a frame that follows one of time `before`.
    pub(crate) fn read(read: &mut Reader<'_>, before: Timestamp) -> Result<Self, LinkError> {
        let (flags, form) = (read.byte()?, read.byte()?);
        let kind = *KINDS.get(usize::from(flags & 3)).ok_or_else(|| read.malformed())?;
        let role = *ROLES.get(usize::from(flags >> 2 & 7)).ok_or_else(|| read.malformed())?;
        let index = if flags & 1 << 5 != 0 { read.byte()? } else { 0 };
        let codec = read_codec(read, form & 31)?;
        let channels = if form & 1 << 7 != 0 { read.byte()? } else { 0 };
        let scale = if flags & 1 << 7 != 0 { 1 } else { UNITS_PER_MS };
        let dts = before.units().wrapping_add(read.signed()?.wrapping_mul(scale));
        let offset = if flags & 1 << 6 != 0 { read.signed()? } else { 0 };
        let pts = dts.wrapping_add(offset.wrapping_mul(scale));
        let mut bytes = 0;
        let form = match form >> 5 & 3 {
            METADATA => Form::Metadata(Box::new(read_metadata(read)?)),
            form => {
                bytes = read.number_to(FRAME_BYTES_MAX)?;
                match form {
                    BARE => Form::Bare,
                    EARLIER_BODY => Form::EarlierBody,
                    _ => {
                        let start = read.number_to(bytes)?;
                        let behind = read.number_to(bytes - start)?;
                        Form::Body(start..bytes - behind)
                    }
                }
            }
        };
        Ok(Self {
            track: TrackId { kind, index },
            role,
            codec,
            channels,
            dts: Timestamp::from_units(dts),
            pts: Timestamp::from_units(pts),
            form,
            bytes,
        })
    }

    pub(crate) fn dts(&self) -> Timestamp {
        self.dts
    }

    /// The frame, once its bytes are there.
    pub(crate) fn into_frame(self, bytes: Vec<u8>) -> Frame {
        let Self { track, role, codec, channels, dts, pts, form, bytes: len } = self;
        debug_assert_eq!(bytes.len(), len, "as many as the head said");
        let mut frame = match form {
            Form::Bare => Frame::new(track, role, codec, (dts, pts), bytes),
            Form::EarlierBody => Frame::new(track, role, codec, (dts, pts), bytes).in_earlier_flv_body(),
            Form::Body(data) => Frame::in_flv_body(track, role, codec, (dts, pts), bytes, data),
            Form::Metadata(metadata) => Frame::metadata(*metadata, dts),
        };
        // Metadata has its own defaults of these.
        (frame.track, frame.role, frame.codec, frame.pts) = (track, role, codec, pts);
        frame.channels = channels;
        frame
    }
}

const UNITS_PER_MS: i64 = Timestamp::UNITS_PER_SECOND / 1_000;

/// In the order of their numbers.
const KINDS: [MediaKind; 3] = [MediaKind::Audio, MediaKind::Video, MediaKind::Data];
const ROLES: [FrameRole; 7] = [
    FrameRole::Config,
    FrameRole::Key,
    FrameRole::Inter,
    FrameRole::Audio,
    FrameRole::Metadata,
    FrameRole::End,
    FrameRole::Other,
];

const BARE: u8 = 0;
const BODY: u8 = 1;
const EARLIER_BODY: u8 = 2;
const METADATA: u8 = 3;

fn put_fourcc(out: &mut Vec<u8>, codec: Codec) {
    if let Codec::Unknown(FourCc(name)) = codec {
        out.extend(name);
    }
}

fn read_codec(read: &mut Reader<'_>, number: u8) -> Result<Codec, LinkError> {
    match number {
        0 => Ok(Codec::Unknown(FourCc(read.array()?))),
        number => Codec::from_number(number).ok_or_else(|| read.malformed()),
    }
}

fn put_metadata(out: &mut Vec<u8>, metadata: &Metadata) {
    let Metadata { video, audio } = metadata;
    out.push(u8::from(video.is_some()) | u8::from(audio.is_some()) << 1);
    if let Some((codec, width, height)) = video {
        out.push(codec.number());
        put_fourcc(out, *codec);
        put_number(out, u64::from(*width));
        put_number(out, u64::from(*height));
    }
    if let Some((codec, rate, channels)) = audio {
        out.push(codec.number());
        put_fourcc(out, *codec);
        put_number(out, u64::from(*rate));
        out.push(*channels);
    }
}

fn read_metadata(read: &mut Reader<'_>) -> Result<Metadata, LinkError> {
    let present = read.byte()?;
    if present > 3 {
        return Err(read.malformed());
    }
    let codec = |read: &mut Reader<'_>| {
        let number = read.byte()?;
        read_codec(read, number)
    };
    let video = match present & 1 {
        0 => None,
        _ => Some((codec(read)?, read.number32()?, read.number32()?)),
    };
    let audio = match present & 2 {
        0 => None,
        _ => Some((codec(read)?, read.number32()?, read.byte()?)),
    };
    Ok(Metadata { video, audio })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossed(frame: &Frame, before: Timestamp) -> (Frame, usize) {
        let mut head = Vec::new();
        put_head(&mut head, frame, before);
        let mut read = Reader::new(&head, "a frame");
        let read_head = Head::read(&mut read, before).unwrap();
        read.end().unwrap();
        for len in 0..head.len() {
            assert!(Head::read(&mut Reader::new(&head[..len], "a frame"), before).is_err(), "cut at {len}");
        }
        (read_head.into_frame(bytes(frame).to_vec()), head.len())
    }

    #[test]
    fn every_frame_is_the_same_on_the_other_side() {
        let at = |dts: i64, pts: i64| (Timestamp::from_units(dts), Timestamp::from_units(pts));
        let ms = |dts: i64, pts: i64| (Timestamp::from_millis(dts), Timestamp::from_millis(pts));
        let body = b"\x17\x01\x00\x00\x28nal..".to_vec();
        let second = TrackId { index: 3, ..TrackId::AUDIO };
        let named = Codec::Unknown(FourCc(*b"abcd"));
        let metadata = Metadata { video: Some((named, 1280, 720)), audio: Some((Codec::Opus, 48_000, 2)) };
        let mut in_stereo = Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Pcma, at(5, 5), vec![1]);
        in_stereo.channels = 2;
        let frames = [
            Frame::new(TrackId::VIDEO, FrameRole::Key, Codec::H264, ms(40, 80), b"nal".to_vec()),
            Frame::in_flv_body(TrackId::VIDEO, FrameRole::Inter, Codec::H264, ms(80, 0), body.clone(), 5..8),
            Frame::in_flv_body(TrackId::VIDEO, FrameRole::Config, Codec::H265, ms(0, 0), body.clone(), 0..10),
            Frame::in_flv_body(TrackId::DATA, FrameRole::Other, Codec::None, ms(0, 0), body, 10..10),
            Frame::new(second, FrameRole::Audio, named, at(1_001, -7), vec![7; 300]).in_earlier_flv_body(),
            in_stereo,
            Frame::metadata(metadata, Timestamp::from_millis(9)),
            Frame::metadata(Metadata { audio: None, ..metadata }, Timestamp::from_millis(9)),
            Frame::metadata(Metadata::default(), Timestamp::from_millis(9)),
            Frame::new(TrackId::AUDIO, FrameRole::End, Codec::Aac, at(i64::MIN, i64::MAX), Vec::new()),
        ];
        for before in [0, 1, i64::MAX, i64::MIN, UNITS_PER_MS * 40] {
            for frame in &frames {
                assert_eq!(crossed(frame, Timestamp::from_units(before)).0, *frame, "after {before}");
            }
        }
    }

    #[test]
    fn an_ordinary_head_takes_few_bytes() {
        let times = (Timestamp::from_millis(100_040), Timestamp::from_millis(100_120));
        let frame = Frame::in_flv_body(
            TrackId::VIDEO,
            FrameRole::Inter,
            Codec::H264,
            times,
            vec![0; 3_000],
            5..3_000,
        );
        assert_eq!(crossed(&frame, Timestamp::from_millis(100_000)).1, 9);
    }

    #[test]
    fn what_no_node_writes_is_malformed() {
        let mut good = Vec::new();
        let times = (Timestamp::ZERO, Timestamp::ZERO);
        let frame = Frame::in_flv_body(TrackId::VIDEO, FrameRole::Key, Codec::H264, times, vec![0; 9], 5..9);
        put_head(&mut good, &frame, Timestamp::ZERO);
        // (position, value, remark)
        for (at, value, remark) in [
            (0, 3, "no kind of track"),
            (0, 0b1_1101, "no role"),
            (1, 20, "no codec"),
            (4, 10, "data that begins behind the body"),
            (5, 5, "data that ends before it begins"),
        ] {
            let mut head = good.clone();
            head[at] = value;
            let result = Head::read(&mut Reader::new(&head, "a frame"), Timestamp::ZERO);
            assert_eq!(result.err(), Some(LinkError::Malformed("a frame")), "{remark}");
        }
        let mut huge = good[..3].to_vec();
        put_number(&mut huge, FRAME_BYTES_MAX as u64 + 1);
        assert!(Head::read(&mut Reader::new(&huge, "a frame"), Timestamp::ZERO).is_err());
    }
}
