//! One run: connect, warm up, measure, and make sure that every byte has arrived.
//!
//! A case runs alone, and all that its process uses is its cost; or several run side by side, slot by slot in the same
//! seconds, and only the time inside their sending counts. The second comparison stands a busy machine.
//!
//! As in a server, players are dealt out to slots of the period; in its turn a slot's players are offered what has
//! become due. A loop that is late serves what has become due meanwhile in the same write.

use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::machine;
use crate::method::{Method, Tally};
use crate::options::SenderOptions;
use crate::receiver::ReceiverOptions;
use crate::stream::Stream;

/// When the bytes leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cadence {
    /// Every player gets each message when it is due.
    EveryMessage,
    /// Once per period, players spread evenly over slots of it; a slot of a period's length is one burst.
    Spread { period_us: u64, slot_us: u64 },
    /// As `Spread`, but all players get the same batches, one of which ends just before each key frame.
    KeyCuts { period_us: u64, slot_us: u64 },
}

/// What is measured in one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) cadence: Cadence,
    pub(crate) method: Method,
    pub(crate) sender: SenderOptions,
    pub(crate) receiver: ReceiverOptions,
}

/// Costs in CPU-milliseconds per connection and second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// Alone: the sending process, and the softirq thread of its core that helps out when there is much to do.
    /// Side by side: the time inside the sending calls.
    pub(crate) sender: f64,
    /// Everything that ran on the sender's core, whoever it belongs to. It tells something only when `others`
    /// is below [`OTHERS_MAX`].
    pub(crate) core: f64,
    /// The receiving process.
    pub(crate) receiver: f64,
    /// Bytes per write.
    pub(crate) write_bytes: f64,
    /// Part of the writes that were taken partly or not at all.
    pub(crate) short: f64,
    /// Part of the MSG_ZEROCOPY or SEND_ZC writes the kernel has reported as copied after all.
    pub(crate) copied: f64,
    /// Longest turn of the loop, milliseconds.
    pub(crate) turn_ms: f64,
    /// Part of the sender's or the receiver's core, whichever is more, that went to others and to interrupts
    /// that came while the core was idle.
    pub(crate) others: f64,
}

pub(crate) struct Player {
    pub(crate) socket: Socket,
    /// Position of the first byte that has not been sent.
    pub(crate) sent: u64,
}

pub(crate) struct Setting<'a> {
    pub(crate) sample: &'a Path,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
}

/// Measures one case alone at a quiet moment; once more when others took much of a core meanwhile.
pub(crate) fn run_alone(stream: &Stream, case: &Case, setting: &Setting<'_>) -> Result<Outcome, String> {
    let mut attempts = 0;
    loop {
        wait_for_quiet();
        let outcome = run(stream, std::slice::from_ref(case), 0, setting)?[0];
        attempts += 1;
        if outcome.others < OTHERS_MAX || attempts == ATTEMPTS_MAX {
            return Ok(outcome);
        }
    }
}

/// Until both cores are nearly idle, a second at most.
fn wait_for_quiet() {
    let busy_ns = || [SENDER_CORE, RECEIVER_CORE].map(machine::core_busy_ns);
    for _ in 0..QUIET_LOOKS_MAX {
        let before = busy_ns();
        sleep(QUIET_LOOK);
        let most =
            busy_ns().into_iter().zip(before).map(|(after, before)| after.saturating_sub(before)).max();
        if most.unwrap_or(0) < QUIET_LOOK.as_nanos() as u64 / 10 {
            return;
        }
    }
}

/// Measures cases of the same cadence side by side. `round` decides which slots are whose.
pub(crate) fn run(
    stream: &Stream,
    cases: &[Case],
    round: usize,
    setting: &Setting<'_>,
) -> Result<Vec<Outcome>, String> {
    let listener = listen().map_err(|error| error.to_string())?;
    let mut receiver = start_receiver(&listener, &cases[0].receiver, setting)?;
    let result = send_to(stream, (cases, round), setting, &listener, &mut receiver);
    if result.is_err() {
        let _ = receiver.kill();
    }
    let status = receiver.wait().map_err(|error| error.to_string())?;
    let outcomes = result?;
    if status.success() { Ok(outcomes) } else { Err("the receiver failed".into()) }
}

fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn start_receiver(
    listener: &TcpListener,
    options: &ReceiverOptions,
    setting: &Setting<'_>,
) -> Result<Child, String> {
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.arg("--sample").arg(setting.sample).arg("--connections").arg(setting.connections.to_string());
    command.arg("receive").arg(address.to_string());
    if options.quick_ack {
        command.arg("--quick-ack");
    }
    if let Some(clamp) = options.window_clamp {
        command.arg("--window-clamp").arg(clamp.to_string());
    }
    command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())
}

fn send_to(
    stream: &Stream,
    (cases, round): (&[Case], usize),
    setting: &Setting<'_>,
    listener: &TcpListener,
    receiver: &mut Child,
) -> Result<Vec<Outcome>, String> {
    let (period_us, slots) = match cases[0].cadence {
        Cadence::EveryMessage => (0, cases.len()),
        Cadence::Spread { period_us, slot_us } | Cadence::KeyCuts { period_us, slot_us } => {
            (period_us, ((period_us / slot_us) as usize).max(1))
        }
    };
    let cuts = match cases[0].cadence {
        Cadence::KeyCuts { .. } => stream.key_cuts(period_us / 1000),
        _ => Vec::new(),
    };
    let per_slot = setting.connections.div_ceil(slots);
    let lane_of = |slot: usize| (slot + round) % cases.len();

    let mut players = Vec::with_capacity(setting.connections);
    for index in 0..setting.connections {
        let socket = Socket::from(listener.accept().map_err(|error| error.to_string())?.0);
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        cases[lane_of(index / per_slot)].sender.apply(&socket)?;
        players.push(Player { socket, sent: 0 });
    }
    let methods = cases.iter().map(|case| case.method.prepare(stream, &players));
    let mut methods = methods.collect::<Result<Vec<_>, String>>()?;
    let mut slots: Vec<&mut [Player]> = players.chunks_mut(per_slot).collect();
    let slots_len = slots.len();
    let mut clients = vec![0; cases.len()];
    slots.iter().enumerate().for_each(|(slot, players)| clients[lane_of(slot)] += players.len());

    let others = (receiver.id(), machine::softirq_thread(SENDER_CORE));
    let warm_up = Duration::from_micros(2 * period_us).max(WARM_UP);
    let start = Instant::now();
    let (mut turn, mut due_us) = (0, 0u64);
    let mut tallies = vec![Tally::default(); cases.len()];
    let mut longest = Duration::ZERO;
    let mut before = None;
    loop {
        sleep(Duration::from_micros(due_us).saturating_sub(start.elapsed()));
        let now = start.elapsed();
        if before.is_none() && now >= warm_up {
            before = Some(Reading::take(others, now, &tallies));
            longest = Duration::ZERO;
        }
        if now >= warm_up + Duration::from_secs_f64(setting.seconds) {
            break;
        }
        let mut end = stream.head_at(now.as_millis() as u64);
        if !cuts.is_empty() {
            end = last_cut(stream, &cuts, end);
        }
        let slots_now = if period_us == 0 { slots_len } else { 1 };
        for slot in (turn..turn + slots_now).map(|slot| slot % slots_len) {
            let lane = lane_of(slot);
            let began_ns = machine::own_cpu_ns();
            methods[lane].send(slots[slot], stream, end, &mut tallies[lane])?;
            tallies[lane].cpu_ns += machine::own_cpu_ns() - began_ns;
        }
        longest = longest.max(start.elapsed() - now);
        turn += 1;
        due_us = match period_us {
            0 => stream.next_due_ms(now.as_millis() as u64) * 1000,
            _ => turn as u64 * period_us / slots_len as u64,
        };
    }
    let after = Reading::take(others, start.elapsed(), &tallies);
    methods.iter_mut().zip(&mut tallies).try_for_each(|(method, tally)| method.finish(tally))?;
    drop(methods);
    let sent: u64 = slots.iter().flat_map(|slot| slot.iter()).map(|player| player.sent).sum();
    drop(slots);
    drop(players);
    let mut report = String::new();
    let output = receiver.stdout.as_mut().ok_or("the receiver has no output")?;
    output.read_to_string(&mut report).map_err(|error| error.to_string())?;
    let received = report.split(' ').next().and_then(|bytes| bytes.parse::<u64>().ok());
    if received != Some(sent) {
        return Err(format!("{sent} bytes sent, received: {report:?}"));
    }
    let before = before.ok_or("nothing was measured")?;
    let outcome = |lane| Outcome::between(&before, &after, lane, &clients, longest);
    Ok((0..cases.len()).map(outcome).collect())
}

