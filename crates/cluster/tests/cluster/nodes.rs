//! Names of nodes: one living node each, and what is known of it.

use cluster::{Addresses, ConnectError, Directory, Event, Gone, Load, Policy};

use crate::server::{Server, described, home, node, stream, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_says_of_itself_is_known_to_the_others() {
    let Some(server) = Server::start().await else { return };
    let mut settings = server.settings("a");
    settings.region = "fra".to_owned();
    settings.addresses = Addresses {
        relay_tcp: "192.0.2.1:4000".to_owned(),
        relay_udp: "192.0.2.1:4001".to_owned(),
        http: "https://a.example".to_owned(),
    };
    let a = Directory::connect(settings.clone()).await.unwrap();
    let b = server.directory("b").await;
    until("the node is known", || b.nodes().len() == 2).await;
    let seen = |name: &str| b.nodes().into_iter().find(|seen| seen.name == node(name)).unwrap();
    assert_eq!((seen("a").region.as_str(), seen("a").addresses), ("fra", settings.addresses));
    a.set_load(Load { players: 7, ..Load::default() });
    until("its load is known", || seen("a").load.players == 7).await;
    a.set_draining(true);
    until("it drains", || seen("a").draining).await;
    let mut events = b.events();
    a.leave().await;
    let gone = loop {
        if let Event::NodeGone(name, why) = events.next().await.unwrap() {
            break (name, why);
        }
    };
    assert_eq!(gone, (node("a"), Gone::Left), "it said so, and is not missed later");
    assert_eq!(b.nodes().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_a_living_node_is_refused_and_one_of_a_dead_node_is_had() {
    let Some(server) = Server::start().await else { return };
    let first = server.directory("a").await;
    let refused = Directory::connect(server.settings("a")).await.unwrap_err();
    assert!(matches!(refused, ConnectError::NameTaken { .. }), "{refused}");
    assert!(refused.to_string().contains("another living node has the name a"), "{refused}");
    assert!(first.health().named);

    let b = server.directory("b").await;
    first.claim(&stream("live/a"), described(b""), Policy::Refuse).await.unwrap();
    until("it is found", || home(&b, "live/a").is_some()).await;
    drop(first);
    let again = server.directory("a").await;
    assert!(again.health().named);
    until("streams of the one before are gone", || home(&b, "live/a").is_none()).await;
}
