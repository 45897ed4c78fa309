//! Names of streams: one publisher in the cluster, found everywhere.

use cluster::{Event, LostBecause, Policy, Refusal};

use crate::server::{Server, described, home, node, stream, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_claimed_here_is_found_there_until_it_is_released() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    let name = stream("live/мельница.1");
    let granted = a.claim(&name, described(b"one"), Policy::Refuse).await.unwrap();
    assert!(!granted.provisional);
    until("the stream is found", || b.find(&name).is_some()).await;
    let found = b.find(&name).unwrap();
    assert_eq!(
        (found.node, found.epoch, &found.description.tracks[..]),
        (node("a"), granted.epoch, &b"one"[..])
    );
    assert_eq!(a.find(&name).unwrap().epoch, granted.epoch);

    assert!(a.update(&name, granted.epoch, described(b"two")));
    until("the new tracks", || b.find(&name).unwrap().description.tracks == b"two").await;

    a.release(&name, granted.epoch);
    assert_eq!(a.find(&name), None);
    until("the end", || b.find(&name).is_none()).await;
    let again = b.claim(&name, described(b""), Policy::Refuse).await.unwrap();
    assert!(again.epoch > granted.epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_publisher_is_refused_or_takes_over_and_the_loser_is_told() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    let name = stream("live/a");
    let first = a.claim(&name, described(b""), Policy::Refuse).await.unwrap();
    // At once, so that the copy of `b` may not have it yet: the directory decides.
    let refused = b.claim(&name, described(b""), Policy::Refuse).await;
    assert_eq!(refused, Err(Refusal::TakenBy(node("a"))));
    assert_eq!(
        a.claim(&name, described(b""), Policy::Refuse).await,
        Err(Refusal::TakenBy(node("a"))),
        "by the node itself"
    );

    let mut events = a.events();
    let second = b.claim(&name, described(b""), Policy::TakeOver).await.unwrap();
    assert_eq!(second.replaced, Some(node("a")));
    assert!(second.epoch > first.epoch);
    let lost = loop {
        if let Event::Lost { stream, epoch, to, because } = events.next().await.unwrap() {
            break (stream, epoch, to, because);
        }
    };
    assert_eq!(lost, (name.clone(), first.epoch, node("b"), LostBecause::TakenOver));
    a.release(&name, first.epoch);
    until("both agree", || home(&a, "live/a").as_deref() == Some("b")).await;
    assert_eq!(home(&b, "live/a").as_deref(), Some("b"), "a late release changes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_claims_at_once_one_is_granted() {
    let Some(server) = Server::start().await else { return };
    let mut directories = Vec::new();
    for name in ["a", "b", "c"] {
        directories.push(server.directory(name).await);
    }
    for round in 0..50 {
        let name = stream(&format!("live/{round}"));
        let claims: Vec<_> = directories
            .iter()
            .map(|directory| directory.claim(&name, described(b""), Policy::Refuse))
            .collect();
        let mut granted = 0;
        for claim in claims {
            granted += usize::from(claim.await.is_ok());
        }
        assert_eq!(granted, 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_nobody_waits_for_is_given_up() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    for round in 0..20 {
        drop(a.claim(&stream("live/a"), described(b""), Policy::Refuse));
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
    }
    until("all of it is given up", || a.health().settled && home(&b, "live/a").is_none()).await;
    assert!(b.claim(&stream("live/a"), described(b""), Policy::Refuse).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_fetches_a_stream_from_whom_is_known_everywhere() {
    let Some(server) = Server::start().await else { return };
    let (a, b) = (server.directory("a").await, server.directory("b").await);
    let name = stream("live/a");
    assert!(b.set_feed(&name, Some(node("a"))));
    let fed = vec![(node("b"), node("a"))];
    assert_eq!(b.feeds(&name), fed);
    until("the feed is seen", || a.feeds(&name) == fed).await;
    assert!(b.set_feed(&name, None));
    until("its end is seen", || a.feeds(&name).is_empty()).await;
    b.set_feed(&name, Some(node("a")));
    until("it is seen again", || a.feeds(&name) == fed).await;
    b.leave().await;
    until("it goes with its node", || a.feeds(&name).is_empty()).await;
}
