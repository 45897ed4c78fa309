//! The nodes: a socket for each, and a receiver for each and each way. They do what the origin says,
//! a line at a time:
//!
//! ```text
//! open WAY CASE N PORT KEY      what follows comes from this port; KEY is `none` for the loop
//! expect WAY PACKETS            until each of the nodes has so many packets in all, or none come for long
//! count WAY DATAGRAMS           the same without opening any: until so many have come
//! ```

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use relay::{InLinkId, Limits, OPEN_KEY_BYTES, OpenKey, Receiver, Role};
use srtp::Backend;
use srtp::aead::{GcmKey, TAG_BYTES};

use crate::traffic::{Contents, LOOP_HEADER_BYTES, PACKET_BYTES, loop_key, loop_nonce, secret};
use crate::{meter, option};

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let need = |name: &str| option(arguments, name).ok_or(format!("{name} is missing"));
    let address: IpAddr = need("--address")?.parse().map_err(|_| "--address: not an address")?;
    let nodes: usize = need("--nodes")?.parse().map_err(|_| "--nodes: not a number")?;
    let core = need("--core")?.parse().map_err(|_| "--core: not a number")?;
    meter::pin_to_core(core)?;
    meter::raise_descriptor_limit();
    let text = |error: std::io::Error| error.to_string();
    let mut sockets = Vec::new();
    for _ in 0..nodes {
        let socket = UdpSocket::bind((address, 0)).map_err(text)?;
        socket.set_nonblocking(true).map_err(text)?;
        let _ = group_send::socket::size_buffers(&socket, 16 << 20).map_err(text)?;
        sockets.push(socket);
    }
    let mut stream = UnixStream::connect(need("--control")?).map_err(text)?;
    let ports: Result<Vec<String>, String> =
        sockets.iter().map(|socket| Ok(socket.local_addr().map_err(text)?.port().to_string())).collect();
    writeln!(stream, "{}", ports?.join(" ")).map_err(text)?;
    let mut sinks = Sinks {
        sockets,
        origin: need("--origin")?.parse().map_err(|_| "--origin: not an address")?,
        ways: HashMap::new(),
        contents: Contents::new(),
        batch: RecvBatch::new(RecvConfig { message_bytes: 2048, ..RecvConfig::default() }),
        scratch: Vec::new(),
    };
    let lines = BufReader::new(stream.try_clone().map_err(text)?).lines();
    for line in lines {
        let line = line.map_err(text)?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["open", way, case, n, port, key] => sinks.open(way, case, n, port, key)?,
            ["expect", way, packets] => sinks.receive(way, packets, true)?,
            ["count", way, datagrams] => sinks.receive(way, datagrams, false)?,
            _ => return Err(format!("unknown command {line}")),
        };
        writeln!(stream, "{answer}").map_err(text)?;
    }
    Ok(())
}

struct Sinks {
    sockets: Vec<UdpSocket>,
    origin: IpAddr,
    ways: HashMap<String, Nodes>,
    contents: Contents,
    batch: RecvBatch,
    scratch: Vec<u8>,
}

/// The nodes of one way.
struct Nodes {
    port: u16,
    nodes: Vec<Node>,
    /// Packets of all nodes, each right and the first of its kind.
    packets: u64,
    /// Datagrams that were counted only.
    datagrams: u64,
    wrong: u64,
}

struct Node {
    kind: Kind,
    /// Packets so far, and the sum of their numbers: which is only right if each came once.
    packets: u64,
    sum: u64,
}

enum Kind {
    Relay(Box<Receiver>, InLinkId),
    Loop(Box<GcmKey>, u64),
}

