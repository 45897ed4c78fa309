//! CPU time and interface counters.
//!
//! The clock is that of the process, so that the kernel's workers of an io_uring count as well. The
//! far side's work is in it: a veth hands each frame over in a soft interrupt that runs before the
//! sender's system call returns, and without accounting of interrupts the kernel charges that to
//! the thread. What is left to the core's soft interrupt thread is added. How much of it all is
//! soft interrupts, the kernel says by samples at each timer tick.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::str::FromStr;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Datagrams and their bytes of UDP payload.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: usize,
    pub(crate) payload_bytes: usize,
}

/// What an interface has sent so far.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    packets: u64,
    bytes: u64,
    dropped: u64,
}

/// What the cable is like, which decides what is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// The kernel cuts runs of datagrams: one packet each.
    Software,
    /// The interface takes runs whole: one packet each run.
    Device,
    /// The far end refuses each frame at the cable: counted as dropped, without bytes.
    Refused,
}

impl FromStr for Arrangement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "software" => Ok(Self::Software),
            "device" => Ok(Self::Device),
            "refused" => Ok(Self::Refused),
            _ => Err(format!("no arrangement {text}; there are: software, device, refused")),
        }
    }
}

pub(crate) struct Meter {
    core: usize,
    soft_interrupt_thread: Option<File>,
    packets: File,
    bytes: File,
    dropped: File,
}

impl Meter {
    pub(crate) fn new(core: usize, interface: &str) -> io::Result<Self> {
        let counter = |name: &str| File::open(format!("/sys/class/net/{interface}/statistics/{name}"));
        Ok(Self {
            core,
            soft_interrupt_thread: soft_interrupt_thread(core),
            packets: counter("tx_packets")?,
            bytes: counter("tx_bytes")?,
            dropped: counter("tx_dropped")?,
        })
    }

    /// CPU time of this process and of the core's soft interrupt thread.
    pub(crate) fn cpu_ns(&mut self) -> Result<u64, String> {
        Ok(process_ns()? + self.soft_interrupt_thread.as_mut().map_or(Ok(0), read_number)?)
    }

    /// Time that the core spent in soft interrupts, in steps of 10 ms (`/proc/stat`).
    pub(crate) fn soft_interrupts_ns(&self) -> Result<u64, String> {
        let text = fs::read_to_string("/proc/stat").map_err(|error| error.to_string())?;
        let name = format!("cpu{}", self.core);
        let line = text.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
        let ticks = line.and_then(|line| line.split(' ').nth(6)?.parse::<u64>().ok());
        ticks.map(|ticks| ticks * 10_000_000).ok_or_else(|| format!("/proc/stat says nothing of {name}"))
    }

    pub(crate) fn counters(&mut self) -> Result<Counters, String> {
        Ok(Counters {
            packets: read_number(&mut self.packets)?,
            bytes: read_number(&mut self.bytes)?,
            dropped: read_number(&mut self.dropped)?,
        })
    }

    /// Whether the interface took exactly this since `before`.
    pub(crate) fn verify(
        &mut self,
        before: Counters,
        sent: Sent,
        arrangement: Arrangement,
    ) -> Result<(), String> {
        let now = self.counters()?;
        let packets = (now.packets - before.packets) as usize;
        let bytes = (now.bytes - before.bytes) as usize;
        let dropped = (now.dropped - before.dropped) as usize;
        let Sent { datagrams, payload_bytes } = sent;
        // What leaves as one packet has one header, be it a run.
        let whole = bytes == payload_bytes + packets * HEADER_BYTES && dropped == 0;
        let all_counted = match arrangement {
            Arrangement::Software => whole && packets == datagrams,
            Arrangement::Device => whole && packets <= datagrams,
            Arrangement::Refused => packets == 0 && dropped == datagrams,
        };
        let say = format!("says it sent {datagrams} datagrams of {payload_bytes} bytes in all");
        let counted =
            format!("the interface counted {packets} packets of {bytes} bytes and dropped {dropped}");
        if all_counted { Ok(()) } else { Err(format!("{say}; {counted}")) }
    }
}

/// CPU time of this process alone.
pub(crate) fn process_ns() -> Result<u64, String> {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_err(|error| error.to_string())?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Ethernet, IPv4 and UDP.
const HEADER_BYTES: usize = 14 + 20 + 8;

/// The first number in a file that the kernel regenerates on each read.
fn read_number(file: &mut File) -> Result<u64, String> {
    let mut text = [0; 96];
    let len = file.rewind().and_then(|()| file.read(&mut text)).map_err(|error| error.to_string())?;
    let first = str::from_utf8(&text[..len]).ok().and_then(|text| text.split_whitespace().next());
    first.and_then(|number| number.parse().ok()).ok_or_else(|| "a counter is not a number".into())
}

/// CPU time of `ksoftirqd/CORE` in nanoseconds, if its process is visible from here.
fn soft_interrupt_thread(core: usize) -> Option<File> {
    let expected = format!("ksoftirqd/{core}\n");
    let of_thread = |entry: fs::DirEntry| {
        let comm = fs::read_to_string(entry.path().join("comm")).ok()?;
        (comm == expected).then(|| File::open(entry.path().join("schedstat")).ok())?
    };
    fs::read_dir("/proc").ok()?.flatten().find_map(of_thread)
}

pub(crate) fn pin_to_core(core: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// One contender needs a socket for each recipient.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Without it that contender says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
