//! A conclusion that is lost, or the answer to it: the caller says it again, and is let in once.

use std::time::Duration;

use crate::common::eventually;
use crate::common::server::Server;
use crate::common::tools::{Running, ffmpeg, sample};
use crate::common::udp_relay::{Loses, Towards, UdpRelay};
use crate::srt_hostile::call_at;

/// A handshake of the last step: of a caller, and of the listener that accepts.
fn is_conclusion(datagram: &[u8]) -> bool {
    // draft-sharabayko-srt-01 sections 3.2 and 3.2.1.
    datagram.starts_with(&[0x80, 0]) && datagram.get(36..40) == Some(&[0xff; 4])
}

/// Loses so many conclusions of the caller, then so many answers to those that come.
fn losing(mut asked: u32, mut answered: u32) -> Loses {
    Box::new(move |towards, datagram| {
        let left = match towards {
            _ if !is_conclusion(datagram) => return false,
            Towards::Server => &mut asked,
            Towards::Client => &mut answered,
        };
        let is_lost = *left > 0;
        *left -= u32::from(is_lost);
        is_lost
    })
}

#[test]
fn a_caller_whose_conclusion_or_whose_answer_is_lost_is_let_in_once() {
    let mut server = Server::start_workers(
        2,
        "[[srt.stream]]\nstream = \"secret/*\"\npublish_passphrase = \"correct horse\"\n",
    );
    let address = server.srt.expect("SRT is on");
    let mut accepted = 0;
    for (app, passphrase) in [("live", None), ("secret", Some("correct horse"))] {
        for (asked, answered) in [(1, 0), (0, 1), (2, 2)] {
            let relay = UdpRelay::start(address, Duration::ZERO, losing(asked, answered));
            let stream = format!("{app}/cam");
            let mut client =
                call_at(relay.address, &format!("publish:{stream}"), passphrase).expect("let in");
            assert_eq!(relay.counts().1, u64::from(asked + answered), "{asked} {answered}");
            accepted += 1;
            assert_eq!(server.session_count(), 1, "{asked} {answered}");
            // What comes by it is the session's.
            client.send(&[0x47; 188]);
            eventually("its packet has come", || {
                client.turn();
                let sessions = server.sessions(&format!("stream={stream}&role=publisher"));
                (sessions.len() == 1 && sessions[0]["srt"]["packets"] == 1).then_some(())
            });
            client.close();
            eventually("it has ended", || (server.session_count() == 0).then_some(()));
        }
    }
    assert_eq!(server.counter("millstream_srt_sessions_accepted_total"), accepted);
    assert_eq!(server.counter("millstream_srt_callers_refused_total"), 0);
    server.assert_healthy();
}

/// libsrt repeats its conclusion until an answer arrives.
#[test]
fn ffmpeg_whose_handshake_loses_both_publishes_and_plays() {
    let server = Server::start_workers(2, "");
    let address = server.srt.expect("SRT is on");
    let (to_publish, to_play) = (
        UdpRelay::start(address, Duration::ZERO, losing(1, 1)),
        UdpRelay::start(address, Duration::ZERO, losing(1, 1)),
    );
    let url = |relay: &UdpRelay, id: &str| {
        format!("srt://{}?streamid={id}&pkt_size=1316&latency=200000", relay.address)
    };
    let mut publish = ffmpeg();
    publish.args(["-readrate", "1", "-i"]).arg(sample());
    publish.args(["-c", "copy", "-f", "mpegts", &url(&to_publish, "publish:live/cam")]);
    let _publisher = Running::start(publish, "ffmpeg publishing by SRT");
    server.wait_for_publisher("live/cam", true);
    let mut play = ffmpeg();
    play.args(["-i", &url(&to_play, "read:live/cam"), "-c", "copy", "-frames:v", "30", "-f", "null", "-"]);
    Running::start(play, "ffmpeg playing by SRT").finish();
    for relay in [&to_publish, &to_play] {
        assert_eq!(relay.counts().1, 2, "both were lost once");
    }
    assert_eq!(server.counter("millstream_srt_sessions_accepted_total"), 2);
    assert_eq!(server.sessions("role=publisher").len(), 1);
}
