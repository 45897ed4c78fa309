//! Paths that mark packets instead of losing them.

use crate::path::{MS, PathConfig, SECOND, Trace};
use crate::world::{ViewerConfig, World};

#[test]
fn a_queue_that_marks_stays_short_and_the_path_is_used() {
    let path = PathConfig {
        mark_above: Some(12 * MS),
        ..PathConfig::plain(Trace::constant(2e6), 15 * MS, 300 * MS)
    };
    let viewer = ViewerConfig::ours(50 * MS);
    let mut measured = World::new(path, vec![viewer], None, 3).run(30 * SECOND).0.remove(0);
    assert!(measured.marked > 0);
    measured.waits.sort_unstable();
    let longest = measured.waits[measured.waits.len() * 98 / 100];
    assert!(longest < 25 * MS, "{longest} us");
    let used = measured.arrived[50..290].iter().sum::<f64>() / (24.0 * 2e6);
    assert!(used > 0.8, "{used}");
}
