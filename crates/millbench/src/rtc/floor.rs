//! The floor of WebRTC: what it costs to encrypt packets and send them to N viewers, without a server.
//!
//! No server can send these datagrams with less than one pass of the cipher for each and the
//! system calls of the back end that sends them. So this does just that: it repeats a
//! [`Trace`] of what a viewer of the server gets. At the time of each burst, every receiver's
//! packets are encrypted into a batch of `group_send`, receiver by receiver, and flushed. There is
//! no event queue, no look-up, no header of one's own, no packet cache, no feedback: receivers say
//! hello once ([`super::hello`]), and nothing else is received.
//!
//! Lengths of header, payload and tag, runs of equal datagrams and times are those of the
//! trace. What has become due while the loop was sending leaves in one pass, as it does in
//! servers that read in batches.
//!
//! Marks carry the instant a packet was due, so that latency includes the loop's own lateness.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use group_send::{AfXdpConfig, BatchLimits, Config, SendBatch, Sender, socket};
use rtp::HeaderFields;
use serde::Serialize;
use srtp::{OutboundContext, Profile};

use super::cli::RtcFloorArgs;
use super::describe;
use super::hello::{self, Hello};
use super::mark::{self, Counted, Mark};
use super::media::Track;
use super::trace::{HEADER_BYTES_MAX, Trace, TracedPacket};
use crate::clock;
use crate::machine::{self, StopSignals};

/// Serves until SIGINT or SIGTERM. Prints `{"listen":...,"backend":...,"pid":...}`, and counters in the end.
///
/// # Errors
/// A text for the user: the trace is unreadable, or the back end cannot be had here.
pub fn run(args: &RtcFloorArgs) -> Result<(), String> {
    let trace = Trace::read(&args.like)?;
    if let Some(core) = args.core {
        machine::pin_to_core(core)?;
    }
    let signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
    let socket = bind(args.listen).map_err(|error| format!("{}: {error}", args.listen))?;
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    let config = Config {
        backends: vec![args.backend.kind()],
        twin: true,
        af_xdp: args.interface.as_deref().map(AfXdpConfig::new),
        ..Config::default()
    };
    let sender = Sender::new(&socket, &config).map_err(|error| error.to_string())?;
    let backend = sender.backend().name();
    print_line(&serde_json::json!({
        "listen": address.to_string(), "backend": backend, "pid": std::process::id(),
    }));
    let mut floor = Floor::new(socket, sender, trace, args.profile.profile());
    while !signals.arrived() {
        floor.turn();
    }
    print_line(&serde_json::json!(floor.egress.counters));
    Ok(())
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let bound = UdpSocket::bind(address)?;
    bound.set_nonblocking(true)?;
    // What is granted is what a server gets as well.
    let _ = socket::size_buffers(&bound, socket::BUFFER_BYTES)?;
    Ok(bound)
}

struct Floor {
    socket: UdpSocket,
    receivers: Vec<Receiver>,
    /// Position of each receiver.
    positions: HashMap<SocketAddr, usize>,
    profile: Profile,
    trace: Trace,
    /// The next burst of the trace, and how often the whole was sent.
    next: usize,
    repeats: u64,
    origin_ns: u64,
    /// Packets sent of each track.
    numbers: [u64; 2],
    /// What every receiver gets now.
    packets: Vec<Plain>,
    egress: Egress,
}

struct Receiver {
    address: SocketAddr,
    outbound: OutboundContext,
}

/// A packet before it is encrypted, the same for all.
#[derive(Default)]
struct Plain {
    header: Vec<u8>,
    payload: Vec<u8>,
}

/// The batch and how it leaves.
struct Egress {
    sender: Sender,
    batch: SendBatch,
    counters: Counters,
}

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counters {
    /// Datagrams the kernel took.
    sent: u64,
    /// Datagrams it refused, or the cipher did.
    failed: u64,
    /// Datagrams for which there was no room for too long.
    dropped: u64,
    /// The most that a burst was late, nanoseconds.
    late_ns_max: u64,
}

