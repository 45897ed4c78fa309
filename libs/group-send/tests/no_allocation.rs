//! Sending allocates nothing once a sender and a batch have seen as much, whatever the back end;
//! receiving never does, and a batch takes memory as datagrams come. A binary of its own for its
//! global allocator, and because tests beside it would take memory as well.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::{Receivers, loopback, prefer};
use group_send::{
    BackendKind, BatchLimits, Recipient, RecvBatch, RecvConfig, SendBatch, Sender, Slot, socket,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;

/// The system's allocator, and how often this thread has asked it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the rules of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the rules of `GlobalAlloc::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const RECIPIENTS: usize = 40;

#[test]
fn the_second_turn_allocates_nothing() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![0; 100]));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the count counts");

    let kinds = [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso];
    let ring = cfg!(feature = "io-uring").then_some(BackendKind::IoUring);
    for kind in kinds.into_iter().chain(ring) {
        let socket = loopback::shared_socket();
        let mut sender = Sender::new(&socket, &prefer(&[kind, BackendKind::Gso])).unwrap();
        let receivers = Receivers::bind(&loopback::V4, RECIPIENTS);
        let addresses = receivers.addresses();
        let mut batch = SendBatch::new(BatchLimits { bytes: 1 << 20, datagrams: 1000 });
        // A ring opens sockets for a few recipients in each turn.
        for _ in 0..40 {
            group(&mut sender, &addresses);
            flush(&mut sender, &mut batch, &addresses);
        }
        let before = ALLOCATIONS.get();
        for _ in 0..3 {
            group(&mut sender, &addresses);
            flush(&mut sender, &mut batch, &addresses);
        }
        assert_eq!(ALLOCATIONS.get(), before, "{kind}");
    }
}

fn group(sender: &mut Sender, addresses: &[SocketAddr]) {
    let packets: [&[u8]; 5] = [&[1; 300], &[2; 300], &[3; 300], &[4; 100], &[5; 700]];
    let recipients: [Recipient<'_>; RECIPIENTS] = std::array::from_fn(|at| Recipient {
        destination: addresses[at],
        prepend: &[b"before"],
        append: &[b"1", b"2", b"3", b"4", b"5"],
    });
    let mut slots = [Slot::default(); RECIPIENTS];
    let progress = sender.send_group(&packets, &recipients, &mut slots);
    assert_eq!(progress.sent, 5 * RECIPIENTS);
}

fn flush(sender: &mut Sender, batch: &mut SendBatch, addresses: &[SocketAddr]) {
    for turn in 0..5 {
        for &address in addresses {
            let id = batch.reserve(address, 400).unwrap();
            batch.buffer(id)[..300 + turn].fill(7);
            batch.set_len(id, 300 + turn);
        }
    }
    // In two parts, so that something is moved to the front.
    let part = sender.flush(batch, 20_000);
    let rest = sender.flush(batch, usize::MAX);
    assert_eq!(part.sent + rest.sent, 5 * RECIPIENTS);
}

#[test]
fn receiving_allocates_nothing() {
    let receiver = loopback::shared_socket();
    receiver.set_nonblocking(false).unwrap();
    socket::enable_gro(&receiver).unwrap();
    socket::enable_ecn(&receiver).unwrap();
    socket::enable_timestamps(&receiver).unwrap();
    let mut batch = RecvBatch::new(RecvConfig::default());
    let mut sender = Sender::new(&receiver, &prefer(&[BackendKind::Gso])).unwrap();
    let to_itself = Recipient { destination: receiver.local_addr().unwrap(), prepend: &[], append: &[] };
    for turn in 0..10 {
        let mut slots = [Slot::default()];
        let progress = sender.send_group(&[&[1; 900], &[2; 900], &[3; 40]], &[to_itself], &mut slots);
        assert_eq!(progress.sent, 3);
        let (before, mut bytes) = (ALLOCATIONS.get(), 0);
        while bytes < 1840 {
            batch.recv_wait(&receiver).unwrap();
            bytes += batch.iter_mut().map(|datagram| datagram.payload.len()).sum::<usize>();
        }
        assert_eq!(ALLOCATIONS.get(), before, "turn {turn}");
    }
}

#[test]
fn memory_is_used_as_datagrams_come() {
    let anonymous_bytes = || -> usize {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    };
    let (receiver, sender) = (loopback::shared_socket(), loopback::shared_socket());
    receiver.set_nonblocking(false).unwrap();
    let before = anonymous_bytes();
    let mut batch = RecvBatch::new(RecvConfig { messages: 1024, ..RecvConfig::default() });
    for _ in 0..20 {
        sender.send_to(&[7; 1200], receiver.local_addr().unwrap()).unwrap();
    }
    let mut received = 0;
    while received < 20 {
        received += batch.recv_wait(&receiver).unwrap();
    }
    // 64 MiB of address space; the senders of the other tests take a few of memory meanwhile.
    let used_bytes = anonymous_bytes().saturating_sub(before);
    assert!(used_bytes < 32 << 20, "{used_bytes} bytes are used");
}
