//! Packets between nodes: what whoever manages the links to other nodes asks of worker 0, which has the
//! relay's socket, and what it gets back.
//!
//! A node **serves** streams to others and **fetches** streams from them, each over a link: one connection
//! between two nodes, by which keys and requests travel. The worker knows of that connection only what it is
//! given here, and dials nobody. Keys are the types of [`relay`]: values that clear themselves, and that
//! nothing prints.
//!
//! ```text
//!  node that has the stream                          node that wants it
//!    Offer: tracks, keys  ------ connection ------>    Fetch: the handle it is to come under
//!    Serve  <------------------- connection ------     then packets, over UDP
//! ```
//!
//! A change of keys is in three steps, because packets under a key that a node does not have yet would be
//! asked for again and again: [`RelayCommand::NewKey`] here, [`RelayCommand::AddKey`] at every node that has
//! the stream, and only then [`RelayCommand::UseNewKey`] here.
//!
//! A node that changes the one it gets a stream from lets the old one go and attaches the new one
//! ([`RelayCommand::AddParent`]), which serves it from the position in the answer. What comes twice is dropped.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use relay::{InLinkStats, LinkSecret, OpenKey, OutLinkStats, Position, Role, SetupError};
use tokio::sync::{mpsc, oneshot};

use crate::EndReason;
use crate::streams::{Epoch, PublishedTracks};

/// Number of a link, chosen by whoever adds it, and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// Where the answer to a command goes. Refused by every worker but the first, and without a relay.
pub type Reply<T> = oneshot::Sender<Result<T, RelayRefusal>>;

/// Where the worker reports what it ends by itself. Bounded by what it was asked for: one notice for each
/// stream that is offered or fetched, and one for each key.
pub type RelayNotices = mpsc::UnboundedSender<RelayNotice>;

/// What is asked of the relay on worker 0. What has no `reply` does nothing if its link or stream is not
/// there.
pub enum RelayCommand {
    /// Notices go here from now on.
    Notify {
        /// Where to.
        notices: RelayNotices,
    },
    /// A link to another node, in both directions.
    AddLink {
        /// Its number.
        link: LinkId,
        /// What only the two nodes know, of this connection between them.
        secret: LinkSecret,
        /// Which end this node is.
        role: Role,
        /// Where the other node's relay is. Datagrams from elsewhere are not its own. A link that has had
        /// this address before gets nothing any more.
        address: SocketAddr,
        /// Done.
        reply: Reply<()>,
    },
    /// The link is gone: nothing is served over it any more. What was fetched over it stays for another
    /// parent.
    RemoveLink {
        /// Which.
        link: LinkId,
    },
    /// A node wants a stream: prepares to serve it, and says what it needs to know. Forgotten if nobody is
    /// served within [`OFFER_VALID`].
    Offer {
        /// `app/name`.
        stream: String,
        /// What it is.
        reply: Reply<Offered>,
    },
    /// Serves a stream that was offered over a link, from now on.
    Serve {
        /// The link.
        link: LinkId,
        /// `app/name`.
        stream: String,
        /// The publication that was offered.
        epoch: Epoch,
        /// The handle that the other node chose ([`Fetched::handle`]).
        handle: u16,
        /// Where the other node stands ([`Attached::position`]), if it had the stream from another one. If
        /// not, it gets what is kept since the last key frame.
        from: Option<Position>,
        /// Done.
        reply: Reply<()>,
    },
    /// A link gets no more of a stream.
    StopServing {
        /// The link.
        link: LinkId,
        /// `app/name`.
        stream: String,
    },
    /// Makes the next key of a stream that is served, for the nodes that are to have it. Packets go on under
    /// the one before. Asked for again, there is yet another one, and the first is never used.
    NewKey {
        /// `app/name`.
        stream: String,
        /// The key.
        reply: Reply<OpenKey>,
    },
    /// The nodes have the next key: packets are sealed under it from now on.
    UseNewKey {
        /// `app/name`.
        stream: String,
        /// Its number ([`OpenKey::epoch`]): of several the last.
        epoch: u32,
        /// Done, now or when it was asked for before.
        reply: Reply<()>,
    },
    /// Publishes another node's stream here, as it comes over a link. For further nodes, packets are kept as
    /// they came since the last key frame.
    Fetch {
        /// The link.
        link: LinkId,
        /// `app/name`.
        stream: String,
        /// What it is ([`Offered::tracks`]).
        tracks: PublishedTracks,
        /// Keys that are in use, or will be, the oldest first ([`Offered::keys`]).
        keys: Vec<OpenKey>,
        /// Done.
        reply: Reply<Fetched>,
    },
    /// A fetched stream comes over another link as well, from now on.
    AddParent {
        /// The link.
        link: LinkId,
        /// `app/name`.
        stream: String,
        /// Where it stands.
        reply: Reply<Attached>,
    },
    /// A fetched stream no longer comes over a link.
    RemoveParent {
        /// The link.
        link: LinkId,
        /// `app/name`.
        stream: String,
    },
    /// The next key of a fetched stream, before packets come under it.
    AddKey {
        /// `app/name`.
        stream: String,
        /// The key.
        key: OpenKey,
        /// Done.
        reply: Reply<()>,
    },
    /// A stream is not fetched any more. Its players wait for a publisher, as they do when one of this node
    /// leaves.
    EndFetch {
        /// `app/name`.
        stream: String,
        /// The publication ([`Fetched::epoch`]).
        epoch: Epoch,
    },
    /// Counts of links and streams.
    Statistics {
        /// The counts.
        reply: Reply<RelayStats>,
    },
}

