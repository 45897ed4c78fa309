//! Which worker gets a datagram where all share one port (`rtc.single_port`).
//!
//! ```text
//! STUN request with a USERNAME ─▶ the worker that its first characters name
//! anything else                ─▶ the worker that a table has for its address, where the kernel lets us
//!                                 have one
//!                              ─▶ else a hash of the address
//! ```
//!
//! The kernel runs [`program`] for each datagram. Nothing in DTLS and SRTP is of this server's choosing, so
//! their addresses decide. Without an entry in the table, the worker that the hash leads to passes on what is
//! another's (`packets/passing.rs`); [`worker_of`] says which one that is, by the same arithmetic. The reasons
//! are in docs/decisions/0060-one-port.md.

use std::net::{IpAddr, SocketAddr};

use group_send::steering::{Instruction, LOOK_UP};

use crate::ids::{TableId, WorkerIndex};

/// Attributes of a STUN request among which the USERNAME is looked for. Clients have it first (libwebrtc,
/// Pion, libnice) or behind a few; what the program does not find is passed on.
const ATTRIBUTES_MAX: usize = 6;
/// A STUN header and the least of a USERNAME that names a worker.
const REQUEST_BYTES_MIN: u32 = 28;
const BINDING_REQUEST: u32 = 0x0001;
const MAGIC_COOKIE: u32 = 0x2112_a442;
const USERNAME: u32 = 0x0006;

/// Odd numbers without a pattern: those of the finalizer of MurmurHash3 and of the golden ratio. No secret:
/// which worker an address leads to is for nobody to hide.
const OF_PORT: u32 = 0x9e37_79b1;
const OF_WORD: u32 = 0x85eb_ca6b;
const LAST: u32 = 0xc2b2_ae35;

/// The worker that gets what a peer at this address sends, STUN requests apart.
pub(crate) fn worker_of(remote: SocketAddr, workers: usize) -> WorkerIndex {
    let port = u32::from(remote.port()).wrapping_mul(OF_PORT);
    let address = match remote.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => {
            let words = (0..4).map(|word| (ip.to_bits() >> (96 - 32 * word)) as u32);
            words.fold(0_u32, |hash, word| (hash ^ word).wrapping_mul(OF_WORD))
        }
    };
    let mixed = address ^ port;
    let hash = (mixed ^ mixed >> 16).wrapping_mul(LAST) >> 16;
    WorkerIndex::at(hash as usize % workers)
}

/// Memory of the program: the number that is being read, a character, X; and port and address of the sender, as
/// `LOOK_UP` wants them. Words that nothing is written to are zero where there is a table.
const NUMBER: u32 = 0;
const CHARACTER: u32 = 1;
const SAVED_X: u32 = 2;
const ADDRESS: u32 = 3;

