//! The back end against a scripted kernel: order, room, and devices that drop, stall and vanish.
//!
//! Everything that reaches the wire, by either path, ends up in one list, so that order can be
//! compared.

use super::room::{REOPEN_CALLS, RESTING_CALLS, STALLS_MAX};
use super::*;
use crate::error::SendError;
use crate::recv::Ecn;
use socket2::SockRef;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

/// How a datagram arrived, and its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Frame,
    Socket,
}
use How::{Frame, Socket};

/// The kernel and the wire behind it.
struct World {
    wire: Vec<(How, Vec<u8>)>,
    /// Frames written and not sent.
    ring: VecDeque<Vec<u8>>,
    /// Frames sent and not given back.
    held: usize,
    /// Whether the device keeps the frames that it has sent.
    holds: bool,
    capacity: usize,
    /// What the next kicks do: send so many frames, and answer. All after them send everything.
    kicks: VecDeque<(usize, Result<(), i32>)>,
    kicked: usize,
    has_ring: bool,
    can_reopen: bool,
    generation: u64,
    /// Last byte of the next hop's MAC address.
    mac: u8,
    mtu: u32,
    socket_idle: bool,
    /// Datagrams that the socket still takes.
    socket_room: usize,
    errors: Vec<(SocketAddr, SendError)>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<World>>);

impl Fake {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(World {
            wire: Vec::new(),
            ring: VecDeque::new(),
            held: 0,
            holds: false,
            capacity: 1024,
            kicks: VecDeque::new(),
            kicked: 0,
            has_ring: true,
            can_reopen: true,
            generation: 1,
            mac: 2,
            mtu: 1500,
            socket_idle: true,
            socket_room: usize::MAX,
            errors: Vec::new(),
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("one thread")
    }

    fn backend(&self) -> AfXdp<Fake> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bind");
        let origin = Origin::read(&SockRef::from(&socket)).expect("a UDP socket");
        AfXdp::new(self.clone(), Box::new(self.clone()), origin)
    }

    /// Sends payloads to recipients, all of which must be accepted, and forgets the wire.
    fn take_wire(&self) -> Vec<(How, Vec<u8>)> {
        std::mem::take(&mut self.world().wire)
    }
}

impl Kernel for Fake {
    fn refresh(&mut self) -> u64 {
        self.world().generation
    }

    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop> {
        let world = self.world();
        let source = Ipv4Addr::new(192, 0, 2, 1).into();
        let (source_mac, destination_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, world.mac]);
        let hop = NextHop {
            interface_index: 1,
            source_mac,
            destination_mac,
            source,
            mtu: world.mtu,
            hop_limit: 64,
        };
        // Odd hosts are not on this interface.
        let SocketAddr::V4(v4) = destination else { return None };
        v4.ip().octets()[3].is_multiple_of(2).then_some(hop)
    }

    fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let mut world = self.world();
        if !world.has_ring || world.ring.len() + world.held >= world.capacity {
            return false;
        }
        let mut frame = vec![0xee; len];
        write(&mut frame);
        world.ring.push_back(frame);
        true
    }

    fn kick(&mut self) -> Result<(), i32> {
        let mut world = self.world();
        world.kicked += 1;
        let (frames, answer) = world.kicks.pop_front().unwrap_or((usize::MAX, Ok(())));
        let frames = frames.min(world.ring.len());
        for _ in 0..frames {
            let frame = world.ring.pop_front().expect("counted");
            // The last one of a kick that ends so was dropped by the device.
            let dropped = answer == Err(libc::EBUSY);
            if !dropped {
                world.wire.push((Frame, frame));
            }
        }
        if world.holds {
            world.held += frames;
        }
        answer
    }

    fn reclaim(&mut self) -> usize {
        let mut world = self.world();
        if !world.holds {
            world.held = 0;
        }
        world.ring.len() + world.held
    }

    fn close(&mut self) -> usize {
        let mut world = self.world();
        let lost = world.ring.len() + world.held;
        world.ring.clear();
        (world.has_ring, world.held) = (false, 0);
        lost
    }

    fn reopen(&mut self) -> bool {
        let mut world = self.world();
        world.has_ring = world.can_reopen;
        world.has_ring
    }

    fn socket_is_idle(&self) -> bool {
        self.world().socket_idle
    }

    fn reports_errors(&self) -> bool {
        true
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        let pending = std::mem::take(&mut self.world().errors);
        pending.iter().for_each(|&(destination, error)| errors.add(destination, error));
        !pending.is_empty()
    }

    fn invalid_descriptors(&self) -> u64 {
        0
    }
}