impl Floor {
    fn new(socket: UdpSocket, sender: Sender, trace: Trace, profile: Profile) -> Floor {
        let batch = SendBatch::new(BatchLimits { bytes: BATCH_BYTES, datagrams: BATCH_DATAGRAMS });
        Floor {
            socket,
            receivers: Vec::new(),
            positions: HashMap::new(),
            profile,
            trace,
            next: 0,
            repeats: 0,
            origin_ns: clock::wall_ns(),
            numbers: [0; 2],
            packets: Vec::new(),
            egress: Egress { sender, batch, counters: Counters::default() },
        }
    }

    /// Waits for the next burst, or a little, and sends what is due.
    fn turn(&mut self) {
        let wait = Duration::from_nanos(self.due_ns().saturating_sub(clock::wall_ns()));
        std::thread::sleep(wait.min(IDLE_TURN));
        self.take_hellos();
        let (now_ns, due_ns) = (clock::wall_ns(), self.due_ns());
        let mut used = 0;
        while self.due_ns() <= now_ns {
            for index in 0..self.trace.bursts[self.next].packets.len() {
                if used == self.packets.len() {
                    self.packets.push(Plain::default());
                }
                self.prepare(index, used);
                used += 1;
            }
            self.next += 1;
            if self.next == self.trace.bursts.len() {
                (self.next, self.repeats) = (0, self.repeats + 1);
            }
        }
        if used > 0 && !self.receivers.is_empty() {
            let counters = &mut self.egress.counters;
            counters.late_ns_max = counters.late_ns_max.max(now_ns - due_ns);
            self.send(used);
        }
    }

    fn due_ns(&self) -> u64 {
        self.origin_ns + self.repeats * self.trace.period_ns + self.trace.bursts[self.next].at_ns
    }

    /// Makes a packet of the next burst.
    fn prepare(&mut self, index: usize, at: usize) {
        let due_ns = self.due_ns();
        let packet = self.trace.bursts[self.next].packets[index];
        let track = packet.track();
        let number = self.numbers[track.index()];
        self.numbers[track.index()] += 1;
        let period = self.trace.period_ns as u128 * u128::from(track.clock_rate()) / 1_000_000_000;
        let before = (self.repeats as u128 * period) as u32;
        let plain = &mut self.packets[at];
        write_header(&packet, number as u16, packet.timestamp.wrapping_add(before), &mut plain.header);
        plain.payload.clear();
        plain.payload.resize(packet.payload_bytes.into(), FILL);
        if let Some(first) = plain.payload.first_mut().filter(|_| packet.key) {
            *first = FILL_KEY;
        }
        let mark = Mark { publisher: PUBLISHER, sent_ns: due_ns, number, counts: Counted::Packets };
        mark::write(&mut plain.payload, &mark);
    }

    /// Encrypts and sends the first `count` packets to every receiver.
    fn send(&mut self, count: usize) {
        let overhead = self.profile.rtp_overhead();
        for receiver in &mut self.receivers {
            for packet in &self.packets[..count] {
                self.egress.put(receiver, packet, overhead);
            }
        }
        self.egress.flush();
    }

    fn take_hellos(&mut self) {
        let mut datagram = [0; 64];
        // An error is no reason to stop: it may be about a receiver that is gone.
        while let Ok((length, source)) = self.socket.recv_from(&mut datagram) {
            match Hello::read(&datagram[..length]) {
                Some(Hello::Come { number }) if !self.positions.contains_key(&source) => {
                    self.admit(source, number);
                }
                Some(Hello::Go) => self.release(source),
                _ => {}
            }
        }
    }

