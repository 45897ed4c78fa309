//! A publisher of several layers: the one that is forwarded crosses, and the others stay where they are.

use std::net::SocketAddr;

use rtc::sdp::{Direction, OfferConfig};
use rtc_test::{OfferOptions, VP8, offer, video_fields, vp8_frame};
use rtp::HeaderFields;
use rtp::extension::{BlockWriter, Extension, Form};
use rtp::payload::MediaKind;

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
    let has_full = |client: &rtc_test::UdpClient| {
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
            let fields = HeaderFields { ssrc: 0x0b00_0000 + layer, payload_type: VP8, ..video_fields(frame) };
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
    let (packets, reports) = (other.stats().streams[0].packets, 20);
    assert!(packets <= u64::from(frame) + reports, "{packets} packets of {frame} frames in three layers");
    assert!(count(&far, MediaKind::Video) > 60);
}
