//! A client without UDP connects over TCP, through the framing of RFC 4571, cut as a network cuts
//! it.

use crate::common::{CLIENT, MAPPED, Random, SERVER, World, address, client_config, millis, server_config};
use rtc::tcp_framing::{Deframer, frame_header};
use rtc::{Candidate, LocalAddress, Path, Peer, Transport};

/// What one end has written to the connection, and how much the other has read.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    deframer: Deframer,
}

fn write(from: &mut Peer, stream: &mut Stream) {
    while let Some(transmit) = from.poll_transmit() {
        assert_eq!(transmit.path.transport, Transport::Tcp);
        stream.bytes.extend(frame_header(transmit.bytes.len()));
        stream.bytes.extend(transmit.bytes);
    }
}

/// Delivers some of the bytes in flight.
fn read(to: &mut Peer, now: std::time::Instant, path: Path, stream: &mut Stream, count: usize) {
    let count = count.min(stream.bytes.len());
    stream.deframer.push(&stream.bytes[..count]);
    stream.bytes.drain(..count);
    while let Some(datagram) = stream.deframer.pop().unwrap() {
        let _ = to.handle_signal(now, path, datagram);
    }
}

#[test]
fn a_client_connects_over_tcp_however_the_bytes_are_cut() {
    let mut config = client_config();
    config.local_addresses = vec![LocalAddress { transport: Transport::Tcp, address: address(CLIENT) }];
    config.remote_candidates = vec![Candidate::host(address(SERVER), Transport::Tcp, 65535)];
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let now = crate::common::start();
        let mut client = Peer::new(config.clone(), now).unwrap();
        let mut server = Peer::new(server_config(), now).unwrap();
        let at_server = Path::tcp(address(SERVER), address(MAPPED));
        let at_client = Path::tcp(address(CLIENT), address(SERVER));
        let (mut up, mut down) = (Stream::default(), Stream::default());
        let mut connected = 0;
        for step in 0..5000 {
            let now = now + millis(step);
            write(&mut client, &mut up);
            write(&mut server, &mut down);
            let most = 1 + random.below(400) as usize;
            read(&mut server, now, at_server, &mut up, most);
            read(&mut client, now, at_client, &mut down, most);
            for peer in [&mut client, &mut server] {
                if peer.next_timeout().is_some_and(|due| due <= now) {
                    peer.handle_timeout(now);
                }
                while let Some(event) = peer.poll_event() {
                    connected += usize::from(matches!(event, rtc::Event::Connected(_)));
                }
            }
            if connected == 2 && server.path().is_some() {
                break;
            }
        }
        assert_eq!(
            (connected, server.path(), client.path()),
            (2, Some(at_server), Some(at_client)),
            "seed {seed}"
        );
    }
}

#[test]
fn a_connection_that_ends_takes_its_path_along() {
    let mut world = World::connected();
    let tcp = Path::tcp(address(SERVER), address("198.51.100.7:9999"));
    assert_eq!(world.inject(tcp, &crate::common::genuine_check(1).bytes()), rtc::Signal::Accepted);
    assert_eq!(world.server.peer.path(), Some(tcp));
    let now = world.now;
    world.server.peer.path_closed(now, &tcp);
    assert!(!world.server.peer.is_valid(&tcp));
    // The other nominated path takes over at once.
    assert_eq!(world.server.peer.path(), Some(crate::common::client_path()));
    world.server.peer.path_closed(now, &crate::common::client_path());
    assert_eq!(world.server.peer.path(), None);
    assert!(!world.server.peer.is_closed());
    // The next check brings it back.
    assert!(world.run_until(millis(5000), |world| world.server.peer.path().is_some()));
}
