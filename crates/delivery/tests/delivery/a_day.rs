//! A day of FLV tags, whose 32 bits of milliseconds wrap in the middle of it.

use delivery::Timeline;
use media::TrackId;
use rtmp::MediaKind;
use rtmp::flv::{FlvReader, read_frames, write_file_header, write_tag};

const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// AAC of 48 kHz has no whole milliseconds: FLV rounds, and nothing may add up.
#[test]
fn audio_and_video_do_not_drift_where_the_clock_wraps() {
    for begin in [(1u64 << 32) - DAY_MS / 2, (1 << 31) - DAY_MS / 2, (1 << 24) - 7_000] {
        let (mut reader, mut timeline) = (FlvReader::new(1 << 20), Timeline::default());
        let mut bytes = Vec::new();
        write_file_header(&mut bytes, true, true);
        let mut origin = None;
        let mut frames = 0;
        for second in 0..DAY_MS / 1_000 {
            let video_ms = second * 1_000;
            // The audio frame that begins next.
            let number = (video_ms * 48).div_ceil(1_024);
            let audio_ms = number * 1_024 / 48;
            write_tag(
                &mut bytes,
                MediaKind::Video,
                (begin + video_ms) as u32,
                &[0x17, 1, 0, 0, 0, 0, 0, 0, 1, 0x65],
            );
            write_tag(&mut bytes, MediaKind::Audio, (begin + audio_ms) as u32, &[0xaf, 1, 0x21]);
            reader.push(&bytes);
            bytes.clear();
            while let Some(tag) = reader.next_tag().expect("it is FLV") {
                let (frame, _) = read_frames(tag.into()).expect("a frame");
                let sent_ms = if frame.track == TrackId::VIDEO { video_ms } else { audio_ms };
                let placed = timeline.place(sent_ms, frame.track, frame.dts);
                let origin_ms = *origin.get_or_insert(placed.millis() - sent_ms as i64);
                assert_eq!(placed.millis() - origin_ms, sent_ms as i64, "{begin}: {:?}", frame.track);
                frames += 1;
            }
        }
        assert_eq!(frames, 2 * 86_400);
    }
}