impl Sinks {
    fn open(&mut self, way: &str, case: &str, n: &str, port: &str, key: &str) -> Result<String, String> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("{text}: not a number"));
        let (case, n, port) = (number(case)?, number(n)? as usize, number(port)? as u16);
        let now = Instant::now();
        let mut nodes = Vec::new();
        for node in 0..n {
            let kind = if key == "none" {
                Kind::Loop(Box::new(GcmKey::new(&loop_key(case, node), Backend::current())), 0)
            } else {
                let mut bytes = [0; OPEN_KEY_BYTES];
                for (at, byte) in bytes.iter_mut().enumerate() {
                    let digits = key.get(2 * at..2 * at + 2).ok_or("a short key")?;
                    *byte = u8::from_str_radix(digits, 16).map_err(|_| "not a key")?;
                }
                let mut receiver = Receiver::new(Limits::default());
                let (_, keys) = secret(case, node).split(Role::Dialer);
                let text = |error: relay::SetupError| error.to_string();
                let link = receiver.add_link(now, keys).map_err(text)?;
                let stream = receiver.add_stream(&OpenKey::from_bytes(&bytes)).map_err(text)?;
                receiver.attach(now, stream, link).map_err(text)?;
                Kind::Relay(Box::new(receiver), link)
            };
            nodes.push(Node { kind, packets: 0, sum: 0 });
        }
        self.ways.insert(way.into(), Nodes { port, nodes, packets: 0, datagrams: 0, wrong: 0 });
        Ok("ok".into())
    }

    /// Receives until `until` packets for each node have come, or datagrams for all. Answers with
    /// what has not come, and what was wrong.
    fn receive(&mut self, way: &str, until: &str, opens: bool) -> Result<String, String> {
        let until: u64 = until.parse().map_err(|_| format!("{until}: not a number"))?;
        let Self { sockets, ways, contents, batch, scratch, origin } = self;
        let nodes = ways.get_mut(way).ok_or("a way that is not open")?;
        let all = nodes.nodes.len() as u64;
        let has_all = |nodes: &Nodes| {
            if opens { nodes.packets >= until * all } else { nodes.datagrams >= until }
        };
        let mut last = Instant::now();
        while !has_all(nodes) && last.elapsed() < DELIVERY_WAIT {
            for (node, socket) in nodes.nodes.iter_mut().zip(&*sockets) {
                while batch.recv(socket).is_ok() {
                    let now = Instant::now();
                    last = now;
                    for datagram in batch.iter_mut() {
                        if datagram.source.port() != nodes.port {
                            // Of a way whose turn is over.
                            continue;
                        }
                        if !opens {
                            nodes.datagrams += 1;
                            continue;
                        }
                        match node.take(now, datagram.payload, contents, scratch) {
                            Some(true) => nodes.packets += 1,
                            Some(false) => nodes.wrong += 1,
                            None => {}
                        }
                    }
                }
                if let Kind::Relay(receiver, _) = &mut node.kind
                    && opens
                {
                    let origin = SocketAddr::new(*origin, nodes.port);
                    receiver.poll_control(Instant::now(), |_, datagram| {
                        let _ = socket.send_to(datagram, origin);
                    });
                }
            }
        }
        if !opens {
            return Ok(format!("{} 0", until.saturating_sub(nodes.datagrams)));
        }
        // The sum of the numbers from 0 on.
        let sum = until * until.saturating_sub(1) / 2;
        let complete = nodes.nodes.iter().filter(|node| node.packets == until && node.sum == sum).count();
        let lost = (until * all).saturating_sub(nodes.packets);
        if lost == 0 && complete as u64 != all {
            nodes.wrong += all - complete as u64;
        }
        Ok(format!("{lost} {}", nodes.wrong))
    }
}

/// How long nothing may come. Repairs take less.
const DELIVERY_WAIT: Duration = Duration::from_millis(400);

impl Node {
    /// Whether a datagram is a right packet; `None` if it is none.
    fn take(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        contents: &Contents,
        scratch: &mut Vec<u8>,
    ) -> Option<bool> {
        let packet: &[u8] = match &mut self.kind {
            Kind::Relay(receiver, link) => match receiver.handle_datagram(now, *link, datagram) {
                Ok(Some(received)) => received.packet,
                Ok(None) | Err(relay::DropReason::Replayed) => return None,
                Err(_) => return Some(false),
            },
            Kind::Loop(key, next) => {
                if datagram.len() != LOOP_HEADER_BYTES + PACKET_BYTES + TAG_BYTES {
                    return Some(false);
                }
                let (header, rest) = datagram.split_first_chunk_mut::<LOOP_HEADER_BYTES>()?;
                let (text, tag) = rest.split_last_chunk_mut::<TAG_BYTES>()?;
                let number = u64::from_be_bytes(*header);
                if number < *next || !key.open(&loop_nonce(number), header, text, tag) {
                    return Some(false);
                }
                *next = number + 1;
                text
            }
        };
        let Some(number) = contents.number_of(packet, scratch) else { return Some(false) };
        self.packets += 1;
        self.sum += u64::from(number);
        Some(true)
    }
}
