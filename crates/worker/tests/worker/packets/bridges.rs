//! A player of FLV at another node than the publisher by WebRTC.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use rtc_test::OfferOptions;
use rtmp::MediaKind as FlvKind;
use rtmp::flv::{FlvReader, Tag};

use crate::packets::common::media::{send_audio, send_frame};
use crate::packets::common::node::{Node, link};
use crate::packets::common::{eventually, now};

/// Plays a stream as HTTP-FLV; its tags come by the channel.
fn play(node: SocketAddr, stream: &str) -> Receiver<Tag> {
    let mut connection = TcpStream::connect(node).expect("a connection");
    write!(connection, "GET /{stream}.flv HTTP/1.0\r\n\r\n").expect("it is sent");
    let (tags, received) = channel();
    std::thread::spawn(move || {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
        let mut reader = None;
        while let Ok(len @ 1..) = connection.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..len]);
            if reader.is_none() {
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                assert!(head.contains(" 200 ") && !head.contains("chunked"), "{head}");
                bytes.drain(..end + 4);
                reader = Some(FlvReader::new(1 << 20));
            }
            let Some(reader) = &mut reader else { continue };
            reader.push(&bytes);
            bytes.clear();
            while let Some(tag) = reader.next_tag().expect("well-formed FLV") {
                if tags.send(tag).is_err() {
                    return;
                }
            }
        }
    });
    received
}

#[test]
fn an_flv_player_at_the_other_node_gets_what_one_at_the_first_gets() {
    let (one, other) = (Node::start(1), Node::start(2));
    let link = link(&one, &other);
    let mut publisher = one.publish(0, "live/a", &OfferOptions::default());
    other.fetch_from(&one, "live/a", link);
    let players = [play(one.http(), "live/a"), play(other.http(), "live/a")];
    let mut got: [Vec<Tag>; 2] = [Vec::new(), Vec::new()];
    let (began, mut frame) = (now(), 0);
    let video = |tags: &[Tag]| -> Vec<Vec<u8>> {
        let frames = tags.iter().filter(|tag| tag.kind == FlvKind::Video && tag.body.len() > 600);
        frames.map(|tag| tag.body.to_vec()).collect()
    };
    let audio = |tags: &[Tag]| tags.iter().filter(|tag| tag.kind == FlvKind::Audio).count();
    eventually("both have pictures and sound", || {
        publisher.turn();
        // At about the speed of its timestamps: the bridge's clock is that of its arrivals.
        if now() >= began + std::time::Duration::from_millis(u64::from(frame) * 33) {
            send_frame(&mut publisher, frame, 2, frame.is_multiple_of(15));
            (0..2).for_each(|half| send_audio(&mut publisher, 2 * frame + half));
            frame += 1;
        }
        publisher.wait(now() + std::time::Duration::from_millis(2));
        for (player, got) in players.iter().zip(&mut got) {
            got.extend(player.try_iter());
        }
        got.iter().all(|tags| video(tags).len() > 45 && audio(tags) > 30).then_some(())
    });
    let [near, far] = got.map(|tags| video(&tags));
    let from = near.iter().position(|body| *body == far[0]).or(far.iter().position(|body| *body == near[0]));
    let from = from.expect("the same pictures");
    let (longer, shorter) = if near.contains(&far[0]) { (&near, &far) } else { (&far, &near) };
    let common = shorter.len().min(longer.len() - from);
    assert!(common > 20, "{common} pictures in common");
    assert!(longer[from..from + common] == shorter[..common], "the same bodies in the same order");
}
