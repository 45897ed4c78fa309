//! Marks of congestion: packets leave as ECT(1) to viewers that can report marks, to others without.

use std::time::Duration;

use group_send::{Ecn, RecvBatch, RecvConfig, socket};
use rtc::sdp::Direction;
use rtc_test::{OfferOptions, UdpClient, offer};
use rtp::payload::MediaKind;

use crate::packets::common::media::{count, send_audio, send_frame};
use crate::packets::common::node::Node;
use crate::packets::common::until;

/// The marks of so many packets of RTP, as they arrive at a viewer's socket.
fn marks(viewer: &UdpClient, publisher: &mut UdpClient, frame: &mut u32) -> Vec<Ecn> {
    viewer.socket.set_nonblocking(false).expect("a socket option");
    viewer.socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket option");
    let (mut received, mut marks) = (RecvBatch::new(RecvConfig::default()), Vec::new());
    while marks.len() < 20 {
        send_frame(publisher, *frame, 2, frame.is_multiple_of(20));
        send_audio(publisher, *frame);
        *frame += 1;
        // Nothing yet is no error.
        let _ = received.recv_wait(&viewer.socket);
        // RTCP has types from 192 on (RFC 5761 section 4).
        let is_rtp = |bytes: &[u8]| matches!(bytes, [0x80..=0xbf, kind, ..] if !(192..224).contains(kind));
        let media = received.iter().filter(|datagram| is_rtp(datagram.payload));
        marks.extend(media.map(|datagram| datagram.ecn.expect("it was asked for")));
    }
    marks
}

#[test]
fn packets_leave_marked_as_capable_to_viewers_that_report_marks() {
    let node = Node::start(1);
    let mut publisher = node.publish(0, "live/a", &OfferOptions::default());
    let options = OfferOptions { ccfb: true, ..OfferOptions::default() };
    let mut reporting = node.play_as(0, "live/a", |local| offer(Direction::Receive, local, &options));
    let mut silent = node.play(0, "live/a");
    for viewer in [&reporting, &silent] {
        socket::enable_ecn(&viewer.socket).expect("a socket option");
    }
    let mut frame = 0;
    until("both play", &mut [&mut publisher, &mut reporting, &mut silent], |clients| {
        send_frame(clients[0], frame, 1, frame.is_multiple_of(20));
        send_audio(clients[0], frame);
        frame += 1;
        clients[1..].iter().all(|client| count(client, MediaKind::Video) > 3)
    });
    let seen = marks(&reporting, &mut publisher, &mut frame);
    assert!(seen.iter().all(|ecn| *ecn == Ecn::Ect1), "{seen:?}");
    let seen = marks(&silent, &mut publisher, &mut frame);
    assert!(seen.iter().all(|ecn| *ecn == Ecn::NotEct), "{seen:?}");
}