/// As the socket.
impl Backend for Fake {
    fn kind(&self) -> BackendKind {
        BackendKind::Sendmsg
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let mut world = self.world();
        for (datagram, outcome) in datagrams.iter().zip(outcomes) {
            if world.socket_room == 0 {
                return;
            }
            world.socket_room -= 1;
            world.wire.push((Socket, datagram.parts.concat()));
            *outcome = Outcome::Sent;
        }
    }
}

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, number], 5004))
}

/// Sends each recipient its datagram, which is its position in the list and this many bytes more;
/// returns outcomes.
fn send(backend: &mut AfXdp<Fake>, row: &[(SocketAddr, usize)]) -> Vec<Outcome> {
    let payloads: Vec<Vec<u8>> =
        (0u8..).zip(row).map(|(n, (_, len))| [vec![n], vec![0xdd; *len]].concat()).collect();
    let datagrams: Vec<_> = row
        .iter()
        .zip(&payloads)
        .map(|((destination, _), payload)| Datagram {
            destination,
            parts: [&payload[..1], &payload[1..], &[]],
            departure_ns: 0,
            ecn: Ecn::NotEct,
        })
        .collect();
    let mut outcomes = vec![Outcome::Unsent; row.len()];
    backend.send(&datagrams, &mut outcomes);
    outcomes
}

/// Which path each datagram took, by position in the list.
fn order(wire: &[(How, Vec<u8>)]) -> Vec<(How, u8)> {
    wire.iter().map(|(how, bytes)| (*how, if *how == Frame { bytes[42] } else { bytes[0] })).collect()
}

fn sent(count: usize) -> Vec<Outcome> {
    vec![Outcome::Sent; count]
}

const LONG: usize = 1500;

#[test]
fn frames_leave_in_order_by_one_kick() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    let row: Vec<_> = (0..200).map(|n| (host(2 + n / 4 * 2), usize::from(n))).collect();
    assert_eq!(send(&mut backend, &row), sent(200));
    let wire = fake.take_wire();
    assert_eq!(order(&wire), (0..200).map(|n| (Frame, n)).collect::<Vec<_>>());
    assert!(wire.iter().zip(&row).all(|((_, frame), (_, len))| frame.len() == 42 + 1 + len));
    assert_eq!(fake.world().kicked, 1);
}

#[test]
fn what_is_not_on_the_interface_goes_by_the_socket_among_the_others() {
    let fake = Fake::new();
    let row = [(host(2), 5), (host(3), 5), (host(5), 5), (host(4), 5), (host(7), 5)];
    assert_eq!(send(&mut fake.backend(), &row), sent(5));
    let mut arrived = order(&fake.take_wire());
    arrived.sort_by_key(|(_, n)| *n);
    assert_eq!(arrived, [(Frame, 0), (Socket, 1), (Socket, 2), (Frame, 3), (Socket, 4)]);
}

#[test]
fn what_is_too_long_goes_by_the_socket_in_its_place() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    for _ in 0..3 {
        let lengths = [10, LONG, 10, 1471, 1472, LONG, 10];
        assert_eq!(send(&mut backend, &lengths.map(|len| (host(2), len))), sent(7));
        // 1500 bytes of IP are 1472 of payload, of which one is the position in the list.
        let hows = [Frame, Socket, Frame, Frame, Socket, Socket, Frame];
        assert_eq!(order(&fake.take_wire()), hows.into_iter().zip(0..7).collect::<Vec<_>>());
    }
}

#[test]
fn datagrams_with_a_departure_time_go_by_the_socket() {
    let fake = Fake::new();
    let datagram =
        Datagram { destination: &host(2), parts: [b"x", b"", b""], departure_ns: 1, ecn: Ecn::NotEct };
    let mut outcomes = [Outcome::Unsent];
    fake.backend().send(&[datagram], &mut outcomes);
    assert_eq!(order(&fake.take_wire()), [(Socket, b'x')]);
}

