//! The socket back end against a kernel that refuses, blocks, and cuts runs as the real one does.

use super::*;
use crate::linux::Message;
use crate::recv::Ecn;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Takes messages as the kernel does, and notes every datagram that leaves.
struct Double {
    family: Family,
    delivered: Vec<(SocketAddr, Vec<u8>)>,
    calls: usize,
    runs: usize,
    /// Messages accepted before the buffer is full.
    room: Option<usize>,
    failing: HashMap<SocketAddr, i32>,
    /// Largest segment on the path to these.
    mtu: HashMap<IpAddr, usize>,
    /// Devices without checksums in hardware: runs are refused.
    plain: HashSet<IpAddr>,
    interrupts: usize,
    /// An error that came back for an earlier datagram: it fails the next call, whatever its
    /// destination.
    pending: Option<(SocketAddr, i32)>,
    queue: Vec<(SocketAddr, SendError)>,
}

impl Double {
    fn new(family: Family) -> Self {
        Self {
            family,
            delivered: Vec::new(),
            calls: 0,
            runs: 0,
            room: None,
            failing: HashMap::new(),
            mtu: HashMap::new(),
            plain: HashSet::new(),
            interrupts: 0,
            pending: None,
            queue: Vec::new(),
        }
    }

    fn take(&mut self, to: SocketAddr, bytes: &[u8], segment: usize) -> Result<(), i32> {
        if let Some((address, errno)) = self.pending.take() {
            self.queue.push((address, SendError::from_errno(errno)));
            return Err(errno);
        }
        if self.room == Some(0) {
            return Err(libc::EAGAIN);
        }
        if let Some(&errno) = self.failing.get(&to) {
            return Err(errno);
        }
        if bytes.len() > 65_507 {
            return Err(libc::EMSGSIZE);
        }
        if segment > 0 {
            assert!(bytes.len().div_ceil(segment) <= 64, "too many segments");
            self.refuse_run(to.ip(), segment)?;
            self.runs += 1;
        }
        self.room = self.room.map(|room| room - 1);
        match segment {
            0 => self.delivered.push((to, bytes.to_vec())),
            size => self.delivered.extend(bytes.chunks(size).map(|datagram| (to, datagram.to_vec()))),
        }
        Ok(())
    }

    fn refuse_run(&self, to: IpAddr, segment: usize) -> Result<(), i32> {
        if self.plain.contains(&to) {
            return Err(libc::EIO);
        }
        if self.mtu.get(&to).is_some_and(|&mtu| segment > mtu) {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message<'_>) -> Result<(), i32> {
        let bytes: Vec<u8> = message.datagrams.iter().flat_map(|d| d.parts.concat()).collect();
        let segment = usize::from(message.segment);
        assert!(
            segment > 0 || message.datagrams.len() == 1,
            "a run without a segment size would be one datagram"
        );
        assert!(message.datagrams.iter().all(|d| d.destination == message.datagrams[0].destination));
        self.take(*message.datagrams[0].destination, &bytes, segment)
    }

    fn interrupted(&mut self) -> Result<(), i32> {
        self.calls += 1;
        if self.interrupts == 0 {
            return Ok(());
        }
        self.interrupts -= 1;
        Err(libc::EINTR)
    }
}

impl Kernel for Double {
    fn send_to(&mut self, to: &SocketAddr, datagram: &[u8]) -> Result<(), i32> {
        self.interrupted()?;
        if !self.family.reaches(to) {
            return Err(libc::EAFNOSUPPORT);
        }
        self.take(*to, datagram, 0)
    }

