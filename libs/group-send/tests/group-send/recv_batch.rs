//! `RecvBatch` between real sockets on loopback: every byte, every source, each datagram once.
#![cfg(target_os = "linux")]

use crate::common::prefer;
use group_send::{BackendKind, Recipient, RecvBatch, RecvConfig, Sender, Slot, socket};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// A socket at a free port of this address; reads time out, which only a failing test waits for.
fn bind(address: impl Into<IpAddr>) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::new(address.into(), 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    socket
}

/// Bytes that differ with the number and the length.
fn payload(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + len + at * 7) as u8).collect()
}

/// Receives until there are so many datagrams; bytes and sources in order.
fn receive(batch: &mut RecvBatch, receiver: &UdpSocket, datagrams: usize) -> Vec<(Vec<u8>, SocketAddr)> {
    let mut all = Vec::new();
    while all.len() < datagrams {
        let count = batch.recv_wait(receiver).unwrap();
        assert_eq!((batch.len(), batch.is_empty()), (count, count == 0));
        all.extend(batch.iter().map(|datagram| (datagram.payload.to_vec(), datagram.source)));
    }
    assert_eq!(batch.recv(receiver).unwrap_err().kind(), ErrorKind::WouldBlock, "and no more");
    assert_eq!((batch.len(), batch.iter().count()), (0, 0), "nothing of the call before is left");
    all
}

/// Sends equal packets and a shorter last one as one message that the kernel cuts.
fn send_segmented(from: &UdpSocket, to: SocketAddr, packets: &[Vec<u8>]) {
    let mut sender = Sender::new(from, &prefer(&[BackendKind::Gso])).unwrap();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut slots = [Slot::default()];
    let recipient = Recipient { destination: to, prepend: &[], append: &[] };
    assert!(!sender.send_group(&packets, &[recipient], &mut slots).blocked);
    assert_eq!(slots, [Slot { sent: packets.len() as u32, ..Slot::default() }]);
}

#[test]
fn datagrams_of_many_senders_arrive_in_order_with_their_sources() {
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let receiver = bind(address);
        let senders = [bind(address), bind(address), bind(address)];
        let lens = [0, 1, 12, 1200, 1472, 9000, 65_507, 0, 0, 64];
        for messages in [1, 3, 32] {
            let mut sent = Vec::new();
            for (number, len) in lens.into_iter().enumerate() {
                let sender = &senders[number % senders.len()];
                sender.send_to(&payload(number, len), receiver.local_addr().unwrap()).unwrap();
                sent.push((payload(number, len), sender.local_addr().unwrap()));
            }
            let mut batch = RecvBatch::new(RecvConfig { messages, ..RecvConfig::default() });
            assert_eq!(receive(&mut batch, &receiver, sent.len()), sent, "{address}, {messages} messages");
            assert_eq!(batch.truncated(), 0);
        }
    }
}

#[test]
fn a_dual_stack_socket_names_ipv4_senders_by_their_ipv4_address() {
    let receiver = socket::bind_dual_stack(0).unwrap();
    receiver.set_nonblocking(false).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let (ipv4, ipv6) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv6Addr::LOCALHOST));
    ipv4.send_to(b"four", (Ipv4Addr::LOCALHOST, port)).unwrap();
    ipv6.send_to(b"six", (Ipv6Addr::LOCALHOST, port)).unwrap();
    let mut batch = RecvBatch::new(RecvConfig::default());
    let expected =
        [(b"four".to_vec(), ipv4.local_addr().unwrap()), (b"six".to_vec(), ipv6.local_addr().unwrap())];
    assert_eq!(receive(&mut batch, &receiver, 2), expected);
}

#[test]
fn a_call_says_whether_it_was_filled() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    for number in 0..10 {
        sender.send_to(&payload(number, 10), receiver.local_addr().unwrap()).unwrap();
    }
    let mut batch = RecvBatch::new(RecvConfig { messages: 4, message_bytes: 100 });
    let mut left = 10;
    while left > 0 {
        left -= batch.recv_wait(&receiver).unwrap();
        assert_eq!(batch.is_full(), batch.len() == 4);
    }
    assert_eq!(batch.recv(&receiver).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(!batch.is_full());
}

