//! Calls that come too late or for nobody change nothing.

use rtp::rtcp::{Nack, Pli};

use crate::packets::common::{World, frame, video, video_ssrc};

#[test]
fn a_viewer_that_left_is_nobody() {
    let mut world = World::published();
    world.play(0, 0, 3, 50);
    let gone = world.join(1);
    world.stream.leave(gone);
    let other = world.join(2);
    assert_ne!(gone, other, "the place is used again, the name is not");
    let resent = world.viewer_says(gone, |rtcp| {
        Nack::write(rtcp, 5, video_ssrc(2), &[1, 2, 3]);
        Pli { sender_ssrc: 5, media_ssrc: video_ssrc(2) }.write(rtcp);
    });
    assert_eq!(resent.len(), 0);
    let mut out = Vec::new();
    world.stream.bye(gone, "", &mut out);
    assert_eq!(out, []);
    world.stream.leave(gone);
    assert_eq!(world.stream.viewers(), 1);
    let before = world.video(1).len();
    world.receive(&frame(3, 10_800, false)).unwrap();
    assert_eq!(world.video(1).len(), before);
}

#[test]
fn a_stream_without_a_publisher_does_nothing() {
    let mut world = World::new(sfu::Limits::default());
    world.stream.request_key_frame(world.now, video());
    world.stream.publisher_ended(world.now);
    assert!(!world.stream.poll_feedback(world.now, &mut Vec::new()));
    assert_eq!(world.stream.receive_rtcp(world.now, &[0x80, 203, 0, 0]), Default::default());
    world.wait(std::time::Duration::from_secs(5));
    assert_eq!(world.stream.next_timeout(), None);
}

#[test]
fn noise_in_rtcp_is_ignored() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(0, 0, 3, 50);
    let mut state = 1u32;
    for len in 0..1_500 {
        let noise: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        world.viewer_says(id, |rtcp| {
            rtcp.extend([0x80 | (len % 32) as u8, 200 + (len % 8) as u8]);
            rtcp.extend((len as u16 / 4).to_be_bytes());
            rtcp.extend(&noise);
        });
        world.stream.receive_rtcp(world.now, &noise);
    }
    world.receive(&frame(3, 10_800, false)).unwrap();
    assert_eq!(world.video(1).len(), 4);
}
