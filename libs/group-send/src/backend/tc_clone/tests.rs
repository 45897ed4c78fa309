//! The back end against a kernel that refuses: the path datagrams take, and that each is sent
//! exactly once and in order.
//!
//! The double takes the copies apart again as a receiver would, checksums included.

use super::*;
use crate::recv::Ecn;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

/// Path and bytes of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sent {
    Frame(Vec<u8>),
    Socket(Vec<u8>),
}

/// State shared by both paths to the network.
#[derive(Default)]
struct World {
    delivered: BTreeMap<SocketAddr, Vec<Sent>>,
    unresolved: HashSet<SocketAddr>,
    /// IP packets to these are at most so long; 1500 to others.
    mtu: HashMap<SocketAddr, u32>,
    /// The result of copies for these.
    results: HashMap<SocketAddr, i32>,
    /// Frames that are replicated before one is refused.
    frames: Option<usize>,
    socket_busy: bool,
    /// Datagrams the socket takes before it would block.
    room: Option<usize>,
    errors: Vec<(SocketAddr, SendError)>,
    generation: u64,
}

#[derive(Clone, Default)]
struct Double(Arc<Mutex<World>>);

impl Double {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    fn take(&self) -> BTreeMap<SocketAddr, Vec<Sent>> {
        std::mem::take(&mut self.world().delivered)
    }
}

impl Kernel for Double {
    fn refresh(&mut self) -> u64 {
        1 + self.world().generation
    }

    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop> {
        let world = self.world();
        let source: IpAddr = match destination {
            SocketAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
            SocketAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        };
        (!world.unresolved.contains(destination)).then(|| NextHop {
            interface_index: 7,
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source,
            mtu: world.mtu.get(destination).copied().unwrap_or(1500),
            hop_limit: 64,
        })
    }

    fn replicate(
        &mut self,
        shape: Shape,
        records: &[u8],
        payload: &[u8],
        results: &mut [i32],
    ) -> Result<(), i32> {
        let mut world = self.world();
        if let Some(frames) = &mut world.frames {
            *frames = frames.checked_sub(1).ok_or(libc::ENETDOWN)?;
        }
        assert!(shape.fits() && (1..=COPIES_MAX).contains(&results.len()));
        assert_eq!(records.len(), shape.record_len() * results.len());
        for (record, result) in records.chunks(shape.record_len()).zip(results) {
            let (head, tail) = record.split_at(shape.head);
            let (destination, bytes) = read_frame(&[head, payload, tail].concat());
            *result = world.results.get(&destination).copied().unwrap_or(0);
            if matches!(*result, 0 | 2) {
                world.delivered.entry(destination).or_default().push(Sent::Frame(bytes));
            }
        }
        Ok(())
    }

    fn socket_is_idle(&self) -> bool {
        !self.world().socket_busy
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        let queued = std::mem::take(&mut self.world().errors);
        queued.iter().for_each(|(destination, error)| errors.add(*destination, *error));
        !queued.is_empty()
    }
}

/// The socket: reaches everybody.
struct Socket(Double);

impl Backend for Socket {
    fn kind(&self) -> BackendKind {
        BackendKind::Gso
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        let mut world = self.0.world();
        for (datagram, outcome) in datagrams.iter().zip(outcomes) {
            match &mut world.room {
                Some(0) => return,
                Some(room) => *room -= 1,
                None => {}
            }
            let sent = Sent::Socket(datagram.parts.concat());
            world.delivered.entry(*datagram.destination).or_default().push(sent);
            *outcome = Outcome::Sent;
        }
    }
}

/// Destination and payload of a frame whose checksums and lengths are right.
fn read_frame(frame: &[u8]) -> (SocketAddr, Vec<u8>) {
    let v6 = frame[12..14] == [0x86, 0xdd];
    let (ip, addresses, udp) = if v6 { (14, 22..54, 54) } else { (14, 26..34, 34) };
    let length = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let destination: IpAddr = if v6 {
        <[u8; 16]>::try_from(&frame[38..54]).unwrap().into()
    } else {
        assert_eq!(sum(&frame[ip..udp]), 0xffff, "IPv4 checksum");
        <[u8; 4]>::try_from(&frame[30..34]).unwrap().into()
    };
    assert_eq!(length(if v6 { 18 } else { 16 }), frame.len() - if v6 { 54 } else { 14 });
    assert_eq!(length(udp + 4), frame.len() - udp);
    let pseudo = [&frame[addresses], &[0, 17], &frame[udp + 4..udp + 6], &frame[udp..]].concat();
    assert_eq!(sum(&pseudo), 0xffff, "UDP checksum");
    (SocketAddr::new(destination, length(udp + 2) as u16), frame[udp + 8..].to_vec())
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    words.fold(0, |sum, word| (sum + word) % 0x1_0000 + (sum + word) / 0x1_0000)
}

const RECIPIENTS_MIN: usize = 4;

fn backend() -> (TcClone<Double>, Double) {
    let socket = UdpSocket::bind("[::]:0").unwrap();
    let origin = Origin::read(&(&socket).into()).unwrap();
    let double = Double::default();
    let fallback = Box::new(Socket(double.clone()));
    (TcClone::new(double.clone(), fallback, origin, RECIPIENTS_MIN), double)
}