#[test]
fn sizes_out_of_range_become_the_nearest() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    for (config, len) in [
        (RecvConfig { messages: 0, message_bytes: u32::MAX }, 65_507),
        (RecvConfig { messages: u16::MAX, message_bytes: 0 }, 1),
    ] {
        sender.send_to(&payload(1, len), receiver.local_addr().unwrap()).unwrap();
        let mut batch = RecvBatch::new(config);
        let expected = [(payload(1, len), sender.local_addr().unwrap())];
        assert_eq!(receive(&mut batch, &receiver, 1), expected, "{config:?}");
    }
}

#[test]
fn datagrams_too_long_are_dropped_and_counted_and_their_neighbours_are_not() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    for (number, len) in [100, 101, 0, 5000, 99].into_iter().enumerate() {
        sender.send_to(&payload(number, len), receiver.local_addr().unwrap()).unwrap();
    }
    let mut batch = RecvBatch::new(RecvConfig { messages: 8, message_bytes: 100 });
    let source = sender.local_addr().unwrap();
    let expected = [(payload(0, 100), source), (payload(2, 0), source), (payload(4, 99), source)];
    assert_eq!(receive(&mut batch, &receiver, 3), expected);
    assert_eq!(batch.truncated(), 2);

    sender.send_to(&payload(0, 101), receiver.local_addr().unwrap()).unwrap();
    assert_eq!(batch.recv_wait(&receiver).unwrap(), 0, "all that came was too long");
    assert_eq!((batch.iter().count(), batch.truncated()), (0, 3));
}

#[test]
fn what_the_kernel_put_together_is_taken_apart() {
    for address in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let (receiver, sender) = (bind(address), bind(address));
        socket::enable_gro(&receiver).unwrap();
        let mut batch = RecvBatch::new(RecvConfig { messages: 1, ..RecvConfig::default() });
        for (count, len, last) in
            [(2, 1200, 1200), (3, 1200, 1), (7, 1, 1), (44, 1000, 999), (64, 500, 500), (64, 1000, 7)]
        {
            let mut sent: Vec<_> = (0..count - 1).map(|number| payload(number, len)).collect();
            sent.push(payload(count - 1, last));
            send_segmented(&sender, receiver.local_addr().unwrap(), &sent);
            assert_eq!(batch.recv_wait(&receiver).unwrap(), count, "one message brings all");
            let mut source = batch.iter().map(|datagram| datagram.source);
            assert!(source.all(|source| source == sender.local_addr().unwrap()));
            let received: Vec<_> = batch.iter().map(|datagram| datagram.payload.to_vec()).collect();
            assert_eq!(received, sent, "{address}: {count} of {len}, the last of {last}");
        }
    }
}

#[test]
fn a_row_that_does_not_fit_loses_its_end_only() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    socket::enable_gro(&receiver).unwrap();
    let mut sent: Vec<_> = (0..5).map(|number| payload(number, 1000)).collect();
    sent.push(payload(5, 10));
    // (room, whole datagrams in it); those that are there are all of the row or do not include the
    // short one
    for (message_bytes, whole) in [(5010, 6), (5009, 5), (5000, 5), (4999, 4), (1000, 1), (999, 0)] {
        send_segmented(&sender, receiver.local_addr().unwrap(), &sent);
        let mut batch = RecvBatch::new(RecvConfig { messages: 2, message_bytes });
        assert_eq!(batch.recv_wait(&receiver).unwrap(), whole, "room for {message_bytes}");
        let received: Vec<_> = batch.iter().map(|datagram| datagram.payload.to_vec()).collect();
        assert_eq!(received, sent[..whole]);
        assert_eq!(batch.truncated(), (sent.len() - whole) as u64);
    }
}

