//! What does a datagram cost to receive, by how many are waiting and how many came together from
//! one sender?
//!
//! In turn, on loopback: a loop of `recv_from`, `RecvBatch`, `RecvBatch` with ECN and arrival time
//! of each datagram, and `RecvBatch` with GRO. Each reads a byte of every cache line and the source
//! of every datagram; counts and sums are compared. Processor time of this thread while it
//! receives, without what it sends; medians.
//!
//! `receive [--quick]`

use std::hint::black_box;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

use group_send::{Config, Recipient, RecvBatch, RecvConfig, Sender, Slot, socket};
use nix::time::{ClockId, clock_gettime};

/// Datagrams of 1200 bytes that wait when a turn begins, and how many of them in a row are of one
/// sender.
const CASES: [(usize, usize); 8] = [(1, 1), (4, 1), (16, 1), (64, 1), (64, 2), (64, 4), (64, 8), (256, 1)];
const BYTES: usize = 1200;
const SENDERS: usize = 16;

fn main() -> io::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let mut contenders = [Method::Loop, Method::Batch, Method::Ancillary, Method::Joined].map(Contender::new);
    let mut senders: Vec<_> = (0..SENDERS).map(|_| sender()).collect::<io::Result<_>>()?;
    println!("nanoseconds of processor time for each datagram of {BYTES} bytes");
    for (waiting, row) in CASES {
        // A warm-up of each, then as many datagrams whatever the case.
        let rounds = 2 + if quick { 40_000 } else { 400_000 } / waiting.max(16);
        let mut costs = [const { Vec::new() }; 4];
        for round in 0..rounds {
            for (contender, costs) in contenders.iter_mut().zip(&mut costs) {
                send(&mut senders, contender.socket.local_addr()?, waiting, row);
                let cost = contender.turn(waiting)?;
                if round >= 2 {
                    costs.push(cost);
                }
            }
        }
        let loop_cost = median(&mut costs[0]);
        for (contender, costs) in contenders.iter().zip(&mut costs) {
            let (name, cost) = (contender.method.name(), median(costs));
            println!(
                "waiting={waiting} row={row} method={name} ns={cost:.0} vs_loop={:.2}",
                loop_cost / cost
            );
        }
    }
    Ok(())
}

/// How datagrams are received.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    Loop,
    Batch,
    Ancillary,
    Joined,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Batch => "batch",
            Self::Ancillary => "batch_told",
            Self::Joined => "batch_gro",
        }
    }
}

/// A socket and what receives from it.
struct Contender {
    method: Method,
    socket: UdpSocket,
    batch: RecvBatch,
    buffer: Vec<u8>,
}

impl Contender {
    fn new(method: Method) -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        receiver.set_nonblocking(true).expect("a socket option");
        socket::size_buffers(&receiver, socket::BUFFER_BYTES).expect("a size");
        if method == Method::Ancillary {
            socket::enable_ecn(&receiver).expect("ECN");
            socket::enable_timestamps(&receiver).expect("timestamps");
        }
        if method == Method::Joined {
            socket::enable_gro(&receiver).expect("GRO");
        }
        let batch = RecvBatch::new(RecvConfig::default());
        Self { method, socket: receiver, batch, buffer: vec![0; 65_536] }
    }

    /// Receives all that waits, and returns what each of them took.
    fn turn(&mut self, waiting: usize) -> io::Result<f64> {
        let (mut seen, mut sum) = (0, 0);
        let start = processor_ns();
        while seen < waiting {
            let received = match self.method {
                Method::Loop => self.take_each(&mut seen, &mut sum),
                _ => self.take_batch(&mut seen, &mut sum),
            };
            match received {
                // A datagram that another core still delivers.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => result?,
            }
        }
        let cost = (processor_ns() - start) / waiting as f64;
        assert_eq!((seen, black_box(sum)), (waiting, waiting * BYTES.div_ceil(64)), "{}", self.method.name());
        Ok(cost)
    }

    /// As a server does it, which does not know how many there are.
    fn take_each(&mut self, seen: &mut usize, sum: &mut usize) -> io::Result<()> {
        loop {
            let (len, source) = self.socket.recv_from(&mut self.buffer)?;
            *seen += 1;
            *sum += look_at(&self.buffer[..len], source);
        }
    }

    fn take_batch(&mut self, seen: &mut usize, sum: &mut usize) -> io::Result<()> {
        loop {
            *seen += self.batch.recv(&self.socket)?;
            *sum +=
                self.batch.iter().map(|datagram| look_at(datagram.payload, datagram.source)).sum::<usize>();
            if !self.batch.is_full() {
                return Ok(());
            }
        }
    }
}

fn look_at(payload: &[u8], source: SocketAddr) -> usize {
    black_box(source.port());
    payload.chunks(64).map(|line| usize::from(line[0])).sum()
}

fn sender() -> io::Result<Sender> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    Ok(Sender::new(&socket, &Config::default()).expect("a back end"))
}

/// Sends so many datagrams, `row` of each sender in turn.
fn send(senders: &mut [Sender], to: SocketAddr, datagrams: usize, row: usize) {
    let payload = [1; BYTES];
    let packets = vec![&payload[..]; row];
    for turn in 0..datagrams / row {
        let mut slots = [Slot::default()];
        let recipient = Recipient { destination: to, prepend: &[], append: &[] };
        let progress = senders[turn % SENDERS].send_group(&packets, &[recipient], &mut slots);
        assert_eq!(progress.sent, row);
    }
}

fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("this thread's clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