fn v4(number: u16) -> SocketAddr {
    (Ipv4Addr::new(198, 51, 100, number as u8), 5000 + number).into()
}

fn v6(number: u16) -> SocketAddr {
    (Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, number), 5000 + number).into()
}

/// Sends "a", "b", ... to each, and returns the slots and the recipients that got them by frames
/// alone.
fn send(
    backend: &mut TcClone<Double>,
    double: &Double,
    group: &[SocketAddr],
    packets: usize,
) -> (Vec<Slot>, BTreeSet<SocketAddr>) {
    let payloads: Vec<_> = (0..packets).map(|packet| [b'a' + packet as u8]).collect();
    let payloads: Vec<_> = payloads.iter().map(|payload| &payload[..]).collect();
    let recipients: Vec<_> = group.iter().map(|destination| Recipient::plain(*destination)).collect();
    let mut slots = vec![Slot::default(); group.len()];
    assert!(!backend.send_group(&payloads, &recipients, &mut slots));
    let by_frames = |sent: &Vec<Sent>| sent.iter().all(|sent| matches!(sent, Sent::Frame(_)));
    let delivered = double.take();
    (slots, delivered.into_iter().filter(|(_, sent)| by_frames(sent)).map(|(to, _)| to).collect())
}

fn all_sent(slots: &[Slot], packets: u32) -> bool {
    slots.iter().all(|slot| *slot == Slot { sent: packets, failed: 0, error: None })
}

#[test]
fn a_group_goes_by_frames_and_a_small_one_by_the_socket() {
    let (mut backend, double) = backend();
    for (count, by_frames) in [(1, 0), (3, 0), (4, 4), (64, 64), (65, 65), (200, 200)] {
        let group: Vec<_> = (0..count).map(v4).collect();
        let (slots, frames) = send(&mut backend, &double, &group, 3);
        assert!(all_sent(&slots, 3));
        assert_eq!(frames.len(), by_frames, "{count} recipients");
    }
    // Each family counts for itself.
    let group: Vec<_> = (0..5).map(v4).chain((0..3).map(v6)).collect();
    let (slots, frames) = send(&mut backend, &double, &group, 1);
    assert!(all_sent(&slots, 1));
    assert_eq!(frames, (0..5).map(v4).collect());
}

#[test]
fn without_a_next_hop_or_with_too_small_an_mtu_the_socket_is_used() {
    let (mut backend, double) = backend();
    double.world().unresolved.insert(v4(1));
    double.world().mtu.insert(v4(2), 28);
    let group: Vec<_> = (0..9).map(v4).collect();
    let rest: BTreeSet<_> = group.iter().copied().filter(|to| ![v4(1), v4(2)].contains(to)).collect();
    for _ in 0..3 {
        let (slots, frames) = send(&mut backend, &double, &group, 2);
        assert!(all_sent(&slots, 2));
        assert_eq!(frames, rest);
    }
    // The generation announces a change to both, whether a route appears or disappears.
    double.world().unresolved = HashSet::from([v4(0)]);
    double.world().mtu.clear();
    double.world().generation += 1;
    assert_eq!(send(&mut backend, &double, &group, 1).1, (1..9).map(v4).collect());
}

#[test]
fn a_copy_that_is_dropped_fails_alone() {
    let (mut backend, double) = backend();
    let cases = [
        (0, Slot { sent: 2, failed: 0, error: None }),
        (1, Slot { sent: 0, failed: 2, error: Some(SendError::NoBuffers) }), // NET_XMIT_DROP
        (2, Slot { sent: 2, failed: 0, error: None }),                       // NET_XMIT_CN
        (-libc::ENOMEM, Slot { sent: 0, failed: 2, error: Some(SendError::NoBuffers) }),
        (-libc::ENETDOWN, Slot { sent: 0, failed: 2, error: Some(SendError::Unreachable) }),
        (i32::MIN, Slot { sent: 0, failed: 2, error: Some(SendError::from_errno(i32::MAX)) }),
    ];
    let group: Vec<_> = (0..cases.len() as u16).map(v6).collect();
    for (to, (result, _)) in group.iter().zip(cases) {
        double.world().results.insert(*to, result);
    }
    let (slots, frames) = send(&mut backend, &double, &group, 2);
    assert_eq!(slots, cases.map(|(_, slot)| slot));
    assert_eq!(frames, BTreeSet::from([group[0], group[2]]));
}

#[test]
fn what_the_kernel_does_not_replicate_goes_by_the_socket_once() {
    for frames in 0..8 {
        let (mut backend, double) = backend();
        double.world().frames = Some(frames);
        let group: Vec<_> = (0..100).map(v4).collect();
        // Two frames for each packet.
        let (slots, _) = send(&mut backend, &double, &group, 3);
        assert!(all_sent(&slots, 3), "after {frames} frames");
    }
}

