//! A file of a real encoder, H.264 and AAC: viewers get every picture, parameter sets ahead of key frames,
//! packets of one size, and the transcoder gets every audio frame.

use media::MediaKind;
use rtp::payload::Codec;

use crate::frame_to_rtp::{PAYLOAD_BYTES_MAX, Rig, Sent, demo_tags, units};

/// What came of the file's pictures, with their times and bodies.
fn pictures(rig: &mut Rig) -> Vec<(u64, Vec<u8>, Sent)> {
    let mut pictures = Vec::new();
    for (time_ms, track, body) in demo_tags() {
        let sent = match track {
            MediaKind::Audio => rig.audio(time_ms, &body),
            _ => rig.video(time_ms, &body),
        };
        let is_picture = track == MediaKind::Video && body[1] == 1;
        assert_eq!(sent.len(), usize::from(is_picture), "one of each picture, at once");
        pictures.extend(sent.into_iter().map(|sent| (time_ms, body.clone(), sent)));
    }
    pictures
}

fn is_slice(unit: &&[u8]) -> bool {
    matches!(unit[0] & 0x1f, 1 | 5)
}

#[test]
fn every_slice_of_every_picture_arrives_as_it_was() {
    let mut rig = Rig::new();
    let pictures = pictures(&mut rig);
    assert_eq!(pictures.len(), 250);
    for (time_ms, body, sent) in &pictures {
        let slices =
            |frame| units(frame).into_iter().filter(is_slice).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(slices(&sent.data), slices(&body[5..]), "at {time_ms}");
        assert!(!slices(&sent.data).is_empty() && sent.marker);
        assert!(units(&sent.data).iter().all(|unit| unit[0] & 0x1f != 9), "a delimiter");
    }
    let stats = rig.bridge.stats();
    assert_eq!((stats.video_frames, stats.b_frames_dropped, stats.broken), (250, 0, 0));
    assert_eq!(stats.packets, pictures.iter().map(|(_, _, sent)| sent.sizes.len() as u64).sum::<u64>());
    assert_eq!(rig.take_warning(), None);
}

#[test]
fn parameter_sets_are_ahead_of_each_key_frame_in_a_packet_of_their_own() {
    let mut rig = Rig::new();
    let mut key_frames = 0;
    for (time_ms, body, sent) in pictures(&mut rig) {
        let kinds: Vec<_> = units(&sent.data).iter().map(|unit| unit[0] & 0x1f).collect();
        if body[0] == 0x17 {
            key_frames += 1;
            assert_eq!(kinds[..2], [7, 8], "at {time_ms}");
            assert_eq!(sent.first[0] & 0x1f, 24, "STAP-A");
        }
        let sets = kinds.iter().filter(|kind| matches!(kind, 7 | 8)).count();
        assert_eq!(sets, if body[0] == 0x17 { 2 } else { 0 }, "at {time_ms}");
    }
    assert_eq!(key_frames, 5);
}

#[test]
fn packets_of_a_picture_have_one_size() {
    let mut rig = Rig::new();
    let mut fragmented = 0;
    for (time_ms, _, sent) in pictures(&mut rig) {
        assert!(sent.sizes.iter().all(|size| *size <= PAYLOAD_BYTES_MAX));
        // What is ahead of the slice (parameter sets, SEI) is in a packet of its own if the slice is cut.
        let slice = units(&sent.data).into_iter().find(is_slice).unwrap().len();
        if slice > PAYLOAD_BYTES_MAX {
            fragmented += 1;
            let fragments = (slice - 1).div_ceil(PAYLOAD_BYTES_MAX - 2);
            let (ahead, run) = sent.sizes.split_at(sent.sizes.len() - fragments);
            assert!(ahead.len() <= 1, "at {time_ms}: {:?}", sent.sizes);
            let (last, others) = run.split_last().unwrap();
            assert!(others.iter().all(|size| *size == others[0]), "at {time_ms}: {run:?}");
            assert!(*last <= others[0] && others[0] - last < run.len(), "at {time_ms}: {run:?}");
        } else {
            assert_eq!(sent.sizes.len(), 1, "at {time_ms}: {:?} of {slice}", sent.sizes);
        }
    }
    assert!(fragmented > 100, "{fragmented}");
}

#[test]
fn timestamps_follow_the_times_and_are_evenly_spaced() {
    let mut rig = Rig::new();
    let pictures = pictures(&mut rig);
    for pair in pictures.windows(2) {
        let step = pair[1].2.timestamp.wrapping_sub(pair[0].2.timestamp);
        assert!((3_600 - 135..=3_600 + 135).contains(&step), "40 ms, not {step} units at {}", pair[1].0);
    }
    for (time_ms, _, sent) in &pictures {
        let off = sent.timestamp.wrapping_sub(*time_ms as u32 * 90).cast_signed();
        assert!(off.abs() <= 135, "{off} units off at {time_ms} ms");
    }
}

#[test]
fn each_audio_frame_goes_to_the_transcoder_with_its_time() {
    let mut rig = Rig::new();
    pictures(&mut rig);
    let expected: Vec<_> = demo_tags()
        .into_iter()
        .filter(|(_, track, body)| *track == MediaKind::Audio && body[1] == 1)
        .collect();
    assert_eq!(rig.audio_jobs.len(), expected.len());
    for (index, (job, (time_ms, _, body))) in rig.audio_jobs.iter().zip(&expected).enumerate() {
        assert_eq!((job.pts_us, &job.data[..]), (*time_ms as i64 * 1_000, &body[2..]));
        assert_eq!(job.format.is_some(), index == 0, "the format with the first piece alone");
    }
    let format = rig.audio_jobs[0].format.as_ref().unwrap();
    assert_eq!((format.codec, &format.record[..]), (Codec::Aac, &[0x12, 0x10, 0x56, 0xe5, 0][..]));
    let formats = rig.bridge.formats();
    assert_eq!(formats.video.as_ref().map(|video| video.codec), Some(Codec::H264));
    assert!(formats.video.as_ref().unwrap().fmtp.contains("profile-level-id=4d401e"), "{formats:?}");
    assert_eq!((formats.audio, &formats.refused), (Some(Codec::Opus), &None));
}
