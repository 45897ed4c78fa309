//! A peer whose certificate is not the signalled one is never connected.

use std::sync::Arc;

use crate::common::{World, client_config, millis, server_config};
use rtc::dtls::{Certificate, DtlsVersion, Fingerprint};
use rtc::{Event, FailReason, PeerConfig};

fn other() -> Fingerprint {
    Certificate::generate().unwrap().fingerprint()
}

#[test]
fn a_wrong_or_absent_fingerprint_gives_no_keys_on_either_side() {
    type Change = fn(&mut PeerConfig, &mut PeerConfig);
    let changes: [(&str, Change); 5] = [
        ("the server expects another", |_, server| server.dtls.remote_fingerprints = vec![other()]),
        ("the server expects none", |_, server| server.dtls.remote_fingerprints = Vec::new()),
        ("the client expects another", |client, _| client.dtls.remote_fingerprints = vec![other()]),
        ("the client expects the server's neighbour", |client, server| {
            client.dtls.remote_fingerprints = vec![other(), server.dtls.remote_fingerprints[0]];
        }),
        ("the client shows another", |client, _| {
            client.dtls.certificate = Arc::new(Certificate::generate().unwrap());
        }),
    ];
    for versions in [vec![DtlsVersion::V1_2], vec![DtlsVersion::V1_3]] {
        for (name, change) in changes {
            let (mut client, mut server) = (client_config(), server_config());
            client.dtls.versions = versions.clone();
            change(&mut client, &mut server);
            let refuses_at_server = name.contains("the server expects") || name.contains("shows");
            let mut world = World::of(client, server, 1);
            world.run(millis(20_000));
            let end = if refuses_at_server { &world.server } else { &world.client };
            assert_eq!(end.count(|event| matches!(event, Event::Connected(_))), 0, "{versions:?}: {name}");
            assert_eq!(end.peer.path(), None, "{versions:?}: {name}");
            let failed = |event: &Event| matches!(event, Event::Failed(FailReason::Dtls(_)));
            assert_eq!(end.count(failed), 1, "{versions:?}: {name}: {:?}", end.events);
        }
    }
}
