//! However a file is written, its samples are the same: index first or last, places of 64 bits,
//! compact sizes, 64-bit boxes, fragments of every kind.

use crate::muxer::{
    Base, Layout, Track, Unit, assert_track, audio, frames, pictures, read_all, video, write,
};

fn tracks() -> Vec<Track> {
    let mut units = pictures(50, 10, 90);
    // Two pictures that are shown before the one that is decoded ahead of them.
    for (index, unit) in units.iter_mut().enumerate() {
        unit.composition = [1024, 2048, 512, 512][index % 4];
    }
    vec![video(units), audio(frames(94, 20))]
}

#[test]
fn every_notation_gives_the_same_samples() {
    let plain = Layout::default();
    let fragmented = Layout { fragment: 10, ..Layout::default() };
    for (layout, remark) in [
        (plain.clone(), "index first"),
        (Layout { moov_first: false, ..plain.clone() }, "index last"),
        (Layout { co64: true, ..plain.clone() }, "co64"),
        (Layout { stz2: 8, ..plain.clone() }, "sizes of 8 bits"),
        (Layout { stz2: 16, ..plain.clone() }, "sizes of 16 bits"),
        (Layout { wide_versions: true, ..plain.clone() }, "version 1 of all boxes"),
        (Layout { long_boxes: true, ..plain.clone() }, "boxes with sizes of 64 bits"),
        (Layout { long_boxes: true, moov_first: false, ..plain.clone() }, "and the index last"),
        (Layout { chunk: 1, ..plain.clone() }, "a chunk per sample"),
        (Layout { chunk: 1000, ..plain.clone() }, "a chunk per track"),
        (Layout { gap: 100, ..plain.clone() }, "bytes of others between chunks"),
        (Layout { interleaved: false, ..plain.clone() }, "one track behind the other"),
        (fragmented.clone(), "fragments"),
        (Layout { base: Base::Explicit, ..fragmented.clone() }, "base data offset"),
        (Layout { base: Base::Implicit, ..fragmented.clone() }, "no base at all"),
        (Layout { tfdt: false, ..fragmented.clone() }, "no decoding times"),
        (Layout { separate: true, ..fragmented.clone() }, "a fragment per track"),
        (Layout { hybrid: true, ..fragmented.clone() }, "the first samples in the index"),
        (Layout { sidx: true, wide_versions: true, ..fragmented.clone() }, "an index in front"),
        (Layout { mfra: true, ..fragmented.clone() }, "an index at the end"),
        (Layout { long_boxes: true, ..fragmented.clone() }, "fragments in 64-bit boxes"),
        (Layout { fragment: 1, ..fragmented.clone() }, "a fragment per sample"),
    ] {
        println!("{remark}");
        let tracks = tracks();
        let (bytes, expected) = write(&tracks, &layout);
        let samples = read_all(&bytes);
        for (track, expected) in tracks.iter().zip(&expected) {
            assert_track(&samples, expected, track.timescale, 0);
        }
    }
}

#[test]
fn sizes_of_four_bits_and_sizes_that_are_all_the_same_are_read() {
    for sizes in [[3u32, 15, 1, 2, 9], [7, 7, 7, 7, 7]] {
        let units = sizes.map(|size| Unit { size, duration: 512, composition: 0, is_key: true });
        let track = video(units.to_vec());
        for stz2 in [4, 0] {
            let (bytes, expected) =
                write(std::slice::from_ref(&track), &Layout { stz2, ..Layout::default() });
            assert_track(&read_all(&bytes), &expected[0], track.timescale, 0);
        }
    }
}

#[test]
fn samples_come_by_decoding_time() {
    for layout in [
        Layout::default(),
        Layout { interleaved: false, ..Layout::default() },
        Layout { fragment: 10, ..Layout::default() },
        Layout { fragment: 10, separate: true, ..Layout::default() },
    ] {
        let (bytes, _) = write(&tracks(), &layout);
        let times: Vec<_> = read_all(&bytes).iter().map(|sample| sample.frame.dts).collect();
        assert!(times.is_sorted(), "{layout:?}");
    }
}

#[test]
fn negative_composition_offsets_move_decoding_times_back() {
    let mut units = pictures(20, 10, 90);
    for (index, unit) in units.iter_mut().enumerate() {
        unit.composition = [0, 512, -512, -512][index % 4];
    }
    for fragment in [0, 5] {
        let track = video(units.clone());
        let (bytes, mut expected) =
            write(std::slice::from_ref(&track), &Layout { fragment, ..Layout::default() });
        expected[0].iter_mut().for_each(|sample| sample.dts -= 512);
        assert_track(&read_all(&bytes), &expected[0], track.timescale, 0);
    }
}

#[test]
fn a_sample_with_another_description_brings_its_configuration() {
    let mut track = video(pictures(12, 4, 90));
    let other = [&crate::muxer::AVCC[..3], b"\x0b", &crate::muxer::AVCC[4..]].concat();
    track.descriptions.push(crate::muxer::visual(b"avc1", b"avcC", &other));
    let (bytes, _) = write(&[track], &Layout { chunk: 4, ..Layout::default() });
    let samples = read_all(&bytes);
    let configs: Vec<_> =
        samples.iter().map(|sample| sample.config.as_ref().map(|config| config.data())).collect();
    let (first, second) = (Some(crate::muxer::AVCC), Some(&other[..]));
    assert_eq!(configs, [first, None, None, None, second, None, None, None, first, None, None, None]);
}
