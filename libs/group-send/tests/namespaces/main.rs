//! Trials between two hosts that are network namespaces of this process, joined by a virtual cable.
//!
//! Real sockets receive, and their kernel verifies every checksum (`checksums.rs` shows that it
//! does). Each trial makes hosts of its own, so trials run side by side and leave nothing behind.
//! Without the rights that takes, or without the kernel function a back end needs, a trial is
//! ignored at run time, with a line that says what is missing: the usual harness cannot do that, so
//! this is a binary of its own.

#[path = "../common/mod.rs"]
mod common;

#[cfg(feature = "af-xdp")]
mod af_xdp;
#[cfg(feature = "af-xdp")]
mod auto;
mod backends;
mod changes;
mod checksums;
mod every_byte;
mod failing_recipients;
mod frames;
mod host;
mod million;
mod moving_targets;
#[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
mod next_hops;
mod no_room;
mod own_sockets;
mod random_groups;
mod segmentation;
mod several_queues;
#[cfg(feature = "tc-clone")]
mod tc_clone;
mod together;
mod twin;
mod without_rights;

use backends::Need;
use libtest_mimic::{Arguments, Trial};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::Pid;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::process::id;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A trial and what it needs beyond two hosts.
pub(crate) struct Privileged {
    name: String,
    need: Need,
    run: Box<dyn Fn() + Send>,
}

impl Privileged {
    pub(crate) fn new(name: impl Into<String>, need: Need, run: impl Fn() + Send + 'static) -> Self {
        Self { name: name.into(), need, run: Box::new(run) }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    allow_descriptors();
    let privileged = [
        checksums::trials(),
        every_byte::trials(),
        failing_recipients::trials(),
        no_room::trials(),
        million::trials(),
        segmentation::trials(),
        several_queues::trials(),
        random_groups::trials(),
        together::trials(),
        twin::trials(),
        frames::trials(),
        changes::trials(),
        moving_targets::trials(),
        own_sockets::trials(),
        without_rights::trials(),
        #[cfg(feature = "af-xdp")]
        af_xdp::trials(),
        #[cfg(feature = "af-xdp")]
        auto::trials(),
        #[cfg(feature = "tc-clone")]
        tc_clone::trials(),
        #[cfg(any(feature = "af-xdp", feature = "tc-clone"))]
        next_hops::trials(),
    ];
    let trials = privileged.into_iter().flatten().map(|trial| {
        let missing = trial.need.missing();
        if let Some(missing) = missing.filter(|_| will_run(&arguments, &trial.name)) {
            eprintln!("skipped: {}: {missing}", trial.name);
        }
        Trial::test(trial.name.clone(), move || {
            stay_on_one_processor();
            (trial.run)();
            Ok(())
        })
        .with_ignored_flag(missing.is_some())
    });
    let trials = trials.collect();
    let users = hold_more_packets();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Ok(users) = users {
        hold_as_many_as_before(&users);
    }
    conclusion.exit();
}

/// Has the calling thread, and those that it starts, run on one processor, each trial on another
/// one in turn, which is also where its cables end (`host::receive_here`).
fn stay_on_one_processor() {
    static ALLOWED: LazyLock<CpuSet> =
        LazyLock::new(|| sched_getaffinity(Pid::from_raw(id() as i32)).expect("of this process"));
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let processors: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| ALLOWED.is_set(cpu) == Ok(true)).collect();
    let mut one = CpuSet::new();
    one.set(processors[TURN.fetch_add(1, Ordering::Relaxed) % processors.len()])
        .expect("a processor there is");
    sched_setaffinity(Pid::from_raw(0), &one).expect("a processor that is allowed");
}

/// Room for what comes through cables and has not been looked at: each processor holds a thousand
/// packets by default, and drops what comes while others keep it from looking.
const BACKLOG: &str = "100000";
const BACKLOG_FILE: &str = "/proc/sys/net/core/netdev_max_backlog";

/// Has this machine hold more packets, which is a setting of the machine and no namespace's. Returns a
/// file that has what it was, and a lock of which each program that runs trials has a share.
fn hold_more_packets() -> io::Result<File> {
    let path = env::temp_dir().join("group-send-trials-backlog");
    let mut users = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    if users.try_lock().is_ok() {
        // The first.
        let before = fs::read(BACKLOG_FILE)?;
        fs::write(BACKLOG_FILE, BACKLOG)?;
        users.set_len(0)?;
        users.write_all(&before)?;
    }
    users.lock_shared()?;
    Ok(users)
}

/// Undoes that after the last program's trials.
fn hold_as_many_as_before(mut users: &File) {
    if users.try_lock().is_ok() {
        let mut before = String::new();
        users.rewind().and_then(|()| users.read_to_string(&mut before)).expect("a file of ours");
        fs::write(BACKLOG_FILE, before).expect("it could be written before");
    }
}

/// Whether these arguments ask for the trial to be run.
fn will_run(arguments: &Arguments, name: &str) -> bool {
    let matches =
        |filter: &String| if arguments.exact { name == filter } else { name.contains(filter.as_str()) };
    !arguments.list && arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// A group of a thousand needs as many descriptors, and trials run side by side.
fn allow_descriptors() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("RLIMIT_NOFILE");
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(16_384), hard).expect("RLIMIT_NOFILE within its hard limit");
}
