//! Somebody without credentials who sends to every UDP port of a server: garbage, and what looks
//! like a client.
//!
//! It has seen the user names of WebRTC clients pass by, but no password and no key. Nothing of what it sends
//! is answered: not with media, and not with an error either, which would go to whoever it says that it is.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use netsim::Random;
use netsim::kernel::{self, EventQueue, Interest, UdpSocket};
use rtc_test::stun;

use super::{Actor, Next, ms};
use crate::ledger::Ledger;

/// Longest datagram that it sends.
const DATAGRAM_MAX: u64 = 1_400;

/// One of them.
pub struct Stranger {
    server: usize,
    from: IpAddr,
    queue: EventQueue,
    socket: UdpSocket,
    random: Random,
    until: Instant,
    sent: u64,
    leaving: bool,
}

impl Stranger {
    /// One that stays until then; what it sends follows from `seed`.
    pub fn new(server: usize, from: IpAddr, until: Instant, seed: u64) -> Self {
        let queue = EventQueue::new();
        let socket = UdpSocket::bind(SocketAddr::new(from, 0)).expect("a free port");
        queue.add(socket.id(), 0, Interest { read: true, write: false });
        let random = Random::new(seed);
        Self { server, from, queue, socket, random, until, sent: 0, leaving: false }
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let len = self.random.below(most);
        (0..len).map(|_| self.random.next_u64() as u8).collect()
    }

    /// A datagram, by its first bytes of this or that protocol.
    fn datagram(&mut self, user_name: Option<&str>) -> Vec<u8> {
        let mut garbage = self.bytes(DATAGRAM_MAX);
        let id = stun::transaction(self.random.next_u64());
        let user_name = user_name.unwrap_or("nobody:stranger");
        match self.random.below(8) {
            0 => garbage,
            // A check without integrity, one with the wrong password, and answers to checks of nobody.
            1 => stun::Check::new(user_name, "", id).open().fingerprint().0,
            2 => stun::Check::new(user_name, "guessed-guessed-guessed", id).bytes(),
            3 => stun::Writer::new(stun::SUCCESS, id).integrity("guessed").fingerprint().0,
            4 => {
                let cut = self.random.below(60) as usize;
                let mut check = stun::Check::new(user_name, "guessed", id).bytes();
                check.truncate(cut);
                check
            }
            // A record of a DTLS handshake: what a client begins with.
            5 => {
                let mut record = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0];
                record.extend((garbage.len() as u16).to_be_bytes());
                record.push(1);
                record.append(&mut garbage);
                record
            }
            // RTP of a publisher that there is, and RTCP.
            6 => [&[0x80, rtc_test::VP8][..], &garbage].concat(),
            _ => [&[0x81, 206, 0, 2][..], &garbage].concat(),
        }
    }
}

impl Actor for Stranger {
    fn turn(&mut self, ledger: &mut Ledger) -> Next {
        self.queue.wait(&mut Vec::new());
        let now = kernel::now();
        let mut answers = Vec::new();
        while self.socket.receive(64, &mut answers).is_ok_and(|more| more) {}
        for (by, answer) in answers {
            ledger.violation(format!("stranger {}: {by} answers with {} bytes", self.from, answer.len()));
        }
        ledger.checks += 1;
        if self.leaving || now >= self.until {
            ledger.say(|| format!("stranger {} has sent {} datagrams", self.from, self.sent));
            return Next::Done;
        }
        let view = &ledger.servers[self.server];
        let ports = view.rtc.iter().flat_map(|endpoint| endpoint.udp.clone()).chain(view.relay);
        for to in ports.collect::<Vec<_>>() {
            let known = self.random.below(ledger.user_names.len().max(1) as u64) as usize;
            let user_name = ledger.user_names.get(known).cloned();
            let datagram = self.datagram(user_name.as_deref());
            self.socket.send_to(datagram, to);
            self.sent += 1;
        }
        Next::At(now + ms(20) + self.random.up_to(ms(100)))
    }

    fn queue(&self) -> &EventQueue {
        &self.queue
    }

    fn leave(&mut self) {
        self.leaving = true;
    }
}

impl std::fmt::Debug for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stranger").field("from", &self.from).finish_non_exhaustive()
    }
}
