//! Nodes that get a stream from one that has it from another.

use rtc_test::{OfferOptions, UdpClient};
use rtp::payload::MediaKind;
use rtp::rtcp::{Pli, Rtcp};
use worker_api::relay::RelayCommand;

use crate::packets::common::media::{count, send_frame, taken};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;

fn has_no_gap(client: &UdpClient) -> bool {
    let video = taken(client, MediaKind::Video);
    usize::from(video[video.len() - 1].number.wrapping_sub(video[0].number)) + 1 == video.len()
}

#[test]
fn a_stream_goes_on_from_node_to_node_and_survives_the_one_in_the_middle() {
    let nodes = [(); 3].map(|()| Node::start(1));
    let [source, middle, edge] = &nodes;
    let (upper, lower, direct) = (link(source, middle), link(middle, edge), link(source, edge));
    let mut publisher = source.publish(0, "live/a", &OfferOptions::default());
    middle.fetch_from(source, "live/a", upper);
    let mut at_middle = middle.play(0, "live/a");
    let mut frame = 0;
    until("pictures at the node in the middle", &mut [&mut publisher, &mut at_middle], |clients| {
        send_frame(clients[0], frame, 2, frame.is_multiple_of(30));
        frame += 1;
        count(clients[1], MediaKind::Video) > 50
    });
    // It begins with the key frame that the node in the middle keeps, sealed.
    edge.fetch_from(middle, "live/a", lower);
    let mut at_edge = edge.play(0, "live/a");
    until(
        "pictures without another key frame",
        &mut [&mut publisher, &mut at_middle, &mut at_edge],
        |clients| {
            send_frame(clients[0], frame, 2, false);
            frame += 1;
            count(clients[2], MediaKind::Video) > 50
        },
    );
    assert_eq!(source.stats().streams[0].children, [upper], "the source feeds one");
    assert_eq!(middle.stats().streams[0].children, [lower]);

    // The one in the middle dies; what is sent meanwhile the edge gets from the source.
    middle.tell(RelayCommand::RemoveLink { link: lower });
    edge.tell(RelayCommand::RemoveLink { link: lower });
    let seen = count(&at_middle, MediaKind::Video);
    until("some frames", &mut [&mut publisher, &mut at_middle], |clients| {
        send_frame(clients[0], frame, 2, false);
        frame += 1;
        count(clients[1], MediaKind::Video) > seen + 20
    });
    edge.attach_to(source, "live/a", direct);
    let last = frame;
    until("what comes after it", &mut [&mut publisher, &mut at_middle, &mut at_edge], |clients| {
        send_frame(clients[0], frame, 2, false);
        frame += 1;
        let newest = taken(clients[2], MediaKind::Video).last().map(|got| got.timestamp);
        newest.is_some_and(|newest| newest >= (last + 20) * 3_000)
    });
    assert!(has_no_gap(&at_edge) && has_no_gap(&at_middle));
    assert_eq!(edge.stats().streams[0].parents, [direct]);
}

#[test]
fn key_frames_that_viewers_of_all_nodes_want_are_asked_of_the_publisher_once() {
    let nodes = [(); 4].map(|()| Node::start(1));
    let [source, middle, one, other] = &nodes;
    // On another worker than the one with the relay there is a mirror in between, too.
    let mut publisher = source.publish(0, "live/a", &OfferOptions::default());
    middle.fetch_from(source, "live/a", link(source, middle));
    for edge in [one, other] {
        edge.fetch_from(middle, "live/a", link(middle, edge));
    }
    let mut viewers = [source, middle, one, other].map(|node| node.play(0, "live/a"));
    let requests = |client: &UdpClient| {
        let packets = client.reports.iter().flat_map(|rtcp| rtp::rtcp::packets(rtcp).flatten());
        packets.filter(|packet| matches!(packet, Rtcp::Pli(_) | Rtcp::Fir(_))).count()
    };
    // They wait for a picture: the publisher is asked for one.
    let [a, b, c, d] = &mut viewers;
    let mut clients: [&mut UdpClient; 5] = [&mut publisher, a, b, c, d];
    until("a request", &mut clients, |clients| requests(clients[0]) > 0);
    let mut frame = 0;
    until("pictures everywhere", &mut clients, |clients| {
        send_frame(clients[0], frame, 1, frame == 0);
        frame += 1;
        clients[1..].iter().all(|client| count(client, MediaKind::Video) > 20)
    });
    let before = requests(clients[0]);
    // All of them lose a picture at once.
    for client in &mut clients[1..] {
        let media_ssrc = client.source(MediaKind::Video).ssrc;
        let mut rtcp = Vec::new();
        Pli { sender_ssrc: 1, media_ssrc }.write(&mut rtcp);
        (0..3).for_each(|_| client.send_rtcp(&rtcp));
    }
    until("a request", &mut clients, |clients| requests(clients[0]) > before);
    until("requests of nodes", &mut clients, |_| {
        [source, middle].iter().all(|node| node.stats().counters.key_frame_requests_in > 0)
    });
    until("the key frame", &mut clients, |clients| {
        send_frame(clients[0], frame, 1, true);
        frame += 1;
        let newest = |client: &UdpClient| taken(client, MediaKind::Video).last().map(|got| got.timestamp);
        clients[1..].iter().all(|client| newest(client) >= Some((frame - 5) * 3_000))
    });
    // Twelve requests of four viewers.
    let asked = requests(clients[0]) - before;
    assert!((1..=2).contains(&asked), "asked {asked} times");
}