#[test]
fn a_recipient_waits_to_leave_the_ring_until_its_frames_have_left() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().holds = true;
    let row = [(host(2), 10), (host(2), LONG), (host(2), 10)];
    assert_eq!(send(&mut backend, &row), [Outcome::Sent, Outcome::Unsent, Outcome::Unsent]);
    assert_eq!(send(&mut backend, &row[1..]), [Outcome::Unsent; 2]);
    assert_eq!(order(&fake.take_wire()), [(Frame, 0)]);
    fake.world().holds = false;
    assert_eq!(send(&mut backend, &row[1..]), sent(2));
    assert_eq!(order(&fake.take_wire()), [(Socket, 0), (Frame, 1)]);
}

#[test]
fn a_recipient_stays_with_the_socket_until_its_datagrams_have_left() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().socket_idle = false;
    let row = [(host(2), 10), (host(2), LONG), (host(2), 10)];
    assert_eq!(send(&mut backend, &row), sent(3));
    assert_eq!(order(&fake.take_wire()), [(Socket, 0), (Socket, 1), (Socket, 2)]);
    fake.world().socket_idle = true;
    assert_eq!(send(&mut backend, &row[..1]), sent(1));
    assert_eq!(order(&fake.take_wire()), [(Frame, 0)]);
}

#[test]
fn an_idle_socket_is_not_idle_any_more_while_it_is_used() {
    /// The kernel holds every datagram that the socket gives it.
    #[derive(Clone)]
    struct Holding(Fake);
    impl Backend for Holding {
        fn kind(&self) -> BackendKind {
            BackendKind::Sendmsg
        }
        fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
            self.0.send(datagrams, outcomes);
            self.0.world().socket_idle = false;
        }
    }
    let fake = Fake::new();
    let mut backend = fake.backend();
    backend.fallback = Box::new(Holding(fake.clone()));
    let row = [(host(2), LONG), (host(2), 10), (host(4), 10)];
    assert_eq!(send(&mut backend, &row), sent(3));
    assert_eq!(order(&fake.take_wire()), [(Socket, 0), (Socket, 1), (Socket, 2)]);
}

#[test]
fn kernels_that_send_32_frames_a_kick_are_kicked_until_all_are_sent() {
    let fake = Fake::new();
    fake.world().kicks =
        VecDeque::from([(32, Err(libc::EAGAIN)), (32, Err(libc::EAGAIN)), (32, Err(libc::EAGAIN))]);
    assert_eq!(send(&mut fake.backend(), &[(host(2), 3); 100]), sent(100));
    assert_eq!(order(&fake.take_wire()), (0..100).map(|n| (Frame, n)).collect::<Vec<_>>());
    assert_eq!(fake.world().kicked, 4);
}

#[test]
fn frames_that_a_kick_left_go_first_in_the_next_call() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().kicks = VecDeque::from(vec![(0, Err(libc::EAGAIN)); 10]);
    assert_eq!(send(&mut backend, &[(host(2), 3), (host(2), 3)]), sent(2));
    assert_eq!(fake.take_wire(), []);
    fake.world().kicks.clear();
    assert_eq!(send(&mut backend, &[(host(3), 3)]), sent(1));
    assert_eq!(order(&fake.take_wire()), [(Frame, 0), (Frame, 1), (Socket, 0)]);
}

#[test]
fn a_full_ring_leaves_the_rest_unsent_and_goes_on_when_there_is_room() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    (fake.world().capacity, fake.world().holds) = (8, true);
    let row = [(host(2), 3); 20];
    let outcomes = send(&mut backend, &row);
    assert_eq!(outcomes[..8], sent(8));
    assert_eq!(outcomes[8..], [Outcome::Unsent; 12]);
    fake.world().holds = false;
    // Eight fit at a time, and eight more each time those in flight are done.
    assert_eq!(send(&mut backend, &row[8..]), sent(12));
    assert_eq!(fake.take_wire().len(), 20);
}

#[test]
fn a_full_socket_stops_the_call() {
    let fake = Fake::new();
    fake.world().socket_room = 1;
    let outcomes = send(&mut fake.backend(), &[(host(2), 3), (host(3), 3), (host(5), 3), (host(2), 3)]);
    assert_eq!(outcomes, [Outcome::Sent, Outcome::Sent, Outcome::Unsent, Outcome::Unsent]);
    assert_eq!(fake.take_wire().len(), 2);
}