/// The last of the cuts, which repeat with the stream, that is not after `head`.
fn last_cut(stream: &Stream, cuts: &[usize], head: u64) -> u64 {
    let offset = stream.offset(head);
    let loop_start = head - offset as u64;
    match cuts.partition_point(|&cut| cut <= offset).checked_sub(1) {
        Some(last) => loop_start + cuts[last] as u64,
        None => loop_start,
    }
}

struct Reading {
    at: Duration,
    sender_ns: u64,
    core_ns: u64,
    receiver_ns: u64,
    receiver_core_ns: u64,
    tallies: Vec<Tally>,
}

impl Reading {
    fn take((receiver, softirqd): (u32, Option<u32>), at: Duration, tallies: &[Tally]) -> Reading {
        Reading {
            at,
            sender_ns: machine::own_cpu_ns() + softirqd.map_or(0, machine::cpu_ns_of),
            core_ns: machine::core_busy_ns(SENDER_CORE),
            receiver_ns: machine::cpu_ns_of(receiver),
            receiver_core_ns: machine::core_busy_ns(RECEIVER_CORE),
            tallies: tallies.to_vec(),
        }
    }
}

impl Outcome {
    fn between(a: &Reading, b: &Reading, lane: usize, clients: &[usize], longest: Duration) -> Outcome {
        let seconds = (b.at - a.at).as_secs_f64();
        let share = |busy: u64, ours: u64| busy.saturating_sub(ours) as f64 / 1e9 / seconds;
        let others = share(b.core_ns - a.core_ns, b.sender_ns - a.sender_ns)
            .max(share(b.receiver_core_ns - a.receiver_core_ns, b.receiver_ns - a.receiver_ns));
        let (from, to) = (&a.tallies[lane], &b.tallies[lane]);
        let writes = (to.writes - from.writes).max(1) as f64;
        let sender_ns = match clients {
            [_] => b.sender_ns - a.sender_ns,
            _ => to.cpu_ns - from.cpu_ns,
        };
        let all: usize = clients.iter().sum();
        let per_client = |ns: u64, clients: usize| ns as f64 / 1e6 / (seconds * clients as f64);
        Outcome {
            sender: per_client(sender_ns, clients[lane]),
            core: per_client(b.core_ns - a.core_ns, all),
            receiver: per_client(b.receiver_ns - a.receiver_ns, all),
            write_bytes: (to.bytes - from.bytes) as f64 / writes,
            short: (to.short - from.short) as f64 / writes,
            copied: (to.copied - from.copied) as f64 / writes,
            turn_ms: longest.as_secs_f64() * 1e3,
            others,
        }
    }
}

pub(crate) const SENDER_CORE: usize = 0;
pub(crate) const RECEIVER_CORE: usize = 1;
const BACKLOG: i32 = 4096;
pub(crate) const OTHERS_MAX: f64 = 0.1;
const ATTEMPTS_MAX: usize = 2;
const QUIET_LOOK: Duration = Duration::from_millis(200);
const QUIET_LOOKS_MAX: usize = 5;
const WARM_UP: Duration = Duration::from_millis(750);
