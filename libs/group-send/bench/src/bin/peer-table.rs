//! What does it cost to find a session by the address a datagram came from?
//!
//! In turn: the peer table, `HashMap` keyed by the printed address (printing included, as servers
//! do it for each packet), `HashMap` keyed by `SocketAddr`, and hashbrown's with a fast hash over
//! the packed key. Peers are drawn again in each run, packets come in random order, all answers are
//! added up and compared. Processor time of this thread, medians.
//!
//! `peer-table [--quick] [--seed N]`

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use group_send::peer_table::{PeerKey, PeerTable};
use nix::time::{ClockId, clock_gettime};

const PEERS: [usize; 4] = [100, 1000, 10_000, 100_000];

/// Addresses in a row: too many for a branch predictor to learn. They take half a megabyte, which
/// must not drive the maps out of the second-level cache: a server reads its addresses from a small
/// buffer.
const SEQUENCE_LEN: usize = 1 << 14;

/// Passes over them in a measurement.
const PASSES: usize = 4;

/// What a stranger adds to the sum.
const MISS: u64 = 1 << 32;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let seed = arguments.iter().position(|argument| argument == "--seed");
    let seed = seed.and_then(|position| arguments.get(position + 1)?.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("seed {seed}; nanoseconds a look-up, lowest and median of the rounds");
    let mut random = Random(seed);
    for family in [Family::V4, Family::V6] {
        for &peers in PEERS.iter().filter(|&&peers| !quick || peers == 10_000) {
            let traffic = Traffic::new(family, peers, &mut random);
            for case in [Case::Hit, Case::Miss] {
                measure(&traffic, case, if quick { 15 } else { 40 });
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }

    /// Any address: nothing is made easy by a pattern.
    fn address(self, random: &mut Random) -> SocketAddr {
        let (one, other) = (random.next(), random.next());
        match self {
            Self::V4 => (Ipv4Addr::from_bits(one as u32), other as u16).into(),
            Self::V6 => {
                let bits = 0x2001_0db8 << 96 | u128::from(one) << 32 | u128::from(other >> 32);
                (Ipv6Addr::from_bits(bits), other as u16).into()
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Case {
    Hit,
    Miss,
}

/// Peers, and packets of known and of unknown ones in random order.
struct Traffic {
    family: Family,
    peers: Vec<SocketAddr>,
    hits: Vec<SocketAddr>,
    hits_sum: u64,
    misses: Vec<SocketAddr>,
}

impl Traffic {
    fn new(family: Family, len: usize, random: &mut Random) -> Self {
        let mut known = HashSet::new();
        let stranger = |known: &mut HashSet<SocketAddr>, random: &mut Random| {
            loop {
                let address = family.address(random);
                if known.insert(address) {
                    return address;
                }
            }
        };
        let peers: Vec<SocketAddr> = (0..len).map(|_| stranger(&mut known, random)).collect();
        let order: Vec<usize> = (0..SEQUENCE_LEN).map(|_| (random.next() >> 32) as usize % len).collect();
        let misses = (0..SEQUENCE_LEN).map(|_| stranger(&mut known, random)).collect();
        let hits_sum = order.iter().map(|&index| index as u64).sum();
        let hits = order.iter().map(|&index| peers[index]).collect();
        Self { family, peers, hits, hits_sum, misses }
    }
}

/// One method to find a session number by an address.
trait Contender {
    fn name(&self) -> &'static str;
    fn run(&self, packets: &[SocketAddr]) -> u64;
}

/// A named map, and how it is asked.
struct Lookup<M, F>(&'static str, M, F);

impl<M, F: Fn(&M, &SocketAddr) -> Option<u32>> Contender for Lookup<M, F> {
    fn name(&self) -> &'static str {
        self.0
    }

    #[inline(never)]
    fn run(&self, packets: &[SocketAddr]) -> u64 {
        let mut sum = 0_u64;
        for packet in packets {
            // The map's own words are read from memory each time, as with a packet's work in
            // between.
            let map = black_box(&self.1);
            sum = sum.wrapping_add((self.2)(map, packet).map_or(MISS, u64::from));
        }
        black_box(sum)
    }
}

fn contenders(peers: &[SocketAddr]) -> Vec<Box<dyn Contender>> {
    let numbered = || peers.iter().copied().zip(0_u32..);
    let mut table = PeerTable::new(peers.len());
    for (peer, number) in numbered() {
        table.insert(PeerKey::from(peer), number).expect("there is room for all of them");
    }
    println!("{} of {} peers are in the map behind the table", table.displaced(), table.len());
    let strings: HashMap<String, u32> = numbered().map(|(peer, number)| (peer.to_string(), number)).collect();
    let addresses: HashMap<SocketAddr, u32> = numbered().collect();
    let packed: hashbrown::HashMap<PeerKey, u32> =
        numbered().map(|(peer, number)| (PeerKey::from(peer), number)).collect();
    vec![
        Box::new(Lookup("PeerTable", table, |table: &PeerTable<u32>, peer: &SocketAddr| {
            table.get(PeerKey::from(peer)).copied()
        })),
        Box::new(Lookup("HashMap<String>", strings, |map: &HashMap<String, u32>, peer: &SocketAddr| {
            map.get(&peer.to_string()).copied()
        })),
        Box::new(Lookup(
            "HashMap<SocketAddr>",
            addresses,
            |map: &HashMap<SocketAddr, u32>, peer: &SocketAddr| map.get(peer).copied(),
        )),
        Box::new(Lookup(
            "hashbrown, foldhash, PeerKey",
            packed,
            |map: &hashbrown::HashMap<PeerKey, u32>, peer: &SocketAddr| {
                map.get(&PeerKey::from(peer)).copied()
            },
        )),
    ]
}

fn measure(traffic: &Traffic, case: Case, rounds: usize) {
    let contenders = contenders(&traffic.peers);
    let (packets, expected, case) = match case {
        Case::Hit => (&traffic.hits, traffic.hits_sum, "hit"),
        Case::Miss => (&traffic.misses, MISS * SEQUENCE_LEN as u64, "miss"),
    };
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for turn in 0..contenders.len() {
            let index = (turn + round) % contenders.len();
            // A look at all of it first: the contender before has driven this one out of the
            // caches.
            assert_eq!(contenders[index].run(packets), expected);
            let start = now_ns();
            let sum: u64 = (0..PASSES).map(|_| contenders[index].run(packets)).sum();
            let time = now_ns() - start;
            assert_eq!(sum, expected * PASSES as u64, "{} gives other answers", contenders[index].name());
            if round > 0 {
                times[index].push(time as f64 / (packets.len() * PASSES) as f64);
            }
        }
    }
    report(traffic, case, &contenders, &mut times);
}

fn report(traffic: &Traffic, case: &str, contenders: &[Box<dyn Contender>], times: &mut [Vec<f64>]) {
    let (family, peers) = (traffic.family.name(), traffic.peers.len());
    for (contender, times) in contenders.iter().zip(&mut *times) {
        times.sort_by(f64::total_cmp);
        println!(
            "{family} {peers} peers {case}: {:28} {:7.2} {:7.2}",
            contender.name(),
            times[0],
            median(times)
        );
    }
    let [table, string, address, fold] = [0, 1, 2, 3].map(|index: usize| median(&times[index]));
    println!(
        "RESULT group-send table=peer_table peers={peers} family={family} case={case} ns={table:.2} \
         vs_string_map={:.1} vs_socketaddr_map={:.2} vs_foldhash_map={:.2}",
        string / table,
        address / table,
        fold / table
    );
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// Processor time of this thread: what others do meanwhile is not counted.
fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
