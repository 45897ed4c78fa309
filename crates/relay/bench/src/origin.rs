//! The origin: measures each way in turn, round after round.
//!
//! Printed for the script to read, for each case and way:
//! `CELL rate n way us_per_packet spread seal_us send_us lost wrong repaired`. The first is CPU time
//! for each packet and node, median of the rounds; `spread` the middle half of them in parts of it;
//! then what sealing alone and sending alone took, each without the other.
//!
//! With `--blind` there are no sinks: the far end drops what comes, and nothing is checked.
//! `--part whole` leaves the parts out.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use crate::meter::{Meter, Profiler};
use crate::traffic::{Contents, FRAME, RATES, Rate};
use crate::way::{self, NAMES, Part, Way};
use crate::{meter, option};

struct Options {
    source: SocketAddr,
    interface: Option<String>,
    rounds: usize,
    ns: Vec<usize>,
    ways: Vec<&'static str>,
    parts: &'static [Part],
}

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let need = |name: &str| option(arguments, name).ok_or(format!("{name} is missing"));
    let ns: Result<Vec<usize>, _> = need("--n")?.split(',').map(str::parse).collect();
    let wanted: Vec<&str> = need("--ways")?.split(',').collect();
    let source: IpAddr = need("--address")?.parse().map_err(|_| "--address: not an address")?;
    let options = Options {
        source: SocketAddr::new(source, 0),
        interface: option(arguments, "--interface").map(str::to_owned),
        rounds: need("--rounds")?.parse().map_err(|_| "--rounds: not a number")?,
        ns: ns.map_err(|_| "--n: not numbers")?,
        ways: NAMES.into_iter().filter(|name| wanted.contains(name)).collect(),
        parts: match option(arguments, "--part") {
            Some("whole") => &[Part::Whole],
            _ => &[Part::Whole, Part::Seal, Part::Send],
        },
    };
    let core = need("--core")?.parse().map_err(|_| "--core: not a number")?;
    meter::pin_to_core(core)?;
    meter::raise_descriptor_limit();
    let sinks_address = need("--sinks")?.parse().map_err(|_| "--sinks: not an address")?;
    let (sinks, nodes) = if arguments.iter().any(|argument| argument == "--blind") {
        let nodes = options.ns.iter().copied().max().unwrap_or(0);
        let port = |node: usize| BLIND_PORT + u16::try_from(node).expect("some thousands");
        (None, (0..nodes).map(|node| SocketAddr::new(sinks_address, port(node))).collect())
    } else {
        let listener = UnixListener::bind(need("--control")?).map_err(|error| error.to_string())?;
        let (stream, _) = listener.accept().map_err(|error| error.to_string())?;
        let (sinks, nodes) = Sinks::new(stream, sinks_address)?;
        (Some(sinks), nodes)
    };
    let profiler = option(arguments, "--profiler").map(Profiler::open).transpose()?;
    let only = option(arguments, "--rate");
    let mut bench = Bench {
        options,
        sinks,
        nodes,
        contents: Contents::new(),
        meter: Meter::new(core, profiler),
        case: 0,
    };
    for rate in RATES.into_iter().filter(|rate| only.is_none_or(|only| only == rate.name)) {
        for n in bench.options.ns.clone() {
            bench.measure(rate, n)?;
        }
    }
    Ok(())
}

/// The other process.
struct Sinks {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Sinks {
    /// Also the addresses of its nodes.
    fn new(stream: UnixStream, address: IpAddr) -> Result<(Self, Vec<SocketAddr>), String> {
        let writer = stream.try_clone().map_err(|error| error.to_string())?;
        let mut sinks = Self { writer, reader: BufReader::new(stream) };
        let ports = sinks.answer()?;
        let ports: Result<Vec<u16>, _> = ports.split(' ').map(str::parse).collect();
        let ports = ports.map_err(|_| "the sinks did not name their ports")?;
        Ok((sinks, ports.into_iter().map(|port| SocketAddr::new(address, port)).collect()))
    }

