//! What the directory stores, and its bytes.
//!
//! ```text
//! node    1 'N' instance:8 joined:8 draining:1 players:4 streams:4 cpu_permille:2 egress_kbit:4
//!         name region software relay_tcp relay_udp http          (texts: length:2, UTF-8)
//! stream  1 'S' instance:8 epoch:8 how:1 lane:1 node codecs:1 (text)* tracks:2 bytes
//! feed    1 'F' instance:8 node parent
//! ```
//! Numbers are big-endian. A value is taken as a whole or not at all: another version, a length beyond its
//! limit, a byte too many make it nonsense, which is counted and ignored. No key, token or media is in any.

use std::sync::Arc;

use crate::names::NodeName;

/// Version of what is stored. Nodes ignore, and say once, what has another.
pub const VERSION: u8 = 1;

/// The longest value that is read.
pub const VALUE_BYTES_MAX: usize = 16 * 1024;
/// The longest description of a stream's tracks.
pub const TRACKS_BYTES_MAX: usize = 8 * 1024;
/// Codecs named of a stream.
pub const CODECS_MAX: usize = 16;
/// The longest name of a codec.
pub const CODEC_BYTES_MAX: usize = 64;
/// The longest address, region or version of a node.
pub const TEXT_BYTES_MAX: usize = 255;

/// CPU of a node's busiest worker from which on it is busy, thousandths of a core: as of a worker that hands
/// its connections to another.
pub(crate) const BUSY_PERMILLE: u16 = 800;
/// And below which it is not busy any more: each change goes to all nodes.
pub(crate) const AT_REST_PERMILLE: u16 = 700;

/// Number that a process draws at random when it starts: a node that was started again is another instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u64);

/// Number of a publication in the cluster. Whoever knew of one gets a larger number for the next, of any
/// stream; of two that knew nothing of each other, either may be larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// Addresses by which a node is reached; empty if it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// `host:port` of the frames relay.
    pub relay_tcp: String,
    /// `host:port` of the packets relay.
    pub relay_udp: String,
    /// URL of its HTTP port, to which players can be sent.
    pub http: String,
}

/// How busy a node is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Players of all protocols.
    pub players: u32,
    /// Streams published here.
    pub streams: u32,
    /// CPU of its busiest worker, in thousandths of a core.
    pub cpu_permille: u16,
    /// Sent to players and nodes, in kbit/s.
    pub egress_kbit_per_second: u32,
    /// It has no room for players of some protocol. As announced, also: it was busy, and is not at
    /// rest yet.
    pub full: bool,
}

impl Load {
    /// Whether it takes no players that another node could take.
    pub fn is_busy(&self) -> bool {
        self.full || self.cpu_permille >= BUSY_PERMILLE
    }
}

/// A node, as it announces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name, which is its key.
    pub name: NodeName,
    /// Which start of it this is.
    pub instance: InstanceId,
    /// Where it is, in the operator's words.
    pub region: String,
    /// Version of the software.
    pub software: String,
    /// How it is reached.
    pub addresses: Addresses,
    /// It takes nobody any more and will leave.
    pub draining: bool,
    /// How busy it was then.
    pub load: Load,
    /// When it came to have its name, in epochs: of two nodes of one name, the earlier keeps it. It is
    /// [`NEWCOMER`] for the first while.
    pub(crate) joined: Epoch,
}

/// In which form a stream is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Coded frames.
    Frames,
    /// RTP packets.
    Packets,
}

/// What a stream has, for nodes that are asked for it before they have fetched it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its lane.
    pub lane: Lane,
    /// Codecs by name, for people; at most [`CODECS_MAX`] of [`CODEC_BYTES_MAX`].
    pub codecs: Vec<String>,
    /// Its tracks in the server's own encoding, at most [`TRACKS_BYTES_MAX`]; opaque here.
    pub tracks: Vec<u8>,
}

impl Description {
    /// Whether it is within the limits.
    pub fn fits(&self) -> bool {
        self.tracks.len() <= TRACKS_BYTES_MAX
            && self.codecs.len() <= CODECS_MAX
            && self.codecs.iter().all(|codec| codec.len() <= CODEC_BYTES_MAX)
    }
}

/// How a publication came to have its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum How {
    /// Nobody had it.
    Free = 0,
    /// From a living publisher, by policy.
    TookOver = 1,
    /// From a node that had fallen silent.
    AfterSilence = 2,
    /// The directory could not be asked.
    Provisional = 3,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamRecord {
    pub(crate) instance: InstanceId,
    pub(crate) node: NodeName,
    pub(crate) epoch: Epoch,
    pub(crate) how: How,
    pub(crate) description: Arc<Description>,
}

impl StreamRecord {
    /// Of two publications of a name that both run, the one of higher rank stays: what the directory granted
    /// (or a policy that takes over) before what was granted without it, then the later one in epochs, and
    /// of equal ones the larger instance. No clock is asked, because those of nodes differ.
    pub(crate) fn rank(&self) -> (bool, Epoch, InstanceId) {
        (self.how != How::Provisional, self.epoch, self.instance)
    }
}

