//! Live audio to 1000 recipients: every 20 ms one frame of 160 bytes goes to all of them in one
//! call, behind an RTP header that is each one's own (RFC 3550 section 5.1).
//!
//! All on the loopback device, and bounded in time. Recipients are addresses in 127.0.0.0/8, all of
//! which Linux takes for its own; one socket receives for all and counts per recipient. What is
//! sent when the socket has no room, and for how long to wait then, is decided here and not in the
//! library.
//!
//! ```sh
//! cargo run --release -p group-send --example send_group [recipients [seconds]]
//! ```

use group_send::socket::{BUFFER_BYTES, enable_destination, size_buffers};
use group_send::{Config, Recipient, RecvBatch, RecvConfig, SendError, Sender, Slot};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const FRAME: Duration = Duration::from_millis(20);

/// 20 ms of G.711 at 8000 samples a second, one byte each (RFC 3551 section 4.5.14).
const FRAME_BYTES: usize = 160;

const HEADER_BYTES: usize = 12;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let recipients: u32 = arguments.next().map_or(Ok(1000), |argument| argument.parse())?;
    let seconds: u32 = arguments.next().map_or(Ok(3), |argument| argument.parse())?;
    if !(1..=60_000).contains(&recipients) || !(1..=3600).contains(&seconds) {
        return Err("1 to 60000 recipients and 1 to 3600 seconds".into());
    }

    let listener = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = listener.local_addr()?.port();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let listening = scope.spawn(|| listen(&listener, &done));
        let report = speak(recipients, seconds * 1000 / FRAME.as_millis() as u32, port);
        done.store(true, Ordering::Relaxed);
        let received = listening.join().expect("the listener does not panic")?;
        report?.print(&received);
        Ok(())
    })
}

/// What was done.
struct Report {
    recipients: usize,
    frames: u32,
    sent: usize,
    failed: usize,
    /// Too old when there was room again.
    dropped: usize,
    /// Time of the calls alone.
    sending: Duration,
}

/// One listener of the programme.
struct Audience {
    destination: SocketAddr,
    header: [u8; HEADER_BYTES],
}

/// Sends all frames at their times.
fn speak(recipients: u32, frames: u32, port: u16) -> Result<Report, Box<dyn std::error::Error>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    warn_of_small_buffers(&socket)?;
    let mut sender = Sender::new(&socket, &Config::default())?;
    println!("back end: {}", sender.backend());
    for not in sender.not_chosen() {
        println!("not {}: {}", not.backend, not.why);
    }

    let first = Ipv4Addr::new(127, 1, 0, 0).to_bits();
    let mut audience: Vec<Audience> = (0..recipients)
        .map(|index| Audience {
            destination: (Ipv4Addr::from_bits(first + index), port).into(),
            header: [0; HEADER_BYTES],
        })
        .collect();
    let mut slots = Vec::new();
    let mut report = Report {
        recipients: audience.len(),
        frames,
        sent: 0,
        failed: 0,
        dropped: 0,
        sending: Duration::ZERO,
    };
    let start = now();
    for frame in 0..frames {
        for (listener, ssrc) in audience.iter_mut().zip(1..) {
            listener.header = rtp_header(frame, ssrc);
        }
        let deadline = start + FRAME * (frame + 1);
        send_frame(&mut sender, &[0xff; FRAME_BYTES], &audience, &mut slots, deadline, &mut report);
        thread::sleep(deadline.saturating_duration_since(now()));
    }
    Ok(report)
}

/// Sends one frame to all, as far as there is room for it until `deadline`.
fn send_frame(
    sender: &mut Sender,
    payload: &[u8],
    audience: &[Audience],
    slots: &mut Vec<Slot>,
    deadline: Instant,
    report: &mut Report,
) {
    let prepends: Vec<[&[u8]; 1]> = audience.iter().map(|listener| [&listener.header[..]]).collect();
    let recipients: Vec<Recipient<'_>> = audience
        .iter()
        .zip(&prepends)
        .map(|(listener, prepend)| Recipient { destination: listener.destination, prepend, append: &[] })
        .collect();
    slots.clear();
    slots.resize(audience.len(), Slot::default());
    let begin = now();
    // A server with other work would return to its loop and wait until the socket is writable.
    while sender.send_group(&[payload], &recipients, slots).blocked && now() < deadline {
        thread::yield_now();
    }
    report.sending += now() - begin;
    report.sent += slots.iter().filter(|slot| slot.sent == 1).count();
    report.failed += slots.iter().filter(|slot| slot.failed == 1).count();
    report.dropped += slots.iter().filter(|slot| slot.error == Some(SendError::WouldBlock)).count();
}

/// Version 2, payload type 0, one sample a byte.
fn rtp_header(frame: u32, ssrc: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = 2 << 6;
    header[2..4].copy_from_slice(&(frame as u16).to_be_bytes());
    header[4..8].copy_from_slice(&(frame * FRAME_BYTES as u32).to_be_bytes());
    header[8..12].copy_from_slice(&ssrc.to_be_bytes());
    header
}

/// Receives until nothing has arrived for some time after `done`: packets by the address they were
/// sent to.
fn listen(socket: &UdpSocket, done: &AtomicBool) -> io::Result<HashMap<IpAddr, u32>> {
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    enable_destination(socket)?;
    warn_of_small_buffers(socket)?;
    let mut batch = RecvBatch::new(RecvConfig { message_bytes: 2048, ..RecvConfig::default() });
    let mut received = HashMap::new();
    loop {
        match batch.recv_wait(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && done.load(Ordering::Relaxed) => {
                return Ok(received);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        for datagram in batch.iter().filter(|datagram| datagram.payload.len() == HEADER_BYTES + FRAME_BYTES) {
            if let Some(destination) = datagram.destination {
                *received.entry(destination).or_insert(0) += 1;
            }
        }
    }
}

fn warn_of_small_buffers(socket: &UdpSocket) -> io::Result<()> {
    if let Some(warning) = size_buffers(socket, BUFFER_BYTES)?.warning {
        eprintln!("{warning}");
    }
    Ok(())
}

impl Report {
    fn print(&self, received: &HashMap<IpAddr, u32>) {
        let Self { recipients, frames, sent, failed, dropped, sending } = self;
        println!(
            "{frames} frames to {recipients} recipients: {sent} datagrams sent, {failed} failed, {dropped} too late"
        );
        println!(
            "{:.2} ms a frame in send_group, {:.0} ns a datagram",
            sending.as_secs_f64() * 1e3 / f64::from(*frames),
            sending.as_secs_f64() * 1e9 / (*sent).max(1) as f64
        );
        let total: u32 = received.values().sum();
        let least = if received.len() < *recipients { Some(&0) } else { received.values().min() };
        println!(
            "received: {total} datagrams by {} recipients, at least {} each",
            received.len(),
            least.unwrap_or(&0)
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "a program reads the clock; the library does not")]
fn now() -> Instant {
    Instant::now()
}
