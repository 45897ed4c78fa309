//! Nodes whose clocks are wrong: times never leave a node.

use std::time::Duration;

use netsim::LinkConfig;
use relay::{Limits, SealKey};

use crate::world::{World, delay};

#[test]
fn clocks_that_differ_by_an_hour_change_nothing() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let down = LinkConfig { loss: 0.05, ..delay(20) };
    let mut results = Vec::new();
    for (origin, edge) in [(HOUR, HOUR), (2 * HOUR, HOUR), (HOUR, 2 * HOUR)] {
        let mut world = World::with(9, Limits::default(), origin);
        let stream = world.add_stream();
        // `add_stream` keeps its key to itself; the edge gets the next.
        let key = SealKey::random(1);
        let at = world.add_edge(&down, &down, edge);
        world.subscribe(stream, at, &key.open_key());
        world.sender.rotate(world.streams[stream].id, key).unwrap();
        world.play(stream, Duration::from_secs(20));
        world.run(Duration::from_secs(2));
        assert_eq!(world.check(), [0]);
        let edge = &world.edges[at];
        let stats = edge.receiver.link_stats(edge.link).unwrap();
        results.push((stats.asked, stats.repaired, stats.round_trip));
    }
    assert!(results[0].1 > 0);
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}
