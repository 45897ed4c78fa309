//! Runs one kernel a number of times, for a program that counts instructions: `counts KERNEL TIMES`.
//! `counts list` says what there is on this processor, and how often each should run at least.
//!
//! What a run takes besides the kernel is the same however often that runs, so that two runs give the
//! instructions of one time. Inputs are the same in each.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

use group_send::peer_table::{PeerKey, PeerTable};
use group_send::{BatchLimits, SendBatch};
use msgpack_array::{Element, Isa, decode_into_with, encode_with};
use ssrc_map::SsrcMap;

/// Elements of an array.
const ELEMENTS: usize = 1024;
const PEERS: u32 = 10_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list"] => {
            for Kernel { name, times, .. } in KERNELS.iter().filter(|kernel| kernel.is_there()) {
                println!("{name} {times}");
            }
            ExitCode::SUCCESS
        }
        [name, times] => {
            let kernel = KERNELS.iter().find(|kernel| kernel.name == name);
            let Some((kernel, times)) = kernel.zip(times.parse().ok()) else { return usage() };
            (kernel.run)(times);
            ExitCode::SUCCESS
        }
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: counts KERNEL TIMES, or counts list");
    ExitCode::from(2)
}

/// What is counted.
struct Kernel {
    name: &'static str,
    /// How often it has to run to have seen all of its input.
    times: usize,
    /// Runs it so many times.
    run: fn(usize),
}

impl Kernel {
    /// Whether the processor, or what stands in for it, has what it is made for.
    fn is_there(&self) -> bool {
        !self.name.ends_with("-avx2") || Isa::Avx2.is_available()
    }
}

const fn kernel(name: &'static str, times: usize, run: fn(usize)) -> Kernel {
    Kernel { name, times, run }
}

const KERNELS: &[Kernel] = &[
    kernel("ssrc-map-get-1", 2000, |times| ssrc_map_get(1, times)),
    kernel("ssrc-map-get-5", 2000, |times| ssrc_map_get(5, times)),
    kernel("ssrc-map-get-10", 2000, |times| ssrc_map_get(10, times)),
    kernel("ssrc-map-get-200", 2000, |times| ssrc_map_get(200, times)),
    kernel("peer-table-get-ipv4", PEERS as usize, |times| {
        peer_table_get(times, |n| Ipv4Addr::from_bits(0x0a00_0000 + n).into())
    }),
    kernel("peer-table-get-ipv6", PEERS as usize, |times| peer_table_get(times, ipv6)),
    kernel("send-batch-reserve", 2000, send_batch_reserve),
    kernel("msgpack-encode-i32-scalar", 100, |times| encode(Isa::Scalar, times, number_i32)),
    kernel("msgpack-encode-i32-sse", 100, |times| encode(Isa::Sse, times, number_i32)),
    kernel("msgpack-encode-i32-avx2", 100, |times| encode(Isa::Avx2, times, number_i32)),
    kernel("msgpack-encode-f64-sse", 100, |times| encode(Isa::Sse, times, number_f64)),
    kernel("msgpack-encode-f64-avx2", 100, |times| encode(Isa::Avx2, times, number_f64)),
    kernel("msgpack-decode-i32-scalar", 100, |times| decode(Isa::Scalar, times, number_i32)),
    kernel("msgpack-decode-i32-sse", 100, |times| decode(Isa::Sse, times, number_i32)),
    kernel("msgpack-decode-i32-avx2", 100, |times| decode(Isa::Avx2, times, number_i32)),
    kernel("msgpack-decode-f64-sse", 100, |times| decode(Isa::Sse, times, number_f64)),
    kernel("msgpack-decode-f64-avx2", 100, |times| decode(Isa::Avx2, times, number_f64)),
];

/// A number that looks random, the same in each run (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
fn number(n: usize) -> u64 {
    let z = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Of any width, so that each is encoded in another form.
fn number_i32(n: usize) -> i32 {
    (number(n) as i32) >> (number(n) >> 40 & 31)
}

fn number_f64(n: usize) -> f64 {
    number(n) as f64 / 1e9
}

fn ipv6(n: u32) -> std::net::IpAddr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number(n as usize))).into()
}

fn ssrc_map_get(streams: usize, times: usize) {
    let mut map = SsrcMap::with_seed(streams, 7);
    let ssrcs: Vec<u32> = (0..streams).map(|n| number(n) as u32).collect();
    for &ssrc in &ssrcs {
        map.insert(ssrc, ssrc).expect("there is room");
    }
    for n in 0..times {
        black_box(map.get(black_box(ssrcs[n % streams])));
    }
}

fn peer_table_get(times: usize, address: fn(u32) -> std::net::IpAddr) {
    let mut table = PeerTable::with_seed(PEERS as usize, 7);
    let peers: Vec<SocketAddr> =
        (0..PEERS).map(|n| SocketAddr::new(address(n), 1024 + (number(n as usize) as u16 >> 1))).collect();
    for (n, peer) in peers.iter().enumerate() {
        table.insert(PeerKey::from(peer), n as u32).expect("there is room");
    }
    for n in 0..times {
        black_box(table.get(PeerKey::from(black_box(&peers[n % peers.len()]))));
    }
}

/// Room for a datagram of 1200 bytes in a batch, which is emptied after each thousand. Nothing is
/// copied: which instructions the C library does that by depends on the processor.
fn send_batch_reserve(times: usize) {
    let mut batch = SendBatch::new(BatchLimits::default());
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 5000));
    for n in 0..times {
        if n % 1000 == 0 {
            batch.clear();
        }
        let id = batch.reserve(black_box(peer), 1200).expect("there is room");
        black_box(batch.buffer(id));
        batch.set_len(id, black_box(1200));
    }
}

fn encode<T: Element>(isa: Isa, times: usize, value: fn(usize) -> T) {
    let values: Vec<T> = (0..ELEMENTS).map(value).collect();
    let mut document = Vec::new();
    for _ in 0..times {
        document.clear();
        encode_with(isa, black_box(&values), &mut document);
        black_box(&document);
    }
}

fn decode<T: Element>(isa: Isa, times: usize, value: fn(usize) -> T) {
    let values: Vec<T> = (0..ELEMENTS).map(value).collect();
    let (mut document, mut decoded) = (Vec::new(), Vec::new());
    encode_with(Isa::Scalar, &values, &mut document);
    for _ in 0..times {
        decoded.clear();
        let used = decode_into_with::<T>(isa, black_box(&document), &mut decoded).expect("an array");
        black_box((used, &decoded));
    }
}