#[test]
fn payloads_can_be_changed_in_place() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    socket::enable_gro(&receiver).unwrap();
    let sent: Vec<_> = [300, 300, 300, 20].into_iter().map(|len| payload(len, len)).collect();
    send_segmented(&sender, receiver.local_addr().unwrap(), &sent);
    sender.send_to(&[], receiver.local_addr().unwrap()).unwrap();
    let mut batch = RecvBatch::new(RecvConfig::default());
    let mut datagrams = 0;
    while datagrams < 5 {
        let before = batch.recv_wait(&receiver).unwrap();
        for (number, datagram) in batch.iter_mut().enumerate() {
            assert_eq!(datagram.payload, sent.get(datagrams + number).map_or(&[][..], |bytes| bytes));
            datagram.payload.iter_mut().for_each(|byte| *byte ^= number as u8 + 1);
        }
        for (number, datagram) in batch.iter().enumerate() {
            let original: Vec<u8> = datagram.payload.iter().map(|byte| byte ^ (number as u8 + 1)).collect();
            assert_eq!(original, sent.get(datagrams + number).map_or(&[][..], |bytes| bytes));
        }
        datagrams += before;
    }
}

#[test]
fn without_gro_segments_come_one_by_one() {
    let (receiver, sender) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
    let sent: Vec<_> = (0..8).map(|number| payload(number, 700)).collect();
    send_segmented(&sender, receiver.local_addr().unwrap(), &sent);
    let mut batch = RecvBatch::new(RecvConfig { messages: 1, message_bytes: 2048 });
    let received = receive(&mut batch, &receiver, 8);
    assert_eq!(received, sent.into_iter().map(|p| (p, sender.local_addr().unwrap())).collect::<Vec<_>>());
}

#[test]
fn a_socket_of_another_kind_is_refused() {
    let (receiver, sender) = std::os::unix::net::UnixDatagram::pair().unwrap();
    sender.send(b"no address").unwrap();
    let mut batch = RecvBatch::new(RecvConfig::default());
    assert_eq!(batch.recv(&receiver).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(batch.iter().count(), 0);
}

#[test]
fn random_bursts_of_several_senders_arrive_whole_and_in_order() {
    let seed = 0x2545_f491_4f6c_dd1d_u64;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for round in 0..60 {
        let address = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()][round % 2];
        let receiver = bind(address);
        socket::size_buffers(&receiver, 1 << 20).unwrap();
        let joined = random.below(3) > 0;
        if joined {
            socket::enable_gro(&receiver).unwrap();
        }
        let to = receiver.local_addr().unwrap();
        let senders = [bind(address), bind(address), bind(address)];
        let messages = [1, 2, 5, 32][random.below(4)];
        let mut batch = RecvBatch::new(RecvConfig { messages, ..RecvConfig::default() });
        for _ in 0..20 {
            let mut sent = Vec::new();
            for _ in 0..=random.below(6) {
                let sender = &senders[random.below(3)];
                let run = random.run();
                send_segmented(sender, to, &run);
                sent.extend(run.into_iter().map(|bytes| (bytes, sender.local_addr().unwrap())));
            }
            let received = receive(&mut batch, &receiver, sent.len());
            // The kernel may join datagrams of one sender past those of another, but never change
            // their order.
            for sender in senders.each_ref().map(|sender| sender.local_addr().unwrap()) {
                let of = |all: &[(Vec<u8>, SocketAddr)]| -> Vec<Vec<u8>> {
                    all.iter()
                        .filter(|(_, source)| *source == sender)
                        .map(|(bytes, _)| bytes.clone())
                        .collect()
                };
                assert_eq!(of(&received), of(&sent), "{address}, joined: {joined}, {messages} messages");
            }
            assert_eq!(received.len(), sent.len());
        }
        assert_eq!(batch.truncated(), 0);
    }
}

/// A row of numbers that look random (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Up to 16 packets: equal ones, equal but for the last, or all different; some of them empty.
    fn run(&mut self) -> Vec<Vec<u8>> {
        let (count, len, source) = (1 + self.below(16), self.below(1400), self.below(3));
        (0..count)
            .map(|number| match source {
                0 => payload(number, len),
                1 if number + 1 == count => payload(number, self.below(len + 1)),
                1 => payload(number, len),
                _ => payload(number, self.below(1400)),
            })
            .collect()
    }
}