#[test]
fn no_recipient_changes_to_frames_while_the_socket_holds_datagrams() {
    let (mut backend, double) = backend();
    let group: Vec<_> = (0..9).map(v4).collect();
    double.world().unresolved.insert(v4(3));
    assert_eq!(send(&mut backend, &double, &group, 1).1.len(), 8);
    double.world().unresolved.clear();
    double.world().socket_busy = true;
    double.world().generation += 1;
    for _ in 0..2 {
        assert_eq!(send(&mut backend, &double, &group, 1).1.len(), 8, "the third waits");
    }
    double.world().socket_busy = false;
    assert_eq!(send(&mut backend, &double, &group, 1).1.len(), 9);
    // Datagrams outside of groups may be for any recipient.
    double.world().socket_busy = true;
    let datagram =
        Datagram { destination: &group[0], parts: [b"x", &[], &[]], departure_ns: 0, ecn: Ecn::NotEct };
    backend.send(&[datagram], &mut [Outcome::Unsent]);
    double.take();
    assert_eq!(send(&mut backend, &double, &group, 1).1.len(), 0);
    double.world().socket_busy = false;
    assert_eq!(send(&mut backend, &double, &group, 1).1.len(), 9);
}

#[test]
fn an_error_that_came_back_is_reported_once_to_its_recipient_on_either_path() {
    let (mut backend, double) = backend();
    let group: Vec<_> = (0..9).map(v4).collect();
    let refused = Slot { sent: 1, failed: 1, error: Some(SendError::Refused) };
    for members in [&group[..], &group[..2]] {
        double.world().errors.push((v4(1), SendError::Refused));
        assert!(backend.read_refusals() && !backend.read_refusals());
        let (slots, _) = send(&mut backend, &double, members, 2);
        assert_eq!(slots[1], refused);
        assert_eq!(slots.iter().filter(|slot| slot.sent == 2).count(), members.len() - 1);
        assert!(all_sent(&send(&mut backend, &double, members, 2).0, 2));
    }
    let datagrams = [0, 1, 1, 2].map(|number| Datagram {
        destination: &group[number],
        parts: [b"x", &[], &[]],
        departure_ns: 0,
        ecn: Ecn::NotEct,
    });
    let failed = Outcome::Failed(SendError::Refused);
    // Without room the error waits as well.
    for (room, want) in [
        (Some(0), [Outcome::Unsent; 4]),
        (None, [Outcome::Sent, failed, Outcome::Sent, Outcome::Sent]),
        (None, [Outcome::Sent; 4]),
    ] {
        double.world().room = room;
        if room.is_some() {
            double.world().errors.push((v4(1), SendError::Refused));
            backend.read_refusals();
        }
        let mut outcomes = [Outcome::Unsent; 4];
        backend.send(&datagrams, &mut outcomes);
        assert_eq!(outcomes, want);
    }
}

/// Groups of every kind against a list of what each recipient is due.
#[test]
fn every_recipient_gets_every_packet_once_in_order_with_its_private_bytes() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut backend, double) = backend();
    let mut paths = [0; 2];
    for round in 0..400 {
        double.world().socket_busy = random(3) == 0;
        double.world().generation += random(2) as u64;
        double.world().unresolved = (0..20).filter(|_| random(9) == 0).map(v4).collect();
        let packets: Vec<Vec<u8>> = (0..random(4)).map(|n| vec![n as u8; random(1600)]).collect();
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let count = random(300) as u16;
        let private: Vec<[Vec<Vec<u8>>; 2]> = (0..count)
            .map(|number| {
                let len = if random(20) == 0 { random(500) } else { 12 };
                let each = |n: usize| (0..n).map(|n| vec![number as u8 ^ n as u8; len]).collect();
                [each([0, 1, packets.len()][round % 3]), each([1, 0][round % 2])]
            })
            .collect();
        let private: Vec<[Vec<&[u8]>; 2]> = private
            .iter()
            .map(|both| both.each_ref().map(|one| one.iter().map(Vec::as_slice).collect()))
            .collect();
        let recipients: Vec<_> = (0..count)
            .zip(&private)
            .map(|(number, [prepend, append])| {
                let destination = if random(3) == 0 { v6(number) } else { v4(number) };
                Recipient { destination, prepend, append }
            })
            .collect();
        let mut slots = vec![Slot::default(); recipients.len()];
        double.world().room = Some(random(60));
        while backend.send_group(&packets, &recipients, &mut slots) {
            double.world().room = Some(1 + random(200));
        }
        assert!(all_sent(&slots, packets.len() as u32), "round {round}");
        let delivered = double.take();
        for recipient in &recipients {
            let due: Vec<_> =
                (0..packets.len()).map(|n| recipient.datagram(&packets, n).parts.concat()).collect();
            let got = delivered.get(&recipient.destination).map(Vec::as_slice).unwrap_or_default();
            for sent in got {
                paths[usize::from(matches!(sent, Sent::Frame(_)))] += 1;
            }
            let got: Vec<_> =
                got.iter().map(|(Sent::Frame(bytes) | Sent::Socket(bytes))| bytes.clone()).collect();
            assert_eq!(got, due, "round {round}, {}", recipient.destination);
        }
    }
    assert!(paths.iter().all(|&datagrams| datagrams > 1000), "both paths are taken: {paths:?}");
}
