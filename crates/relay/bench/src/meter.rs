//! CPU time of what sends: this process, and what the kernel leaves to the core's soft interrupt
//! thread.
//!
//! Soft interrupts that the kernel works off within a system call are time of the process. A
//! profiler that runs beside it is switched on while time is measured, and only then.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Adds up CPU time between `start` and `stop`.
pub(crate) struct Meter {
    soft_interrupt_thread: Option<File>,
    profiler: Option<Profiler>,
    begun: u64,
    used: u64,
}

impl Meter {
    pub(crate) fn new(core: usize, profiler: Option<Profiler>) -> Self {
        Self { soft_interrupt_thread: soft_interrupt_thread(core), profiler, begun: 0, used: 0 }
    }

    pub(crate) fn start(&mut self) -> Result<(), String> {
        if let Some(profiler) = &mut self.profiler {
            profiler.say("enable")?;
        }
        self.begun = self.now_ns()?;
        Ok(())
    }

    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.used += self.now_ns()?.saturating_sub(self.begun);
        self.profiler.as_mut().map_or(Ok(()), |profiler| profiler.say("disable"))
    }

    /// Nanoseconds so far; counts from 0 again.
    pub(crate) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.used)
    }

    fn now_ns(&mut self) -> Result<u64, String> {
        // Of the process, so that kernel workers of an io_uring count as well.
        let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_err(|error| error.to_string())?;
        let own = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
        Ok(own + self.soft_interrupt_thread.as_mut().and_then(read_number).unwrap_or(0))
    }
}

/// `perf record --control fifo:COMMANDS,ANSWERS`.
pub(crate) struct Profiler {
    commands: File,
    answers: File,
}

impl Profiler {
    /// By the names of both, with a comma between.
    pub(crate) fn open(names: &str) -> Result<Self, String> {
        let (commands, answers) = names.split_once(',').ok_or("--profiler: not two names")?;
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(name);
        let text = |error: std::io::Error| error.to_string();
        Ok(Self { commands: open(commands).map_err(text)?, answers: open(answers).map_err(text)? })
    }

    fn say(&mut self, command: &str) -> Result<(), String> {
        let mut answer = [0; 5];
        writeln!(self.commands, "{command}").map_err(|error| error.to_string())?;
        // "ack", a line feed and a zero.
        self.answers.read_exact(&mut answer).map_err(|error| error.to_string())
    }
}

/// The first number in a file that the kernel generates on each read.
fn read_number(file: &mut File) -> Option<u64> {
    let mut text = [0; 96];
    file.rewind().ok()?;
    let len = file.read(&mut text).ok()?;
    str::from_utf8(&text[..len]).ok()?.split_whitespace().next()?.parse().ok()
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

pub(crate) fn pin_to_core(core: usize) -> Result<(), String> {
    let pin = || {
        let mut set = CpuSet::new();
        set.set(core)?;
        sched_setaffinity(Pid::from_raw(0), &set)
    };
    pin().map_err(|error| format!("core {core}: {error}"))
}

/// The sinks have a socket for each node.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
