//! Both libraries against each other, in both roles: the negotiated version and SRTP profile, and
//! that the keys match.

use rtc::dtls::DtlsVersion::{self, V1_2, V1_3};
use rtc::dtls::{Config, DtlsError};
use srtp::Profile::{self, AeadAes128Gcm, AeadAes256Gcm, AesCm128HmacSha1_80};

use super::link::{DELAY, Pair, configs, fit};

#[test]
fn versions_and_profiles_come_out_as_the_server_wants() {
    const BOTH: &[DtlsVersion] = &[V1_2, V1_3];
    let cases = [
        // Client allows, server allows, version, profile.
        (&[V1_2][..], BOTH, V1_2, AeadAes128Gcm),
        (&[V1_2], &[V1_2][..], V1_2, AeadAes128Gcm),
        // `dimpl` as a client offers AES-256-GCM first, so a server with a choice takes 1.2.
        (BOTH, BOTH, V1_2, AeadAes128Gcm),
        (BOTH, &[V1_2], V1_2, AeadAes128Gcm),
        (BOTH, &[V1_3], V1_3, AeadAes256Gcm),
        (&[V1_3], BOTH, V1_3, AeadAes256Gcm),
        (&[V1_3], &[V1_3], V1_3, AeadAes256Gcm),
    ];
    for (client, server, version, profile) in cases {
        let mut pair = Pair::new(configs(client, server));
        let took = pair.run_until_keys();
        let case = format!("client {client:?}, server {server:?}");
        assert!(took.is_some(), "{case}: {:?} {:?}", pair.client.error, pair.server.error);
        let (ours, theirs) = (pair.client.keys.as_ref().unwrap(), pair.server.keys.as_ref().unwrap());
        assert!(fit(ours, theirs), "{case}");
        assert_eq!(ours.profile, profile, "{case}");
        assert_eq!(pair.client.dtls.version(), Some(version), "{case}");
        assert_eq!(pair.server.dtls.version(), Some(version), "{case}");
        let longest = pair.client.sent.iter().chain(&pair.server.sent).map(Vec::len).max().unwrap();
        assert!(longest <= 1250, "{case}: a datagram of {longest} bytes");
    }
}

#[test]
fn the_server_takes_its_first_profile_whatever_order_the_client_has() {
    let orders = [
        vec![AesCm128HmacSha1_80, AeadAes256Gcm, AeadAes128Gcm],
        vec![AeadAes256Gcm, AeadAes128Gcm],
        vec![AeadAes128Gcm],
        vec![AesCm128HmacSha1_80, Profile::AesCm128HmacSha1_32],
        vec![Profile::AesCm128HmacSha1_32, AeadAes256Gcm],
    ];
    for (order, versions) in orders.iter().flat_map(|order| [(order, &[V1_2][..]), (order, &[V1_2, V1_3])]) {
        let (client, server) = configs(versions, &[V1_2, V1_3]);
        let expected = server.srtp_profiles.iter().find(|profile| order.contains(profile)).copied();
        let mut pair = Pair::new((Config { srtp_profiles: order.clone(), ..client }, server));
        pair.run_until_keys();
        assert_eq!(pair.server.keys.map(|keys| keys.profile), expected, "{order:?} {versions:?}");
        assert_eq!(pair.client.keys.map(|keys| keys.profile), expected, "{order:?} {versions:?}");
    }
}

#[test]
fn without_a_profile_or_version_in_common_there_are_no_keys() {
    let (client, server) = configs(&[V1_2], &[V1_2, V1_3]);
    let client = Config { srtp_profiles: vec![Profile::AesCm128HmacSha1_32], ..client };
    let mut pair = Pair::new((client, server));
    assert_eq!(pair.run_until_keys(), None);
    assert_eq!(pair.server.error, Some(DtlsError::NoSrtpProfile));
    assert!(pair.client.keys.is_none() && pair.server.keys.is_none());

    for (client, server) in [(V1_2, V1_3), (V1_3, V1_2)] {
        let mut pair = Pair::new(configs(&[client], &[server]));
        assert_eq!(pair.run_until_keys(), None);
        assert_eq!(pair.server.error, Some(DtlsError::NoVersion), "client {client:?}, server {server:?}");
        assert!(pair.client.keys.is_none() && pair.server.keys.is_none());
    }
}

#[test]
fn a_peer_that_stops_answering_is_given_up_at_the_time_limit() {
    for version in [V1_2, V1_3] {
        let (client, server) = configs(&[version], &[version]);
        let limit = client.handshake_timeout;
        let mut pair = Pair::new((client, server));
        let begin = pair.now;
        // The ClientHello arrives, and then nothing any more.
        pair.lose_first = [u32::MAX; 2];
        while pair.step() {}
        assert_eq!(pair.client.error, Some(DtlsError::Timeout), "{version:?}");
        assert_eq!(pair.server.error, Some(DtlsError::Timeout), "{version:?}");
        assert_eq!(pair.now - begin, limit + DELAY, "{version:?}");
        assert!(pair.client.keys.is_none() && pair.server.keys.is_none());
    }
}
