//! Broken frames and records: counted, nothing is sent that needs them, and the next key frame starts over.

use crate::b_frames::samples::{names, sample};
use bridge::BFrames;
use bridge::b_frames::{Dropped, PictureFilter, Verdict};
use media::bitstream::{NalUnits, Nals};
use media::config::{PARAMETER_SET_BYTES_MAX, RecordError, read_avcc, read_hvcc};
use rtp::payload::Codec;

#[test]
fn a_length_beyond_the_frame_drops_what_follows_up_to_the_next_key_frame() {
    let sample = sample("h264-b0");
    let mut filter = sample.filter(BFrames::Drop);
    let mut nals = Nals::default();
    let mut verdicts = Vec::new();
    for (at, picture) in sample.pictures.iter().enumerate() {
        let mut data = picture.data.clone();
        if at == 5 {
            data[0] = 0x40;
        }
        verdicts.push(filter.frame(&data, picture.key, &mut nals));
    }
    let next_key = (6..).find(|&at| sample.pictures[at].key).unwrap();
    assert!(verdicts[..5].iter().all(|verdict| matches!(verdict, Verdict::Keep { .. })));
    assert_eq!(verdicts[5], Verdict::Drop(Dropped::Broken));
    assert!(verdicts[6..next_key].iter().all(|&verdict| verdict == Verdict::Drop(Dropped::NoKeyFrame)));
    assert_eq!(verdicts[next_key], Verdict::Keep { key: true });
    assert!(verdicts[next_key..].iter().all(|verdict| matches!(verdict, Verdict::Keep { .. })));
}

#[test]
fn a_reference_picture_that_is_missing_is_noticed() {
    let sample = sample("h264-b0");
    let mut filter = sample.filter(BFrames::Drop);
    let mut nals = Nals::default();
    for picture in &sample.pictures[..4] {
        filter.frame(&picture.data, picture.key, &mut nals);
    }
    let behind = &sample.pictures[5];
    assert_eq!(filter.frame(&behind.data, behind.key, &mut nals), Verdict::Drop(Dropped::Broken));
}

#[test]
fn frames_without_a_picture_are_left_out_and_change_nothing() {
    let sample = sample("h264-b1");
    let mut filter = sample.filter(BFrames::Drop);
    let mut nals = Nals::default();
    let mut kept = Vec::new();
    for (at, picture) in sample.pictures.iter().enumerate() {
        for empty in [&[0u8, 0, 0, 2, 9, 0x10][..], &[0, 0, 0, 3, 12, 0xff, 0x80]] {
            assert_eq!(filter.frame(empty, false, &mut nals), Verdict::Drop(Dropped::Empty));
        }
        if let Verdict::Keep { .. } = filter.frame(&picture.data, picture.key, &mut nals) {
            kept.push((at, nals.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()));
        }
    }
    assert_eq!(kept, sample.filtered().kept);
}

#[test]
fn frames_cut_or_with_wrong_bits_neither_panic_nor_end_the_stream_for_good() {
    for name in names() {
        let sample = sample(&name);
        let mut nals = Nals::default();
        let mut broken = 0;
        for picture in &sample.pictures[..12] {
            for cut in (0..picture.data.len()).step_by(picture.data.len() / 20 + 1) {
                let mut filter = sample.filter(BFrames::Drop);
                filter.frame(&sample.pictures[0].data, true, &mut nals);
                let verdict = filter.frame(&picture.data[..cut], picture.key, &mut nals);
                // Cut between two slices it is a chain of lengths all the same, and nothing tells
                // that one is missing.
                if NalUnits::of(&picture.data[..cut], 4).is_err() {
                    assert!(!matches!(verdict, Verdict::Keep { .. }), "{name}: {cut} bytes");
                }
                broken += usize::from(verdict == Verdict::Drop(Dropped::Broken));
            }
            for bit in 0..(picture.data.len() * 8).min(160) {
                let mut filter = sample.filter(BFrames::Drop);
                filter.frame(&sample.pictures[0].data, true, &mut nals);
                let mut data = picture.data.clone();
                data[bit / 8] ^= 0x80 >> (bit % 8);
                let verdict = filter.frame(&data, picture.key, &mut nals);
                if verdict == Verdict::Drop(Dropped::Broken) {
                    broken += 1;
                    let again = filter.frame(&sample.pictures[0].data, true, &mut nals);
                    assert_eq!(again, Verdict::Keep { key: true }, "{name}: bit {bit}");
                }
            }
        }
        assert!(broken > 0, "{name}");
    }
}

