//! What a handshake costs the server in CPU time: `cargo test --release -p rtc --test dtls
//! print_cost -- --nocapture`. Nothing is asserted about time; that each handshake ends is.

use std::time::{Duration, Instant};

use rtc::dtls::Dtls;
use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{End, configs};

#[expect(clippy::disallowed_methods, reason = "measures")]
fn clock() -> Instant {
    Instant::now()
}

#[test]
fn print_cost_of_a_handshake() {
    const HANDSHAKES: u32 = if cfg!(debug_assertions) { 3 } else { 300 };
    for version in [V1_2, V1_3] {
        let (client_config, server_config) = configs(&[version], &[version]);
        let mut spent = Duration::ZERO;
        for _ in 0..HANDSHAKES {
            let now = clock();
            let mut client = End::new(Dtls::client(client_config.clone(), now).unwrap());
            let mut to_server = client.take(Ok(()));
            let begin = clock();
            let mut server = End::new(Dtls::server(server_config.clone()));
            spent += begin.elapsed();
            while client.keys.is_none() || server.keys.is_none() {
                let mut to_client = Vec::new();
                for datagram in to_server.drain(..) {
                    let begin = clock();
                    let result = server.dtls.handle_datagram(now, &datagram);
                    to_client.extend(server.take(result));
                    spent += begin.elapsed();
                }
                for datagram in to_client {
                    let result = client.dtls.handle_datagram(now, &datagram);
                    to_server.extend(client.take(result));
                }
                assert!(client.error.is_none() && server.error.is_none());
            }
        }
        let us = spent.as_micros() / u128::from(HANDSHAKES);
        println!("RESULT dtls-handshake version={version:?} server_us={us}");
    }
}
