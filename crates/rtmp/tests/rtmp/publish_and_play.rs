//! A client and a server joined back to back: publishing and playing from handshake to end.

use crate::common::*;
use rtmp::MediaKind::{Audio, Data, Video};
use rtmp::MediaMessage;
use rtmp::amf0::Value;
use rtmp::chunk::{ChunkReader, write_play_message};
use rtmp::client::{ClientConfig, ClientEvent, HandshakeForm};
use rtmp::server::ServerEvent;

/// Enhanced AV1 and Opus beside legacy bodies; sizes around chunk and allocation bounds.
fn media() -> Vec<MediaMessage> {
    let large: Vec<u8> = (0..200_000u32).map(|index| (index / 7) as u8).collect();
    [
        (Data, 0, &b"\x02\x00\x0aonMetaData\x08\0\0\0\0\0\0\x09"[..]),
        (Video, 0, b"\x90av01\x81\x01\x0c\x00"),
        (Audio, 0, b"\x90OpusOpusHead"),
        (Video, 0xff_fff0, &large),
        (Audio, 0xff_fffe, b""),
        (Audio, 0xff_ffff, b"\x91Opus"),
        (Video, 0x100_0010, &large[..60_000]),
        (Video, 0x100_0020, &large[..60_001]),
        (Video, 0x100_0020, &large[..16_384]),
        (Video, 5, b"\x27\x01\0\0\0again"),
    ]
    .map(|(kind, timestamp, payload)| MediaMessage {
        kind,
        timestamp,
        length: payload.len() as u32,
        payload: payload.to_vec(),
    })
    .to_vec()
}

fn configs() -> Vec<ClientConfig> {
    let mut configs = Vec::new();
    for (handshake, chunk_size) in [
        (HandshakeForm::Simple, 60_000),
        (HandshakeForm::DigestScheme0, 128),
        (HandshakeForm::DigestScheme1, 1),
    ] {
        configs.push(ClientConfig { handshake, chunk_size, ..ClientConfig::default() });
    }
    configs
}

#[test]
fn what_is_published_arrives() {
    for config in configs() {
        let mut pair = Pair::publish(&config);
        assert_eq!(pair.client_events, [ClientEvent::Started]);
        let [ServerEvent::Connect(connect), ServerEvent::Publish(publish)] = &pair.server_events[..] else {
            panic!("{:?}", pair.server_events)
        };
        assert_eq!(connect.app, "live");
        // Behind the handshake.
        let messages = read_all(&mut ChunkReader::new(WIDE), &pair.client_bytes[1 + 2 * 1536..]).unwrap();
        let Said::Values(values) = messages.into_iter().next().unwrap().into() else { panic!() };
        for (name, value) in [
            ("tcUrl", "rtmp://localhost:1935/live".into()),
            ("fourCcList", Value::StrictArray(vec!["*".into()])),
            ("videoFourCcInfoMap", object(&[("*", 4.0.into())])),
            ("capsEx", f64::from(2 | 4 | 8).into()),
        ] {
            assert_eq!(values[2].get(name), Some(&value), "{name}");
        }
        assert_eq!((&*publish.name, &*publish.query, &*publish.mode), ("stream", "token=secret", "live"));
        pair.server_events.clear();
        for message in media() {
            pair.client.send_media(message.kind, message.timestamp, &message.payload);
        }
        pair.run();
        assert!(pair.server_events == media().into_iter().map(ServerEvent::Media).collect::<Vec<_>>());
        pair.server_events.clear();
        pair.client.end();
        pair.run();
        assert_eq!(pair.server_events, [ServerEvent::StreamEnded], "once, though two commands say it");
    }
}

#[test]
fn what_is_written_for_players_arrives() {
    for config in configs() {
        let mut pair = Pair::play(&config);
        let statuses: Vec<_> = pair.client_events.iter().skip(1).collect();
        assert_eq!(pair.client_events[0], ClientEvent::Started);
        assert!(statuses.is_empty(), "{statuses:?}");
        pair.client_events.clear();
        let mut bytes = Vec::new();
        for message in media() {
            write_play_message(&mut bytes, message.kind, message.timestamp, &message.payload);
        }
        pair.client.handle_input(&bytes).unwrap();
        pair.run();
        assert!(pair.client_events == media().into_iter().map(ClientEvent::Media).collect::<Vec<_>>());
        pair.client.end();
        pair.run();
        assert_eq!(pair.server_events.last(), Some(&ServerEvent::StreamEnded));
    }
}
