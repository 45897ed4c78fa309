//! Start codes in place of lengths, a mistake of some encoders, change nothing of what is sent.

use crate::b_frames::samples::{annex_b, names, sample, send};
use bridge::BFrames;
use bridge::b_frames::PictureFilter;
use media::config::{read_avcc, read_hvcc};
use rtp::payload::Codec;

#[test]
fn frames_with_start_codes_give_the_same_as_frames_with_lengths() {
    for name in names() {
        let sample = sample(&name);
        let expected = sample.filtered();
        let mut wrong = sample.clone();
        wrong.pictures.iter_mut().for_each(|picture| picture.data = annex_b(&picture.data));
        assert_eq!(wrong.filtered().kept, expected.kept, "{name}");
    }
}

#[test]
fn a_record_that_is_parameter_sets_behind_start_codes_is_taken() {
    for name in names() {
        let sample = sample(&name);
        let record = match sample.codec {
            Codec::H264 => read_avcc(&sample.record).unwrap(),
            _ => read_hvcc(&sample.record).unwrap(),
        };
        let record: Vec<u8> = record.sets.iter().flat_map(|set| [&[0, 0, 0, 1], *set].concat()).collect();
        let mut filter = PictureFilter::new(sample.codec, &record, BFrames::Drop).unwrap();
        assert_eq!(send(&mut filter, &sample.pictures, 0).kept, sample.filtered().kept, "{name}");
    }
}
