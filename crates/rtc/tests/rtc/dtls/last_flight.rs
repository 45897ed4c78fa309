//! The last flight gets lost, and one end has keys while the other repeats its own: it must be
//! answered.

use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{Pair, configs, fit};

#[test]
fn an_end_with_keys_repeats_its_last_flight() {
    // The server has the last word in 1.2, the client in 1.3.
    for (version, client_is_last) in [(V1_2, false), (V1_3, true)] {
        let mut pair = Pair::new(configs(&[version], &[version]));
        while (if client_is_last { &pair.client } else { &pair.server }).keys.is_none() {
            assert!(pair.step(), "{version:?}");
        }
        // Its flight is lost, and so are three repetitions.
        pair.lose_in_flight();
        pair.lose_first[usize::from(client_is_last)] = 3;
        let took = pair.run_until_keys();
        assert!(took.is_some(), "{version:?}: {:?} {:?}", pair.client.error, pair.server.error);
        assert_eq!(pair.lose_first, [0, 0], "{version:?}: three were repeated");
        assert!(fit(pair.client.keys.as_ref().unwrap(), pair.server.keys.as_ref().unwrap()));
    }
}

#[test]
fn a_repeated_flight_is_answered_a_limited_number_of_times() {
    for version in [V1_2, V1_3] {
        let mut pair = Pair::new(configs(&[version], &[version]));
        pair.run_until_keys().unwrap();
        pair.run();
        let repeated = pair.client.sent.clone();
        let (mut received, mut sent) = (0, 0);
        for _ in 0..200 {
            for datagram in &repeated {
                received += datagram.len();
                let result = pair.server.dtls.handle_datagram(pair.now, datagram);
                assert_eq!(result, Ok(()), "{version:?}");
                sent += pair.server.take(result).iter().map(Vec::len).sum::<usize>();
            }
        }
        println!("{version:?}: {received} bytes replayed, {sent} bytes in answer");
        assert!(sent * 20 < received, "{version:?}: {received} bytes replayed, {sent} bytes in answer");
    }
}
