//! Numbers and times that wrap.

use std::time::Duration;

use srt::SequenceNumber;

use crate::world::{Both, Network, Pair};

#[test]
fn sequence_numbers_wrap_under_loss() {
    let mut both = Both::default();
    both.call.initial = SequenceNumber::new(0x7fff_ffff - 500);
    let network = Network { loss_percent: 5, jitter: Duration::from_millis(10), ..Network::GOOD };
    let mut pair = Pair::new(network, 2, &both);
    pair.stream(2000, 200);
    assert_eq!(pair.numbers().len(), 2000);
}

#[test]
fn a_day_passes_and_every_packet_comes_on_time() {
    let mut pair = Pair::new(Network::GOOD, 2, &Both::default());
    let start = pair.world.now;
    // Timestamps wrap every 71.6 minutes.
    for count in 0..86_400u32 {
        pair.run_until(start + Duration::from_secs(1) * count);
        assert!(pair.sender.send(pair.world.now, &[1; 188]));
        for (at, _) in pair.received.drain(..) {
            let phase = (at - start).as_millis() % 1000;
            assert!((424..=427).contains(&phase), "{count}: {phase}");
        }
    }
    assert_eq!(pair.receiver.counters().packets_in, 86_399);
}
