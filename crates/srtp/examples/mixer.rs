//! A conference of telephones: everybody hears everybody else, mixed, under keys of one's own.
//!
//! All come to one socket. A packet is recognised by its SSRC in one look-up (`ssrc-map`), and believed when
//! it is authentic under that participant's key. Every 20 ms each participant gets the sum of the
//! others, with their SSRCs as contributors (RFC 3550 section 7.1). Audio is linear, 16 bits, 8000
//! samples a second (L16, RFC 3551 section 4.5.11).
//!
//! On the loopback device; the participants are threads that say one number each and check that they
//! hear the sum of the others' numbers.
//!
//! ```sh
//! cargo run --release -p srtp --example mixer [participants [seconds]]
//! ```

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use srtp::{Config, InboundContext, MasterKey, OutboundContext, Profile};
use ssrc_map::SsrcMap;

const FRAME: Duration = Duration::from_millis(20);
const SAMPLES: usize = 160;
const HEADER_BYTES: usize = 12;
/// More contributors do not fit into a header.
const PARTICIPANTS_MAX: usize = 16;
/// Frames of one participant that wait: threads wake up a little sooner or later.
const WAITING_MAX: usize = 3;
const MIXER_SSRC: u32 = 0x6d69_7865;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let participants: usize = arguments.next().map_or(Ok(5), |argument| argument.parse())?;
    let seconds: u32 = arguments.next().map_or(Ok(2), |argument| argument.parse())?;
    if !(2..=PARTICIPANTS_MAX).contains(&participants) || !(1..=3600).contains(&seconds) {
        return Err(format!("2 to {PARTICIPANTS_MAX} participants and 1 to 3600 seconds").into());
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = socket.local_addr()?;
    // SSRC and keys are agreed on beforehand, as by SIP: key and salt of each direction.
    let seats: Vec<Seat> = (1..=participants as u8).map(Seat::new).collect::<Result<_, _>>()?;
    let mut mixer = Mixer::new(socket, &seats)?;
    let frames = seconds * 50;
    let all: i16 = seats.iter().map(|seat| seat.says).sum();
    thread::scope(|scope| {
        let talk = |seat: &'_ Seat| seat.talk(address, frames, all - seat.says);
        let talking: Vec<_> = seats.iter().map(|seat| (seat, scope.spawn(move || talk(seat)))).collect();
        mixer.run(frames)?;
        println!("{frames} frames mixed, {} packets refused", mixer.refused);
        for (Seat { ssrc, says, .. }, thread) in talking {
            let whole = thread.join().expect("a participant does not panic")?;
            println!("{ssrc:x} says {says}: heard {} from the others {whole} times", all - says);
        }
        Ok(())
    })
}

/// What is agreed on with a participant.
struct Seat {
    ssrc: u32,
    says: i16,
    up: MasterKey,
    down: MasterKey,
}

impl Seat {
    fn new(number: u8) -> Result<Self, Failure> {
        let key = |salt| MasterKey::new(Profile::AesCm128HmacSha1_80, &[number; 16], &[salt; 14]);
        Ok(Self {
            ssrc: 0x5ea7_0000 | u32::from(number),
            says: 100 * i16::from(number),
            up: key(1)?,
            down: key(2)?,
        })
    }

    /// Talks and listens. How many frames had `others`, and nothing else.
    fn talk(&self, mixer: SocketAddr, frames: u32, others: i16) -> Result<u32, Failure> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(mixer)?;
        socket.set_nonblocking(true)?;
        let mut out = OutboundContext::new(&Config::default(), std::slice::from_ref(&self.up))?;
        let mut heard = InboundContext::new(&Config::default(), std::slice::from_ref(&self.down))?;
        let (mut packet, mut whole) = ([0; 1500], 0);
        let start = now();
        for frame in 0..frames {
            let payload = [self.says; SAMPLES].map(i16::to_be_bytes);
            let header = rtp_header(frame, self.ssrc, 0);
            let len = out.protect_rtp_from(&header, payload.as_flattened(), &mut packet)?;
            socket.send(&packet[..len])?;
            thread::sleep((start + FRAME * (frame + 1)).saturating_duration_since(now()));
            while let Ok(len) = socket.recv(&mut packet) {
                let len = heard.unprotect_rtp(&mut packet[..len])?;
                let from = HEADER_BYTES + 4 * usize::from(packet[0] & 15);
                let (samples, _) = packet[from..len].as_chunks::<2>();
                whole += u32::from(samples.iter().all(|sample| i16::from_be_bytes(*sample) == others));
            }
        }
        Ok(whole)
    }
}