#[test]
fn records_that_are_cut_are_refused_at_each_length() {
    for name in names() {
        let sample = sample(&name);
        let whole = match sample.codec {
            Codec::H264 => read_avcc(&sample.record).unwrap().sets.len(),
            _ => read_hvcc(&sample.record).unwrap().sets.len(),
        };
        for cut in 0..sample.record.len() {
            let record = &sample.record[..cut];
            if PictureFilter::new(sample.codec, record, BFrames::Drop).is_ok() {
                // Only what follows the sets may be missing.
                let sets = match sample.codec {
                    Codec::H264 => read_avcc(record).unwrap().sets.len(),
                    _ => read_hvcc(record).unwrap().sets.len(),
                };
                assert_eq!(sets, whole, "{name}: {cut} bytes");
            }
        }
    }
}

/// An `avcC` with these sets.
fn avcc(sequence: &[&[u8]], picture: &[&[u8]]) -> Vec<u8> {
    let mut record = vec![1, 100, 0, 31, 0xff, 0xe0 | sequence.len() as u8];
    let put = |record: &mut Vec<u8>, set: &&[u8]| {
        record.extend((set.len() as u16).to_be_bytes());
        record.extend(*set);
    };
    sequence.iter().for_each(|set| put(&mut record, set));
    record.push(picture.len() as u8);
    picture.iter().for_each(|set| put(&mut record, set));
    record
}

#[test]
fn records_with_impossible_sets_are_refused_with_the_reason() {
    let sample = sample("h264-b0");
    let read = read_avcc(&sample.record).unwrap();
    let (sps, pps) = (read.sets[0], read.sets[1]);
    let long = [sps, &[0xff; PARAMETER_SET_BYTES_MAX]].concat();
    let many = vec![pps; 64];
    let zeros = [0x67, 0, 0, 3, 0, 0, 3, 0, 0];
    for (remark, record, expected) in [
        ("as it was", avcc(&[sps], &[pps]), None),
        ("empty sequence set", avcc(&[&[]], &[pps]), Some(RecordError::SetSize)),
        ("sequence set of its header only", avcc(&[&[0x67]], &[pps]), Some(RecordError::SetSize)),
        ("empty picture set", avcc(&[sps], &[&[]]), Some(RecordError::SetSize)),
        ("a set that is too long", avcc(&[&long], &[pps]), Some(RecordError::SetSize)),
        ("more sets than are kept", avcc(&[sps], &many), Some(RecordError::TooMany)),
        ("no sequence set", avcc(&[], &[pps]), Some(RecordError::Missing)),
        ("no picture set", avcc(&[sps], &[]), Some(RecordError::Missing)),
        ("a picture set announced as sequence set", avcc(&[pps], &[pps]), Some(RecordError::Missing)),
        ("a sequence set announced as picture set", avcc(&[sps], &[sps]), Some(RecordError::Missing)),
        ("a set of zeros", avcc(&[&zeros], &[pps]), Some(RecordError::Set)),
        ("another version", [&[2], &avcc(&[sps], &[pps])[1..]].concat(), Some(RecordError::Version)),
        ("nothing", vec![], Some(RecordError::Truncated)),
    ] {
        let made = PictureFilter::new(Codec::H264, &record, BFrames::Drop);
        assert_eq!(made.err(), expected, "{remark}");
    }
}

#[test]
fn a_key_frame_without_its_first_slice_is_broken() {
    let sample = sample("h265-slices");
    let key = &sample.pictures[0];
    let units: Vec<_> = NalUnits::of(&key.data, 4).unwrap().collect();
    let is_first_slice = |unit: &[u8]| unit[0] >> 1 & 0x3f < 32 && unit[2] & 0x80 != 0;
    let rest = units.iter().filter(|unit| !is_first_slice(unit));
    let cut: Vec<u8> = rest.flat_map(|unit| [&(unit.len() as u32).to_be_bytes(), *unit].concat()).collect();
    assert!(cut.len() < key.data.len());
    let (mut filter, mut nals) = (sample.filter(BFrames::Drop), Nals::default());
    assert_eq!(filter.frame(&cut, true, &mut nals), Verdict::Drop(Dropped::Broken));
    assert_eq!(filter.frame(&key.data, true, &mut nals), Verdict::Keep { key: true });
}