    fn ask(&mut self, command: &str) -> Result<String, String> {
        writeln!(self.writer, "{command}").map_err(|error| error.to_string())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Err("the sinks have ended".into()),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Bench {
    options: Options,
    sinks: Option<Sinks>,
    nodes: Vec<SocketAddr>,
    contents: Contents,
    meter: Meter,
    case: u32,
}

/// A way in one case, and what its rounds gave, in microseconds for each packet and node.
struct Entry {
    name: &'static str,
    way: Box<dyn Way>,
    /// Media time.
    now: Instant,
    frames: u64,
    /// Packets so far: the next one's number.
    packets: u32,
    counted: u64,
    whole: Vec<f64>,
    seal: Vec<f64>,
    send: Vec<f64>,
    lost: u64,
    wrong: u64,
    failed: Option<String>,
}

impl Bench {
    fn measure(&mut self, rate: Rate, n: usize) -> Result<(), String> {
        let mut entries = Vec::new();
        for name in self.options.ways.clone() {
            self.case += 1;
            let nodes = self.nodes.get(..n).ok_or("more nodes than there are sinks")?;
            let now = Instant::now();
            let interface = self.options.interface.as_deref();
            let way = match way::build(name, self.case, nodes, self.options.source, interface, now) {
                Ok(way) => way,
                Err(why) => {
                    println!("SKIPPED {name}: {why}");
                    self.options.ways.retain(|way| *way != name);
                    continue;
                }
            };
            let (port, key) = (way.address()?.port(), way.open_key());
            if let Some(sinks) = &mut self.sinks {
                sinks.ask(&format!("open {name} {} {n} {port} {key}", self.case))?;
            }
            entries.push(Entry {
                name,
                way,
                now,
                frames: 0,
                packets: 0,
                counted: 0,
                whole: Vec::new(),
                seal: Vec::new(),
                send: Vec::new(),
                lost: 0,
                wrong: 0,
                failed: None,
            });
        }
        // The first round is for caches and for back ends that learn.
        for round in 0..=self.options.rounds {
            for turn in 0..entries.len() {
                let at = (turn + round) % entries.len();
                let entry = &mut entries[at];
                for &part in self.options.parts {
                    if entry.failed.is_none()
                        && let Err(why) = self.slice(entry, rate, n, part, round > 0)
                    {
                        println!("FAILED {}: {why} (rate {}, n {n})", entry.name, rate.name);
                        entry.failed = Some(why);
                    }
                }
            }
        }
        for entry in entries.iter().filter(|entry| entry.failed.is_none()) {
            let (us, spread) = median_and_spread(&entry.whole);
            let (seal, _) = median_and_spread(&entry.seal);
            let (send, _) = median_and_spread(&entry.send);
            let (name, lost, wrong, repaired) = (entry.name, entry.lost, entry.wrong, entry.way.repairs());
            println!(
                "CELL {} {n} {name} {us:.5} {spread:.3} {seal:.5} {send:.5} {lost} {wrong} {repaired}",
                rate.name
            );
        }
        Ok(())
    }

    /// Sends for as many packets and nodes as a slice has, in chunks that the sinks take in between.
    fn slice(
        &mut self,
        entry: &mut Entry,
        rate: Rate,
        n: usize,
        part: Part,
        counts: bool,
    ) -> Result<(), String> {
        let mut sent = 0;
        let mut frames: Vec<Vec<Vec<u8>>> = Vec::new();
        while sent < SLICE_DATAGRAMS {
            // What is sent is there before the clock starts.
            let (mut datagrams, first) = (0, entry.packets);
            let mut number = first;
            frames.clear();
            while datagrams < CHUNK_DATAGRAMS {
                let packets = rate.packets(entry.frames + frames.len() as u64);
                let frame = (0..packets).map(|_| {
                    let mut packet = Vec::new();
                    self.contents.write(number, &mut packet);
                    number += 1;
                    packet
                });
                frames.push(frame.collect());
                datagrams += packets * n;
            }
            let slices: Vec<Vec<&[u8]>> =
                frames.iter().map(|frame| frame.iter().map(|packet| &packet[..]).collect()).collect();
            self.meter.start()?;
            for frame in &slices {
                entry.now += FRAME;
                entry.way.frame(entry.now, frame, part)?;
            }
            self.meter.stop()?;
            sent += datagrams;
            match part {
                Part::Seal => {}
                Part::Send => {
                    entry.counted += datagrams as u64;
                    if let Some(sinks) = &mut self.sinks {
                        let answer = sinks.ask(&format!("count {} {}", entry.name, entry.counted))?;
                        entry.counted -= first_number(&answer)?;
                    }
                }
                Part::Whole => {
                    entry.packets = number;
                    entry.frames += frames.len() as u64;
                    self.settle(entry)?;
                }
            }
        }
        let ns = self.meter.take();
        if counts {
            let us = ns as f64 / 1_000.0 / sent as f64;
            match part {
                Part::Whole => entry.whole.push(us),
                Part::Seal => entry.seal.push(us),
                Part::Send => entry.send.push(us),
            }
        }
        Ok(())
    }

    /// Waits until all nodes have all packets, or have given up.
    fn settle(&mut self, entry: &mut Entry) -> Result<(), String> {
        let Some(sinks) = &mut self.sinks else { return Ok(()) };
        let command = format!("expect {} {}", entry.name, entry.packets);
        let mut answer = sinks.ask(&command)?;
        for _ in 0..TRIES {
            entry.way.feedback(entry.now)?;
            if first_number(&answer)? <= entry.lost {
                break;
            }
            // Heartbeats, so that losses at the end are seen.
            entry.now += Duration::from_millis(100);
            entry.way.feedback(entry.now)?;
            answer = sinks.ask(&command)?;
        }
        let numbers: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
        let &[lost, wrong] = &numbers[..] else { return Err(format!("the sinks say {answer}")) };
        (entry.lost, entry.wrong) = (lost, wrong);
        Ok(())
    }
}

fn first_number(answer: &str) -> Result<u64, String> {
    let word = answer.split(' ').next().unwrap_or_default();
    word.parse().map_err(|_| format!("the sinks say {answer}"))
}

fn median_and_spread(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (f64::NAN, f64::NAN);
    }
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let position = part * (values.len() - 1) as f64;
        f64::midpoint(values[position.floor() as usize], values[position.ceil() as usize])
    };
    let median = quantile(0.5);
    (median, (quantile(0.75) - quantile(0.25)) / median)
}

/// Packets times nodes of a slice, and of a chunk, at least.
const SLICE_DATAGRAMS: usize = 16_000;
const CHUNK_DATAGRAMS: usize = 2_048;
/// The first port of nodes that are not there.
const BLIND_PORT: u16 = 20_000;
/// How often losses are waited for.
const TRIES: usize = 12;
