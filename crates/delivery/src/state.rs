//! Where a stream is, as a plain value: another process goes on with its publisher and its players.
//!
//! What players need of frames that came before is in here: headers, and the times that were given
//! to the last frames. The GOP cache stays behind: who joins later begins at the next key frame.

use std::sync::Arc;

use media::{Codec, FlvBody, Frame, FrameRole, Metadata, Timestamp, TrackId};
use serde::{Deserialize, Serialize};

use crate::timeline::TimelineState;

/// A [`Stream`](crate::Stream), for [`Stream::resume`](crate::Stream::resume).
///
/// To be serialised by name: a later release skips fields that it does not know, and those that it
/// adds have a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    pub(crate) timeline: TimelineState,
    /// In the order that players get them.
    pub(crate) headers: Vec<FrameState>,
    pub(crate) ended: Vec<FrameState>,
    pub(crate) video: Option<TrackId>,
    /// How long ago video came last, milliseconds.
    pub(crate) video_since_ms: u64,
    pub(crate) has_audio: bool,
    /// How long only audio has come, milliseconds.
    pub(crate) audio_only_ms: Option<u64>,
    pub(crate) awaits_key: bool,
    pub(crate) last_key: Option<Timestamp>,
    pub(crate) key_frame_interval_ms: u64,
}

/// No stream can be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateImpossible;

