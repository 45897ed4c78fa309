//! Acknowledgement windows in both directions, and pings.

use crate::common::*;
use rtmp::MediaKind;
use rtmp::client::ClientConfig;
use rtmp::server::ServerConfig;

#[test]
fn the_server_acknowledges_in_the_peers_window() {
    let mut server = server_publishing(&ServerConfig::default());
    server.handle_input(&message0(2, 0, 5, &10_000u32.to_be_bytes())).unwrap();
    let mut acknowledged = Vec::new();
    for _ in 0..40 {
        server.handle_input(&message0(6, 0, 9, &[0; 1000])).unwrap();
        for said in said(&mut server) {
            let Said::Control(3, payload) = said else { panic!("{said:?}") };
            let count = u32::from_be_bytes(payload.try_into().unwrap());
            assert_eq!(u64::from(count), server.bytes_in());
            acknowledged.push(count);
        }
    }
    assert!((3..=4).contains(&acknowledged.len()), "{acknowledged:?}");
    assert!(acknowledged.windows(2).all(|pair| (10_000..12_100).contains(&(pair[1] - pair[0]))));
}

#[test]
fn a_window_of_one_byte_does_not_make_an_echo() {
    let mut server = server_publishing(&ServerConfig::default());
    server.handle_input(&message0(2, 0, 5, &1u32.to_be_bytes())).unwrap();
    server.output().clear();
    for _ in 0..100 {
        server.handle_input(&message0(6, 0, 9, &[0; 10])).unwrap();
    }
    assert!(said(&mut server).len() <= 1);
}

#[test]
fn set_peer_bandwidth_is_answered_with_a_window_if_it_is_new() {
    let mut server = server_connected(&ServerConfig::default());
    let bandwidth = message0(2, 0, 6, &[0, 0, 0x40, 0, 2]);
    server.handle_input(&bandwidth).unwrap();
    assert_eq!(said(&mut server), [Said::Control(5, vec![0, 0, 0x40, 0])]);
    server.handle_input(&bandwidth).unwrap();
    assert_eq!(said(&mut server), []);
}

#[test]
fn a_player_acknowledges_what_was_written_past_the_session() {
    let mut pair = Pair::play(&ClientConfig::default());
    let mut bytes = Vec::new();
    for _ in 0..40 {
        rtmp::chunk::write_play_message(&mut bytes, MediaKind::Video, 0, &[0; 100_000]);
    }
    pair.client.handle_input(&bytes).unwrap();
    assert!(pair.client.bytes_in() > bytes.len() as u64);
    let count = pair.client.bytes_in() as u32;
    assert!(pair.client.output().ends_with(&count.to_be_bytes()));
    pair.run();
}

#[test]
fn pings_are_answered_both_ways() {
    let mut pair = Pair::play(&ClientConfig::default());
    pair.client.handle_input(&message0(2, 0, 4, &[0, 6, 0, 0, 0, 77])).unwrap();
    assert!(pair.client.output().ends_with(&[0, 7, 0, 0, 0, 77]));
    let mut server = server_playing(&ServerConfig::default());
    server.handle_input(&message0(2, 0, 4, &[0, 6, 0, 0, 0, 9])).unwrap();
    assert_eq!(said(&mut server), [Said::Control(4, vec![0, 7, 0, 0, 0, 9])]);
}

#[test]
fn control_messages_that_are_too_short_end_the_session() {
    for (type_id, payload) in
        [(3u8, &[0, 0, 1][..]), (5, &[1]), (6, &[]), (4, &[0]), (4, &[0, 6, 1]), (4, &[0, 7])]
    {
        let mut server = server_connected(&ServerConfig::default());
        let result = server.handle_input(&message0(2, 0, type_id, payload));
        assert_eq!(result, Err(rtmp::RtmpError::ControlMalformed), "{type_id} {payload:?}");
    }
    let mut server = server_connected(&ServerConfig::default());
    server.handle_input(&message0(2, 0, 4, &[0, 3, 0, 0])).unwrap();
    server.handle_input(&message0(2, 0, 4, &[0, 99])).unwrap();
}
