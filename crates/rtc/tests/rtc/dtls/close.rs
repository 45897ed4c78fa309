//! `close_notify`, sent and received, by both roles and versions; and that others cannot forge it.

use rtc::dtls::DtlsError;
use rtc::dtls::DtlsVersion::{V1_2, V1_3};

use super::link::{Pair, configs};

#[test]
fn either_end_may_close_and_the_other_hears_it() {
    for version in [V1_2, V1_3] {
        for client_closes in [true, false] {
            let mut pair = Pair::new(configs(&[version], &[version]));
            pair.run_until_keys().unwrap();
            pair.run();
            let now = pair.now;
            let closing = if client_closes { &mut pair.client } else { &mut pair.server };
            closing.dtls.close(now);
            assert_eq!(closing.dtls.next_timeout(), None);
            pair.send(client_closes, Ok(()));
            pair.run();
            let (closing, other) =
                if client_closes { (&pair.client, &pair.server) } else { (&pair.server, &pair.client) };
            assert!(other.closed, "{version:?}, client closes: {client_closes}");
            assert!(!closing.closed && closing.error.is_none_or(|error| error == DtlsError::Ended));
        }
    }
}

#[test]
fn closing_before_there_are_keys_says_nothing() {
    for version in [V1_2, V1_3] {
        let mut pair = Pair::new(configs(&[version], &[version]));
        pair.step();
        let now = pair.now;
        pair.server.dtls.close(now);
        assert!(pair.server.take(Ok(())).is_empty(), "{version:?}");
        assert_eq!(pair.server.dtls.handle_datagram(now, &[22]), Err(DtlsError::Ended));
        assert_eq!(pair.server.dtls.handle_timeout(now), Err(DtlsError::Ended));
    }
}

#[test]
fn forged_alerts_end_nothing() {
    for version in [V1_2, V1_3] {
        let mut pair = Pair::new(configs(&[version], &[version]));
        let forged: Vec<Vec<u8>> = [(1, 0), (2, 40), (1, 90)]
            .into_iter()
            .flat_map(|(level, description)| {
                (0..3).map(move |epoch| {
                    vec![21, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 1, 0, 0, 2, level, description]
                })
            })
            .collect();
        let throw = |pair: &mut Pair| {
            for datagram in &forged {
                for client in [true, false] {
                    let now = pair.now;
                    let end = if client { &mut pair.client } else { &mut pair.server };
                    let result = end.dtls.handle_datagram(now, datagram);
                    assert_eq!(result, Ok(()), "{version:?}, client: {client}");
                    assert!(end.take(result).is_empty(), "an answer to {datagram:?}");
                }
            }
        };
        // At every step of the handshake, and when it is done.
        while pair.client.keys.is_none() || pair.server.keys.is_none() {
            throw(&mut pair);
            assert!(pair.step());
        }
        throw(&mut pair);
        pair.run();
        assert!(!pair.client.closed && !pair.server.closed, "{version:?}");
        // And the session still hears the peer's own.
        pair.now += std::time::Duration::from_secs(1);
        let now = pair.now;
        pair.client.dtls.close(now);
        pair.send(true, Ok(()));
        pair.run();
        assert!(pair.server.closed, "{version:?}");
    }
}