#[test]
fn frames_that_the_device_drops_are_counted_and_stop_nobody() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().kicks = VecDeque::from([(1, Err(libc::EBUSY)), (1, Err(libc::EBUSY))]);
    assert_eq!(send(&mut backend, &[(host(2), 3); 10]), sent(10));
    assert_eq!(order(&fake.take_wire()), (2..10).map(|n| (Frame, n)).collect::<Vec<_>>());
    assert_eq!(backend.lost(), 2);
}

#[test]
fn a_device_that_drops_most_is_left_alone_for_a_while() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().kicks = VecDeque::from(vec![(1, Err(libc::EBUSY)); 10]);
    assert_eq!(send(&mut backend, &[(host(2), 3); 10]), sent(10));
    assert_eq!((fake.take_wire().len(), backend.lost()), (0, 10));
    for _ in 0..RESTING_CALLS {
        assert_eq!(send(&mut backend, &[(host(2), 3)]), sent(1));
    }
    assert!(fake.take_wire().iter().all(|(how, _)| *how == Socket));
    assert_eq!(send(&mut backend, &[(host(2), 3)]), sent(1));
    assert_eq!(order(&fake.take_wire()), [(Frame, 0)]);
}

#[test]
fn without_the_device_all_goes_by_the_socket_until_there_is_a_ring_again() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().kicks = VecDeque::from([(0, Err(libc::ENETDOWN))]);
    fake.world().can_reopen = false;
    assert_eq!(send(&mut backend, &[(host(2), 3), (host(4), 3)]), sent(2));
    assert_eq!((fake.take_wire().len(), backend.lost()), (0, 2));
    for _ in 0..3 * REOPEN_CALLS {
        assert_eq!(send(&mut backend, &[(host(2), 3)]), sent(1));
    }
    let wire = fake.take_wire();
    assert_eq!(wire.len(), 3 * REOPEN_CALLS as usize);
    assert!(wire.iter().all(|(how, _)| *how == Socket));
    fake.world().can_reopen = true;
    for _ in 0..2 * REOPEN_CALLS {
        assert_eq!(send(&mut backend, &[(host(2), 3)]), sent(1));
    }
    assert_eq!(fake.take_wire().last().map(|(how, _)| *how), Some(Frame));
}

#[test]
fn a_ring_that_gives_nothing_back_is_given_up_in_the_end() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    (fake.world().capacity, fake.world().holds) = (4, true);
    assert_eq!(send(&mut backend, &[(host(2), 3); 4]), sent(4));
    let calls = (1..=2 * STALLS_MAX).find(|_| send(&mut backend, &[(host(2), 3)]) == sent(1));
    assert_eq!((calls, backend.lost()), (Some(STALLS_MAX + 1), 4));
    assert_eq!(fake.take_wire().last().map(|(how, _)| *how), Some(Socket));
}

#[test]
fn headers_are_those_of_the_routes_of_the_moment() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    let mut destination_mac = || {
        assert_eq!(send(&mut backend, &[(host(2), 3)]), sent(1));
        fake.take_wire()[0].1[5]
    };
    assert_eq!(destination_mac(), 2);
    fake.world().mac = 9;
    assert_eq!(destination_mac(), 2, "kept as long as the kernel announces nothing");
    fake.world().generation += 1;
    assert_eq!(destination_mac(), 9);
    (fake.world().mtu, fake.world().generation) = (31, 3);
    assert_eq!(send(&mut backend, &[(host(2), 2), (host(2), 3)]), sent(2));
    assert_eq!(order(&fake.take_wire()), [(Frame, 0), (Socket, 1)]);
}

#[test]
fn an_error_that_came_back_fails_the_next_datagram_of_its_recipient_only() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    fake.world().errors.push((host(4), SendError::Refused));
    assert!(backend.read_refusals());
    assert!(!backend.read_refusals());
    let row = [(host(2), 3), (host(4), 3), (host(4), 3), (host(2), 3)];
    let refused = Outcome::Failed(SendError::Refused);
    assert_eq!(send(&mut backend, &row), [Outcome::Sent, refused, Outcome::Sent, Outcome::Sent]);
    assert_eq!(order(&fake.take_wire()), [(Frame, 0), (Frame, 2), (Frame, 3)]);
    // Nothing polls explicitly: in the long run sending does.
    fake.world().errors.push((host(2), SendError::Refused));
    let calls = 2 * DATAGRAMS_PER_ERROR_POLL;
    assert_eq!((0..calls).filter(|_| send(&mut backend, &[(host(2), 3)]) == [refused]).count(), 1);
}

