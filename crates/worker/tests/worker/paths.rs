//! What is said of the path of a WebRTC player, and of the stream that it plays.

use worker_api::snapshot::{Role, RtcPathSnapshot};

use crate::common::{Node, rtc, until};

#[tokio::test]
async fn a_player_whose_publisher_has_gone_gets_no_layer() {
    let node = Node::start_usual();
    let _publisher = rtc::publish(&node, 0, "mill").await.expect("it is free");
    // On the worker of the publisher, and on another.
    let mut players = Vec::new();
    for worker in [0, 1] {
        players.push(rtc::play(&node, worker, "mill", None).await.expect("it is published"));
    }
    let paths_are = async |expected: bool| {
        until("both players' paths say so", async || {
            let sessions = node.sessions(|session| session.role == Role::Player).await;
            let paths = sessions.into_iter().filter_map(|session| session.rtc?.path);
            let paths: Vec<RtcPathSnapshot> = paths.collect();
            (paths.len() == 2 && paths.iter().all(|path| path.is_published == expected)).then_some(paths)
        })
        .await
    };
    paths_are(true).await;
    let publishers = node.sessions(|session| session.role == Role::Publisher).await;
    assert_eq!(node.handles.kick(publishers[0].id).await, Ok(true));
    let paths = paths_are(false).await;
    assert!(paths.iter().all(|path| path.layer.is_none()), "{paths:?}");
}
