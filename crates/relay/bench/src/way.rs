//! Ways of sending a frame to all nodes, and the parts of each apart.

use std::collections::HashMap;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::time::Instant;

use group_send::{AfXdpConfig, BackendKind, Config, Recipient, Slot};
use relay::{Limits, OutLinkId, OutStreamId, Outgoing, Role, SealKey};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use srtp::Backend;
use srtp::aead::{GcmKey, TAG_BYTES};

use crate::traffic::{LOOP_HEADER_BYTES, loop_key, loop_nonce, secret};

/// All ways in the order of a table.
pub(crate) const NAMES: [&str; 6] = ["loop", "sendmmsg", "gso", "io_uring", "af_xdp", "tc_clone"];

/// What is done of a way's work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// Sealing and private bytes; nothing leaves.
    Seal,
    /// Sending what was sealed before, again and again.
    Send,
}

/// One way, set up for some nodes.
pub(crate) trait Way {
    /// Where its datagrams come from.
    fn address(&self) -> Result<SocketAddr, String>;
    /// What the sinks need to open them.
    fn open_key(&self) -> String;
    /// One frame to all nodes.
    fn frame(&mut self, now: Instant, packets: &[&[u8]], part: Part) -> Result<(), String>;
    /// Takes what nodes have sent, and answers.
    fn feedback(&mut self, now: Instant) -> Result<(), String>;
    /// Datagrams sent again.
    fn repairs(&self) -> u64;
}

/// The way of this name, or why it cannot run here.
pub(crate) fn build(
    name: &str,
    case: u32,
    nodes: &[SocketAddr],
    source: SocketAddr,
    interface: Option<&str>,
    now: Instant,
) -> Result<Box<dyn Way>, String> {
    let socket = socket(source).map_err(|error| error.to_string())?;
    let kind = match name {
        "loop" => return Ok(Box::new(Loop::new(socket, case, nodes))),
        "sendmmsg" => BackendKind::Sendmmsg,
        "gso" => BackendKind::Gso,
        "io_uring" => BackendKind::IoUring,
        "af_xdp" => BackendKind::AfXdp,
        "tc_clone" => BackendKind::TcClone,
        _ => return Err("unknown".into()),
    };
    let af_xdp = interface.map(|interface| {
        let mut config = AfXdpConfig::new(interface);
        // Frames are in use until a node has taken them.
        config.frames = 16_384;
        config
    });
    let config = Config {
        backends: vec![kind],
        af_xdp,
        #[cfg(feature = "tc-clone")]
        tc_clone: interface.map(group_send::TcCloneConfig::new),
        ..Config::default()
    };
    let network = group_send::Sender::new(&socket, &config).map_err(|error| error.to_string())?;
    Group::new(socket, network, case, nodes, now).map(|group| Box::new(group) as Box<dyn Way>)
}

fn socket(source: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(source), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    // Datagrams count until the far end has taken them.
    let _ = group_send::socket::size_buffers(&socket, 64 << 20)?;
    socket.bind(&source.into())?;
    Ok(socket)
}

/// Encrypts for each node, and sends by a call for each datagram.
struct Loop {
    socket: Socket,
    nodes: Vec<(SockAddr, GcmKey, u64)>,
    datagram: Vec<u8>,
}

impl Loop {
    fn new(socket: Socket, case: u32, nodes: &[SocketAddr]) -> Self {
        let key = |node| GcmKey::new(&loop_key(case, node), Backend::current());
        let nodes = nodes.iter().enumerate().map(|(node, address)| ((*address).into(), key(node), 0));
        Self { socket, nodes: nodes.collect(), datagram: vec![0; 2048] }
    }
}

impl Way for Loop {
    fn address(&self) -> Result<SocketAddr, String> {
        own_address(&self.socket)
    }

    fn open_key(&self) -> String {
        "none".into()
    }

