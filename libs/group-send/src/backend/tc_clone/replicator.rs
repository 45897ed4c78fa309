//! The program in the kernel, the memory it shares with this process, and the socket whose frames
//! it replicates.
//!
//! `bpf/clone.c` is the program; the layout and the constants here are its. It is attached to the
//! egress of the loopback device and sends its copies from there to the interface. Attached to the
//! interface itself it would see every copy again, 15 ns each, as well as all other traffic; and
//! the frame that starts it would pass other programs and packet captures there as if it were
//! traffic.
//!
//! **When the trigger's `send` returns, every copy has been handed to the interface**, so the
//! memory may be written again: `packet_snd` calls `__dev_queue_xmit`, which runs the egress
//! programs (clsact and TCX alike) before any queue, on this thread. The frame is of a packet
//! socket because one of a UDP socket may wait for a neighbour's address, or in netfilter. It is
//! not taken on trust: the program says which frame it has replicated last, each is replicated
//! once, and one that was not done when `send` returns never will be.
//!
//! The link belongs to descriptors of this process (TCX, Linux 6.6): however the process ends, the
//! program ends with it. The older kind of attachment, a filter of the `clsact` queueing
//! discipline, would outlive a process that is killed, which is why kernels before 6.6 are refused.

use crate::linux;
use crate::linux::tc::SharedMemory;
use aya::maps::Map;
use aya::programs::links::LinkOrder;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use socket2::{Domain, Socket, Type};
use std::error::Error;
use std::io::{self, IoSlice};
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};

/// Copies of one frame, at most.
///
/// More would save nothing: a trigger costs 0.4 us, 7 ns a copy. They leave in one go, though,
/// before the receiving end of a virtual cable on the same core runs: its queue takes 256 or 1000
/// frames, and the allocator's fast path some dozens.
pub(crate) const COPIES_MAX: usize = 64;

/// First and last bytes of a frame that are its own, at most.
pub(crate) const HEAD_MAX: usize = 384;
pub(crate) const TAIL_MAX: usize = 128;

const RECORD_MAX: usize = HEAD_MAX + TAIL_MAX;

/// Distinguishes frames for the program from all others of the loopback device; the socket's cookie
/// identifies the sender.
const TRIGGER_MARK: u32 = 0x6772_7073;

/// `struct group` of the program.
#[repr(C)]
struct Layout {
    cookie: u64,
    sequence: u32,
    done: u32,
    interface: u32,
    mark: u32,
    frame_bytes: u32,
    head: u32,
    tail_at: u32,
    tail: u32,
    stride: u32,
    count: u32,
    results: [i32; COPIES_MAX],
    records: [u8; COPIES_MAX * RECORD_MAX],
}

/// What the copies of one frame have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of each record that come before the payload: 1 to [`HEAD_MAX`].
    pub(crate) head: usize,
    /// Bytes of each record that come after it: up to [`TAIL_MAX`].
    pub(crate) tail: usize,
}

impl Shape {
    pub(crate) fn record_len(self) -> usize {
        self.head + self.tail
    }

    /// Whether the program's memory has room for it.
    pub(crate) fn fits(self) -> bool {
        self.head <= HEAD_MAX && self.tail <= TAIL_MAX
    }
}

/// Sends one frame as many. See the file's head for what it relies on.
pub(crate) struct Replicator {
    socket: Socket,
    memory: SharedMemory,
    mark: u32,
    cookie: u64,
    sequence: u32,
    /// Owns program, map and link.
    _program: Ebpf,
}

impl Replicator {
    /// Loads and attaches the program in the calling thread's network namespace, and tries it out.
    /// Copies get the `mark` and the `priority` that a socket would give them (socket(7)).
    ///
    /// # Errors
    /// The reason as text for the operator: a missing privilege or kernel function.
    pub(crate) fn open(mark: u32, priority: u32) -> Result<Self, String> {
        let why = |what: &'static str| move |error: io::Error| format!("{what}: {error}{}", hint(&error));
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(why("packet socket"))?;
        linux::tc::bind_packet_socket(socket.as_fd(), LOOPBACK).map_err(why("loopback device"))?;
        socket.set_mark(TRIGGER_MARK).map_err(why("SO_MARK"))?;
        socket.set_priority(priority).map_err(why("SO_PRIORITY"))?;
        let cookie = socket.cookie().map_err(why("SO_COOKIE"))?;
        let mut program = EbpfLoader::new().load(OBJECT).map_err(|error| explain("program", &error))?;
        let Some(Map::Array(map)) = program.take_map("GROUPS") else {
            return Err("the program is without its map".to_owned());
        };
        let memory = SharedMemory::map(map.fd().as_fd(), size_of::<Layout>()).map_err(why("map"))?;
        attach(&mut program)?;
        let mut replicator = Self { socket, memory, mark, cookie, sequence: 0, _program: program };
        replicator.try_out()?;
        Ok(replicator)
    }

