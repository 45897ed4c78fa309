//! What the tests share: frames, packets, and how both are looked at.

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use mpegts::{DemuxSettings, Demuxer, Muxer, PACKET_BYTES};

/// One packet as the tests see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) pid: u16,
    pub(crate) starts: bool,
    pub(crate) counter: u8,
    pub(crate) has_payload: bool,
    pub(crate) discontinuity: bool,
    /// In ticks of 27 MHz.
    pub(crate) pcr: Option<u64>,
    pub(crate) payload: Vec<u8>,
}

/// Takes a stream apart, independently of the crate.
pub(crate) fn packets(bytes: &[u8]) -> Vec<Packet> {
    let (packets, rest) = bytes.as_chunks::<PACKET_BYTES>();
    assert!(rest.is_empty(), "whole packets");
    packets.iter().map(packet).collect()
}

fn packet(bytes: &[u8; PACKET_BYTES]) -> Packet {
    assert_eq!(bytes[0], 0x47);
    let (has_field, has_payload) = (bytes[3] & 0x20 != 0, bytes[3] & 0x10 != 0);
    let field = if has_field { &bytes[5..5 + usize::from(bytes[4])] } else { &[] };
    let flags = field.first().copied().unwrap_or(0);
    let pcr = (flags & 0x10 != 0).then(|| {
        let base = field[1..6].iter().fold(0u64, |base, byte| base << 8 | u64::from(*byte)) >> 7;
        base * 300 + (u64::from(field[5] & 1) << 8 | u64::from(field[6]))
    });
    let behind = 4 + usize::from(has_field) * (1 + field.len());
    Packet {
        pid: u16::from_be_bytes([bytes[1] & 0x1f, bytes[2]]),
        starts: bytes[1] & 0x40 != 0,
        counter: bytes[3] & 0x0f,
        has_payload,
        discontinuity: flags & 0x80 != 0,
        pcr,
        payload: bytes[behind..].to_vec(),
    }
}

/// Fails unless the counter of every PID goes on as it has to, but where it is said that it does not.
pub(crate) fn assert_counters_are_exact(packets: &[Packet]) {
    let mut last = std::collections::HashMap::new();
    for (at, packet) in packets.iter().enumerate() {
        if let Some(last) = last.insert(packet.pid, packet.counter).filter(|_| !packet.discontinuity) {
            let expected = (last + u8::from(packet.has_payload)) & 0x0f;
            assert_eq!(packet.counter, expected, "packet {at} of PID {:#x}", packet.pid);
        }
    }
}

/// SPS and PPS of libx264, 640x360.
pub(crate) const AVCC: [u8; 39] = [
    0x01, 0x42, 0xc0, 0x1f, 0xff, 0xe1, 0x00, 0x19, 0x67, 0x42, 0xc0, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xfe,
    0xb0, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x3c, 0x0f, 0x18, 0x32, 0xa0, 0x01,
    0x00, 0x04, 0x68, 0xce, 0x0f,
];

/// The configuration of the video that [`video`] makes.
pub(crate) fn video_config() -> Frame {
    let mut record = AVCC.to_vec();
    record.push(0xc8);
    config(TrackId::VIDEO, Codec::H264, record)
}

/// A configuration of the beginning.
pub(crate) fn config(track: TrackId, codec: Codec, record: Vec<u8>) -> Frame {
    Frame::new(track, FrameRole::Config, codec, (Timestamp::ZERO, Timestamp::ZERO), record)
}

/// AAC-LC, 48 kHz, stereo.
pub(crate) fn aac_config() -> Frame {
    config(TrackId::AUDIO, Codec::Aac, vec![0x11, 0x90])
}

/// A picture of so many bytes.
pub(crate) fn video(role: FrameRole, dts: Timestamp, pts: Timestamp, bytes: usize) -> Frame {
    let mut data = (bytes as u32).to_be_bytes().to_vec();
    data.push(if role == FrameRole::Key { 0x65 } else { 0x41 });
    data.resize(4 + bytes, 0xaa);
    Frame::new(TrackId::VIDEO, role, Codec::H264, (dts, pts), data)
}

/// An audio frame of so many bytes.
pub(crate) fn audio(codec: Codec, time: Timestamp, bytes: usize) -> Frame {
    Frame::new(TrackId::AUDIO, FrameRole::Audio, codec, (time, time), vec![0x5a; bytes])
}

/// All of these frames in one stream, at their own times; players may begin at each key frame.
pub(crate) fn mux(frames: &[Frame]) -> Vec<u8> {
    let (mut muxer, mut out) = (Muxer::default(), Vec::new());
    for frame in frames {
        muxer.write(&mut out, frame, frame.dts, frame.is_key()).expect("it is carried");
    }
    out
}

/// All frames of a stream, given in chunks of this size.
pub(crate) fn demux(bytes: &[u8], chunk: usize, settings: DemuxSettings) -> (Vec<Frame>, Demuxer) {
    let (mut demuxer, mut frames) = (Demuxer::new(settings), Vec::new());
    for chunk in bytes.chunks(chunk) {
        demuxer.push(chunk);
        frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    }
    demuxer.finish();
    frames.extend(std::iter::from_fn(|| demuxer.next_frame()));
    (frames, demuxer)
}

/// Of a track, its role and data.
pub(crate) fn contents(frames: &[Frame], track: TrackId) -> Vec<(FrameRole, Vec<u8>)> {
    let of_track = frames.iter().filter(|frame| frame.track == track);
    of_track.map(|frame| (frame.role, frame.data().to_vec())).collect()
}
