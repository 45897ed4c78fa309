//! What the fuzz targets of `relay` check: whatever arrives in whatever order, a receiver hands on
//! each packet once and as it was sent, and what is refused has changed nothing.
//!
//! The input is a program: what is sent, lost, repeated, changed and made up. Keys are random, so a
//! run differs from the next in bytes that nobody chooses. `crates/relay/tests/relay/fuzz_corpus.rs`
//! includes this file and replays the kept corpus.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use relay::internals::Forger;
use relay::{
    DropReason, InLinkId, InLinkStats, InStreamId, KEY_FRAME_INTERVAL, Limits, LinkSecret, OutLinkId,
    OutStreamId, Outgoing, Receiver, Role, SealKey, Sender, SetupError,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] =
    &[("relay_datagram", relay_datagram), ("relay_feedback", relay_feedback)];

/// Datagrams at a receiver: genuine ones in any order, changed ones, made-up ones.
pub fn relay_datagram(data: &[u8]) {
    let mut input = Input(data);
    let mut nodes = Nodes::new();
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        match input.byte() % 10 {
            0..=2 => nodes.send(&mut input),
            3 | 4 => {
                let datagram = nodes.genuine(&mut input);
                nodes.deliver(datagram);
            }
            5 => {
                let datagram = nodes.changed(&mut input);
                nodes.deliver(datagram);
            }
            6 => {
                let len = usize::from(input.byte());
                nodes.deliver(input.bytes(len).to_vec());
            }
            7 => nodes.rotate(),
            8 => nodes.now += Duration::from_millis(u64::from(input.byte()) * 20),
            _ => nodes.talk(input.byte()),
        }
    }
}

/// Control datagrams of a node that has the keys and says what it likes: nothing grows without bound,
/// nothing is sent that is not kept, and other streams are not affected.
pub fn relay_feedback(data: &[u8]) {
    let mut input = Input(data);
    let mut nodes = Nodes::new();
    let to_sender = input.byte().is_multiple_of(2);
    for _ in 0..input.byte() {
        nodes.send(&mut input);
    }
    let (sender_keys, _) = secret().split(Role::Listener);
    let (_, receiver_keys) = secret().split(Role::Dialer);
    let mut forger = if to_sender { Forger::receiver(receiver_keys) } else { Forger::sender(sender_keys) };
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        let (len, ms) = (usize::from(input.byte()), u64::from(input.byte()));
        let mut datagram = forger.seal(input.bytes(len));
        if to_sender {
            let mut repairs = Vec::new();
            let _ = nodes.sender.handle_control(nodes.now, nodes.out_link, &mut datagram, &mut repairs);
            assert!(repairs.len() <= 1_024);
            for repair in repairs {
                let again = [repair.private(), repair.shared()].concat();
                assert!(nodes.sent.iter().any(|(sent, _)| *sent == again), "sent again, and never sent");
            }
        } else {
            let _ = nodes.receiver.handle_datagram(nodes.now, nodes.in_link, &mut datagram);
        }
        nodes.now += Duration::from_millis(ms);
        nodes.poll();
    }
    let stats = nodes.receiver.link_stats(nodes.in_link).expect("a link");
    assert_eq!(stats.received, 0, "a control datagram is no packet");
}

/// Small enough that a bad input is found again by reading it.
const STEPS_MAX: usize = 64;
/// Of a packet that is sent.
const SSRC: u32 = 0x5151_0000;

fn secret() -> LinkSecret {
    LinkSecret::new([0x42; 32])
}

/// A sender and a receiver with a stream, and what went from one to the other.
struct Nodes {
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    out_link: OutLinkId,
    in_link: InLinkId,
    stream: OutStreamId,
    at_receiver: InStreamId,
    epoch: u32,
    out: Outgoing,
    /// Each datagram, and its packet.
    sent: Vec<(Vec<u8>, Vec<u8>)>,
    /// How often each packet was handed on.
    delivered: HashMap<Vec<u8>, usize>,
    key_frames_at: Option<Instant>,
}