/// The program that picks one of so many sockets, by the order in which they were bound. Without a table it
/// is classic BPF.
///
/// A load that goes past the end of a datagram ends it with 0, the first worker: only of STUN that is cut
/// short. Extension headers of IPv6 are not walked: what has some comes to a worker that does not know whose
/// it is.
pub(crate) fn program(workers: usize, has_table: bool) -> Vec<Instruction> {
    let workers = u32::try_from(workers).expect("workers are few");
    let mut code = Assembler::default();
    code.op(LD_W_LEN, 0);
    code.jump(JGE_K, REQUEST_BYTES_MIN, Target::Next, Target::Hash);
    code.op(LD_H_ABS, 0);
    code.jump(JEQ_K, BINDING_REQUEST, Target::Next, Target::Hash);
    code.op(LD_W_ABS, 4);
    code.jump(JEQ_K, MAGIC_COOKIE, Target::Next, Target::Hash);
    code.op(LDX_IMM, 20);
    for _ in 0..ATTRIBUTES_MAX {
        code.op(LD_H_IND, 0);
        code.jump(JEQ_K, USERNAME, Target::Username, Target::Next);
        // Past a header of four bytes and a value that is padded to a multiple of four.
        code.op(LD_H_IND, 2);
        code.op(ADD_K, 7);
        code.op(AND_K, 0xffff_fffc);
        code.op(ADD_X, 0);
        code.op(TAX, 0);
    }
    code.jump(JEQ_K, 0, Target::Hash, Target::Hash);

    // Three characters from `A` to `P` are the number of a worker in hexadecimal.
    code.here(Target::Username);
    code.op(LD_IMM, 0);
    code.op(ST, NUMBER);
    for character in 0..3 {
        code.op(LD_B_IND, 4 + character);
        code.op(SUB_K, u32::from(b'A'));
        code.jump(JGT_K, 15, Target::Hash, Target::Next);
        code.op(ST, CHARACTER);
        code.op(LD_MEM, NUMBER);
        code.op(LSH_K, 4);
        // X, where the attribute is, is needed for the sum.
        code.op(STX, SAVED_X);
        code.op(LDX_MEM, CHARACTER);
        code.op(ADD_X, 0);
        code.op(ST, NUMBER);
        code.op(LDX_MEM, SAVED_X);
    }
    code.jump(JGE_K, workers, Target::Hash, Target::Next);
    code.op(RET_A, 0);

    code.here(Target::Hash);
    code.op(LD_B_ABS, NETWORK);
    code.op(RSH_K, 4);
    code.jump(JEQ_K, 6, Target::Ipv6, Target::Next);
    // The port is behind a header of four times IHL bytes.
    code.op(LD_B_ABS, NETWORK);
    code.op(AND_K, 0xf);
    code.op(LSH_K, 2);
    code.op(TAX, 0);
    code.op(LD_H_IND, NETWORK);
    code.op(ST, ADDRESS);
    code.op(LD_W_ABS, NETWORK + IPV4_SOURCE);
    code.op(ST, ADDRESS + 1);
    if has_table {
        code.op(LOOK_UP, ADDRESS);
    }
    code.op(LD_MEM, ADDRESS);
    code.op(MUL_K, OF_PORT);
    code.op(LDX_MEM, ADDRESS + 1);
    code.op(XOR_X, 0);
    code.jump(JEQ_K, 0, Target::Mix, Target::Mix);
    code.here(Target::Ipv6);
    code.op(LD_H_ABS, NETWORK + IPV6_BYTES);
    code.op(ST, ADDRESS);
    for word in 0..4 {
        code.op(LD_W_ABS, NETWORK + IPV6_SOURCE + 4 * word);
        code.op(ST, ADDRESS + 1 + word);
    }
    if has_table {
        code.op(LOOK_UP, ADDRESS);
    }
    code.op(LDX_IMM, 0);
    for word in 0..4 {
        code.op(LD_MEM, ADDRESS + 1 + word);
        code.op(XOR_X, 0);
        code.op(MUL_K, OF_WORD);
        code.op(TAX, 0);
    }
    code.op(LD_MEM, ADDRESS);
    code.op(MUL_K, OF_PORT);
    code.op(XOR_X, 0);
    code.here(Target::Mix);
    code.op(TAX, 0);
    code.op(RSH_K, 16);
    code.op(XOR_X, 0);
    code.op(MUL_K, LAST);
    code.op(RSH_K, 16);
    code.op(MOD_K, workers);
    code.op(RET_A, 0);
    code.finish()
}

/// Offsets from here on are of the network header (`SKF_NET_OFF` of `linux/filter.h`).
const NETWORK: u32 = -0x10_0000_i32 as u32;
/// Where headers have the sender's address, and how long one of IPv6 is (RFC 791, RFC 8200).
const IPV4_SOURCE: u32 = 12;
const IPV6_SOURCE: u32 = 8;
const IPV6_BYTES: u32 = 40;

// Instructions by their names in `bpf(4)`: load, store, arithmetic, jump, return, transfer.
const LD_W_LEN: u16 = 0x80;
const LD_W_ABS: u16 = 0x20;
const LD_H_ABS: u16 = 0x28;
const LD_B_ABS: u16 = 0x30;
const LD_H_IND: u16 = 0x48;
const LD_B_IND: u16 = 0x50;
const LD_IMM: u16 = 0x00;
const LD_MEM: u16 = 0x60;
const LDX_IMM: u16 = 0x01;
const LDX_MEM: u16 = 0x61;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ADD_K: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const SUB_K: u16 = 0x14;
const MUL_K: u16 = 0x24;
const AND_K: u16 = 0x54;
const LSH_K: u16 = 0x64;
const RSH_K: u16 = 0x74;
const MOD_K: u16 = 0x94;
const XOR_X: u16 = 0xac;
const JEQ_K: u16 = 0x15;
const JGT_K: u16 = 0x25;
const JGE_K: u16 = 0x35;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;

