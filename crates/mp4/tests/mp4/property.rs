//! Any tracks in any layout: every sample once, by decoding time, with its own bytes, whatever the
//! window.

use std::collections::HashMap;
use std::io::Cursor;

use crate::muxer::{Base, Layout, Track, Unit, audio, pattern, video, write};
use media::Timestamp;
use mp4::{Limits, Mp4};
use proptest::prelude::*;

fn units() -> impl Strategy<Value = Vec<Unit>> {
    let unit = (1u32..200, 0u32..3000, -600i32..2000, any::<bool>())
        .prop_map(|(size, duration, composition, is_key)| Unit { size, duration, composition, is_key });
    proptest::collection::vec(unit, 1..60)
}

fn tracks() -> impl Strategy<Value = Vec<Track>> {
    (units(), units(), 1u32..100_000).prop_map(|(pictures, mut heard, timescale)| {
        // Audio has no composition offsets in any file that is.
        heard.iter_mut().for_each(|unit| unit.composition = 0);
        let mut tracks = vec![video(pictures), audio(heard)];
        tracks[0].timescale = timescale;
        tracks
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    let base = prop_oneof![Just(Base::Moof), Just(Base::Explicit), Just(Base::Implicit)];
    let flags = (any::<[bool; 10]>(), prop_oneof![Just(0u8), Just(8), Just(16)]);
    (1usize..20, prop_oneof![Just(0usize), 1usize..30], 0usize..50, base, flags).prop_map(
        |(chunk, fragment, gap, base, (flags, stz2))| Layout {
            chunk,
            fragment,
            gap,
            base,
            stz2,
            moov_first: flags[0] || fragment > 0,
            co64: flags[1],
            wide_versions: flags[2],
            long_boxes: flags[3],
            hybrid: flags[4],
            separate: flags[5],
            tfdt: flags[6],
            sidx: flags[7],
            mfra: flags[8],
            interleaved: flags[9],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_comes_once_in_its_order(tracks in tracks(), layout in layout(), window in 0u64..20_000) {
        let (bytes, expected) = write(&tracks, &layout);
        let limits = Limits { reorder_bytes: window, ..Limits::default() };
        let mut file = Mp4::open(Cursor::new(bytes), limits).unwrap();
        let (mut samples, mut hints) = (Vec::new(), 0u64);
        while let Some(sample) = file.next_sample().unwrap() {
            let data = sample.frame.data();
            prop_assert_eq!(data, pattern(sample.offset, data.len() as u32));
            samples.push(sample);
            hints += file.upcoming(300).unwrap().len() as u64;
        }
        prop_assert!(hints > 0 || samples.len() < 3);
        // By decoding time over both tracks; where fragments of tracks drift apart, within each
        // track.
        if layout.fragment == 0 {
            prop_assert!(samples.is_sorted_by_key(|sample| sample.frame.dts));
        }
        let mut shifts = HashMap::new();
        for (track, expected) in tracks.iter().zip(&expected) {
            let read: Vec<_> = samples.iter().filter(|sample| sample.track_id == track.id).collect();
            let offsets: Vec<_> = read.iter().map(|sample| sample.offset).collect();
            let wanted: Vec<_> = expected.iter().map(|sample| sample.offset).collect();
            prop_assert_eq!(offsets, wanted);
            prop_assert!(read.is_sorted_by_key(|sample| sample.frame.dts));
            for (sample, expected) in read.iter().zip(expected) {
                prop_assert!(sample.frame.pts >= sample.frame.dts);
                prop_assert_eq!(sample.frame.pts, Timestamp::from_ticks(expected.pts, track.timescale).max(sample.frame.dts));
                // What negative composition offsets moved back.
                let shift = Timestamp::from_ticks(expected.dts, track.timescale) - sample.frame.dts;
                shifts.entry(track.id).or_insert_with(Vec::new).push(shift);
            }
        }
        let unit = Timestamp::from_units(1);
        let most = Timestamp::from_ticks(600, tracks[0].timescale) + unit;
        prop_assert!(shifts[&1].iter().all(|shift| (-unit..=most).contains(shift)), "{:?}", shifts[&1]);
        prop_assert!(shifts[&2].iter().all(|shift| *shift == Timestamp::ZERO));
    }
}