    fn admit(&mut self, address: SocketAddr, number: u32) {
        let key = hello::key(self.profile, number);
        let outbound = OutboundContext::new(&srtp::Config::default(), &[key])
            .expect("one key without MKI and the default limits");
        self.positions.insert(address, self.receivers.len());
        self.receivers.push(Receiver { address, outbound });
    }

    fn release(&mut self, address: SocketAddr) {
        if let Some(position) = self.positions.remove(&address) {
            self.receivers.swap_remove(position);
            if let Some(moved) = self.receivers.get(position) {
                self.positions.insert(moved.address, position);
            }
        }
    }
}

impl Egress {
    /// Encrypts a packet into the batch.
    fn put(&mut self, receiver: &mut Receiver, packet: &Plain, overhead: usize) {
        let length_max = packet.header.len() + packet.payload.len() + overhead;
        let id = match self.batch.reserve(receiver.address, length_max) {
            Ok(id) => id,
            Err(_) => {
                self.flush();
                self.batch
                    .reserve(receiver.address, length_max)
                    .expect("an empty batch has room for a packet")
            }
        };
        let out = self.batch.buffer(id);
        match receiver.outbound.protect_rtp_from(&packet.header, &packet.payload, out) {
            Ok(length) => self.batch.set_len(id, length),
            Err(_) => {
                self.batch.discard(id);
                self.counters.failed += 1;
            }
        }
    }

    /// Sends what is in the batch, and drops what finds no room for too long.
    fn flush(&mut self) {
        for attempt in 0.. {
            let progress = self.sender.flush(&mut self.batch, usize::MAX);
            self.counters.sent += progress.sent as u64;
            self.counters.failed += progress.failed as u64;
            if !progress.blocked {
                return;
            }
            if attempt == ATTEMPTS_MAX {
                break;
            }
            std::thread::sleep(BLOCKED_WAIT);
        }
        self.counters.dropped += self.batch.len() as u64;
        self.batch.clear();
    }
}

/// A header of the traced length: the block of extensions, if there is one, is padding (RFC 8285
/// section 4.2).
fn write_header(packet: &TracedPacket, sequence_number: u16, timestamp: u32, out: &mut Vec<u8>) {
    let track = packet.track();
    let fields = HeaderFields {
        marker: packet.marker,
        payload_type: describe::USUAL_PAYLOAD_TYPES[track.index()],
        sequence_number,
        timestamp,
        ssrc: match track {
            Track::Audio => AUDIO_SSRC,
            Track::Video => VIDEO_SSRC,
        },
    };
    let mut block = [0; HEADER_BYTES_MAX];
    let block = &mut block[..usize::from(packet.header_bytes).saturating_sub(FIXED_HEADER_BYTES)];
    if let Some(words) = (block.len() / 4).checked_sub(1) {
        block[..4].copy_from_slice(&[0xbe, 0xde, 0, words as u8]);
    }
    out.clear();
    out.resize(FIXED_HEADER_BYTES + block.len(), 0);
    fields.write(block, out);
}

/// A closed standard output only means that the counters are not wanted.
fn print_line(value: &serde_json::Value) {
    let _ = writeln!(io::stdout(), "{value}");
}

/// Datagrams and bytes of one flush at most.
const BATCH_DATAGRAMS: usize = 4096;
const BATCH_BYTES: usize = 4 << 20;

/// A new receiver waits this long at most for its first packet.
const IDLE_TURN: Duration = Duration::from_millis(10);

/// 100 ms in all, after which a player conceals.
const BLOCKED_WAIT: Duration = Duration::from_micros(200);
const ATTEMPTS_MAX: u32 = 500;

const PUBLISHER: u64 = 1;
const AUDIO_SSRC: u32 = 0x6d66_0001;
const VIDEO_SSRC: u32 = 0x6d66_0002;

const FIXED_HEADER_BYTES: usize = 12;

/// What payloads consist of: no start code, no length.
const FILL: u8 = 0x41;

/// What those of key frames begin with: a NAL unit of type 5 (H.264 section 7.4.1).
const FILL_KEY: u8 = 0x65;

