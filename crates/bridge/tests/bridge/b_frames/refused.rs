//! Streams that cannot be shown in order without a fault are refused, with the setting to change.

use crate::b_frames::samples::{names, sample, send};
use bridge::BFrames;
use bridge::b_frames::{PictureFilter, Refusal, Verdict};
use media::bitstream::Nals;
use rtp::payload::Codec;

#[test]
fn pictures_predicted_from_b_frames_that_would_be_left_out_are_never_sent() {
    for name in ["h264-pyramid-medium", "h265-pyramid"] {
        let sent = sample(name).filtered();
        assert_eq!(sent.refused, Some(Refusal::ReferencedBFrames), "{name}");
        // What was sent until then needs nothing of what was left out.
        assert!(!sent.kept.is_empty(), "{name}");
        assert!(Refusal::ReferencedBFrames.text().contains("b-pyramid=none"));
    }
}

#[test]
fn key_frames_that_are_no_place_to_start_are_refused() {
    let sent = sample("h264-intra-refresh").filtered();
    assert_eq!(sent.refused, Some(Refusal::NoIdr));
    assert!(Refusal::NoIdr.text().contains("intra-refresh=0"));
}

#[test]
fn with_refuse_set_a_stream_ends_at_the_first_b_frame_and_others_play() {
    for name in names() {
        let sample = sample(&name);
        let whole = sample.filtered();
        let sent = send(&mut sample.filter(BFrames::Refuse), &sample.pictures, 0);
        let first_late = sample.pictures.is_sorted_by_key(|picture| picture.shown_ms);
        if first_late {
            assert_eq!((sent.kept, sent.refused), (whole.kept, whole.refused), "{name}");
        } else {
            assert_eq!(sent.refused, Some(Refusal::BFrames), "{name}");
        }
    }
}

#[test]
fn what_is_refused_stays_refused() {
    let sample = sample("h264-b1");
    let mut filter = sample.filter(BFrames::Refuse);
    assert!(send(&mut filter, &sample.pictures, 0).refused.is_some());
    let mut nals = Nals::default();
    for picture in &sample.pictures {
        assert_eq!(filter.frame(&picture.data, picture.key, &mut nals), Verdict::Refuse(Refusal::BFrames));
    }
}

#[test]
fn picture_order_of_type_1_is_refused() {
    // Baseline, 16x16, pic_order_cnt_type 1 with an empty cycle; a PPS; an IDR slice of it.
    let sps = [0x67, 66, 0, 10, 0b1101_0111, 0b1010_0111, 0b1001_0000];
    let (pps, slice) = ([0x68, 0xce, 0x3c, 0x80], [0x65, 0x88, 0x84, 0x00]);
    let mut record = vec![1, 66, 0, 10, 0xff, 0xe1, 0, sps.len() as u8];
    record.extend(sps);
    record.extend([1, 0, pps.len() as u8]);
    record.extend(pps);
    let mut filter = PictureFilter::new(Codec::H264, &record, BFrames::Drop).unwrap();
    let frame = [&[0, 0, 0, slice.len() as u8][..], &slice].concat();
    let verdict = filter.frame(&frame, true, &mut Nals::default());
    assert_eq!(verdict, Verdict::Refuse(Refusal::PictureOrder));
}