/// How long a stream that was offered is kept ready without being served: longer than two nodes take to say
/// three things to each other.
pub const OFFER_VALID: Duration = Duration::from_secs(10);

/// What a node that fetches a stream has to know of it.
#[derive(Debug, Clone)]
pub struct Offered {
    /// The publication.
    pub epoch: Epoch,
    /// What is published.
    pub tracks: PublishedTracks,
    /// Keys that are in use, or will be, the oldest first.
    pub keys: Vec<OpenKey>,
}

/// A stream is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The publication that it is on this node.
    pub epoch: Epoch,
    /// Under which the other node is to serve it.
    pub handle: u16,
}

/// A fetched stream comes over another link as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Under which the other node is to serve it.
    pub handle: u16,
    /// What has come: from here on its packets are wanted.
    pub position: Position,
}

/// Why the relay does not do what it was asked for. Nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayRefusal {
    /// This worker has no relay.
    NoRelay,
    /// There is no such link.
    NoLink,
    /// Nobody publishes the stream here, or it is not one that was offered or fetched.
    NoStream,
    /// It is published as frames.
    NotPackets,
    /// Another publication has taken its place.
    Replaced,
    /// A publisher of this node has the name.
    Taken,
    /// A stream without keys cannot be fetched.
    NoKey,
    /// The server is shutting down.
    Draining,
    /// The protocol's own reason.
    Setup(SetupError),
}

impl fmt::Display for RelayRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRelay => "there is no relay of packets",
            Self::NoLink => "there is no such link",
            Self::NoStream => "there is no such stream",
            Self::NotPackets => "the stream is published as frames",
            Self::Replaced => "another publisher has taken the stream over",
            Self::Taken => "a publisher of this node has the name",
            Self::NoKey => "a stream without keys",
            Self::Draining => EndReason::Draining.text(),
            Self::Setup(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for RelayRefusal {}

impl From<SetupError> for RelayRefusal {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

/// What the worker ends by itself, or cannot go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayNotice {
    /// A stream that was offered or served has ended here: its publisher has left, or another one has taken
    /// its place. Links get no more of it.
    ServedEnded {
        /// `app/name`.
        stream: String,
        /// The publication.
        epoch: Epoch,
    },
    /// A stream is not fetched any more, although nobody asked for it.
    FetchEnded {
        /// `app/name`.
        stream: String,
        /// The publication.
        epoch: Epoch,
        /// Why: a publisher of this node, or a defect in the server.
        reason: EndReason,
    },
    /// The key of a stream that is served has sealed half of what it may: it needs another one.
    KeyWorn {
        /// `app/name`.
        stream: String,
    },
}

/// Counts of the relay since its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// How datagrams leave, as `cluster.udp_backend` names it.
    pub backend: &'static str,
    /// Totals.
    pub counters: RelayCounters,
    /// All links.
    pub links: Vec<RelayLinkStats>,
    /// All streams that are served or fetched.
    pub streams: Vec<RelayStreamStats>,
}

