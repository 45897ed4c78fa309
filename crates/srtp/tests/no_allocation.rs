//! Protecting and unprotecting allocates nothing once a stream has begun, whatever profile, backend
//! and batch. A binary of its own for its global allocator.
#![expect(unsafe_code, reason = "an allocator that counts")]

#[path = "srtp/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Keys, backends, config};
use srtp::{
    Incoming, Outgoing, Plaintext, Profile, TagPlaces, TagQueue, protect_rtp_batch, unprotect_rtp_batch,
};

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

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Packets in a row.
struct Slab([[u8; 1500]; 20]);

impl TagPlaces<usize> for Slab {
    fn packet(&self, place: usize) -> &[u8] {
        &self.0[place]
    }

    fn packet_mut(&mut self, place: usize) -> &mut [u8] {
        &mut self.0[place]
    }
}

fn allocations() -> u64 {
    ALLOCATIONS.get()
}

#[test]
fn a_packet_of_a_stream_that_has_begun_allocates_nothing() {
    let before = allocations();
    drop(std::hint::black_box(vec![0; 100]));
    assert_eq!(allocations(), before + 1, "the count counts");

    for profile in Profile::ALL {
        for backend in backends() {
            let keys = Keys::new(profile, 1);
            let (mut outbound, mut inbound) =
                (keys.outbound(&config(backend)), keys.inbound(&config(backend)));
            let (mut packet, payload) = ([0; 1500], [7; 1000]);
            let mut control = [0; 100];
            let mut slab = [[0; 1500]; 20];
            let (mut tags, mut later) = (TagQueue::new(17), Slab([[0; 1500]; 20]));
            let mut counted = 0;
            for turn in 0..50u8 {
                let before = allocations();
                let header = |sequence: u8| [0x80, 96, turn, sequence, 0, 0, 0, 0, 0, 0, 0, 42];
                let len = outbound.protect_rtp_from(&header(0), &payload, &mut packet).unwrap();
                inbound.unprotect_rtp(&mut packet[..len]).unwrap();
                packet[..12].copy_from_slice(&header(1));
                let len = outbound.protect_rtp(&mut packet, 512).unwrap();
                packet[100] ^= 1;
                inbound.unprotect_rtp(&mut packet[..len]).unwrap_err();

                control[..8].copy_from_slice(&[0x80, 200, 0, 6, 0, 0, 0, 42]);
                let len = outbound.protect_rtcp(&mut control, 28).unwrap();
                inbound.unprotect_rtcp(&mut control[..len]).unwrap();

                let headers: [_; 20] = std::array::from_fn(|at| header(2 + at as u8));
                let mut places = slab.iter_mut();
                let mut outgoing: [_; 20] = std::array::from_fn(|at| Outgoing {
                    context: 0,
                    plaintext: Plaintext::From { header: &headers[at], payload: &payload },
                    out: places.next().unwrap(),
                    result: Ok(0),
                });
                protect_rtp_batch(&mut outbound, &mut outgoing);
                let len = outgoing[19].result.unwrap();
                let mut places = slab.iter_mut();
                let mut incoming: [_; 20] = std::array::from_fn(|_| Incoming {
                    context: 0,
                    packet: &mut places.next().unwrap()[..len],
                    result: Ok(0),
                });
                unprotect_rtp_batch(&mut inbound, &mut incoming);
                assert!(incoming.iter().all(|packet| packet.result.is_ok()));

                for place in 0..20 {
                    let header = header(30 + place as u8);
                    let plaintext = Plaintext::From { header: &header, payload: &payload[50 * place..] };
                    outbound.protect_rtp_later(plaintext, &mut later.0[place], &mut tags, place).unwrap();
                }
                tags.finish(&mut later);
                if turn > 0 {
                    counted += allocations() - before;
                }
            }
            assert_eq!(counted, 0, "{profile} {backend}");
        }
    }
}
