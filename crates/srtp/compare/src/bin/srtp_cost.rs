//! Measures what protecting or unprotecting one packet costs, ours beside every other implementation.
//!
//! Run by `scripts/bench srtp`, which says what is measured and how. Every contender's bytes are compared with ours
//! (and so with libsrtp's) before and after it is timed; one that differs is left out, with the reason.

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
    for case in cases().filter(|case| options.wants(profile, case)) {
        let mut turns = vec![Vec::new(); contenders.len()];
        field.turn(&case, &mut contenders, &mut turns.clone(), true);
        let begun = Instant::now();
        while begun.elapsed() < options.case || turns[0].len() < 3 * ROUND {
            field.turn(&case, &mut contenders, &mut turns, false);
        }
        field.turn(&case, &mut contenders, &mut vec![Vec::new(); turns.len()], true);
        let costs: Vec<(&Kind, Cost)> =
            contenders.iter().zip(turns).map(|((kind, _), turns)| (*kind, Cost::of(turns))).collect();
        results.push(report(profile, &case, &costs));
    }
}

/// Prints what each contender took, and returns the case's line of the result.
fn report(profile: Profile, case: &Case, costs: &[(&Kind, Cost)]) -> String {
    let figures: Vec<String> = costs.iter().map(|(kind, cost)| format!("{} {cost}", kind.name)).collect();
    let (op, bytes, batch) = (case.op(), case.bytes, case.batch);
    println!(
        "{profile} {op} {bytes} bytes, batch {batch}, ns: {}; {} samples",
        figures.join(", "),
        costs[0].1.turns
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
    /// Packets before the next one: it is for context `position % CONTEXTS`, which has had `position / CONTEXTS`.
    position: usize,
    random: Random,
    clock_ns: f64,
}

impl Field {
    fn new(profile: Profile, keys: &[Key]) -> Self {
        let sender = |key: &Key| {
            OutboundContext::new(&Config::default(), &master_keys(profile, std::slice::from_ref(key)))
                .expect("valid keys")
        };
        let senders = keys.iter().map(sender).collect();
        Self { senders, position: 0, random: Random::with_seed(21), clock_ns: clock_ns() }
    }

    /// Every contender in turn goes round all contexts twice to warm up, which is once for each stream, and twice more
    /// for the clock. With `check`, it goes round once, and all bytes are compared.
    fn turn(
        &mut self,
        case: &Case,
        contenders: &mut [(&Kind, Box<dyn Contender>)],
        turns: &mut [Vec<f64>],
        check: bool,
    ) {
        let rounds = if check { 1 } else { 4 };
        let payload = self.random.bytes(case.bytes);
        let headers: Vec<[u8; 12]> = (0..rounds * ROUND * SEGMENT)
            .map(|index| {
                let (context, visit) =
                    ((self.position + index) % CONTEXTS, (self.position + index) / CONTEXTS);
                // Two streams in each context take turns.
                packet::rtp_header(0x5000_0000 + (2 * context + visit % 2) as u32, (visit / 2) as u16)
            })
            .collect();
        let protected: Vec<Vec<u8>> = headers
            .iter()
            .enumerate()
            .map(|(index, header)| {
                let mut out = vec![0; 12 + case.bytes + TRAILER_MAX];
                let sender = &mut self.senders[(self.position + index) % CONTEXTS];
                let len = sender.protect_rtp_from(header, &payload, &mut out).expect("protected");
                out.truncate(len);
                out
            })
            .collect();
        for ((kind, contender), turns) in contenders.iter_mut().zip(turns) {
            for (number, (headers, protected)) in
                headers.chunks_exact(SEGMENT).zip(protected.chunks_exact(SEGMENT)).enumerate()
            {
                let first_context = (self.position + number * SEGMENT) % CONTEXTS;
                let mut seen = 0;
                let mut compare = |index: usize, bytes: &[u8]| {
                    seen += 1;
                    let right = if case.protect {
                        bytes == protected[index]
                    } else {
                        bytes[..12] == headers[index] && bytes[12..] == payload[..]
                    };
                    assert!(
                        right,
                        "{} {} {} bytes: packet {index} is wrong",
                        kind.name,
                        case.op(),
                        case.bytes
                    );
                };
                let watch = if check { Some(&mut compare as &mut dyn FnMut(usize, &[u8])) } else { None };
                if !case.protect {
                    contender.load(&mut protected.iter().map(Vec::as_slice));
                }
                let begun = cpu_ns();
                if case.protect {
                    contender.protect(
                        &Round { first_context, headers, payload: &payload, batch: case.batch },
                        watch,
                    );
                } else {
                    contender.unprotect(first_context, case.batch, watch);
                }
                let took = (cpu_ns() - begun) as f64 - self.clock_ns;
                if number >= rounds * ROUND / 2 {
                    turns.push(took / SEGMENT as f64);
                }
                assert!(!check || seen == SEGMENT, "{}: {seen} of {SEGMENT} packets", kind.name);
            }
        }
        self.position += headers.len();
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
