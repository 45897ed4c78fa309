//! Frames as a publisher sends them: H.264 with pictures out of order, AAC, each with bytes of its own.

use std::sync::Arc;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};

/// Record with one SPS and one PPS (96x64), sizes of four bytes.
const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";
/// Pictures per second, and from key frame to key frame.
const PICTURES: i64 = 25;
const GOP: i64 = 25;

/// Configurations of both tracks.
pub(crate) fn configurations() -> Vec<Arc<Frame>> {
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    vec![
        Arc::new(Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, AVCC.to_vec())),
        Arc::new(Frame::new(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, vec![0x11, 0x90])),
    ]
}

/// Pictures and sound of `seconds`, from second `from` on, in the order of their decoding times; pictures
/// have `picture_bytes`.
pub(crate) fn frames(from: i64, seconds: i64, picture_bytes: usize) -> Vec<Arc<Frame>> {
    let millis = |millis: i64| Timestamp::from_millis(millis);
    let mut frames = Vec::new();
    for index in from * PICTURES..(from + seconds) * PICTURES {
        let dts = index * 1000 / PICTURES;
        // P B B: the P is shown after the two that follow it.
        let delay = [120, 0, 0][(index % 3) as usize];
        let role = if index % GOP == 0 { FrameRole::Key } else { FrameRole::Inter };
        let data = payload(index, picture_bytes);
        frames.push(Frame::new(TrackId::VIDEO, role, Codec::H264, (millis(dts), millis(dts + delay)), data));
    }
    let first = (from * 48_000 + 1023) / 1024;
    for index in first..=(from + seconds) * 48_000 / 1024 {
        let time = millis(index * 1024 * 1000 / 48_000);
        if time < millis((from + seconds) * 1000) {
            let data = payload(index, 60);
            frames.push(Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, (time, time), data));
        }
    }
    frames.sort_by_key(|frame| frame.dts);
    frames.into_iter().map(Arc::new).collect()
}

/// A NAL unit with its length, and bytes that say which it is.
fn payload(index: i64, bytes: usize) -> Vec<u8> {
    let mut data = ((bytes - 4) as u32).to_be_bytes().to_vec();
    data.push(0x65);
    data.extend(index.to_be_bytes());
    let mut state = index as u32 | 1;
    while data.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        data.push((state >> 24) as u8);
    }
    data
}

/// What an MP4 file has of both tracks, and why reading it ended, if not at its end.
pub(crate) fn read(bytes: Vec<u8>) -> ([Vec<Vec<u8>>; 2], Option<String>) {
    let mut tracks = [Vec::new(), Vec::new()];
    let mut file = match mp4::Mp4::open(std::io::Cursor::new(bytes), mp4::Limits::default()) {
        Ok(file) => file,
        Err(error) => return (tracks, Some(format!("{error:?}"))),
    };
    loop {
        match file.next_sample() {
            Ok(Some(sample)) => {
                let track = usize::from(sample.frame.track != TrackId::VIDEO);
                tracks[track].push(sample.frame.data().to_vec());
            }
            Ok(None) => return (tracks, None),
            Err(error) => return (tracks, Some(format!("{error:?}"))),
        }
    }
}

/// The same of what was published.
pub(crate) fn published(frames: &[Arc<Frame>]) -> [Vec<Vec<u8>>; 2] {
    let of = |track: TrackId| {
        let media = frames.iter().filter(|frame| frame.track == track && frame.role != FrameRole::Config);
        media.map(|frame| frame.data().to_vec()).collect()
    };
    [of(TrackId::VIDEO), of(TrackId::AUDIO)]
}
