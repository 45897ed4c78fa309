//! Measures what protecting or unprotecting one packet costs, ours beside every other implementation.
//!
//! Run by `scripts/bench srtp`, which says what is measured and how. Every contender's bytes are
//! compared with ours (and so with libsrtp's) before and after it is timed; one that differs is
//! left out, with the reason.

use std::time::{Duration, Instant};

use srtp::{Backend, Config, OutboundContext, Profile};
use srtp_compare::contender::{CONTEXTS, Contender, KINDS, Kind, Round};
use srtp_compare::libsrtp::{Key, TRAILER_MAX};
use srtp_compare::measure::{Cost, clock_ns, cpu_ns, machine, pin_to_core};
use srtp_compare::packet;
use srtp_compare::peer::{key, master_keys};
use srtp_compare::random::Random;

const BATCHES: [usize; 2] = [1, 16];
const SIZES: [usize; 3] = [160, 600, 1200];

/// Packets between two readings of the clock: as many as a worker takes from its socket at once.
const SEGMENT: usize = 64;
/// Segments that go round all contexts once.
const ROUND: usize = CONTEXTS.div_ceil(SEGMENT);

/// A contender that has used more of the time so far sits a turn out, so that a slow one leaves
/// time for the others.
const SHARE: f64 = 0.3;

/// What the command line says.
struct Options {
    core: usize,
    case: Duration,
    /// Parts of case names; a case must contain each of them.
    only: Vec<String>,
    /// Contenders left out; for profiling.
    without: Vec<String>,
}

fn main() {
    let options = options();
    pin_to_core(options.core).unwrap_or_else(|why| fail(&why));
    println!("{}", machine());
    println!("backend of ours: {}; core {}; {CONTEXTS} contexts", Backend::current(), options.core);
    println!("clock: {:.0} ns, taken off", clock_ns());
    let (mut results, mut skipped) = (Vec::new(), Vec::new());
    for profile in Profile::ALL {
        if options.only.is_empty() || cases().any(|case| options.wants(profile, &case)) {
            measure_profile(profile, &options, &mut results, &mut skipped);
        }
    }
    for line in skipped.into_iter().chain(results) {
        println!("{line}");
    }
}

/// One line of the result, but for the profile.
struct Case {
    batch: usize,
    protect: bool,
    bytes: usize,
}

impl Case {
    fn op(&self) -> &'static str {
        if self.protect { "protect" } else { "unprotect" }
    }
}

fn cases() -> impl Iterator<Item = Case> {
    BATCHES.into_iter().flat_map(|batch| {
        [true, false]
            .into_iter()
            .flat_map(move |protect| SIZES.into_iter().map(move |bytes| Case { batch, protect, bytes }))
    })
}

impl Options {
    fn wants(&self, profile: Profile, case: &Case) -> bool {
        let name = format!("profile={profile} batch={} op={} bytes={} ", case.batch, case.op(), case.bytes);
        self.only.iter().all(|part| name.contains(part.as_str()))
    }
}