/// A header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameState {
    track: TrackId,
    role: FrameRole,
    codec: Codec,
    channels: u8,
    dts: Timestamp,
    pts: Timestamp,
    content: ContentState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ContentState {
    /// Data, and whether that came in the FLV tag body of an earlier frame.
    Data(#[serde(with = "serde_bytes")] Vec<u8>, bool),
    /// An FLV tag body, and where the data is in it.
    FlvBody(#[serde(with = "serde_bytes")] Vec<u8>, usize, usize),
    Metadata(Metadata),
}

impl FrameState {
    pub(crate) fn of(frame: &Arc<Frame>) -> Self {
        let content = match (frame.described(), frame.flv_body()) {
            (Some(metadata), _) => ContentState::Metadata(*metadata),
            (None, FlvBody::Original(body)) => {
                let data = frame.data_range();
                ContentState::FlvBody(body.to_vec(), data.start, data.end)
            }
            (None, of) => ContentState::Data(frame.data().to_vec(), of == FlvBody::Sent),
        };
        let Frame { track, role, codec, channels, dts, pts, .. } = **frame;
        Self { track, role, codec, channels, dts, pts, content }
    }

    pub(crate) fn frame(self) -> Result<Arc<Frame>, StateImpossible> {
        let Self { track, role, codec, channels, dts, pts, content } = self;
        let mut frame = match content {
            ContentState::Metadata(metadata) => Frame::metadata(metadata, dts),
            ContentState::Data(data, is_earlier) => {
                let frame = Frame::new(track, role, codec, (dts, pts), data);
                if is_earlier { frame.in_earlier_flv_body() } else { frame }
            }
            ContentState::FlvBody(body, start, end) if start <= end && end <= body.len() => {
                Frame::in_flv_body(track, role, codec, (dts, pts), body, start..end)
            }
            ContentState::FlvBody(..) => return Err(StateImpossible),
        };
        (frame.track, frame.role, frame.codec, frame.channels) = (track, role, codec, channels);
        (frame.dts, frame.pts) = (dts, pts);
        Ok(Arc::new(frame))
    }

    /// Whether it can be one: a configuration, or a description of the whole stream.
    pub(crate) fn is_header(&self) -> bool {
        matches!(self.role, FrameRole::Config | FrameRole::Metadata)
    }
}

#[cfg(test)]
mod tests {
    use media::MediaKind;
    use proptest::prelude::*;

    use super::*;
    use crate::gop::GopLimits;
    use crate::stream::Stream;

    const LIMITS: GopLimits = GopLimits { enabled: true, bytes_max: 1 << 20, duration_ms_max: 10_000 };

    /// The same state after a way through MessagePack.
    fn sent(state: &StreamState) -> StreamState {
        let bytes = rmp_serde::to_vec_named(state).expect("written");
        rmp_serde::from_slice(&bytes).expect("read")
    }

    /// A stream of another process that has been there for as long.
    fn resumed(now_ms: u64, stream: &Stream) -> Stream {
        let mut other = Stream::new(LIMITS, now_ms);
        assert_eq!(other.resume(now_ms, sent(&stream.state(now_ms))), Ok(()));
        other
    }

    fn frame(track: TrackId, role: FrameRole, time_ms: i64, content: u8) -> Arc<Frame> {
        let times = (Timestamp::from_millis(time_ms), Timestamp::from_millis(time_ms + 40));
        let body = vec![0x17, 1, content];
        let codec = if track.kind == MediaKind::Video { Codec::H264 } else { Codec::Aac };
        Arc::new(match content {
            0..128 => Frame::in_flv_body(track, role, codec, times, body, 2..3),
            128..192 => Frame::new(track, role, codec, times, body),
            _ => Frame::new(track, role, codec, times, body).in_earlier_flv_body(),
        })
    }

    fn any_frame() -> impl Strategy<Value = (TrackId, FrameRole, i64, u8)> {
        let video = prop_oneof![
            4 => Just(FrameRole::Inter),
            2 => Just(FrameRole::Key),
            1 => Just(FrameRole::Config),
            1 => Just(FrameRole::End),
        ];
        let audio = prop_oneof![
            4 => Just(FrameRole::Audio),
            1 => Just(FrameRole::Config),
            1 => Just(FrameRole::End),
        ];
        let track = |kind| (0..3_u8).prop_map(move |index| TrackId { kind, index });
        let step = prop_oneof![8 => 0..50_i64, 1 => -20_000..20_000_i64];
        prop_oneof![
            (track(MediaKind::Video), video, step.clone(), any::<u8>()),
            (track(MediaKind::Audio), audio, step.clone(), any::<u8>()),
            (Just(TrackId::DATA), Just(FrameRole::Metadata), step, any::<u8>()),
        ]
    }

    proptest! {
        /// The stream of the first process, that goes on, is the twin.
        #[test]
        fn a_stream_goes_on_as_if_it_had_stayed(
            frames in prop::collection::vec(any_frame(), 1..80), cut in 0..80_usize
        ) {
            let mut stream = Stream::new(LIMITS, 0);
            stream.publisher_started();
            let (mut other, mut time_ms) = (None::<Stream>, 0);
            for (at, (track, role, step, content)) in frames.into_iter().enumerate() {
                let now_ms = 20 * at as u64;
                if at == cut {
                    other = Some(resumed(now_ms, &stream));
                }
                time_ms += step;
                let frame = frame(track, role, time_ms, content);
                let got = stream.receive(now_ms, &frame);
                if let Some(other) = &mut other {
                    prop_assert_eq!(other.receive(now_ms, &frame), got, "{:?} at {}", frame, at);
                    let headers = |stream: &Stream| stream.headers().iter().cloned().collect::<Vec<_>>();
                    prop_assert_eq!(headers(other), headers(&stream));
                }
            }
        }
    }

    #[test]
    fn time_goes_on_for_players_whose_publisher_comes_back() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &frame(TrackId::VIDEO, FrameRole::Key, 60_000, 1));
        let mut other = Stream::new(LIMITS, 0);
        other.resume_time(100, stream.state(100));
        other.publisher_started();
        let first = other.receive(2_000, &frame(TrackId::VIDEO, FrameRole::Key, 0, 1));
        assert_eq!(first.map(|received| received.time.millis()), Some(62_000));
        assert_eq!(other.headers().iter().count(), 0, "nothing of the one before");
    }

    #[test]
    fn metadata_goes_over_as_values() {
        let metadata =
            Metadata { video: Some((Codec::Av1, 1280, 720)), audio: Some((Codec::Opus, 48_000, 2)) };
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &Arc::new(Frame::metadata(metadata, Timestamp::from_millis(7))));
        let other = resumed(0, &stream);
        let described = other.headers().metadata.as_ref().and_then(|frame| frame.described().copied());
        assert_eq!(described, Some(metadata));
    }

    #[test]
    fn no_state_is_too_absurd_to_go_on_from() {
        let extreme = [i64::MIN, -1, i64::MAX].map(Timestamp::from_units);
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let key = frame(TrackId::VIDEO, FrameRole::Key, 0, 1);
        stream.receive(0, &frame(TrackId::VIDEO, FrameRole::Config, 0, 1));
        stream.receive(0, &key);
        let state = stream.state(0);
        for time in extreme {
            let text = serde_json_of(&state).replace("0,", &format!("{},", time.units()));
            // Where no number fits it cannot be read.
            let Ok(absurd) = serde_json::from_str::<StreamState>(&text) else { continue };
            let mut other = Stream::new(LIMITS, 0);
            if other.resume(u64::MAX, absurd).is_ok() {
                other.receive(u64::MAX, &key);
                other.receive(0, &frame(TrackId::AUDIO, FrameRole::Config, i64::MIN, 2));
            }
        }
        let header = |start, end| FrameState {
            content: ContentState::FlvBody(vec![0; 5], start, end),
            ..FrameState::of(&frame(TrackId::VIDEO, FrameRole::Config, 0, 1))
        };
        for (start, end) in [(0, 6), (3, 2), (usize::MAX, usize::MAX), (0, usize::MAX)] {
            let absurd = StreamState { headers: vec![header(start, end)], ..StreamState::default() };
            assert_eq!(stream.resume(0, absurd), Err(StateImpossible));
            assert_eq!(stream.headers().iter().count(), 1, "it stays as it is");
        }
        let many = StreamState {
            headers: (0..=u8::MAX)
                .map(|index| FrameState { track: TrackId { index, ..TrackId::AUDIO }, ..header(0, 5) })
                .collect(),
            ended: vec![header(0, 5); 1_000],
            ..StreamState::default()
        };
        assert_eq!(stream.resume(0, many), Ok(()));
        assert!(stream.headers().iter().count() < 20 && stream.ended().count() < 20);
    }

    fn serde_json_of(state: &StreamState) -> String {
        serde_json::to_string(state).expect("written")
    }
}