    fn send_messages(&mut self, messages: &[Message<'_>]) -> Result<usize, i32> {
        self.interrupted()?;
        for (index, message) in messages.iter().enumerate() {
            match self.take_message(message) {
                Ok(()) => {}
                Err(errno) if index == 0 => return Err(errno),
                // Errors of the later ones are not reported.
                Err(_) => return Ok(index),
            }
        }
        Ok(messages.len())
    }

    fn use_twin(&mut self, _: &SockRef<'_>, _: bool) -> Result<(), String> {
        Err("a double has none".to_owned())
    }

    fn has_departure_clock(&self) -> bool {
        true
    }

    /// One of a socket with a class of its own.
    fn traffic_class(&self, _is_ipv4: bool) -> u8 {
        0xb8
    }

    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool {
        let any = !self.queue.is_empty();
        for (address, error) in self.queue.drain(..) {
            errors.add(address, error);
        }
        any
    }
}

const KINDS: [BackendKind; 3] = [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso];

fn back_end(kind: BackendKind) -> Mmsg<Double> {
    Mmsg::new(Double::new(Family::Dual), kind, Family::Dual)
}

fn address(number: usize) -> SocketAddr {
    if number.is_multiple_of(4) {
        SocketAddr::new(IpAddr::V6((0xfd00_u128 << 112 | number as u128).into()), 6000)
    } else {
        SocketAddr::new(IpAddr::V4((0x0a00_0000 + number as u32).into()), 6000)
    }
}

/// `lens` for each of the recipients; the bytes encode recipient and position.
fn contents(recipients: usize, lens: &[usize]) -> Vec<(SocketAddr, Vec<u8>)> {
    let datagram =
        |r: usize, j: usize, len: usize| (address(r), (0..len).map(|i| (31 * r + 7 * j + i) as u8).collect());
    (1..=recipients).flat_map(|r| lens.iter().enumerate().map(move |(j, &len)| datagram(r, j, len))).collect()
}

fn send(back_end: &mut Mmsg<Double>, contents: &[(SocketAddr, Vec<u8>)]) -> Vec<Outcome> {
    let datagrams: Vec<_> =
        contents.iter().map(|(destination, bytes)| as_datagram(destination, bytes)).collect();
    let mut outcomes = vec![Outcome::Unsent; datagrams.len()];
    back_end.send(&datagrams, &mut outcomes);
    outcomes
}

/// In three parts, of which some are empty.
fn as_datagram<'a>(destination: &'a SocketAddr, bytes: &'a [u8]) -> Datagram<'a> {
    let (head, rest) = bytes.split_at(bytes.len().min(3));
    let (body, tail) = rest.split_at(rest.len().saturating_sub(2));
    Datagram { destination, parts: [head, body, tail], departure_ns: 0, ecn: Ecn::NotEct }
}

#[test]
fn every_datagram_arrives_once_in_order_whatever_the_lengths() {
    let shapes: [&[usize]; 9] = [
        &[1200],
        &[0],
        &[1200, 1200],
        &[1200, 1200, 700],
        &[700, 1200, 1200, 1200],
        &[5, 0, 5, 5, 0],
        &[40_000, 40_000, 3],
        &[9000; 9],
        &[100; 80],
    ];
    for kind in KINDS {
        for lens in shapes {
            for recipients in [1, 2, 3] {
                let contents = contents(recipients, lens);
                let mut back_end = back_end(kind);
                let outcomes = send(&mut back_end, &contents);
                assert!(outcomes.iter().all(|&o| o == Outcome::Sent), "{kind} {lens:?}");
                assert_eq!(back_end.kernel.delivered, contents, "{kind} {lens:?}");
            }
        }
    }
}

#[test]
fn runs_are_joined_and_calls_are_few() {
    let mut back_end = back_end(BackendKind::Gso);
    send(&mut back_end, &contents(50, &[1200, 1200, 1200, 800]));
    assert_eq!((back_end.kernel.runs, back_end.kernel.calls), (50, 1));
}

#[test]
fn a_failing_recipient_fails_alone_wherever_it_is() {
    for kind in KINDS {
        for failing in 1..=6 {
            let contents = contents(6, &[500, 500, 100]);
            let mut back_end = back_end(kind);
            back_end.kernel.failing.insert(address(failing), libc::EPERM);
            let outcomes = send(&mut back_end, &contents);
            let expected = |of: SocketAddr| match of == address(failing) {
                true => Outcome::Failed(SendError::NotPermitted),
                false => Outcome::Sent,
            };
            assert!(contents.iter().zip(outcomes).all(|((of, _), o)| o == expected(*of)), "{kind} {failing}");
            let others: Vec<_> = contents.into_iter().filter(|(to, _)| *to != address(failing)).collect();
            assert_eq!(back_end.kernel.delivered, others, "{kind} {failing}");
        }
    }
}

#[test]
fn without_room_the_rest_stays_unsent_and_goes_on_later() {
    for kind in KINDS {
        for room in 0..8 {
            let contents = contents(4, &[300, 300]);
            let mut back_end = back_end(kind);
            back_end.kernel.room = Some(room);
            let outcomes = send(&mut back_end, &contents);
            let sent = outcomes.iter().take_while(|&&o| o == Outcome::Sent).count();
            assert!(outcomes[sent..].iter().all(|&o| o == Outcome::Unsent), "{kind} {room}");
            assert_eq!(back_end.kernel.delivered, contents[..sent], "{kind} {room}");
            back_end.kernel.room = None;
            send(&mut back_end, &contents[sent..]);
            assert_eq!(back_end.kernel.delivered, contents, "{kind} {room}");
        }
    }
}

#[test]
fn a_path_with_a_small_mtu_gets_its_datagrams_one_by_one_and_others_keep_their_runs() {
    let contents = contents(3, &[1200, 1200, 1200, 1200]);
    let mut back_end = back_end(BackendKind::Gso);
    back_end.kernel.mtu.insert(address(2).ip(), 1000);
    let outcomes = send(&mut back_end, &contents);
    assert!(outcomes.iter().all(|&o| o == Outcome::Sent));
    assert_eq!(back_end.kernel.delivered, contents);
    assert_eq!(back_end.kernel.runs, 2);
    // Remembered: nothing is refused again, and what fits is sent as a run.
    let calls = back_end.kernel.calls;
    send(&mut back_end, &contents);
    assert_eq!((back_end.kernel.calls - calls, back_end.kernel.runs), (1, 4));
    send(&mut back_end, &self::contents(3, &[900, 900]));
    assert_eq!(back_end.kernel.runs, 7);
}

#[test]
fn narrow_paths_however_many_say_nothing_about_the_others() {
    let contents = contents(80, &[1200, 1200]);
    let mut back_end = back_end(BackendKind::Gso);
    back_end.kernel.mtu = (1..=40).map(|number| (address(number).ip(), 1000)).collect();
    for _ in 0..2 {
        back_end.kernel.delivered.clear();
        back_end.kernel.runs = 0;
        send(&mut back_end, &contents);
        assert_eq!((&back_end.kernel.delivered, back_end.kernel.runs), (&contents, 40));
    }
}

#[test]
fn devices_that_refuse_everywhere_are_not_tried_for_ever() {
    let mut back_end = back_end(BackendKind::Gso);
    back_end.kernel.plain = (1..=100).map(|number| address(number).ip()).collect();
    for _ in 0..2 {
        let contents = contents(100, &[200, 200]);
        back_end.kernel.delivered.clear();
        send(&mut back_end, &contents);
        assert_eq!(back_end.kernel.delivered, contents);
    }
    assert_eq!(back_end.kernel.runs, 0);
    let calls = back_end.kernel.calls;
    send(&mut back_end, &contents(100, &[200, 200]));
    assert_eq!(back_end.kernel.calls - calls, 200_usize.div_ceil(MESSAGES_MAX));
}

#[test]
fn an_address_that_cannot_be_sent_to_says_nothing_about_runs() {
    let contents = contents(1, &[200, 200, 200]);
    let mut back_end = back_end(BackendKind::Gso);
    back_end.kernel.failing.insert(address(1), libc::EINVAL);
    assert_eq!(send(&mut back_end, &contents), [Outcome::Failed(SendError::BadAddress); 3]);
    back_end.kernel.failing.clear();
    send(&mut back_end, &contents);
    assert_eq!(back_end.kernel.runs, 1);
}

#[test]
fn interrupted_calls_are_repeated() {
    for kind in KINDS {
        let contents = contents(2, &[100, 100]);
        let mut back_end = back_end(kind);
        back_end.kernel.interrupts = 3;
        assert_eq!(send(&mut back_end, &contents), [Outcome::Sent; 4], "{kind}");
        assert_eq!(back_end.kernel.delivered, contents, "{kind}");
    }
}

#[test]
fn an_error_that_came_back_is_reported_to_the_recipient_it_belongs_to() {
    for kind in KINDS {
        for refused in 1..=3 {
            let contents = contents(3, &[100]);
            let mut back_end = back_end(kind);
            back_end.kernel.pending = Some((address(refused), libc::ECONNREFUSED));
            // Told at the latest by the second round; the others get everything.
            let outcomes = [send(&mut back_end, &contents), send(&mut back_end, &contents)].concat();
            let failed: Vec<_> = outcomes.iter().enumerate().filter(|(_, o)| **o != Outcome::Sent).collect();
            assert_eq!(failed.len(), 1, "{kind} {refused} {failed:?}");
            assert_eq!(failed[0].0 % 3 + 1, refused, "{kind}");
            assert_eq!(*failed[0].1, Outcome::Failed(SendError::Refused));
            assert_eq!(back_end.kernel.delivered.len(), 5, "{kind} {refused}");
        }
    }
}

#[test]
fn families_that_the_socket_cannot_reach_fail_alone() {
    for kind in KINDS {
        for (family, reached) in [(Family::V4, 3), (Family::V6Only, 1)] {
            let mut back_end = Mmsg::new(Double::new(family), kind, family);
            // Recipient 4 has an IPv6 address, 1 to 3 have none.
            let outcomes = send(&mut back_end, &contents(4, &[50, 50]));
            let sent = outcomes.iter().filter(|&&o| o == Outcome::Sent).count();
            assert_eq!(sent, 2 * reached, "{kind} {family:?}");
            assert!(
                outcomes.iter().all(|o| matches!(o, Outcome::Sent | Outcome::Failed(SendError::WrongFamily)))
            );
        }
    }
}

#[test]
fn datagrams_that_leave_at_different_times_are_not_joined() {
    let destination = address(1);
    let bytes = [7; 100];
    let datagrams = [5, 5, 6].map(|departure_ns| Datagram {
        destination: &destination,
        parts: [&bytes, &[], &[]],
        departure_ns,
        ecn: Ecn::NotEct,
    });
    let mut back_end = back_end(BackendKind::Gso);
    let mut outcomes = [Outcome::Unsent; 3];
    back_end.send(&datagrams, &mut outcomes);
    assert_eq!((outcomes, back_end.kernel.runs), ([Outcome::Sent; 3], 1));
}
