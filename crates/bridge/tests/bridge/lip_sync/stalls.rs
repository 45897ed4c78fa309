//! A connection that stands still, and then brings everything at once.

use crate::lip_sync::world::{SECOND, World};

#[test]
fn a_stalled_connection_changes_no_times() {
    let mut world = World::new();
    world.begin_bridge();
    world.join();
    world.run(20 * SECOND);
    for stall_us in [SECOND, 5 * SECOND, 25 * SECOND] {
        world.browser.step_ms();
        world.stall(stall_us);
        world.run(30 * SECOND);
        let apart_ms = world.browser.apart_ms();
        assert!(apart_ms <= 5, "{apart_ms} ms apart around a stall of {stall_us} us");
        let step_ms = world.browser.step_ms();
        assert!(step_ms <= 202, "a step of {step_ms} ms");
    }
}
