//! A test that is the kernel: it reads what a sender's rings were given, and gives frames back.

use super::*;

impl<T: Numbers> Ring<T> {
    /// A ring without a kernel, its counters at `start`.
    fn alone(size: u32, start: u32) -> Self {
        let len = 256 + size as usize * size_of::<T>();
        let mapping = Mapping::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0).expect("memory");
        let ring =
            Self { mapping, producer: 0, consumer: 64, flags: 128, entries: 256, size, entry: PhantomData };
        ring.producer().store(start, Ordering::Relaxed);
        ring.consumer().store(start, Ordering::Relaxed);
        ring
    }
}

/// A transmitter whose other end is the test.
fn transmitter(frames: u32, start: u32, reserve: usize) -> Transmitter {
    Transmitter {
        socket: Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket"),
        tx: Ring::alone(frames, start),
        completions: Ring::alone(frames, start),
        memory: Memory::map(frames).expect("memory"),
        free: (0..frames).rev().collect(),
        frames,
        written: start,
        completed: start,
        reserve,
    }
}

/// As the kernel: takes `count` descriptors, and gives their frames back.
fn send(transmitter: &mut Transmitter, count: u32) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    for _ in 0..count {
        let next = transmitter.tx.consumer().load(Ordering::Relaxed);
        assert_ne!(next, transmitter.tx.producer().load(Ordering::Relaxed), "nothing to send");
        let desc = transmitter.tx.read(next);
        let frame = transmitter.memory.frame((desc.addr / FRAME_MAX as u64) as u32);
        sent.push(frame[..desc.len as usize].to_vec());
        transmitter.tx.consumer().store(next.wrapping_add(1), Ordering::Relaxed);
        let done = transmitter.completions.producer().load(Ordering::Relaxed);
        transmitter.completions.write(done, desc.addr);
        transmitter.completions.producer().store(done.wrapping_add(1), Ordering::Relaxed);
    }
    sent
}

#[test]
fn frames_go_round_and_counters_wrap() {
    // Counters have 32 bits: at a million frames a second they wrap after an hour and 11 minutes.
    let mut transmitter = transmitter(64, u32::MAX - 150, 0);
    let mut number = 0u32;
    for round in 0..20 {
        let count = 1 + round * 7 % 64;
        let from = number;
        for _ in 0..count {
            assert!(transmitter.push(4 + number as usize % 100, |bytes| {
                bytes[..4].copy_from_slice(&number.to_le_bytes())
            }));
            number += 1;
        }
        transmitter.submit();
        assert_eq!(transmitter.in_flight(), count as usize);
        let sent = send(&mut transmitter, count);
        for (number, frame) in (from..number).zip(sent) {
            assert_eq!((&frame[..4], frame.len()), (&number.to_le_bytes()[..], 4 + number as usize % 100));
        }
        transmitter.reclaim();
        assert_eq!(transmitter.in_flight(), 0);
    }
    assert!(transmitter.written < u32::MAX - 150, "the counters have wrapped");
}

#[test]
fn there_are_as_many_frames_as_were_granted() {
    let mut transmitter = transmitter(64, 0, 24);
    assert!(!transmitter.push(FRAME_MAX + 1, |_| panic!("too long to be written")));
    assert_eq!((0..100).take_while(|_| transmitter.push(FRAME_MAX, |_| {})).count(), 40);
    transmitter.submit();
    send(&mut transmitter, 3);
    assert!(!transmitter.push(1, |_| {}), "what the kernel has done with is not taken back unasked");
    transmitter.reclaim();
    assert_eq!((0..100).take_while(|_| transmitter.push(1, |_| {})).count(), 3);
}

#[test]
fn a_frame_number_beyond_the_memory_is_no_frame() {
    let mut transmitter = transmitter(64, 0, 0);
    assert!(transmitter.push(1, |_| {}));
    transmitter.completions.write(0, u64::MAX);
    transmitter.completions.producer().store(1, Ordering::Relaxed);
    transmitter.reclaim();
    assert!(transmitter.push(1, |_| {}));
}

#[test]
fn a_driver_that_is_awake_is_not_called() {
    let transmitter = transmitter(64, 0, 0);
    assert_eq!(transmitter.kick(), Ok(()));
    transmitter.tx.flags().store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    // The kernel's answer to a UDP socket that is not connected.
    assert_eq!(transmitter.kick(), Err(libc::EDESTADDRREQ));
}

#[test]
fn refusals_say_what_can_be_done() {
    for (step, errno, advice) in [
        ("socket", libc::EPERM, "CAP_NET_RAW"),
        ("socket", libc::EAFNOSUPPORT, "CONFIG_XDP_SOCKETS"),
        ("memory", libc::ENOBUFS, "RLIMIT_MEMLOCK"),
        ("bind", libc::ENETDOWN, "is down"),
        ("rings", libc::ENOMEM, "AF_XDP rings"),
    ] {
        let refusal = explain(step)(io::Error::from_raw_os_error(errno));
        assert!(refusal.why.contains(advice) && !refusal.is_busy, "{}", refusal.why);
    }
    assert!(explain("bind")(io::Error::from_raw_os_error(libc::EBUSY)).is_busy);
}