fn measure_profile(
    profile: Profile,
    options: &Options,
    results: &mut Vec<String>,
    skipped: &mut Vec<String>,
) {
    let mut random = Random::with_seed(20);
    let keys: Vec<Key> = (0..CONTEXTS).map(|_| key(&mut random, profile)).collect();
    let mut field = Field::new(profile, &keys);
    let mut contenders = Vec::new();
    for kind in &KINDS {
        if options.without.iter().any(|name| name == kind.name) {
            continue;
        }
        match (kind.make)(profile, &keys) {
            Ok(contender) => contenders.push((kind, contender)),
            Err(why) => skipped.push(format!("SKIPPED srtp {}: {profile}: {why}", kind.name)),
        }
    }
    let clock_ns = clock_ns();
    for case in cases().filter(|case| options.wants(profile, case)) {
        let packets = field.packets(case.bytes, 1);
        let checked =
            contenders.iter_mut().map(|(kind, contender)| packets.check(&case, kind, &mut **contender));
        let rounds: Vec<usize> = checked.map(rounds_of_a_turn).collect();
        let mut samples = vec![Vec::new(); contenders.len()];
        let mut used = vec![Duration::ZERO; contenders.len()];
        let begun = Instant::now();
        while begun.elapsed() < options.case || samples[0].len() < 100 {
            let packets = field.packets(case.bytes, rounds.iter().copied().max().unwrap_or(0));
            for (number, (_, contender)) in contenders.iter_mut().enumerate() {
                let turn = Instant::now();
                if used[number] > (turn - begun).mul_f64(SHARE) {
                    continue;
                }
                samples[number].extend(packets.run(&case, &mut **contender, rounds[number], clock_ns));
                used[number] += turn.elapsed();
            }
        }
        let packets = field.packets(case.bytes, 1);
        for (kind, contender) in &mut contenders {
            packets.check(&case, kind, &mut **contender);
        }
        let costs: Vec<(&Kind, Cost)> =
            contenders.iter().zip(samples).map(|((kind, _), samples)| (*kind, Cost::of(samples))).collect();
        results.push(report(profile, &case, &costs));
    }
}

/// How often a contender goes round all contexts in its turn: two milliseconds of them, so that
/// what the others have left in the caches hardly counts; but at least twice for each stream.
fn rounds_of_a_turn(ns: f64) -> usize {
    ((2e6 / CONTEXTS as f64 / ns) as usize).clamp(4, 16)
}

/// Prints what each contender took, and returns the case's line of the result.
fn report(profile: Profile, case: &Case, costs: &[(&Kind, Cost)]) -> String {
    let figures: Vec<String> = costs.iter().map(|(kind, cost)| format!("{} {cost}", kind.name)).collect();
    let (op, bytes, batch) = (case.op(), case.bytes, case.batch);
    println!(
        "{profile} {op} {bytes} bytes, batch {batch}, ns: {}; {} samples",
        figures.join(", "),
        costs[0].1.samples
    );
    let median = |name: &str| {
        costs.iter().find(|(kind, _)| kind.name == name).map_or(f64::NAN, |(_, cost)| cost.median)
    };
    let rust = costs
        .iter()
        .filter(|(kind, _)| kind.is_rust_crate)
        .map(|(_, cost)| cost.median)
        .fold(f64::NAN, f64::min);
    let ours = median("ours");
    format!(
        "RESULT srtp profile={profile} batch={batch} op={op} bytes={bytes} ns={ours:.1} vs_libsrtp={:.2} vs_rust={:.2}",
        median("libsrtp2") / ours,
        rust / ours
    )
}

/// Where the packets come from: a sender for each context, whose keys all contenders have.
struct Field {
    senders: Vec<OutboundContext>,
    /// Packets before the next one: it is for context `position % CONTEXTS`, which has had
    /// `position / CONTEXTS`.
    position: usize,
    random: Random,
    packets: Packets,
}

/// What every contender gets in one turn; the slower ones only the beginning of it.
#[derive(Default)]
struct Packets {
    position: usize,
    payload: Vec<u8>,
    headers: Vec<[u8; 12]>,
    /// The protected packets, each of `len` bytes.
    protected: Vec<u8>,
    len: usize,
}

impl Field {
    fn new(profile: Profile, keys: &[Key]) -> Self {
        let sender = |key: &Key| {
            OutboundContext::new(&Config::default(), &master_keys(profile, std::slice::from_ref(key)))
                .expect("valid keys")
        };
        let senders = keys.iter().map(sender).collect();
        Self { senders, position: 0, random: Random::with_seed(21), packets: Packets::default() }
    }

