//! When a viewer can play in sync.

use crate::lip_sync::world::{MILLI, SECOND, World};

#[test]
fn a_viewer_can_play_in_sync_with_the_first_pieces_it_gets() {
    for bridged_before_us in [0, 10 * SECOND] {
        let mut world = World::new();
        world.run(5 * SECOND);
        world.begin_bridge();
        world.run(bridged_before_us);
        world.join();
        // Audio comes every 80 ms, and a report goes out with what the second piece of a track brings.
        world.run(500 * MILLI);
        let [audio, video] = &world.browser.tracks;
        assert!(audio.reports >= 1 && video.reports >= 1, "{} and {} reports", audio.reports, video.reports);
        world.run(30 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart");
    }
}