    fn frame(&mut self, _now: Instant, packets: &[&[u8]], part: Part) -> Result<(), String> {
        for (address, key, number) in &mut self.nodes {
            for packet in packets {
                let len = LOOP_HEADER_BYTES + packet.len();
                if part != Part::Send {
                    let header = number.to_be_bytes();
                    let text = &mut self.datagram[LOOP_HEADER_BYTES..len];
                    let tag = key.seal(&loop_nonce(*number), &header, Some(packet), text);
                    self.datagram[..LOOP_HEADER_BYTES].copy_from_slice(&header);
                    self.datagram[len..len + TAG_BYTES].copy_from_slice(&tag);
                    *number += u64::from(part == Part::Whole);
                }
                if part == Part::Seal {
                    continue;
                }
                loop {
                    // `sendmsg`.
                    let datagram = IoSlice::new(&self.datagram[..len + TAG_BYTES]);
                    match self.socket.send_to_vectored(&[datagram], address) {
                        Ok(_) => break,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
        }
        Ok(())
    }

    fn feedback(&mut self, _now: Instant) -> Result<(), String> {
        Ok(())
    }

    fn repairs(&self) -> u64 {
        0
    }
}

/// Seals once, and sends by a back end of `group-send`.
struct Group {
    socket: Socket,
    network: group_send::Sender,
    live: Live,
    /// Another, for the parts apart: its numbers may go on without arriving.
    apart: Live,
    /// Frames to be sent apart, by their number of packets.
    prepared: HashMap<usize, Outgoing>,
    open_key: String,
    /// By the link's index.
    addresses: Vec<SocketAddr>,
    links: HashMap<SocketAddr, OutLinkId>,
    slots: Vec<Slot>,
    /// Memory of the lists that are made for each call.
    shared: Vec<&'static [u8]>,
    prepends: Vec<&'static [u8]>,
    recipients: Vec<Recipient<'static>>,
    repairs: u64,
}

/// A sender with one stream to all nodes, and what it sent last.
struct Live {
    sender: relay::Sender,
    stream: OutStreamId,
    outgoing: Outgoing,
}

impl Live {
    fn new(case: u32, key: SealKey, nodes: usize, now: Instant) -> Result<(Self, Vec<OutLinkId>), String> {
        let text = |error: relay::SetupError| error.to_string();
        let mut sender = relay::Sender::new(Limits::default());
        let stream = sender.add_stream(key).map_err(text)?;
        let mut links = Vec::new();
        for node in 0..nodes {
            let (keys, _) = secret(case, node).split(Role::Listener);
            let link = sender.add_link(now, keys).map_err(text)?;
            sender.subscribe(stream, link, 0).map_err(text)?;
            links.push(link);
        }
        Ok((Self { sender, stream, outgoing: Outgoing::new() }, links))
    }
}

impl Group {
    fn new(
        socket: Socket,
        network: group_send::Sender,
        case: u32,
        nodes: &[SocketAddr],
        now: Instant,
    ) -> Result<Self, String> {
        let key = SealKey::random(1);
        let open_key = key.open_key().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let (live, ids) = Live::new(case, key, nodes.len(), now)?;
        let (apart, _) = Live::new(!case, SealKey::random(1), nodes.len(), now)?;
        let mut addresses = vec![SocketAddr::from(([0; 4], 0)); nodes.len()];
        ids.iter().zip(nodes).for_each(|(link, address)| addresses[link.index()] = *address);
        let links = nodes.iter().copied().zip(ids).collect();
        let (shared, prepends, recipients) = Default::default();
        Ok(Self {
            socket,
            network,
            live,
            apart,
            prepared: HashMap::new(),
            open_key,
            addresses,
            links,
            slots: Vec::new(),
            shared,
            prepends,
            recipients,
            repairs: 0,
        })
    }

    fn send_group(&mut self, packets: usize, part: Part) -> Result<(), String> {
        let outgoing = match part {
            Part::Whole => &self.live.outgoing,
            _ => self.prepared.get(&packets).ok_or("a frame that was not prepared")?,
        };
        // The memory of the last call's lists; references last for a call only.
        let (mut shared, mut prepends, mut recipients) = (
            recycle(&mut self.shared),
            recycle(&mut self.prepends),
            recycle_recipients(&mut self.recipients),
        );
        shared.extend(outgoing.shared());
        for (_, private) in outgoing.links() {
            prepends.extend(private.iter().map(|part| &part[..]));
        }
        for ((link, _), prepend) in outgoing.links().zip(prepends.chunks(shared.len())) {
            recipients.push(Recipient { destination: self.addresses[link.index()], prepend, append: &[] });
        }
        self.slots.clear();
        self.slots.resize(recipients.len(), Slot::default());
        loop {
            let progress = self.network.send_group(&shared, &recipients, &mut self.slots);
            if progress.failed > 0 {
                let error = self.slots.iter().find_map(|slot| slot.error);
                return Err(format!("{} datagrams failed: {error:?}", progress.failed));
            }
            if !progress.blocked {
                break;
            }
            std::thread::yield_now();
        }
        self.recipients = recycle_recipients(&mut recipients);
        drop(recipients);
        self.shared = recycle(&mut shared);
        self.prepends = recycle(&mut prepends);
        Ok(())
    }
}

/// An empty list with the memory of another.
fn recycle<'a>(list: &mut Vec<&[u8]>) -> Vec<&'a [u8]> {
    let mut list = std::mem::take(list);
    list.clear();
    // Collected in place.
    list.into_iter().map(|_| -> &'a [u8] { &[] }).collect()
}

fn recycle_recipients<'a>(list: &mut Vec<Recipient<'_>>) -> Vec<Recipient<'a>> {
    let mut list = std::mem::take(list);
    list.clear();
    list.into_iter().map(|recipient| Recipient::plain(recipient.destination)).collect()
}

impl Way for Group {
    fn address(&self) -> Result<SocketAddr, String> {
        own_address(&self.socket)
    }

    fn open_key(&self) -> String {
        self.open_key.clone()
    }

    fn frame(&mut self, now: Instant, packets: &[&[u8]], part: Part) -> Result<(), String> {
        let text = |error: relay::SendError| error.to_string();
        match part {
            Part::Whole => {
                let Live { sender, stream, outgoing } = &mut self.live;
                sender.send(now, *stream, packets, outgoing).map_err(text)?;
                self.send_group(packets.len(), part)
            }
            Part::Seal => {
                let Live { sender, stream, outgoing } = &mut self.apart;
                sender.send(now, *stream, packets, outgoing).map_err(text)
            }
            Part::Send => {
                if !self.prepared.contains_key(&packets.len()) {
                    let Live { sender, stream, .. } = &mut self.apart;
                    let mut outgoing = Outgoing::new();
                    sender.send(now, *stream, packets, &mut outgoing).map_err(text)?;
                    self.prepared.insert(packets.len(), outgoing);
                }
                self.send_group(packets.len(), part)
            }
        }
    }

    fn feedback(&mut self, now: Instant) -> Result<(), String> {
        let Self { socket, live: Live { sender, .. }, links, addresses, repairs, .. } = self;
        let mut list = Vec::new();
        let mut buffer = [0; 2048];
        let std_socket: std::net::UdpSocket = socket.try_clone().map_err(|error| error.to_string())?.into();
        while let Ok((len, source)) = std_socket.recv_from(&mut buffer) {
            if let Some(link) = links.get(&source) {
                let _ = sender.handle_control(now, *link, &mut buffer[..len], &mut list);
            }
        }
        *repairs += list.len() as u64;
        for repair in &list {
            let datagram = [repair.private(), repair.shared()].concat();
            let _ = std_socket.send_to(&datagram, addresses[repair.link().index()]);
        }
        sender.poll_control(now, |link, datagram| {
            let _ = std_socket.send_to(datagram, addresses[link.index()]);
        });
        Ok(())
    }

    fn repairs(&self) -> u64 {
        self.repairs
    }
}

fn own_address(socket: &Socket) -> Result<SocketAddr, String> {
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    address.as_socket().ok_or_else(|| "an address of another family".into())
}
