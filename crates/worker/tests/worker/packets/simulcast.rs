//! A publisher of several layers: those that viewers of another node use cross, and the others stay
//! where they are.

use std::net::{Ipv4Addr, SocketAddr};

use rtc::sdp::{Direction, OfferConfig};
use rtc_test::{OfferOptions, UdpClient, VP8, offer, video_fields, vp8_frame};
use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Extension, Form};
use rtp::payload::MediaKind;
use rtp::rtcp::Rtcp;

use crate::packets::common::media::{count, taken};
use crate::packets::common::node::{Node, link};
use crate::packets::common::until;

const RID_ID: u8 = 10;
const LAYERS: [&str; 3] = ["full", "half", "quarter"];

fn simulcast(local: SocketAddr) -> OfferConfig {
    let mut offer = offer(Direction::Send, local, &OfferOptions::default());
    let video = &mut offer.media[1];
    video.rids = LAYERS.map(str::to_owned).to_vec();
    video.sources.clear();
    video.extensions.set(RID_ID, Extension::Rid);
    offer
}

#[test]
fn viewers_of_both_nodes_get_the_best_layer_that_comes() {
    let (one, other) = (Node::start(1), Node::start(1));
    let link = link(&one, &other);
    let mut publisher = one.publish_as(0, "live/a", simulcast);
    other.fetch_from(&one, "live/a", link);
    let (mut near, mut far) = (one.play(0, "live/a"), other.play(0, "live/a"));
    let mut frame = 0;
    let has_full = |client: &UdpClient| {
        taken(client, MediaKind::Video).iter().filter(|got| got.payload.len() == 900).count() > 60
    };
    until("the best layer", &mut [&mut publisher, &mut near, &mut far], |clients| {
        for (layer, rid) in (0..).zip(LAYERS) {
            // The best one comes later than the others.
            if layer == 0 && frame < 40 {
                continue;
            }
            let mut block = [0; 32];
            let mut writer = BlockWriter::new(&mut block, Form::OneByte);
            writer.push(1, b"1").expect("MID");
            writer.push(RID_ID, rid.as_bytes()).expect("room");
            let len = writer.finish();
            let fields = HeaderFields { ssrc: FIRST_SSRC + layer, payload_type: VP8, ..video_fields(frame) };
            let payload = vp8_frame(frame, frame.is_multiple_of(20), 900 >> layer);
            clients[0].send_rtp_with(fields, &block[..len], &payload);
        }
        frame += 1;
        has_full(clients[1]) && has_full(clients[2])
    });
    let payloads = |client| -> Vec<Vec<u8>> {
        taken(client, MediaKind::Video).into_iter().map(|got| got.payload).collect()
    };
    let (near_got, far_got) = (payloads(&near), payloads(&far));
    let common = near_got.len().min(far_got.len()) - 5;
    let from = far_got.iter().position(|payload| *payload == near_got[near_got.len() - common]);
    let from = from.expect("what one gets, the other gets");
    assert!(near_got[near_got.len() - common..].starts_with(&far_got[from..far_got.len().min(from + 50)]));
    // One packet a frame, and a report now and then: the other layers did not cross.
    let (packets, reports) = (other.stats().streams[0].packets, 60);
    assert!(packets <= u64::from(frame) + reports, "{packets} packets of {frame} frames in three layers");
    assert!(count(&far, MediaKind::Video) > 60);
}

/// Frames after which what a test waits for will not happen.
const FRAMES_MAX: u32 = 3_000;
/// SSRC of the first layer.
const FIRST_SSRC: u32 = 0x0b00_0000;

/// A node whose viewers need not report what they get.
fn node(workers: usize) -> Node {
    Node::start_at(Ipv4Addr::LOCALHOST.into(), workers, |settings| settings.rtc.adaptation = false)
}

/// Sends frames in all layers, each with a key frame when that is asked for.
struct Publisher {
    client: UdpClient,
    frame: u32,
    key_frames: [u32; 3],
}

impl Publisher {
    fn new(client: UdpClient) -> Self {
        Self { client, frame: 0, key_frames: [0; 3] }
    }

    fn send(&mut self) {
        let new: Vec<Vec<u8>> = self.client.reports.drain(..).collect();
        let mut asked = [self.frame == 0; 3];
        for packet in new.iter().flat_map(|rtcp| rtp::rtcp::packets(rtcp).flatten()) {
            if let Rtcp::Pli(pli) = packet {
                asked[(pli.media_ssrc - FIRST_SSRC) as usize] = true;
            }
        }
        for (layer, rid) in LAYERS.iter().enumerate() {
            self.key_frames[layer] += u32::from(asked[layer]);
            let mut block = [0; 32];
            let mut writer = BlockWriter::new(&mut block, Form::OneByte);
            writer.push(1, b"1").expect("MID");
            writer.push(RID_ID, rid.as_bytes()).expect("room");
            let len = writer.finish();
            let ssrc = FIRST_SSRC + layer as u32;
            let fields = HeaderFields { ssrc, payload_type: VP8, ..video_fields(self.frame) };
            let payload = vp8_frame(self.frame, asked[layer], 900 >> layer);
            self.client.send_rtp_with(fields, &block[..len], &payload);
        }
        self.frame += 1;
    }
}

