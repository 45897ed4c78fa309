//! Which of several sockets that share one address (`SO_REUSEPORT`) gets a datagram: by a program in
//! the kernel that looks into a table of addresses.
//!
//! A program of classic BPF (`SO_ATTACH_REUSEPORT_CBPF`, `socket(7)`) needs no rights and can pick by
//! what is in the datagram, and nothing else. [`Steering`] takes such a program with one instruction
//! more, [`LOOK_UP`], and a table that changes while datagrams come. For that a process needs
//! `CAP_BPF`, unless `kernel.unprivileged_bpf_disabled` is 0; the program needs no other change where
//! it has none, if its instructions without [`LOOK_UP`] are attached instead.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use group_send::steering::{self, Instruction, LOOK_UP, Steering};
//! # let sockets: Vec<std::net::UdpSocket> = Vec::new();
//! # let load_address: Vec<Instruction> = Vec::new();
//! // Loads a peer's port and address into the memory words 3 to 7, then:
//! let look_up = Instruction { code: LOOK_UP, jump_if: 0, jump_else: 0, operand: 3 };
//! // For a peer that is not in the table, the first socket.
//! let first = Instruction { code: 0x06, jump_if: 0, jump_else: 0, operand: 0 };
//! let program = [load_address, vec![look_up, first]].concat();
//! let steering = Steering::new(&program, 10_000)?;
//! steering.attach(&sockets[0])?;
//! steering.insert("192.0.2.7:5000".parse().expect("an address"), 2)?;
//! # Ok(())
//! # }
//! ```

use crate::linux::bpf;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// An instruction of classic BPF (`linux/filter.h`): code, how many instructions a jump leaves out if
/// its condition is true and if it is false, operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Instructions that are left out if its condition is true.
    pub jump_if: u8,
    /// If it is false.
    pub jump_else: u8,
    /// A number, a place in the datagram or of the memory.
    pub operand: u32,
}

/// The code of an instruction that looks an address up. It is in [`KEY_WORDS`] words of the memory
/// from the operand on: the port, and an address of IPv6, or one of IPv4 and three times zero, each
/// as the datagram has them when they are loaded. Words are zero until something is written to them.
/// If it is in the table, the program ends with what is there; else it goes on.
pub const LOOK_UP: u16 = 0xffff;

/// Words of the memory that an address takes.
pub const KEY_WORDS: usize = 5;

/// Words of the memory of a program.
const MEMORY_WORDS: u32 = 16;

/// A program that picks the socket, and its table. Once attached, it goes on picking after this is
/// dropped, until another is attached or the sockets are closed; the table then stays as it is.
#[derive(Debug)]
pub struct Steering {
    table: bpf::Map<KEY_WORDS>,
    program: OwnedFd,
}

impl Steering {
    /// A program with an empty table. What it ends with is the number of a socket, in the order in
    /// which they were bound.
    ///
    /// # Errors
    /// `EPERM`: the process may not use `bpf(2)`. `EINVAL`: the program has an instruction that is not
    /// known here. Others of the kernel, if it does not trust the program.
    pub fn new(program: &[Instruction], entries_max: u32) -> io::Result<Self> {
        let table = bpf::Map::new(entries_max)?;
        let code = extended(program, table.descriptor()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { program: bpf::load_socket_filter(&code)?, table })
    }

    /// Attaches it to all sockets that share the address of this one, in place of the one that they
    /// have.
    ///
    /// # Errors
    /// `EINVAL`: the socket shares its address with none.
    pub fn attach(&self, socket: &impl AsFd) -> io::Result<()> {
        bpf::attach_reuseport(socket.as_fd(), self.program.as_fd())
    }

    /// What comes from `peer` goes to this socket from now on.
    ///
    /// # Errors
    /// `E2BIG`: the table is full.
    pub fn insert(&self, peer: SocketAddr, socket: u32) -> io::Result<()> {
        self.table.insert(&key(peer), socket)
    }

    /// What comes from `peer` goes where the rest of the program says.
    ///
    /// # Errors
    /// `ENOENT`: it does so already.
    pub fn remove(&self, peer: SocketAddr) -> io::Result<()> {
        self.table.remove(&key(peer))
    }
}

fn key(peer: SocketAddr) -> [u32; KEY_WORDS] {
    let port = u32::from(peer.port());
    match peer.ip() {
        IpAddr::V4(ip) => [port, ip.to_bits(), 0, 0, 0],
        IpAddr::V6(ip) => {
            let word = |index: u32| (ip.to_bits() >> (96 - 32 * index)) as u32;
            [port, word(0), word(1), word(2), word(3)]
        }
    }
}

/// Registers of extended BPF (`bpf(2)`), as the kernel itself uses them for classic programs: A is in
/// 0, X in 7. 1 and 2 are the arguments of a function, 6 the datagram, 10 the end of the memory.
const A: u64 = 0;
const FIRST: u64 = 1;
const SECOND: u64 = 2;
const DATAGRAM: u64 = 6;
const X: u64 = 7;
const MEMORY_END: u64 = 10;