#[cfg(test)]
mod tests {
    use rtp::Packet;
    use srtp::InboundContext;

    use super::*;
    use crate::rtc::trace::Burst;

    fn traced(video: bool, header_bytes: u16, payload_bytes: u16) -> TracedPacket {
        TracedPacket { video, marker: video, key: false, timestamp: 0, header_bytes, payload_bytes }
    }

    #[test]
    fn headers_have_the_traced_length_and_say_what_they_are() {
        for header_bytes in [12, 16, 20, 24, 28, HEADER_BYTES_MAX as u16] {
            let mut header = Vec::new();
            write_header(&traced(true, header_bytes, 5), 7, 90_000, &mut header);
            assert_eq!(header.len(), usize::from(header_bytes));
            let packet = [&header[..], b"media"].concat();
            let parsed = Packet::parse(&packet).expect("a packet");
            assert_eq!(parsed.payload(), b"media", "{header_bytes}");
            let fields = parsed.fields();
            assert_eq!((fields.sequence_number, fields.timestamp, fields.marker), (7, 90_000, true));
        }
    }

    /// A floor on loopback, and the sockets of as many receivers.
    fn floor(receivers: u32) -> (Floor, Vec<UdpSocket>) {
        let any = "127.0.0.1:0".parse().expect("an address");
        let socket = bind(any).expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let config = Config { backends: vec![group_send::BackendKind::Sendmsg], ..Config::default() };
        let sender = Sender::new(&socket, &config).expect("works everywhere");
        let packets = vec![traced(false, 20, 160), traced(true, 24, 1000), traced(true, 24, 30)];
        let trace = Trace { period_ns: 40_000_000_000, bursts: vec![Burst { at_ns: 0, packets }] };
        let sockets: Vec<UdpSocket> = (0..receivers)
            .map(|number| {
                let receiver = UdpSocket::bind(any).expect("a free port");
                receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
                receiver.send_to(&Hello::Come { number }.to_bytes(), address).expect("it is sent");
                receiver
            })
            .collect();
        (Floor::new(socket, sender, trace, Profile::AeadAes128Gcm), sockets)
    }

    #[test]
    fn every_receiver_gets_the_traced_packets_under_its_own_key() {
        let (mut floor, sockets) = floor(3);
        floor.turn();
        assert_eq!((floor.egress.counters.sent, floor.repeats), (9, 1));
        for (number, socket) in sockets.iter().enumerate() {
            let key = hello::key(Profile::AeadAes128Gcm, number as u32);
            let mut inbound = InboundContext::new(&srtp::Config::default(), &[key]).expect("a key");
            for (header, payload) in [(20, 160), (24, 1000), (24, 30)] {
                let mut datagram = [0; 1500];
                let length = socket.recv(&mut datagram).expect("a packet");
                assert_eq!(length, header + payload + 16);
                let length = inbound.unprotect_rtp(&mut datagram[..length]).expect("it is authentic");
                let packet = Packet::parse(&datagram[..length]).expect("a packet");
                let mark = mark::find(packet.payload()).expect("it is marked");
                assert!(mark.sent_ns > 0 && mark.number < 2);
            }
        }
    }

    #[test]
    fn receivers_that_leave_get_nothing_more() {
        let (mut floor, sockets) = floor(3);
        floor.take_hellos();
        assert_eq!(floor.receivers.len(), 3);
        let address = floor.socket.local_addr().expect("it is bound");
        for left in [0, 2] {
            sockets[left].send_to(&Hello::Go.to_bytes(), address).expect("it is sent");
            floor.take_hellos();
        }
        let last = sockets[1].local_addr().expect("it is bound");
        assert_eq!((floor.receivers.len(), floor.receivers[0].address), (1, last));
        assert_eq!(floor.positions, HashMap::from([(last, 0)]));
    }
}