/// Where a jump goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Next,
    Username,
    Hash,
    Ipv6,
    Mix,
}

/// Instructions, with jumps to places that are not known yet.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Target, Target)>,
    places: Vec<(Target, usize)>,
}

impl Assembler {
    fn op(&mut self, code: u16, operand: u32) {
        self.code.push(Instruction { code, jump_if: 0, jump_else: 0, operand });
    }

    fn jump(&mut self, code: u16, operand: u32, is_true: Target, is_false: Target) {
        self.jumps.push((self.code.len(), is_true, is_false));
        self.op(code, operand);
    }

    /// Jumps to `target` end at the next instruction.
    fn here(&mut self, target: Target) {
        self.places.push((target, self.code.len()));
    }

    fn finish(mut self) -> Vec<Instruction> {
        for &(at, is_true, is_false) in &self.jumps {
            let distance = |target: Target| {
                let place = self.places.iter().find(|(name, _)| *name == target).map(|(_, place)| *place);
                let next = at + 1;
                u8::try_from(place.unwrap_or(next) - next).expect("jumps go forward, less than 256")
            };
            let (jump_if, jump_else) = (distance(is_true), distance(is_false));
            self.code[at] = Instruction { jump_if, jump_else, ..self.code[at] };
        }
        self.code
    }
}

#[cfg(all(test, not(feature = "simulated")))]
mod tests {
    use std::io;
    use std::net::UdpSocket as Peer;

    use group_send::steering::Steering;

    use super::*;
    use crate::net::{ReceivedBatch, UdpSocket};
    use worker_api::rtc::ufrag_prefix;

    const WORKERS: usize = 5;

    /// The sockets of the workers at one address, or `None` where there is no such address, and the table
    /// of the kernel, if they are to have one and the system lets them.
    fn workers(at: &str, with_table: bool) -> Option<(Vec<UdpSocket>, Option<Steering>)> {
        let first = UdpSocket::bind_shared(at.parse().expect("an address")).ok()?;
        let at = first.local_addr().expect("its address");
        let others = (1..WORKERS).map(|_| UdpSocket::bind_shared(at).expect("the same"));
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        if !with_table {
            all[0].steer(&program(WORKERS, false)).expect("no rights are needed");
            return Some((all, None));
        }
        match Steering::new(&program(WORKERS, true), 1000) {
            Ok(steering) => {
                all[0].steer_by_table(&steering).expect("they share an address");
                Some((all, Some(steering)))
            }
            Err(error) if error.raw_os_error() == Some(nix::libc::EPERM) => {
                println!("the table was not tried: that takes CAP_BPF");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The worker that gets a datagram, which is taken from its socket.
    fn receiver(workers: &[UdpSocket]) -> usize {
        let mut batch = ReceivedBatch::new(group_send::RecvConfig::default());
        let mut has = |socket: &UdpSocket| match socket.receive(&mut batch) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                false
            }
        };
        let mut got = Vec::new();
        // Most has arrived when `send` returns.
        for _ in 0..1_000_000 {
            got.extend((0..workers.len()).filter(|at| has(&workers[*at])));
            if !got.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(got.len(), 1, "{got:?}");
        got[0]
    }

    #[test]
    fn the_kernel_steers_by_address_as_the_arithmetic_here() {
        for (at, with_table) in
            [("127.0.0.1:0", false), ("[::1]:0", false), ("127.0.0.1:0", true), ("[::1]:0", true)]
        {
            let Some((workers, _table)) = workers(at, with_table) else { continue };
            let mut seen = [0; WORKERS];
            for _ in 0..200 {
                let peer = Peer::bind(at).expect("a socket");
                let from = peer.local_addr().expect("its address");
                for datagram in [&[0x80, 96, 0, 1][..], &[22], &[], &[0; 1200], &[1; 30]] {
                    peer.send_to(datagram, workers[0].local_addr().expect("an address")).expect("room");
                    assert_eq!(receiver(&workers), worker_of(from, WORKERS).index(), "{from}");
                }
                seen[worker_of(from, WORKERS).index()] += 1;
            }
            assert!(seen.iter().all(|count| *count > 10), "addresses are spread: {seen:?}");
        }
    }

    #[test]
    fn the_kernel_steers_by_its_table_as_long_as_an_address_is_in_it() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Some((workers, Some(table))) = workers(at, true) else { continue };
            let to = workers[0].local_addr().expect("an address");
            let peers: Vec<Peer> = (0..50).map(|_| Peer::bind(at).expect("a socket")).collect();
            let from = |peer: &Peer| peer.local_addr().expect("its address");
            let gets = |peer: &Peer, datagram: &[u8]| {
                peer.send_to(datagram, to).expect("room");
                receiver(&workers)
            };
            for (number, peer) in peers.iter().enumerate() {
                table.insert(from(peer), (number % WORKERS) as u32).expect("room");
            }
            for (number, peer) in peers.iter().enumerate() {
                for datagram in [&[0x80, 96, 0, 1][..], &[22], &[], &[0; 1200]] {
                    assert_eq!(gets(peer, datagram), number % WORKERS);
                }
                let name = [&ufrag_prefix((number + 1) % WORKERS)[..], b"abcdefgh:peer"].concat();
                let named = gets(peer, &request(&[(USERNAME as u16, &name)]));
                assert_eq!(named, (number + 1) % WORKERS, "a request knows better");
            }
            for peer in &peers {
                table.remove(from(peer)).expect("it is there");
                assert_eq!(gets(peer, &[0x80; 30]), worker_of(from(peer), WORKERS).index());
            }
            let stranger = table.remove(from(&peers[0])).expect_err("it is gone");
            assert_eq!(stranger.raw_os_error(), Some(nix::libc::ENOENT));
            // What it leads to may be no socket: the kernel then chooses one as it does without a program.
            table.insert(from(&peers[0]), 1_000_000).expect("room");
            gets(&peers[0], &[0x80; 30]);
        }
    }