    /// New packets, for `rounds` times all contexts.
    fn packets(&mut self, bytes: usize, rounds: usize) -> &Packets {
        let packets = &mut self.packets;
        packets.position = self.position;
        packets.payload = self.random.bytes(bytes);
        packets.headers.clear();
        packets.protected.clear();
        let mut out = vec![0; 12 + bytes + TRAILER_MAX];
        for position in self.position..self.position + rounds * ROUND * SEGMENT {
            let (context, visit) = (position % CONTEXTS, position / CONTEXTS);
            // Two streams in each context take turns.
            let header =
                packet::rtp_header(0x5000_0000 + (2 * context + visit % 2) as u32, (visit / 2) as u16);
            let protected = self.senders[context].protect_rtp_from(&header, &packets.payload, &mut out);
            packets.len = protected.expect("protected");
            packets.protected.extend(&out[..packets.len]);
            packets.headers.push(header);
        }
        self.position += packets.headers.len();
        &self.packets
    }
}

impl Packets {
    /// Gives a contender `rounds` rounds. Returns the samples of the second half, nanoseconds per packet.
    fn run(&self, case: &Case, contender: &mut dyn Contender, rounds: usize, clock_ns: f64) -> Vec<f64> {
        let segments = self.segments(case).take(rounds * ROUND);
        let took = segments.map(|(round, protected)| {
            if !case.protect {
                contender.load(&mut protected.chunks_exact(self.len));
            }
            let begun = cpu_ns();
            if case.protect {
                contender.protect(&round, None);
            } else {
                contender.unprotect(round.first_context, case.batch, None);
            }
            ((cpu_ns() - begun) as f64 - clock_ns) / SEGMENT as f64
        });
        took.collect::<Vec<_>>().split_off(rounds * ROUND / 2)
    }

    /// Gives a contender everything, and compares every byte that comes back. Returns nanoseconds per packet.
    fn check(&self, case: &Case, kind: &Kind, contender: &mut dyn Contender) -> f64 {
        let begun = cpu_ns();
        for (round, protected) in self.segments(case) {
            let mut seen = 0;
            let mut compare = |index: usize, bytes: &[u8]| {
                seen += 1;
                let right = if case.protect {
                    bytes == &protected[index * self.len..][..self.len]
                } else {
                    bytes[..12] == round.headers[index] && bytes[12..] == self.payload[..]
                };
                assert!(right, "{} {} {} bytes: packet {index} is wrong", kind.name, case.op(), case.bytes);
            };
            if case.protect {
                contender.protect(&round, Some(&mut compare));
            } else {
                contender.load(&mut protected.chunks_exact(self.len));
                contender.unprotect(round.first_context, case.batch, Some(&mut compare));
            }
            assert_eq!(seen, SEGMENT, "{}: packets are missing", kind.name);
        }
        (cpu_ns() - begun) as f64 / self.headers.len() as f64
    }

    /// Recipients and protected packets, `SEGMENT` at a time.
    fn segments(&self, case: &Case) -> impl Iterator<Item = (Round<'_>, &[u8])> {
        let protected = self.protected.chunks_exact(SEGMENT * self.len);
        self.headers.chunks_exact(SEGMENT).zip(protected).enumerate().map(|(number, (headers, protected))| {
            let first_context = (self.position + number * SEGMENT) % CONTEXTS;
            (Round { first_context, headers, payload: &self.payload, batch: case.batch }, protected)
        })
    }
}

fn options() -> Options {
    let mut options =
        Options { core: 1, case: Duration::from_millis(4000), only: Vec::new(), without: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| fail(&format!("{name} needs a value")));
        match name.as_str() {
            "--core" => options.core = number(&value()),
            "--case-ms" => options.case = Duration::from_millis(number(&value()) as u64),
            "--only" => options.only.push(value()),
            "--without" => options.without.push(value()),
            _ => fail("usage: srtp-cost [--core N] [--case-ms N] [--only TEXT]... [--without CONTENDER]..."),
        }
    }
    options
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| fail(&format!("{text} is no number")))
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}
