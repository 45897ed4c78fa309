//! Header extensions: carried through under the viewer's ids, or left out where they speak of
//! another way.

use rtp::extension::{Extension, ExtensionMap, Form};

use crate::packets::common::{
    CAPTURE_ID, DESCRIPTOR_ID, LEVEL_ID, MID_ID, RID_ID, SEND_TIME_ID, TWCC_ID, World, audio_packet,
    audio_ssrc, frame, video_ssrc, viewer,
};

fn elements(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let packet = rtp::Packet::parse(bytes).unwrap();
    packet.extensions().map(|(id, data)| (id, data.to_vec())).collect()
}

#[test]
fn ids_are_the_viewers_and_the_way_here_stays_behind() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[0].extensions = [(9, Extension::AudioLevel), (3, Extension::Mid)].into_iter().collect();
    input.tracks[1].extensions = [
        (12, Extension::AbsCaptureTime),
        (13, Extension::Mid),
        (1, Extension::TransportCc),
        (2, Extension::AbsSendTime),
        (4, Extension::Rid),
    ]
    .into_iter()
    .collect();
    world.join_as(&input);
    let capture = [1, 2, 3, 4, 5, 6, 7, 8];
    let video_frame = frame(1, 0, true)
        .with(MID_ID, b"v")
        .with(RID_ID, b"f")
        .with(TWCC_ID, &[0, 1])
        .with(SEND_TIME_ID, &[1, 2, 3])
        .with(CAPTURE_ID, &capture);
    world.receive(&video_frame).unwrap();
    // The first is from the cache; a packet that comes live has the time of capture.
    world.receive(&frame(2, 3_600, false).with(CAPTURE_ID, &capture).with(14, &[1])).unwrap();
    // Its own number, which congestion control would write; there is none here.
    let (number, mid) = ((1, vec![0, 0]), (13, b"1".to_vec()));
    let live = [number.clone(), mid.clone(), (12, capture.to_vec())];
    assert_eq!(elements(&world.video(1)[1].bytes), live);
    assert_eq!(elements(&world.video(1)[0].bytes), [number, mid], "its timestamp was moved");

    world.receive(&audio_packet(1, 0).with(LEVEL_ID, &[0x85])).unwrap();
    world.receive(&audio_packet(2, 960).with(LEVEL_ID, &[0x7f])).unwrap();
    assert_eq!(elements(&world.audio(1)[1].bytes), [(3, b"0".to_vec()), (9, vec![0x7f])]);
}

#[test]
fn viewers_without_extensions_get_bare_headers() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(1, 0, true).with(CAPTURE_ID, &[0; 8])).unwrap();
    let got = &world.video(1)[0];
    assert_eq!(got.bytes[0], 0x80);
    assert_eq!(got.packet().header_len(), 12);
}

#[test]
fn viewers_of_different_shapes_each_get_their_own() {
    let mut world = World::published();
    for token in 1..=40 {
        let mut input = viewer(token);
        let id = 1 + (token % 14) as u8;
        input.tracks[1].extensions = [(id, Extension::AbsCaptureTime)].into_iter().collect();
        input.tracks[1].payloads[0].payload_type = 96 + (token % 20) as u8;
        world.join_as(&input);
    }
    world.receive(&frame(1, 0, true)).unwrap();
    world.receive(&frame(2, 3_600, false).with(CAPTURE_ID, &[7; 8])).unwrap();
    for token in 1..=40 {
        let got = &world.video(token)[1];
        assert_eq!(elements(&got.bytes), [(1 + (token % 14) as u8, vec![7; 8])], "viewer {token}");
        assert_eq!(got.packet().payload_type(), 96 + (token % 20) as u8);
        assert_eq!(got.packet().ssrc(), video_ssrc(token));
    }
}

#[test]
fn shapes_are_given_up_with_their_last_viewer() {
    let mut world = World::published();
    let mut ids = Vec::new();
    for round in 0..3 {
        for token in 0..20 {
            let mut input = viewer(token);
            input.tracks[1].payloads[0].payload_type = 96 + token as u8;
            ids.push(world.join_as(&input));
        }
        world.receive(&frame(round, u32::from(round) * 3_600, true)).unwrap();
        for id in ids.drain(..) {
            world.stream.leave(id);
        }
    }
    // One more, with the profile of none before: it gets its own header.
    let mut input = viewer(30);
    input.tracks[1].extensions = [(5, Extension::Mid)].into_iter().collect();
    world.join_as(&input);
    world.receive(&frame(3, 10_800, true)).unwrap();
    assert_eq!(elements(&world.video(30).last().unwrap().bytes), [(5, b"1".to_vec())]);
    assert_eq!(world.got(30, audio_ssrc(30)), []);
}

#[test]
fn elements_too_long_for_one_byte_headers_need_a_viewer_that_takes_two() {
    let mut world = World::published();
    for (token, form) in [(1, Form::Either), (2, Form::OneByte)] {
        let mut input = viewer(token);
        input.tracks[1].extensions = [(5, Extension::AbsCaptureTime)].into_iter().collect();
        input.tracks[1].form = form;
        world.join_as(&input);
    }
    let long = vec![3; 40];
    world.receive(&frame(1, 0, true)).unwrap();
    world.receive(&frame(2, 3_600, false).with(CAPTURE_ID, &long)).unwrap();
    assert_eq!(elements(&world.video(1)[1].bytes), [(5, long)]);
    assert_eq!(elements(&world.video(2)[1].bytes), []);
}

#[test]
fn a_dependency_descriptor_goes_whole_or_not_at_all() {
    let mut world = World::published();
    for (token, form) in [(1, Form::Either), (2, Form::OneByte)] {
        let mut input = viewer(token);
        input.tracks[1].extensions = [(5, Extension::DependencyDescriptor)].into_iter().collect();
        input.tracks[1].form = form;
        world.join_as(&input);
    }
    let (structure, plain) = (vec![9; 60], vec![8, 0, 1]);
    world.receive(&frame(1, 0, true).with(DESCRIPTOR_ID, &structure)).unwrap();
    world.receive(&frame(2, 3_600, false).with(DESCRIPTOR_ID, &plain)).unwrap();
    let got = |token| -> Vec<_> { world.video(token).iter().map(|got| elements(&got.bytes)).collect() };
    assert_eq!(got(1), [[(5, structure)], [(5, plain)]]);
    assert_eq!(got(2), [[], []]);
}

#[test]
fn more_extension_than_a_header_holds_is_left_out() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].extensions =
        [(5, Extension::AbsCaptureTime), (6, Extension::Mid)].into_iter().collect::<ExtensionMap>();
    input.tracks[1].mid = "m".repeat(200);
    world.join_as(&input);
    world.receive(&frame(1, 0, true)).unwrap();
    let packet = frame(2, 3_600, false).with(CAPTURE_ID, &[1; 100]).with(CAPTURE_ID, &[2; 100]);
    world.receive(&packet).unwrap();
    assert_eq!(elements(&world.video(1)[1].bytes), [(5, vec![1; 100])]);
}