/// The layer of the newest packet that a viewer got.
fn newest(client: &UdpClient) -> Option<&'static str> {
    let ssrc = client.source(MediaKind::Video).ssrc;
    let packets = client.media.iter().rev().filter_map(|bytes| rtp::Packet::parse(bytes).ok());
    let payload = packets.filter(|packet| packet.ssrc() == ssrc).find(|packet| !packet.payload().is_empty());
    let len = payload?.payload().len();
    (0..3).find(|layer| len == 900 >> layer).map(|layer| LAYERS[layer])
}

/// Plays until `check` holds.
fn play(
    what: &str,
    publisher: &mut Publisher,
    viewers: &mut [UdpClient],
    check: impl Fn(&[UdpClient]) -> bool,
) {
    let (mut is_done, mut frames) = (false, 0);
    while !is_done {
        publisher.send();
        let mut clients: Vec<&mut UdpClient> =
            std::iter::once(&mut publisher.client).chain(viewers.iter_mut()).collect();
        let mut turns = 0;
        until(what, &mut clients, |_| {
            turns += 1;
            turns > 3
        });
        is_done = check(viewers);
        let got = || viewers.iter().map(newest).collect::<Vec<_>>();
        frames += 1;
        assert!(frames < FRAMES_MAX, "no {what}: {:?}, key frames {:?}", got(), publisher.key_frames);
    }
}

#[test]
fn each_viewer_of_another_node_gets_the_layer_that_it_asks_for_and_no_other_crosses() {
    // Worker of the publisher, and of the viewers at the other node.
    for (home, at) in [(0, 0), (1, 0), (1, 1)] {
        println!("publisher on {home}, viewers on {at}");
        let (one, other) = (node(2), node(2));
        let link = link(&one, &other);
        let mut publisher = Publisher::new(one.publish_as(home, "live/a", simulcast));
        other.fetch_from(&one, "live/a", link);
        let (mut viewers, sessions): (Vec<_>, Vec<_>) =
            LAYERS.iter().map(|_| other.play_session(at, "live/a")).unzip();
        play("pictures", &mut publisher, &mut viewers, |viewers| {
            viewers.iter().all(|viewer| count(viewer, MediaKind::Video) > 20)
        });
        for (session, name) in sessions.iter().zip(LAYERS) {
            other.choose(at, *session, name).expect("it has that");
        }
        play("each its layer", &mut publisher, &mut viewers, |viewers| {
            viewers.iter().zip(LAYERS).all(|(viewer, name)| newest(viewer) == Some(name))
        });
        // Nobody uses the best any more, and it does not cross.
        other.choose(at, sessions[0], "half").expect("it has that");
        let of_frames = |publisher: &mut Publisher, viewers: &mut [UdpClient]| {
            let (packets, frame) = (other.stats().streams[0].packets, publisher.frame);
            while publisher.frame < frame + 40 {
                play("frames", publisher, viewers, |_| true);
            }
            other.stats().streams[0].packets - packets
        };
        let mut turns = 0;
        // Two packets a frame, and reports; three would be 120.
        while of_frames(&mut publisher, &mut viewers) > 2 * 40 + 30 {
            turns += 1;
            assert!(turns < 60, "the best crosses all the time: {home} {at}");
        }
        assert_eq!(viewers.iter().map(newest).collect::<Vec<_>>(), ["half", "half", "quarter"].map(Some));
        // And again, with a key frame that is asked for.
        let asked = publisher.key_frames[0];
        other.choose(at, sessions[2], "full").expect("it is known to be there");
        play("the best again", &mut publisher, &mut viewers, |viewers| newest(&viewers[2]) == Some("full"));
        assert!((1..=2).contains(&(publisher.key_frames[0] - asked)), "{:?}", publisher.key_frames);
    }
}

#[test]
fn layers_go_on_from_node_to_node() {
    let nodes = [(); 3].map(|()| node(1));
    let [source, middle, edge] = &nodes;
    let mut publisher = Publisher::new(source.publish_as(0, "live/a", simulcast));
    middle.fetch_from(source, "live/a", link(source, middle));
    edge.fetch_from(middle, "live/a", link(middle, edge));
    let (at_middle, middle_session) = middle.play_session(0, "live/a");
    let (at_edge, edge_session) = edge.play_session(0, "live/a");
    let mut viewers = [at_middle, at_edge];
    play("pictures", &mut publisher, &mut viewers, |viewers| {
        viewers.iter().all(|viewer| count(viewer, MediaKind::Video) > 20)
    });
    for (far, near) in [("quarter", "half"), ("full", "quarter"), ("half", "half"), ("quarter", "full")] {
        middle.choose(0, middle_session, near).expect("it has that");
        edge.choose(0, edge_session, far).expect("it has that");
        play("each its layer", &mut publisher, &mut viewers, |viewers| {
            [newest(&viewers[0]), newest(&viewers[1])] == [Some(near), Some(far)]
        });
    }
    // The edge gets the one that it uses, the node in the middle both.
    let crossed = |node: &Node| node.stats().streams[0].packets;
    let mut turns = 0;
    loop {
        let (before, frame) = ([middle, edge].map(crossed), publisher.frame);
        while publisher.frame < frame + 40 {
            play("frames", &mut publisher, &mut viewers, |_| true);
        }
        let after = [middle, edge].map(crossed);
        if after[0] - before[0] <= 2 * 40 + 30 && after[1] - before[1] <= 40 + 30 {
            break;
        }
        turns += 1;
        assert!(turns < 60, "more crosses than is used");
    }
}