    /// Sends `payload` through an interface, once for each of `results`, each time between head and
    /// tail of the next of `records`, which are put one behind the other. A result is 0, or
    /// positive when a queue dropped the copy, or a negative `errno`.
    ///
    /// # Errors
    /// `errno` of the frame that was to be replicated; there are no copies then.
    ///
    /// # Panics
    /// If there are more than [`COPIES_MAX`] results, or records are too long or fewer.
    pub(crate) fn replicate(
        &mut self,
        interface: u32,
        shape: Shape,
        records: &[u8],
        payload: &[u8],
        results: &mut [i32],
    ) -> Result<(), i32> {
        let stride = shape.record_len();
        assert!(shape.fits() && results.len() <= COPIES_MAX, "{shape:?}, {} copies", results.len());
        let records = &records[..stride * results.len()];
        let first = records.get(..stride).unwrap_or(&[0; SHORTEST_FRAME]);
        let (head, tail) = first.split_at(first.len().min(shape.head));
        let tail_at = head.len() + payload.len();
        self.sequence = self.sequence.wrapping_add(1);
        self.memory.write(offset_of!(Layout, records), records);
        let lengths = [tail_at + tail.len(), shape.head, tail_at, shape.tail, stride, results.len()];
        self.memory.write(0, &self.control(interface, lengths));
        let frame = [head, payload, tail].map(IoSlice::new);
        let sent = self.socket.send_vectored_with_flags(&frame, libc::MSG_DONTWAIT);
        let mut done = [0];
        self.memory.read_numbers(offset_of!(Layout, done), &mut done);
        if done != [self.sequence as i32] {
            // The frame must not be replicated again later.
            self.memory.write(offset_of!(Layout, done), &self.sequence.to_ne_bytes());
            return Err(sent.err().and_then(|error| error.raw_os_error()).unwrap_or(libc::EIO));
        }
        self.memory.read_numbers(offset_of!(Layout, results), results);
        Ok(())
    }

    /// The fields before the results, of which `done` is the previous sequence.
    fn control(&self, interface: u32, lengths: [usize; 6]) -> [u8; CONTROL] {
        let mut bytes = [0; CONTROL];
        let (cookie, numbers) = bytes.split_at_mut(offset_of!(Layout, sequence));
        cookie.copy_from_slice(&self.cookie.to_ne_bytes());
        let fixed = [self.sequence, self.sequence.wrapping_sub(1), interface, self.mark];
        let all = fixed.into_iter().chain(lengths.map(|len| len as u32));
        for (bytes, number) in numbers.as_chunks_mut::<4>().0.iter_mut().zip(all) {
            *bytes = number.to_ne_bytes();
        }
        bytes
    }

    /// A frame with no copies: shows that the program is where frames pass, and runs before `send`
    /// returns.
    fn try_out(&mut self) -> Result<(), String> {
        let shape = Shape { head: SHORTEST_FRAME, tail: 0 };
        self.replicate(0, shape, &[], &[], &mut []).map_err(|errno| {
            let error = io::Error::from_raw_os_error(errno);
            let hint =
                if errno == libc::ENETDOWN { "; `ip link set lo up` in this network namespace" } else { "" };
            format!("a frame to the loopback device is not replicated: {error}{hint}")
        })
    }
}

impl AsFd for Replicator {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn attach(program: &mut Ebpf) -> Result<(), String> {
    let program: &mut SchedClassifier = program
        .program_mut("clone_group")
        .ok_or("the program is missing")?
        .try_into()
        .map_err(|error| explain("program", &error))?;
    program.load().map_err(|error| explain("program", &error))?;
    let last = TcAttachOptions::TcxOrder(LinkOrder::default());
    program
        .attach_with_options("lo", TcAttachType::Egress, last)
        .map_err(|error| explain("attaching to the loopback device (TCX, Linux 6.6)", &error))?;
    Ok(())
}

/// The whole chain of causes, since the crate's errors name only their own step.
fn explain(what: &str, error: &dyn Error) -> String {
    let mut text = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    if text.contains("EPERM") || text.contains("not permitted") {
        text += NEEDS;
    }
    text
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => NEEDS,
        _ => "",
    }
}

const NEEDS: &str = "; needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW";

/// The index of the loopback device in every network namespace (`LOOPBACK_IFINDEX` of the kernel).
const LOOPBACK: i32 = 1;

/// Ethernet, IPv4 and UDP headers: packet sockets take nothing shorter than the first.
const SHORTEST_FRAME: usize = 42;

const CONTROL: usize = offset_of!(Layout, results);

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/clone.o"));
