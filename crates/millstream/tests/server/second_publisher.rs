//! A second publisher of the same stream is refused, or takes over, as configured.

use crate::common::flv::sample_tags;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtmp::client::ClientEvent;

#[test]
fn the_newcomer_is_refused_by_default_and_the_first_goes_on() {
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "");
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let mut first = RtmpClient::publish(server.rtmp, "live/mill");
        let tags = sample_tags();
        first.send_tags(&tags[..60]);
        // With two workers, several attempts reach both of them.
        for _ in 0..6 {
            let refusal =
                RtmpClient::begin_publish(server.rtmp, "live/mill").wait_started().expect_err("refused");
            assert!(refusal.contains("NetStream.Publish.BadName"), "{refusal}");
        }
        first.send_tags(&tags[60..120]);
        assert_eq!(player.take_frames(110).len(), 110, "the player notices nothing");
        assert_eq!(server.sessions("role=publisher").len(), 1);
    }
}

#[test]
fn the_newcomer_takes_over_when_so_configured_and_players_stay() {
    for workers in [1, 2] {
        let server = Server::start_workers(workers, "[stream]\nsecond_publisher = 'take_over'\n");
        let tags = sample_tags();
        let mut player = RtmpClient::play(server.rtmp, "live/mill");
        let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
        publisher.send_tags(&tags[..60]);
        player.take_frames(50);
        for _ in 0..6 {
            let mut newcomer = RtmpClient::publish(server.rtmp, "live/mill");
            let mut told = false;
            while let Some(event) = publisher.next_event() {
                told |= matches!(event, ClientEvent::Status { .. } | ClientEvent::Ended { .. });
            }
            assert!(told, "the old publisher is told before it is closed");
            crate::common::eventually("one publisher is left", || {
                (server.sessions("role=publisher").len() == 1).then_some(())
            });
            newcomer.send_tags(&tags[..60]);
            player.take_frames(50);
            publisher = newcomer;
        }
        assert_eq!(server.sessions("role=player").len(), 1, "the player stayed");
    }
}

#[test]
fn publishers_that_take_over_at_the_same_moment_leave_exactly_one() {
    let mut server = Server::start_workers(2, "[stream]\nsecond_publisher = 'take_over'\n");
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    for round in 0..20 {
        // All ask before any is answered, so that on each worker claims, takeovers and starts
        // overtake each other.
        let mut publishers: Vec<_> =
            (0..6).map(|_| RtmpClient::begin_publish(server.rtmp, "live/mill")).collect();
        publishers.iter_mut().for_each(|publisher| drop(publisher.wait_started()));
        crate::common::eventually(&format!("one publisher is left in round {round}"), || {
            (server.sessions("role=publisher").len() == 1).then_some(())
        });
        drop(publishers);
        crate::common::eventually(&format!("none is left after round {round}"), || {
            server.sessions("role=publisher").is_empty().then_some(())
        });
    }
    let mut last = RtmpClient::publish(server.rtmp, "live/mill");
    last.send_tags(&tags[..60]);
    player.take_frames(50);
    server.assert_healthy();
}
