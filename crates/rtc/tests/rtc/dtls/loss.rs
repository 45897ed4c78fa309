//! Handshakes over links that lose datagrams, in virtual time.

use std::time::Duration;

use netsim::LinkConfig;
use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{DELAY, Pair, configs, fit};

const TRIES: u64 = 100;

#[test]
fn handshakes_finish_under_loss_and_duplicates() {
    // Percent lost each way, and how many of the tries may fail within the 15 s that a handshake
    // has.
    for (loss, failures_max) in [(5, 0), (10, 0), (20, 1), (30, 5)] {
        for version in [&[V1_2][..], &[V1_3], &[V1_2, V1_3]] {
            let mut took: Vec<Duration> = Vec::new();
            for seed in 0..TRIES {
                let network = LinkConfig {
                    loss: f64::from(loss) / 100.0,
                    duplicate: 0.05,
                    delay: DELAY,
                    ..LinkConfig::default()
                };
                let mut pair = Pair::over(network, seed, configs(version, version));
                if let Some(time) = pair.run_until_keys() {
                    assert!(fit(pair.client.keys.as_ref().unwrap(), pair.server.keys.as_ref().unwrap()));
                    took.push(time);
                }
            }
            took.sort_unstable();
            let (median, p95) = (took[took.len() / 2], took[took.len() * 95 / 100]);
            println!(
                "{version:?}, {loss} % lost: {} of {TRIES} finish, p50 {median:?}, p95 {p95:?}",
                took.len()
            );
            assert!(took.len() as u64 + failures_max >= TRIES, "{version:?}, {loss} %: {}", took.len());
        }
    }
}

#[test]
fn a_path_much_slower_than_the_first_retransmission_works() {
    for version in [V1_2, V1_3] {
        let network = LinkConfig { delay: Duration::from_millis(600), ..LinkConfig::default() };
        let mut pair = Pair::over(network, 1, configs(&[version], &[version]));
        assert!(pair.run_until_keys().is_some(), "{version:?}: {:?}", pair.server.error);
        let sent: usize = pair.client.sent.iter().chain(&pair.server.sent).map(Vec::len).sum();
        println!("{version:?}: {sent} bytes over a path of 1200 ms");
        assert!(sent < 40_000, "{version:?}: {sent} bytes");
    }
}