impl Nodes {
    #[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
    fn new() -> Self {
        let now = Instant::now() + Duration::from_secs(3_600);
        let (sender_keys, _) = secret().split(Role::Listener);
        let (_, receiver_keys) = secret().split(Role::Dialer);
        let limits = Limits { history_packets_max: 40, tracks_max: 3, ..Limits::default() };
        let (mut sender, mut receiver) = (Sender::new(limits.clone()), Receiver::new(limits));
        let key = SealKey::random(0);
        let at_receiver = receiver.add_stream(&key.open_key()).expect("room");
        let stream = sender.add_stream(key).expect("room");
        let out_link = sender.add_link(now, sender_keys).expect("room");
        let in_link = receiver.add_link(now, receiver_keys).expect("room");
        let handle = receiver.attach(now, at_receiver, in_link).expect("a handle");
        sender.subscribe(stream, out_link, handle).expect("a free handle");
        Self {
            now,
            sender,
            receiver,
            out_link,
            in_link,
            stream,
            at_receiver,
            epoch: 0,
            out: Outgoing::new(),
            sent: Vec::new(),
            delivered: HashMap::new(),
            key_frames_at: None,
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let (packets, ssrc, len) = (1 + usize::from(input.byte() % 3), input.byte() % 4, input.byte());
        let packets: Vec<Vec<u8>> = (0..packets)
            .map(|at| {
                let mut packet = vec![0x80, 96];
                packet.extend(((self.sent.len() + at) as u16).to_be_bytes());
                packet.extend([0; 4]);
                packet.extend((SSRC + u32::from(ssrc)).to_be_bytes());
                packet.resize(packet.len() + usize::from(len) + at, 7);
                packet
            })
            .collect();
        let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
        self.sender.send(self.now, self.stream, &slices, &mut self.out).expect("small packets");
        let (_, privates) = self.out.links().next().expect("one link");
        for ((private, shared), packet) in privates.iter().zip(self.out.shared()).zip(packets) {
            self.sent.push(([&private[..], shared].concat(), packet));
        }
    }

    fn rotate(&mut self) {
        let key = SealKey::random(self.epoch + 1);
        match self.receiver.add_key(self.now, self.at_receiver, &key.open_key()) {
            Err(SetupError::TooManyKeys) => return,
            added => added.expect("a later epoch"),
        }
        self.epoch += 1;
        self.sender.rotate(self.stream, key).expect("a later epoch");
    }

    fn genuine(&self, input: &mut Input<'_>) -> Vec<u8> {
        let chosen = usize::from(input.byte());
        if self.sent.is_empty() { Vec::new() } else { self.sent[chosen % self.sent.len()].0.clone() }
    }

    fn changed(&self, input: &mut Input<'_>) -> Vec<u8> {
        let mut datagram = self.genuine(input);
        let (kind, at, value) = (input.byte(), usize::from(input.byte()), input.byte());
        match kind % 4 {
            0 => datagram.truncate(at),
            1 => datagram.extend_from_slice(input.bytes(at)),
            2 => {
                let other = self.genuine(input);
                datagram.truncate(at % 40);
                datagram.extend_from_slice(other.get(datagram.len()..).unwrap_or_default());
            }
            _ => datagram.get_mut(at).into_iter().for_each(|byte| *byte ^= value),
        }
        datagram
    }

    fn deliver(&mut self, datagram: Vec<u8>) {
        let before = self.state();
        let mut received = datagram.clone();
        match self.receiver.handle_datagram(self.now, self.in_link, &mut received) {
            Ok(Some(received)) => {
                let sent = self.sent.iter().find(|(sent, _)| *sent == datagram);
                let (_, packet) = sent.expect("handed on, and never sent");
                assert_eq!(received.packet, packet, "not as it was sent");
                assert_eq!(received.stream, self.at_receiver);
                let count = self.delivered.entry(datagram).or_default();
                *count += 1;
                assert_eq!(*count, 1, "handed on twice");
            }
            // A heartbeat of the sender's, by chance of the program.
            Ok(None) => panic!("a control datagram among media"),
            Err(reason) if reason.is_authentic() => {
                assert_eq!(reason, DropReason::TooManyTracks);
                assert!(self.sent.iter().any(|(sent, _)| *sent == datagram));
            }
            // The key has expired: the number counts as received, so that it is not asked for any more.
            Err(DropReason::UnknownEpoch) => {
                let private = &datagram[..relay::PRIVATE_BYTES];
                assert!(self.sent.iter().any(|(sent, _)| sent.starts_with(private)));
            }
            Err(_) => assert_eq!(self.state(), before, "refused, and something has changed"),
        }
        assert!(self.receiver.tracks(self.at_receiver).count() <= 3);
    }

    fn state(&self) -> (InLinkStats, usize, Option<Instant>) {
        let stats = self.receiver.link_stats(self.in_link).expect("a link");
        let tracks = self.receiver.tracks(self.at_receiver).count();
        (InLinkStats { replayed: 0, ..stats }, tracks, self.receiver.next_timeout())
    }

    /// Control datagrams both ways; `lost` has a bit for each that is.
    fn talk(&mut self, lost: u8) {
        self.receiver.request_key_frame(self.now, self.at_receiver, SSRC);
        let (mut up, mut repairs) = (Vec::new(), Vec::new());
        self.receiver.poll_control(self.now, |_, datagram| up.push(datagram.to_vec()));
        for (at, mut datagram) in up.into_iter().enumerate() {
            if lost >> (at % 8) & 1 == 0 {
                self.sender
                    .handle_control(self.now, self.out_link, &mut datagram, &mut repairs)
                    .expect("a genuine datagram");
            }
        }
        for repair in repairs {
            self.deliver([repair.private(), repair.shared()].concat());
        }
        let mut down = Vec::new();
        self.sender.poll_control(self.now, |_, datagram| down.push(datagram.to_vec()));
        for mut datagram in down {
            let result = self.receiver.handle_datagram(self.now, self.in_link, &mut datagram);
            assert!(result.is_ok_and(|received| received.is_none()));
        }
        self.poll();
    }

    fn poll(&mut self) {
        let Self { sender, receiver, key_frames_at, now, .. } = self;
        let mut asked = HashMap::new();
        sender.poll_key_frame_requests(*now, |_, ssrc| *asked.entry(ssrc).or_insert(0) += 1);
        assert!(asked.values().all(|times| *times == 1) && asked.len() <= 3);
        if asked.contains_key(&SSRC) {
            assert!(key_frames_at.is_none_or(|at| *now - at >= KEY_FRAME_INTERVAL));
            *key_frames_at = Some(*now);
        }
        sender.poll_control(*now, |_, datagram| assert!(datagram.len() <= relay::CONTROL_BYTES_MAX));
        receiver.poll_control(*now, |_, datagram| assert!(datagram.len() <= relay::CONTROL_BYTES_MAX));
        assert!(sender.next_timeout().is_none_or(|due| due > *now));
        assert!(receiver.next_timeout().is_none_or(|due| due > *now));
    }
}

/// The rest of the input; behind its end there are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// At most `len` bytes.
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