/// A node fetches a stream from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FeedRecord {
    pub(crate) instance: InstanceId,
    pub(crate) node: NodeName,
    pub(crate) parent: NodeName,
}

/// Why a key or value was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonsense {
    /// The key is no name.
    Key,
    /// Shorter or longer than what it says it is.
    Length,
    /// Another version.
    Version(u8),
    /// Contents that no node writes.
    Contents,
    /// One more than the limit.
    TooMany,
}

impl Node {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, b'N'];
        out.extend(self.instance.0.to_be_bytes());
        out.extend(self.joined.0.to_be_bytes());
        out.push(u8::from(self.draining) | u8::from(self.load.full) << 1);
        out.extend(self.load.players.to_be_bytes());
        out.extend(self.load.streams.to_be_bytes());
        out.extend(self.load.cpu_permille.to_be_bytes());
        out.extend(self.load.egress_kbit_per_second.to_be_bytes());
        let Addresses { relay_tcp, relay_udp, http } = &self.addresses;
        for text in [self.name.as_str(), &self.region, &self.software, relay_tcp, relay_udp, http] {
            put_text(&mut out, text);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Nonsense> {
        let mut read = Reader::new(bytes, b'N')?;
        let (instance, joined) = (InstanceId(read.u64()?), Epoch(read.u64()?));
        let (draining, full) = match read.u8()? {
            state @ 0..=3 => (state & 1 != 0, state & 2 != 0),
            _ => return Err(Nonsense::Contents),
        };
        let load = Load {
            players: read.u32()?,
            streams: read.u32()?,
            cpu_permille: read.u16()?,
            egress_kbit_per_second: read.u32()?,
            full,
        };
        let name = read.node()?;
        let [region, software, relay_tcp, relay_udp, http] = [
            read.text(TEXT_BYTES_MAX)?,
            read.text(TEXT_BYTES_MAX)?,
            read.text(TEXT_BYTES_MAX)?,
            read.text(TEXT_BYTES_MAX)?,
            read.text(TEXT_BYTES_MAX)?,
        ];
        read.end()?;
        let addresses = Addresses { relay_tcp, relay_udp, http };
        Ok(Self { name, instance, region, software, addresses, draining, load, joined })
    }
}

impl StreamRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, b'S'];
        out.extend(self.instance.0.to_be_bytes());
        out.extend(self.epoch.0.to_be_bytes());
        out.push(self.how as u8);
        out.push(self.description.lane as u8);
        put_text(&mut out, self.node.as_str());
        out.push(u8::try_from(self.description.codecs.len()).expect("descriptions are checked before"));
        for codec in &self.description.codecs {
            put_text(&mut out, codec);
        }
        put_bytes(&mut out, &self.description.tracks);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Nonsense> {
        let mut read = Reader::new(bytes, b'S')?;
        let (instance, epoch) = (InstanceId(read.u64()?), Epoch(read.u64()?));
        if epoch > EPOCH_MAX {
            return Err(Nonsense::Contents);
        }
        let how = match read.u8()? {
            0 => How::Free,
            1 => How::TookOver,
            2 => How::AfterSilence,
            3 => How::Provisional,
            _ => return Err(Nonsense::Contents),
        };
        let lane = match read.u8()? {
            0 => Lane::Frames,
            1 => Lane::Packets,
            _ => return Err(Nonsense::Contents),
        };
        let node = read.node()?;
        let count = usize::from(read.u8()?);
        if count > CODECS_MAX {
            return Err(Nonsense::Length);
        }
        let codecs = (0..count).map(|_| read.text(CODEC_BYTES_MAX)).collect::<Result<_, _>>()?;
        let tracks = read.bytes(TRACKS_BYTES_MAX)?.to_vec();
        read.end()?;
        let description = Arc::new(Description { lane, codecs, tracks });
        Ok(Self { instance, node, epoch, how, description })
    }
}

impl FeedRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, b'F'];
        out.extend(self.instance.0.to_be_bytes());
        put_text(&mut out, self.node.as_str());
        put_text(&mut out, self.parent.as_str());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Nonsense> {
        let mut read = Reader::new(bytes, b'F')?;
        let instance = InstanceId(read.u64()?);
        let (node, parent) = (read.node()?, read.node()?);
        read.end()?;
        Ok(Self { instance, node, parent })
    }
}

/// Epochs grow by one per publication; a value beyond this was made up, and would leave no room for others.
pub(crate) const EPOCH_MAX: Epoch = Epoch(1 << 56);

