//! A game's server: 30 times a second everybody learns where everybody is, in one call.
//!
//! The list of positions is the same for all. In front of it each player has the number of the last
//! input of its own that the list contains, so that its program can tell what of its own moves is
//! still under way. Players join with their first datagram and leave with their last; the next call
//! simply has another list of recipients.
//!
//! All on the loopback device, and bounded in time: half of the players leave half way.
//!
//! ```sh
//! cargo run --release -p group-send --example positions [players [seconds]]
//! ```

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use group_send::peer_table::{PeerKey, PeerTable};
use group_send::{Config, Recipient, RecvBatch, RecvConfig, SendError, Sender, Slot};

const TICK: Duration = Duration::from_nanos(1_000_000_000 / 30);
/// What fits into a datagram of 1200 bytes.
const PLAYERS_MAX: usize = 190;
/// Input number and step of a player; a step of nothing is its farewell.
const INPUT_BYTES: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let players: usize = arguments.next().map_or(Ok(100), |argument| argument.parse())?;
    let seconds: u32 = arguments.next().map_or(Ok(2), |argument| argument.parse())?;
    if !(2..=PLAYERS_MAX).contains(&players) || !(1..=3600).contains(&seconds) {
        return Err(format!("2 to {PLAYERS_MAX} players and 1 to 3600 seconds").into());
    }
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = socket.local_addr()?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let game = scope.spawn(|| Game::new(socket)?.run(&done));
        let seen = play(server, players, seconds * 30);
        done.store(true, Ordering::Relaxed);
        let game = game.join().expect("the game does not panic").map_err(|error| error.to_string())?;
        let (lists, newest_input) = seen?;
        println!("{} datagrams sent by {}, {} failed", game.sent, game.sender.backend(), game.failed);
        println!("{players} players got {lists} lists; own inputs in them up to number {newest_input}");
        Ok(())
    })
}

struct Player {
    address: SocketAddr,
    position: [i16; 2],
    newest_input: u32,
}

struct Game {
    socket: UdpSocket,
    sender: Sender,
    players: Vec<Player>,
    /// Places in `players`: a look-up for each datagram, which must not print addresses.
    places: PeerTable<usize>,
    slots: Vec<Slot>,
    sent: usize,
    failed: usize,
}

impl Game {
    fn new(socket: UdpSocket) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        socket.set_nonblocking(true)?;
        let sender = Sender::new(&socket, &Config::default())?;
        let places = PeerTable::new(PLAYERS_MAX);
        Ok(Self { socket, sender, players: Vec::new(), places, slots: Vec::new(), sent: 0, failed: 0 })
    }

    fn run(mut self, done: &AtomicBool) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut received = RecvBatch::new(RecvConfig::default());
        let start = now();
        for tick in 0u32.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            loop {
                match received.recv(&self.socket) {
                    Ok(_) => received.iter().for_each(|input| self.take(input.source, input.payload)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            self.tell_all(tick);
            thread::sleep((start + TICK * (tick + 1)).saturating_duration_since(now()));
        }
        Ok(self)
    }

    /// Takes a player's input. What is no input is not answered: a server that does could be made to
    /// send to others.
    fn take(&mut self, address: SocketAddr, input: &[u8]) {
        let Ok(input) = <[u8; INPUT_BYTES]>::try_from(input) else { return };
        let [n0, n1, n2, n3, x0, x1, y0, y1] = input;
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        let step = [i16::from_be_bytes([x0, x1]), i16::from_be_bytes([y0, y1])];
        let key = PeerKey::from(address);
        let place = match self.places.get(key) {
            Some(&place) => place,
            None if step == [0, 0] => return,
            None => {
                // With a full table the newcomer is ignored, and asks again with its next input.
                if self.places.insert(key, self.players.len()).is_err() {
                    return;
                }
                self.players.push(Player { address, position: [0, 0], newest_input: 0 });
                self.players.len() - 1
            }
        };
        if step == [0, 0] {
            self.places.remove(key);
            self.players.swap_remove(place);
            if let Some(moved) = self.players.get(place) {
                let _ = self.places.insert(PeerKey::from(moved.address), place);
            }
            return;
        }
        let player = &mut self.players[place];
        // Datagrams may come twice, and late.
        if number > player.newest_input {
            player.newest_input = number;
            player.position = [0, 1].map(|axis| player.position[axis].wrapping_add(step[axis]));
        }
    }

    fn tell_all(&mut self, tick: u32) {
        let mut list = tick.to_be_bytes().to_vec();
        for player in &self.players {
            list.extend(player.position.iter().flat_map(|axis| axis.to_be_bytes()));
        }
        let inputs: Vec<[u8; 4]> =
            self.players.iter().map(|player| player.newest_input.to_be_bytes()).collect();
        let prepends: Vec<[&[u8]; 1]> = inputs.iter().map(|input| [&input[..]]).collect();
        let recipients: Vec<Recipient<'_>> = self
            .players
            .iter()
            .zip(&prepends)
            .map(|(player, prepend)| Recipient { destination: player.address, prepend, append: &[] })
            .collect();
        self.slots.clear();
        self.slots.resize(recipients.len(), Slot::default());
        // If the socket is full, the rest of this list is not sent: in 33 ms there is a newer one.
        let _ = self.sender.send_group(&[&list], &recipients, &mut self.slots);
        self.sent += self.slots.iter().filter(|slot| slot.sent == 1).count();
        let is_failure = |slot: &&Slot| slot.error.is_some_and(|error| error != SendError::WouldBlock);
        self.failed += self.slots.iter().filter(is_failure).count();
    }
}

/// Plays for some ticks. The number of lists that all players got, and the newest input in one.
fn play(server: SocketAddr, players: usize, ticks: u32) -> io::Result<(usize, u32)> {
    let sockets = (0..players)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(server)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })
        .collect::<io::Result<Vec<_>>>()?;
    let (mut lists, mut newest_input) = (0, 0);
    let mut datagram = [0; 2048];
    let start = now();
    for tick in 1..=ticks {
        for (at, socket) in sockets.iter().enumerate() {
            let leaves_at = if at % 2 == 0 { ticks / 2 } else { ticks };
            if tick <= leaves_at {
                let step: i16 = if tick == leaves_at { 0 } else { 1 };
                let mut input = tick.to_be_bytes().to_vec();
                input.extend([step, step].iter().flat_map(|axis| axis.to_be_bytes()));
                socket.send(&input)?;
            }
            while let Ok(len) = socket.recv(&mut datagram) {
                let [n0, n1, n2, n3, ..] = datagram;
                assert!(len >= 12, "own input, tick, and at least one position");
                lists += 1;
                newest_input = newest_input.max(u32::from_be_bytes([n0, n1, n2, n3]));
            }
        }
        thread::sleep((start + TICK * tick).saturating_duration_since(now()));
    }
    Ok((lists, newest_input))
}

#[expect(clippy::disallowed_methods, reason = "a program reads the clock; the library does not")]
fn now() -> Instant {
    Instant::now()
}
