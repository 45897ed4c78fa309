//! What the fuzz target of `group-send-c` checks: the call of 2008 with any arguments, on loopback.
//!
//! A call that is refused changes nothing, and one that is not says of each member what came of it:
//! a listener gets what was sent, and nothing else. Memory is as large as the call says and not a byte
//! more, so that AddressSanitizer sees what goes beyond.
//! `libs/group-send-c/tests/group-send-c/fuzz_corpus.rs` includes this file and replays the kept corpus.

#[path = "input.rs"]
mod input;

use group_send_c::{GroupVec, Member, sendgroup};
use input::Input;
use libc::{c_int, c_void, iovec, sockaddr};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};
use std::time::Duration;

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("sendgroup", sendgroup_of_2008)];

/// A few calls on sockets of this input's own.
pub fn sendgroup_of_2008(data: &[u8]) {
    let mut input = Input(data);
    let sockets = Sockets::new(input.byte());
    for _ in 0..4 {
        if input.0.is_empty() || !one_call(&mut input, &sockets) {
            break;
        }
    }
}

struct Sockets {
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    tcp: TcpListener,
    listener: UdpSocket,
}

impl Sockets {
    fn new(options: u8) -> Self {
        let bound = || UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let (v4, listener) = (bound(), bound());
        // There may be no IPv6 here.
        let v6 = UdpSocket::bind("[::1]:0").ok();
        for socket in [Some(&v4), v6.as_ref()].into_iter().flatten() {
            socket.set_nonblocking(options & 1 != 0).expect("a socket of this function");
            socket.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket of this function");
        }
        if options & 2 != 0 {
            v4.connect(listener.local_addr().expect("bound")).expect("an address of loopback");
        }
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self { v4, v6, tcp, listener }
    }

    fn descriptor(&self, number: u8) -> c_int {
        match number {
            0..0xc0 => self.v4.as_raw_fd(),
            0xc0..0xe0 => self.v6.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            0xe0..0xf0 => self.tcp.as_raw_fd(),
            0xf0..0xf8 => -1,
            0xf8..0xfc => c_int::MIN,
            _ => c_int::MAX,
        }
    }
}

/// What is refused before anything is sent.
const REFUSALS: [c_int; 7] = [
    libc::EBADF,
    libc::ENOTSOCK,
    libc::EINVAL,
    libc::EFAULT,
    libc::EMSGSIZE,
    libc::EOPNOTSUPP,
    libc::EAFNOSUPPORT,
];

/// What the listener can take at once without losing any.
const RECEIVED_BYTES_MAX: usize = 16_384;

/// Returns whether there can be another call: not if the listener may have got what was not read.
fn one_call(input: &mut Input<'_>, sockets: &Sockets) -> bool {
    let (descriptor, flags, shape) = (input.byte(), input.short(), input.byte());
    let flags = match flags {
        0..0x8000 => [0, libc::MSG_DONTWAIT, libc::MSG_CONFIRM, libc::MSG_NOSIGNAL]
            .iter()
            .enumerate()
            .filter(|(bit, _)| flags >> bit & 1 == 1)
            .fold(0, |all, (_, flag)| all | flag),
        _ => c_int::from(flags),
    };
    let mut memory = Vec::new();
    let pieces: Box<[iovec]> = (0..input.byte() % 6).map(|_| piece(input, &mut memory)).collect();
    let members: Box<[Member]> =
        (0..input.byte() % 24).map(|_| member(input, sockets, &mut memory)).collect();
    let group = GroupVec {
        payload: if shape & 1 != 0 { null() } else { pieces.as_ptr() },
        payload_len: match input.byte() {
            0xff => usize::MAX,
            0xfe => 1025,
            _ => pieces.len(),
        },
        members: if shape & 2 != 0 { null() } else { members.as_ptr() },
    };
    let count = match input.byte() {
        0xff => c_int::MIN,
        0xfe => -1,
        0xfd => c_int::MAX,
        0xfc => (1 << 20) + 1,
        fewer @ 0xe0.. => members.len().min(usize::from(fewer - 0xe0)) as c_int,
        _ => members.len() as c_int,
    };
    let mut errors: Box<[c_int]> = vec![UNTOUCHED; usize::try_from(count).unwrap_or(0).min(24)].into();
    let vec = match shape {
        4 => null(),
        5 => (&raw const group).wrapping_byte_add(1),
        _ => &raw const group,
    };
    let to = match shape {
        6 => null_mut(),
        7 => errors.as_mut_ptr().wrapping_byte_add(1),
        _ => errors.as_mut_ptr(),
    };
    let descriptor = sockets.descriptor(descriptor);
    let sent = unsafe { sendgroup(descriptor, vec, count, flags, to) };
    if sent < 0 {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        assert!(sent == -1 && REFUSALS.contains(&errno), "{sent}, errno {errno}");
        assert!(errors.iter().all(|error| *error == UNTOUCHED), "errno {errno}, {errors:?}");
        return true;
    }
    assert!(sent <= count, "{sent} of {count}");
    if shape == 6 {
        return false;
    }
    assert_eq!(errors.iter().filter(|error| **error == 0).count(), sent as usize, "{errors:?}");
    // Pieces of any length are refused with the group, so each of these is memory.
    let payload: Vec<u8> = pieces.iter().flat_map(bytes_of).copied().collect();
    let to_listener = port_of(sockets);
    let expected: Vec<Vec<u8>> = members
        .iter()
        .zip(&errors)
        .filter(|(member, error)| **error == 0 && is_for(member, to_listener))
        .map(|(member, _)| [bytes_of(&member.prepend), &payload, bytes_of(&member.append)].concat())
        .collect();
    if expected.iter().map(Vec::len).sum::<usize>() > RECEIVED_BYTES_MAX || expected.len() > 24 {
        return false;
    }
    let mut buffer = vec![0; 1 << 16];
    sockets.listener.set_read_timeout(Some(Duration::from_secs(60))).expect("not zero");
    for wanted in &expected {
        let len = received(sockets, &mut buffer);
        assert!(buffer[..len] == *wanted, "{len} bytes, not {}", wanted.len());
    }
    true
}