/// Counts of one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLinkStats {
    /// Its number.
    pub link: LinkId,
    /// What was sent to the other node.
    pub sent: OutLinkStats,
    /// What came from it.
    pub received: InLinkStats,
}

/// One stream of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayStreamStats {
    /// `app/name`.
    pub stream: String,
    /// Links that it comes over, if it is fetched.
    pub parents: Vec<LinkId>,
    /// Links that it is served over.
    pub children: Vec<LinkId>,
    /// Packets that were sealed for it, or came in, each once.
    pub packets: u64,
}

/// Totals of the relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Datagrams that came in.
    pub datagrams_in: u64,
    /// Datagrams that left: media for each link, repairs, control.
    pub datagrams_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Datagrams that the system refused to send.
    pub send_failures: u64,
    /// Datagrams that it had no room for in time; they are repaired like others that are lost.
    pub send_dropped: u64,
    /// Packets that were not sealed: too long for a datagram, of a codec that was not offered, or their
    /// key has sealed all it may.
    pub not_sealed: u64,
    /// Packets of another node that did not go on to further nodes.
    pub not_forwarded: u64,
    /// Key-frame requests of other nodes, merged.
    pub key_frame_requests_in: u64,
    /// Key-frame requests to other nodes.
    pub key_frame_requests_out: u64,
    /// Datagrams from addresses without a link.
    pub unknown_source: u64,
    /// Datagrams that are none of this protocol or version.
    pub malformed: u64,
    /// Datagrams that had come before, or were given up.
    pub replayed: u64,
    /// Datagrams that the link's other node did not write.
    pub forged: u64,
    /// Datagrams under a key that is not here.
    pub unknown_key: u64,
    /// Datagrams of streams that were let go.
    pub unknown_handle: u64,
    /// Packets that had come over another link.
    pub duplicates: u64,
    /// Packets that were none, or of too many tracks.
    pub not_taken: u64,
}

impl fmt::Debug for RelayCommand {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notify { .. } => f.write_str("Notify"),
            Self::AddLink { link, role, address, .. } => {
                write!(f, "AddLink {link:?} as {role:?} to {address}")
            }
            Self::RemoveLink { link } => write!(f, "RemoveLink {link:?}"),
            Self::Offer { stream, .. } => write!(f, "Offer {stream}"),
            Self::Serve { link, stream, .. } => write!(f, "Serve {stream} over {link:?}"),
            Self::StopServing { link, stream } => write!(f, "StopServing {stream} over {link:?}"),
            Self::NewKey { stream, .. } => write!(f, "NewKey {stream}"),
            Self::UseNewKey { stream, epoch, .. } => write!(f, "UseNewKey {epoch} of {stream}"),
            Self::Fetch { link, stream, .. } => write!(f, "Fetch {stream} over {link:?}"),
            Self::AddParent { link, stream, .. } => write!(f, "AddParent {stream} over {link:?}"),
            Self::RemoveParent { link, stream } => write!(f, "RemoveParent {stream} over {link:?}"),
            Self::AddKey { stream, key, .. } => write!(f, "AddKey {} of {stream}", key.epoch()),
            Self::EndFetch { stream, .. } => write!(f, "EndFetch {stream}"),
            Self::Statistics { .. } => f.write_str("Statistics"),
        }
    }
}

impl RelayCommand {
    /// Answers that this worker has no relay.
    pub fn refuse(self, why: RelayRefusal) {
        // An asker that has given up waiting does not need it.
        match self {
            Self::AddLink { reply, .. }
            | Self::Serve { reply, .. }
            | Self::UseNewKey { reply, .. }
            | Self::AddKey { reply, .. } => {
                let _ = reply.send(Err(why));
            }
            Self::Offer { reply, .. } => _ = reply.send(Err(why)),
            Self::NewKey { reply, .. } => _ = reply.send(Err(why)),
            Self::Fetch { reply, .. } => _ = reply.send(Err(why)),
            Self::AddParent { reply, .. } => _ = reply.send(Err(why)),
            Self::Statistics { reply } => _ = reply.send(Err(why)),
            Self::Notify { .. }
            | Self::RemoveLink { .. }
            | Self::StopServing { .. }
            | Self::RemoveParent { .. }
            | Self::EndFetch { .. } => {}
        }
    }
}
