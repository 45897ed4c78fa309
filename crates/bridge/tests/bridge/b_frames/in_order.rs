//! Pictures leave in the order they are shown, whatever the order they come in.

use crate::b_frames::samples::{names, sample};

#[test]
fn each_picture_sent_is_shown_after_the_one_before() {
    for name in names() {
        let sample = sample(&name);
        for from in [0, 1, 7, 20, 33] {
            let sent = sample.filtered_from(from);
            let times: Vec<_> = sent.kept.iter().map(|&(at, _)| sample.pictures[at].shown_ms).collect();
            assert!(times.is_sorted_by(|before, after| before < after), "{name} from {from}: {times:?}");
        }
    }
}

#[test]
fn only_pictures_that_come_too_late_are_left_out() {
    for name in names() {
        let sample = sample(&name);
        let sent = sample.filtered();
        if sent.refused.is_some() {
            continue;
        }
        let mut latest = i64::MIN;
        for (at, picture) in sample.pictures.iter().enumerate() {
            let is_kept = sent.kept.iter().any(|&(kept, _)| kept == at);
            assert_eq!(is_kept, picture.shown_ms > latest, "{name}: picture {at}");
            latest = latest.max(picture.shown_ms);
        }
    }
}

#[test]
fn a_viewer_begins_with_parameter_sets_and_a_picture_that_needs_no_other() {
    for name in names() {
        let sample = sample(&name);
        let (_, first) = sample.filtered().kept.remove(0);
        let kinds: Vec<_> = match sample.codec {
            rtp::payload::Codec::H264 => {
                first.iter().map(|unit| unit[0] & 0x1f).filter(|&kind| kind != 6).collect()
            }
            _ => first.iter().map(|unit| unit[0] >> 1 & 0x3f).filter(|&kind| kind != 39).collect(),
        };
        match sample.codec {
            rtp::payload::Codec::H264 => {
                assert_eq!(kinds[..2], [7, 8], "{name}");
                assert!(kinds.len() > 2 && kinds[2..].iter().all(|&kind| kind == 5), "{name}: {kinds:?}");
            }
            _ => {
                assert_eq!(kinds[..3], [32, 33, 34], "{name}");
                let pictures = &kinds[3..];
                assert!(
                    !pictures.is_empty() && pictures.iter().all(|kind| (16..=21).contains(kind)),
                    "{name}"
                );
            }
        }
    }
}