/// The length of the next datagram; those of others, who knew the port before, are passed over.
fn received(sockets: &Sockets, buffer: &mut [u8]) -> usize {
    let sender = sockets.v4.local_addr().expect("bound");
    loop {
        let (len, from) = sockets.listener.recv_from(buffer).expect("a datagram that was sent");
        if from == sender {
            return len;
        }
    }
}

/// No error that a call could store.
const UNTOUCHED: c_int = 0x5a5a;

/// Shared or private bytes: mostly short, now and then as long as can be, longer, or nowhere.
fn piece(input: &mut Input<'_>, memory: &mut Vec<Box<[u8]>>) -> iovec {
    let (kind, fill) = (input.byte(), input.byte());
    let bytes: Box<[u8]> = match kind {
        0..0xd0 => input.bytes(usize::from(kind % 32)).into(),
        0xd0..0xe0 => vec![fill; usize::from(fill) << 8].into(),
        0xe0..0xe4 => vec![fill; 65_535].into(),
        0xe4..0xe8 => return iovec { iov_base: null_mut(), iov_len: usize::from(fill) },
        0xe8..0xec => return iovec { iov_base: null_mut(), iov_len: usize::MAX },
        // Too long to be looked at.
        0xec..0xf0 => {
            let base: *mut c_void = memory.last_mut().map_or(null_mut(), |last| last.as_mut_ptr().cast());
            return iovec { iov_base: base, iov_len: 65_536 << (fill % 48) };
        }
        _ => [].into(),
    };
    memory.push(bytes);
    let bytes = memory.last_mut().expect("just pushed");
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn member(input: &mut Input<'_>, sockets: &Sockets, memory: &mut Vec<Box<[u8]>>) -> Member {
    let (kind, host) = (input.byte(), input.byte());
    let is_v6 = kind & 0x04 != 0;
    let port = match kind & 0x18 {
        // Nothing listens there.
        0x08 => 1,
        0x10 => 0,
        _ => port_of(sockets),
    };
    // Of loopback, whatever it is.
    let mut name = match is_v6 {
        true => {
            let mut name = vec![0; 28];
            name[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            name[23] = 1;
            if host & 1 == 1 {
                name[18..24].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
            }
            name[4..8].copy_from_slice(&u32::from(input.byte()).to_ne_bytes());
            name[24..28].copy_from_slice(&u32::from(input.byte() & 3).to_ne_bytes());
            name
        }
        false => {
            let mut name = vec![0; 16];
            name[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            name[4..8].copy_from_slice(&[127, 0, 0, if host < 0xe0 { 1 } else { host }]);
            name
        }
    };
    name[2..4].copy_from_slice(&port.to_be_bytes());
    match kind {
        // What would be an address of IPv4 elsewhere is left out.
        0xf0.. if !is_v6 || host != libc::AF_INET as u8 => {
            name[..2].copy_from_slice(&u16::from(host).to_ne_bytes());
        }
        0xe0..0xf0 => name.truncate(usize::from(host) % 29),
        _ => {}
    }
    let name: Box<[u8]> = name.into();
    let (pointer, len) = (name.as_ptr().cast::<sockaddr>(), name.len() as u32);
    memory.push(name);
    Member {
        name: if kind == 0x7f { null() } else { pointer },
        namelen: len,
        prepend: piece(input, memory),
        append: piece(input, memory),
    }
}

fn port_of(sockets: &Sockets) -> u16 {
    sockets.listener.local_addr().as_ref().map(SocketAddr::port).expect("bound")
}

fn bytes_of(piece: &iovec) -> &[u8] {
    match piece.iov_len {
        0 => &[],
        len => unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), len) },
    }
}

/// Whether a member that was served is the listener.
fn is_for(member: &Member, port: u16) -> bool {
    let name = unsafe { std::slice::from_raw_parts(member.name.cast::<u8>(), member.namelen as usize) };
    let to_port = u16::from_be_bytes([name[2], name[3]]) == port;
    let family = u16::from_ne_bytes([name[0], name[1]]);
    to_port
        && match c_int::from(family) {
            libc::AF_INET => name[4..8] == [127, 0, 0, 1],
            _ => name[18..24] == [0xff, 0xff, 127, 0, 0, 1],
        }
}