#[test]
fn groups_are_sent_whole_whoever_is_among_them() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    let packets: [&[u8]; 2] = [b"0 first", b"1 second"];
    let long = [0xdd; LONG];
    let with = |destination, append| group::Recipient { destination, prepend: &[], append };
    let (bad, too_long): ([&[u8]; 3], [&[u8]; 2]) = ([b"", b"", b""], [b"", &long]);
    let recipients = [
        with(host(2), &[]),
        with(host(4), &[]),
        with(host(3), &[]),
        with(host(6), &bad),
        with(host(8), &too_long),
        with(host(4), &[]),
    ];
    for round in 0..3 {
        let mut slots = [Slot::default(); 6];
        assert!(!backend.send_group(&packets, &recipients, &mut slots));
        let whole = Slot { sent: 2, ..Slot::default() };
        let refused = Slot { failed: 2, error: Some(SendError::BadPrivate), ..Slot::default() };
        assert_eq!(slots, [whole, whole, whole, refused, whole, whole], "round {round}");
        let wire = order(&fake.take_wire());
        let by_socket = [(Socket, b'0'), (Socket, b'1'), (Socket, b'1')];
        assert_eq!(wire.iter().filter(|(how, _)| *how == Socket).copied().collect::<Vec<_>>(), by_socket);
        assert_eq!(wire.iter().filter(|(how, _)| *how == Frame).count(), 7);
    }
}

#[test]
fn a_group_goes_on_where_the_ring_was_full() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    let packets: Vec<[u8; 1]> = (0..3).map(|n| [n]).collect();
    let packets: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
    let recipients: Vec<_> = (0..100).map(|n| group::Recipient::plain(host(n * 2))).collect();
    // Once with everything new, once with everything known.
    for _ in 0..2 {
        (fake.world().capacity, fake.world().holds) = (100, true);
        let mut slots = [Slot::default(); 100];
        assert!(backend.send_group(&packets, &recipients, &mut slots));
        assert_eq!(slots.iter().map(Slot::done).sum::<usize>(), 100);
        fake.world().holds = false;
        assert!(!backend.send_group(&packets, &recipients, &mut slots));
        assert_eq!(slots, [Slot { sent: 3, ..Slot::default() }; 100]);
        let wire = fake.take_wire();
        assert!(wire.iter().enumerate().all(|(n, (how, frame))| *how == Frame
            && frame[42..] == [(n % 3) as u8]
            && usize::from(frame[33]) == n / 3 * 2));
        assert_eq!(wire.len(), 300);
    }
}

#[test]
fn shared_and_private_bytes_arrive_with_right_checksums() {
    let fake = Fake::new();
    let mut backend = fake.backend();
    let shared: Vec<u8> = (0..1200u32).map(|n| (n * 7 % 255) as u8).collect();
    for before in 0..20 {
        for after in [0, 1, 9, 10, 70, 71] {
            let (head, tail) = (vec![0x5a; before], vec![0xa5; after]);
            let datagram = |destination, len| Datagram {
                destination,
                parts: [&head, &shared[..len], &tail],
                departure_ns: 0,
                ecn: Ecn::NotEct,
            };
            let (to, len) = ([host(2), host(4)], 1200 - before - after);
            backend.send(&[datagram(&to[0], len), datagram(&to[1], len - 1)], &mut [Outcome::Unsent; 2]);
            for (len, (_, frame)) in [len, len - 1].into_iter().zip(fake.take_wire()) {
                assert_eq!(frame[42..], [&head[..], &shared[..len], &tail].concat());
                let mut row = frame[26..].to_vec();
                row.resize(row.len().next_multiple_of(2), 0);
                row.extend([0, 17]);
                row.extend(((frame.len() - 34) as u16).to_be_bytes());
                assert_eq!(Sum::of(&row), Sum::of(&[0xff, 0xff]), "{before} before, {after} after");
            }
        }
    }
}
