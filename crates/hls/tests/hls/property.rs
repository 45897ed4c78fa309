//! Playlists of random streams keep the rules at every change.

use media::Timestamp;
use proptest::prelude::*;

use crate::support::{Stream, publish};

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_update_of_every_playlist_keeps_the_rules(
        rate in prop::sample::select(vec![5_i64, 8, 10, 12, 15, 20, 24, 25, 30, 50, 60]),
        gop_seconds in 1_i64..6,
        window in 1_usize..40,
        stores: bool,
        breaks in prop::collection::vec((1_i64..9, any::<bool>()), 1..5),
        has_video: bool,
        knows_interval: bool,
    ) {
        let interval = knows_interval.then(|| Timestamp::from_millis(gop_seconds * 1000));
        let cmaf = cmaf::Settings { key_frame_interval: interval, ..cmaf::Settings::default() };
        // What has parts in the playlist stays in memory: three target durations.
        let per_second = rate * 1_500 + 9_000 + 48 * 340;
        let bytes = if stores { per_second.unsigned_abs() as usize * 3 * 7 } else { 64 << 20 };
        let settings = hls::Settings { segments: window, bytes, stores, ..hls::Settings::default() };
        let mut stream = Stream::new(cmaf, settings);
        let mut from = 1_000;
        for (seconds, restarts) in breaks {
            stream.configure(has_video);
            stream.check_boxes();
            publish(&mut stream, has_video, from..from + seconds * 1000, rate, gop_seconds * rate);
            if restarts {
                stream.segmenter.restart();
                from = 0;
            } else {
                from += seconds * 1000;
            }
        }
        stream.finish();
        stream.check();
        stream.check_boxes();
    }
}
