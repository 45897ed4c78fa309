//! More than a day of RTP: timestamps of 90 kHz wrap every 13.3 hours, those of 48 kHz every 24.9.

use std::sync::Arc;
use std::time::Duration;

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use rtp::rtcp::NtpTime;
use rtsp::{Incoming, IncomingSettings, Outgoing, announced};

use crate::media_both_ways::{AVCC, packets, start, take};

const HOURS: u64 = 27;
/// A picture and an audio frame each.
const EVERY_MS: u64 = 1_000;

fn frame(track: TrackId, role: FrameRole, codec: Codec, time: Timestamp, data: Vec<u8>) -> Frame {
    Frame::new(track, role, codec, (time, time), data)
}

#[test]
fn audio_and_video_do_not_drift_where_timestamps_wrap() {
    let began = start();
    let mut outgoing = Outgoing::new([1, 2], began);
    let mut incoming: Option<Incoming> = None;
    let mut bytes = Vec::new();
    // What was sent, and how far from it what came is.
    let (mut pictures, mut sounds) = (0u64, 0u64);
    let mut offsets = [None; 2];
    for config in [
        frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, Timestamp::ZERO, AVCC.to_vec()),
        frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, Timestamp::ZERO, vec![0x11, 0x90]),
    ] {
        outgoing.write(began, NtpTime(1 << 60), Timestamp::ZERO, &config, &mut bytes);
    }
    for count in 0..HOURS * 3_600_000 / EVERY_MS {
        let ms = count * EVERY_MS;
        let now = began + Duration::from_millis(ms);
        let ntp = NtpTime((1 << 60) + ((u128::from(ms) << 32) / 1_000) as u64);
        let number = (count as u32).to_be_bytes();
        let picture = [&[0, 0, 0, 7, 0x65, 0x88, 0x84][..], &number.map(|byte| byte | 1)].concat();
        // The audio frame that begins next: no whole milliseconds.
        let samples = (ms as i64 * 48).div_euclid(1_024) * 1_024;
        let sound_at = Timestamp::from_ticks(samples, 48_000);
        let video_at = Timestamp::from_millis(ms as i64);
        bytes.clear();
        let sound = frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, sound_at, number.to_vec());
        outgoing.write(now, ntp, sound_at, &sound, &mut bytes);
        let shown = frame(TrackId::VIDEO, FrameRole::Key, Codec::H264, video_at, picture);
        outgoing.write(now, ntp, video_at, &shown, &mut bytes);
        let incoming = incoming.get_or_insert_with(|| {
            let text = outgoing.description("a day").expect("a description");
            let tracks = announced(text.as_bytes()).expect("what is written can be read");
            Incoming::new(&tracks, IncomingSettings { delay_max: Duration::ZERO }, began)
        });
        take(incoming, now, packets(&bytes));
        incoming.poll(now);
        for came in std::iter::from_fn(|| incoming.next_frame()) {
            let came: Arc<Frame> = came;
            let (sent, at) = match came.role {
                FrameRole::Key => (Timestamp::from_millis((pictures * EVERY_MS) as i64), 0),
                FrameRole::Audio => {
                    let number: [u8; 4] = came.data().try_into().expect("its number");
                    let ms = i64::from(u32::from_be_bytes(number)) * EVERY_MS as i64;
                    (Timestamp::from_ticks((ms * 48).div_euclid(1_024) * 1_024, 48_000), 1)
                }
                _ => continue,
            };
            *(if came.track.kind == MediaKind::Video { &mut pictures } else { &mut sounds }) += 1;
            let offset_us = (came.pts - sent).micros();
            // The first seconds settle what the clock of the source is.
            if count * EVERY_MS > 60_000 {
                let first = *offsets[at].get_or_insert(offset_us);
                assert!(
                    (offset_us - first).abs() <= 1_000,
                    "{at}: {offset_us} us, {first} before, after {ms} ms"
                );
            }
        }
    }
    let steps = HOURS * 3_600_000 / EVERY_MS;
    assert!(pictures >= steps - 2 && sounds >= steps - 2, "{pictures} and {sounds} of {steps}");
    let [Some(video), Some(audio)] = offsets else { panic!("{offsets:?}") };
    assert!((video - audio).abs() <= 1_000, "{video} and {audio} us");
}