    /// A binding request with these attributes.
    fn request(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, value) in attributes {
            body.extend(kind.to_be_bytes());
            body.extend((value.len() as u16).to_be_bytes());
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut request = vec![0, 1];
        request.extend((body.len() as u16).to_be_bytes());
        request.extend(MAGIC_COOKIE.to_be_bytes());
        request.extend([7; 12]);
        request.extend(body);
        request
    }

    #[test]
    fn the_kernel_steers_requests_by_the_worker_that_their_username_names() {
        for with_table in [false, true] {
            if let Some((workers, _table)) = workers("127.0.0.1:0", with_table) {
                requests_are_steered_by_their_username(&workers);
            }
        }
    }

    fn requests_are_steered_by_their_username(workers: &[UdpSocket]) {
        let peer = Peer::bind("127.0.0.1:0").expect("a socket");
        let by_address = worker_of(peer.local_addr().expect("its address"), WORKERS).index();
        let to = |datagram: &[u8]| {
            peer.send_to(datagram, workers[0].local_addr().expect("an address")).expect("room");
            receiver(workers)
        };
        for worker in 0..WORKERS {
            let name = [&ufrag_prefix(worker)[..], b"abcdefgh:peer"].concat();
            assert_eq!(to(&request(&[(0x0006, &name), (0x0024, &[0; 4])])), worker, "first");
            let before: &[(u16, &[u8])] = &[(0x8022, b"odd"), (0x0024, &[0; 4]), (0x802a, &[0; 8])];
            assert_eq!(to(&request(&[before, &[(0x0006, &name)]].concat())), worker, "behind others");
        }
        let none = [&ufrag_prefix(WORKERS)[..], b"abcdefgh:peer"].concat();
        assert_eq!(to(&request(&[(0x0006, &none)])), by_address, "of no worker");
        assert_eq!(to(&request(&[(0x0006, b"AAq+abcdefgh:peer")])), by_address, "not ours");
        let many = vec![(0x8022, &b"four"[..]); ATTRIBUTES_MAX];
        assert_eq!(to(&request(&many)), by_address, "none within reach");
        // What is cut short, or claims more than there is, comes to the first.
        assert_eq!(to(&request(&[(0x8022, &[0; 8])])), 0);
        let mut lies = request(&[(0x8022, &[0; 8])]);
        lies[22..24].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(to(&lies), 0);
        let mut response = request(&[(0x0006, &none)]);
        response[0] = 1;
        assert_eq!(to(&response), by_address, "an answer has no username of ours");
    }
}