/// An instruction of extended BPF.
fn instruction(code: u64, to: u64, from: u64, offset: i16, operand: u32) -> u64 {
    code | to << 8 | from << 12 | u64::from(offset as u16) << 16 | u64::from(operand) << 32
}

/// The same program in extended BPF, which has tables; `None` if there is something that this does not
/// know.
fn extended(program: &[Instruction], table: i32) -> Option<Vec<u64>> {
    let mut places = Vec::with_capacity(program.len() + 1);
    let mut code = vec![
        instruction(0xbf, DATAGRAM, FIRST, 0, 0),
        // The kernel wants to be sure that what is read was written.
        instruction(0xb4, A, 0, 0, 0),
        instruction(0xb4, X, 0, 0, 0),
    ];
    code.extend((0..MEMORY_WORDS).map(|word| instruction(0x62, MEMORY_END, 0, place_of(word), 0)));
    // Where jumps are, and which instruction each goes to.
    let mut jumps = Vec::new();
    for (index, &Instruction { code: classic, jump_if, jump_else, operand }) in program.iter().enumerate() {
        places.push(code.len());
        let place = place_of(operand & (MEMORY_WORDS - 1));
        let is_place = operand < MEMORY_WORDS;
        match classic {
            // Loads from the datagram are the same, relative to X in a register.
            0x20 | 0x28 | 0x30 => code.push(instruction(u64::from(classic), 0, 0, 0, operand)),
            0x40 | 0x48 | 0x50 => code.push(instruction(u64::from(classic), 0, X, 0, operand)),
            // Its length is the first field of what the program is given.
            0x80 => code.push(instruction(0x61, A, DATAGRAM, 0, 0)),
            0x00 => code.push(instruction(0xb4, A, 0, 0, operand)),
            0x01 => code.push(instruction(0xb4, X, 0, 0, operand)),
            0x60 if is_place => code.push(instruction(0x61, A, MEMORY_END, place, 0)),
            0x61 if is_place => code.push(instruction(0x61, X, MEMORY_END, place, 0)),
            0x02 if is_place => code.push(instruction(0x63, MEMORY_END, A, place, 0)),
            0x03 if is_place => code.push(instruction(0x63, MEMORY_END, X, place, 0)),
            0x07 => code.push(instruction(0xbc, X, A, 0, 0)),
            0x87 => code.push(instruction(0xbc, A, X, 0, 0)),
            // Arithmetic with an operand, and with X; dividing by zero is not what it is in classic BPF.
            0x04 | 0x14 | 0x24 | 0x44 | 0x54 | 0x64 | 0x74 | 0xa4 => {
                code.push(instruction(u64::from(classic), A, 0, 0, operand));
            }
            0x34 | 0x94 if operand > 0 => code.push(instruction(u64::from(classic), A, 0, 0, operand)),
            0x0c | 0x1c | 0x2c | 0x4c | 0x5c | 0xac => {
                code.push(instruction(u64::from(classic), A, X, 0, 0));
            }
            0x05 => {
                jumps.push((code.len(), (index + 1).checked_add(operand as usize)?));
                code.push(instruction(0x05, 0, 0, 0, 0));
            }
            // Conditions are of 32 bits in one class, and of 64 in the one that has the classic codes.
            0x15 | 0x25 | 0x35 | 0x45 => {
                jumps.push((code.len(), index + 1 + usize::from(jump_if)));
                code.push(instruction(u64::from(classic) + 1, A, 0, 0, operand));
                jumps.push((code.len(), index + 1 + usize::from(jump_else)));
                code.push(instruction(0x05, 0, 0, 0, 0));
            }
            0x06 => code.extend([instruction(0xb4, A, 0, 0, operand), instruction(0x95, 0, 0, 0, 0)]),
            0x16 => code.push(instruction(0x95, 0, 0, 0, 0)),
            LOOK_UP if operand <= MEMORY_WORDS - KEY_WORDS as u32 => code.extend([
                instruction(0xbf, SECOND, MEMORY_END, 0, 0),
                instruction(0x07, SECOND, 0, 0, i32::from(place) as u32),
                // The table's address, which takes two instructions.
                instruction(0x18, FIRST, 1, 0, table as u32),
                0,
                // `bpf_map_lookup_elem`: a pointer to what is there, or null.
                instruction(0x85, 0, 0, 0, 1),
                instruction(0x15, A, 0, 2, 0),
                instruction(0x61, A, A, 0, 0),
                instruction(0x95, 0, 0, 0, 0),
                // A is a number again.
                instruction(0xb4, A, 0, 0, 0),
            ]),
            _ => return None,
        }
    }
    for (at, target) in jumps {
        let offset = i16::try_from(places.get(target)? - (at + 1)).ok()?;
        code[at] |= u64::from(offset as u16) << 16;
    }
    Some(code)
}

/// Where a word of the memory is, from its end.
fn place_of(word: u32) -> i16 {
    4 * (word as i16 - MEMORY_WORDS as i16)
}