/// Of a node that has not had its name for long.
pub(crate) const NEWCOMER: Epoch = Epoch(u64::MAX);

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u16::try_from(bytes.len()).expect("all fields are checked before").to_be_bytes());
    out.extend(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], kind: u8) -> Result<Self, Nonsense> {
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(Nonsense::Length);
        }
        match bytes {
            [VERSION, found, rest @ ..] if *found == kind => Ok(Self(rest)),
            [VERSION, _, ..] => Err(Nonsense::Contents),
            [] | [VERSION] => Err(Nonsense::Length),
            [version, ..] => Err(Nonsense::Version(*version)),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Nonsense> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Nonsense::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Nonsense> {
        Ok(self.take(N)?.try_into().expect("that many were taken"))
    }

    fn u8(&mut self) -> Result<u8, Nonsense> {
        Ok(self.number::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Nonsense> {
        self.number().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Nonsense> {
        self.number().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Nonsense> {
        self.number().map(u64::from_be_bytes)
    }

    fn bytes(&mut self, max: usize) -> Result<&'a [u8], Nonsense> {
        let len = usize::from(self.u16()?);
        if len > max {
            return Err(Nonsense::Length);
        }
        self.take(len)
    }

    fn text(&mut self, max: usize) -> Result<String, Nonsense> {
        let text = std::str::from_utf8(self.bytes(max)?).map_err(|_| Nonsense::Contents)?;
        if text.chars().any(char::is_control) {
            return Err(Nonsense::Contents);
        }
        Ok(text.to_owned())
    }

    fn node(&mut self) -> Result<NodeName, Nonsense> {
        NodeName::new(&self.text(TEXT_BYTES_MAX)?).ok_or(Nonsense::Contents)
    }

    fn end(self) -> Result<(), Nonsense> {
        if self.0.is_empty() { Ok(()) } else { Err(Nonsense::Length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node {
            name: NodeName::new("edge-1").unwrap(),
            instance: InstanceId(7),
            region: "fra".to_owned(),
            software: "0.1.0".to_owned(),
            addresses: Addresses { relay_tcp: "192.0.2.1:4000".to_owned(), ..Addresses::default() },
            draining: true,
            load: Load { players: 1, streams: 2, cpu_permille: 3, egress_kbit_per_second: 4, full: true },
            joined: Epoch(9),
        }
    }

    fn stream() -> StreamRecord {
        let codecs = vec!["H264".to_owned(), "opus".to_owned()];
        let description = Arc::new(Description { lane: Lane::Packets, codecs, tracks: vec![1, 2, 3] });
        StreamRecord {
            instance: InstanceId(7),
            node: NodeName::new("edge-1").unwrap(),
            epoch: Epoch(12),
            how: How::TookOver,
            description,
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_or_longer() {
        let feed = FeedRecord {
            instance: InstanceId(1),
            node: NodeName::new("b").unwrap(),
            parent: NodeName::new("a").unwrap(),
        };
        assert_eq!(Node::decode(&node().encode()), Ok(node()));
        assert_eq!(StreamRecord::decode(&stream().encode()), Ok(stream()));
        assert_eq!(FeedRecord::decode(&feed.encode()), Ok(feed.clone()));
        for bytes in [node().encode(), stream().encode(), feed.encode()] {
            for len in 0..bytes.len() {
                assert!(Node::decode(&bytes[..len]).is_err(), "len {len}");
                assert!(StreamRecord::decode(&bytes[..len]).is_err(), "len {len}");
                assert!(FeedRecord::decode(&bytes[..len]).is_err(), "len {len}");
            }
            let longer = [bytes, vec![0]].concat();
            assert!(Node::decode(&longer).is_err());
            assert!(StreamRecord::decode(&longer).is_err());
            assert!(FeedRecord::decode(&longer).is_err());
        }
    }

    #[test]
    fn nonsense_is_told_apart() {
        let changed = |at: usize, to: u8| {
            let mut bytes = stream().encode();
            bytes[at] = to;
            StreamRecord::decode(&bytes).unwrap_err()
        };
        // (position, value, what it is, remark)
        for (at, to, nonsense, remark) in [
            (0, 2, Nonsense::Version(2), "a later version"),
            (1, b'N', Nonsense::Contents, "a node where a stream is"),
            (10, 0xff, Nonsense::Contents, "an epoch that leaves no room"),
            (18, 4, Nonsense::Contents, "no way to come by a name"),
            (19, 2, Nonsense::Contents, "no lane"),
            (20, 0xff, Nonsense::Length, "a name without end"),
            (22, b' ', Nonsense::Contents, "no name"),
            (28, 17, Nonsense::Length, "too many codecs"),
        ] {
            assert_eq!(changed(at, to), nonsense, "{remark}");
        }
        assert_eq!(StreamRecord::decode(&vec![1; VALUE_BYTES_MAX + 1]), Err(Nonsense::Length));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut state = 1_u64;
        for round in 0..200_000_usize {
            let mut bytes = [stream().encode(), node().encode()][round % 2].clone();
            for _ in 0..=round % 3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 56) as u8;
            }
            if let Ok(record) = StreamRecord::decode(&bytes) {
                assert_eq!(record.encode(), bytes);
            }
            if let Ok(record) = Node::decode(&bytes) {
                assert_eq!(record.encode(), bytes);
            }
        }
    }
}
