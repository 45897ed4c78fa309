//! No keys for a peer whose certificate is not the signalled one: wrong, absent, or of another
//! session.

use rtc::dtls::DtlsVersion::{V1_2, V1_3};
use rtc::dtls::{Config, Dtls, DtlsError, Fingerprint, FingerprintHash};

use super::link::{End, Pair, certificate, configs, start};

#[test]
fn a_server_gives_no_keys_to_a_client_with_another_certificate() {
    for version in [V1_2, V1_3] {
        let wrong = [
            certificate().fingerprint(),                        // of another session
            Fingerprint::of(FingerprintHash::Sha512, b"wrong"), // of no certificate
        ];
        for fingerprint in wrong {
            let (client, server) = configs(&[version], &[version]);
            let mut pair = Pair::new((client, Config { remote_fingerprints: vec![fingerprint], ..server }));
            pair.run();
            assert_eq!(pair.server.error, Some(DtlsError::WrongFingerprint), "{version:?}");
            assert!(pair.server.keys.is_none());
            // Of 1.2 the client needs the server's Finished; in 1.3 it has had it before it shows
            // its certificate.
            assert!(version == V1_3 || pair.client.keys.is_none(), "the server's Finished has been sent");
            assert_eq!(pair.server.dtls.handle_datagram(pair.now, &[22; 100]), Err(DtlsError::Ended));
        }
    }
}

#[test]
fn a_client_gives_no_keys_to_a_server_with_another_certificate() {
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let other = certificate().fingerprint();
        let mut pair = Pair::new((Config { remote_fingerprints: vec![other], ..client }, server));
        pair.run();
        assert_eq!(pair.client.error, Some(DtlsError::WrongFingerprint), "{version:?}");
        assert!(pair.client.keys.is_none());
    }
}

#[test]
fn without_a_signalled_fingerprint_nobody_is_let_in() {
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let mut pair = Pair::new((client, Config { remote_fingerprints: vec![], ..server }));
        pair.run();
        assert_eq!(pair.server.error, Some(DtlsError::NoFingerprint), "{version:?}");
        assert!(pair.server.keys.is_none() && pair.client.keys.is_none());
        assert!(pair.server.sent.is_empty(), "nothing to say to anybody");
    }
}

#[test]
fn one_of_several_fingerprints_is_enough() {
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let right = Fingerprint::of(FingerprintHash::Sha384, client.certificate.der());
        let wrong = Fingerprint::of(FingerprintHash::Sha384, b"another");
        let mut pair = Pair::new((client, Config { remote_fingerprints: vec![wrong, right], ..server }));
        assert!(pair.run_until_keys().is_some(), "{version:?}");
    }
}

#[test]
fn a_client_hello_of_one_session_replayed_into_another_gets_nowhere() {
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let (_, other_server) = configs(&[version], &[version]);
        let mut pair = Pair::new((client, server));
        assert!(pair.run_until_keys().is_some());
        let mut other = End::new(Dtls::server(other_server));
        let now = start();
        for datagram in pair.client.sent.clone() {
            let result = other.dtls.handle_datagram(now, &datagram);
            other.take(result);
        }
        assert!(other.keys.is_none(), "{version:?}");
    }
}