/// A participant, for the mixer.
struct Participant {
    up: InboundContext,
    down: OutboundContext,
    /// Where its last authentic packet came from: the mix goes there, and nowhere before.
    address: Option<SocketAddr>,
    /// What it has said and is not mixed yet.
    waiting: VecDeque<[i16; SAMPLES]>,
}

struct Mixer {
    socket: UdpSocket,
    participants: SsrcMap<Participant>,
    ssrcs: Vec<u32>,
    refused: u32,
}

impl Mixer {
    fn new(socket: UdpSocket, seats: &[Seat]) -> Result<Self, Failure> {
        socket.set_nonblocking(true)?;
        let mut participants = SsrcMap::new(PARTICIPANTS_MAX);
        for seat in seats {
            let up = InboundContext::new(&Config::default(), std::slice::from_ref(&seat.up))?;
            let down = OutboundContext::new(&Config::default(), std::slice::from_ref(&seat.down))?;
            let one = Participant { up, down, address: None, waiting: VecDeque::new() };
            participants.insert(seat.ssrc, one).map_err(|_| "too many participants")?;
        }
        let ssrcs = seats.iter().map(|seat| seat.ssrc).collect();
        Ok(Self { socket, participants, ssrcs, refused: 0 })
    }

    fn run(&mut self, frames: u32) -> Result<(), Failure> {
        let start = now();
        for frame in 0..frames {
            self.receive()?;
            self.send(frame)?;
            thread::sleep((start + FRAME * (frame + 1)).saturating_duration_since(now()));
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut packet = [0; 1500];
        loop {
            let (len, from) = match self.socket.recv_from(&mut packet) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let is_taken = self.take(&mut packet[..len], from).is_some();
            self.refused += u32::from(!is_taken);
        }
    }

    /// Takes a packet of a participant, which then has said something.
    fn take(&mut self, packet: &mut [u8], from: SocketAddr) -> Option<()> {
        let ssrc = packet.get(8..HEADER_BYTES)?.try_into().map(u32::from_be_bytes).ok()?;
        let one = self.participants.get_mut(ssrc)?;
        let len = one.up.unprotect_rtp(packet).ok()?;
        one.address = Some(from);
        let (samples, _) = packet.get(HEADER_BYTES..len)?.as_chunks::<2>();
        let mut frame = [0; SAMPLES];
        frame.iter_mut().zip(samples).for_each(|(to, sample)| *to = i16::from_be_bytes(*sample));
        // Who talks faster than this listens, or all at once, is not heard later and later.
        if one.waiting.len() == WAITING_MAX {
            one.waiting.pop_front();
        }
        one.waiting.push_back(frame);
        Some(())
    }

    /// Sends each the sum of the others. It is computed once; one's own part is taken out of it.
    fn send(&mut self, frame: u32) -> Result<(), Failure> {
        let mut sum = [0i32; SAMPLES];
        let mut heard = Vec::new();
        for (ssrc, one) in &self.participants {
            let Some(samples) = one.waiting.front() else { continue };
            heard.push(ssrc);
            sum.iter_mut().zip(samples).for_each(|(sum, sample)| *sum += i32::from(*sample));
        }
        let mut packet = [0; 1500];
        for &ssrc in &self.ssrcs {
            let Some(one) = self.participants.get_mut(ssrc) else { continue };
            let own = one.waiting.pop_front().unwrap_or([0; SAMPLES]);
            let Some(address) = one.address else { continue };
            let others: Vec<u32> = heard.iter().copied().filter(|heard| *heard != ssrc).collect();
            let mut header = rtp_header(frame, MIXER_SSRC, others.len() as u8).to_vec();
            header.extend(others.iter().flat_map(|ssrc| ssrc.to_be_bytes()));
            let mix: Vec<u8> = sum
                .iter()
                .zip(own)
                .map(|(sum, own)| (sum - i32::from(own)).clamp(i16::MIN.into(), i16::MAX.into()) as i16)
                .flat_map(i16::to_be_bytes)
                .collect();
            let len = one.down.protect_rtp_from(&header, &mix, &mut packet)?;
            self.socket.send_to(&packet[..len], address)?;
        }
        Ok(())
    }
}

/// Version 2, payload type 96.
fn rtp_header(frame: u32, ssrc: u32, contributors: u8) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = 2 << 6 | contributors;
    header[1] = 96;
    header[2..4].copy_from_slice(&(frame as u16).to_be_bytes());
    header[4..8].copy_from_slice(&(frame * SAMPLES as u32).to_be_bytes());
    header[8..].copy_from_slice(&ssrc.to_be_bytes());
    header
}

#[expect(clippy::disallowed_methods, reason = "a program reads the clock; the library does not")]
fn now() -> Instant {
    Instant::now()
}
