//! Why a link ends, and what nodes refuse each other.

use std::fmt;

use crate::limits::VERSION;

/// Why a link is over. Whatever [`poll_output`](crate::Link::poll_output) still has is to be sent before it
/// is closed: it may tell the other node why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkError {
    /// What came is not this protocol.
    NotANode,
    /// The other node has another version of the protocol.
    OtherVersion {
        /// Its version of the protocol.
        theirs: u16,
        /// Version of its software.
        software: String,
    },
    /// The other node has another secret, or something sits between both.
    WrongSecret,
    /// The other node refused this one.
    Refused(Refusal),
    /// The other node did not introduce itself in time.
    NoHello,
    /// Nothing was heard of it.
    Silent,
    /// A message makes no sense; the text says which.
    Malformed(&'static str),
    /// It sends frames that it has no credit for.
    BeyondCredit,
    /// It does not read what it is sent.
    NotReading,
}

/// Why a node refuses another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has another secret.
    WrongSecret,
    /// Another living node has its name.
    NameTaken,
    /// The node is shutting down.
    Leaving,
    /// The node has as many links as it may have.
    TooMany,
}

/// Why a node refuses a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRefusal {
    /// It does not have it.
    NotHere,
    /// It feeds as many nodes with it as it may.
    Full,
    /// It takes nobody any more.
    Draining,
    /// The link has as many streams as it may have.
    TooMany,
    /// It gets the stream from the node that asks, by way of others or not.
    Loop,
}

/// Why a stream ends on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The node that fetched it let it go.
    Unsubscribed,
    /// Its publisher has ended.
    PublisherEnded,
    /// The node does not get it itself any more.
    Lost,
    /// The node ended it for a reason of its own, such as a kick.
    Stopped,
}

/// Why a node closes a link that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goodbye {
    /// It is shutting down.
    Leaving,
    /// There is another link between both.
    Duplicate,
    /// It reached another node than it meant to.
    WrongNode,
    /// Its name belongs to another node now.
    NameLost,
}

/// Gives each variant its number in messages.
macro_rules! numbered {
    ($Type:ident { $($Variant:ident = $number:literal,)+ }) => {
        impl $Type {
            pub(crate) fn number(self) -> u8 {
                match self { $(Self::$Variant => $number,)+ }
            }

            pub(crate) fn from_number(number: u8) -> Option<Self> {
                Some(match number { $($number => Self::$Variant,)+ _ => return None })
            }
        }
    };
}

numbered!(Refusal { WrongSecret = 1, NameTaken = 2, Leaving = 3, TooMany = 4, });
numbered!(StreamRefusal { NotHere = 1, Full = 2, Draining = 3, TooMany = 4, Loop = 5, });
numbered!(StreamEnd { Unsubscribed = 1, PublisherEnded = 2, Lost = 3, Stopped = 4, });
numbered!(Goodbye { Leaving = 1, Duplicate = 2, WrongNode = 3, NameLost = 4, });

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotANode => "what came is not the protocol of nodes",
            Self::OtherVersion { theirs, software } => {
                return write!(
                    f,
                    "the other node has version {theirs} of the protocol (software {software}), this one has \
                     version {VERSION} (software {})",
                    env!("CARGO_PKG_VERSION")
                );
            }
            Self::WrongSecret => "the other node has another secret (`cluster.secret_file`)",
            Self::Refused(Refusal::WrongSecret) => {
                "refused: this node has another secret (`cluster.secret_file`) than the other one"
            }
            Self::Refused(Refusal::NameTaken) => {
                "refused: another node of the cluster has this node's name (`cluster.node_name`)"
            }
            Self::Refused(Refusal::Leaving) => "refused: the other node is shutting down",
            Self::Refused(Refusal::TooMany) => "refused: the other node has as many links as it may have",
            Self::NoHello => "the other side did not introduce itself in time",
            Self::Silent => "nothing was heard of the other node",
            Self::Malformed(what) => return write!(f, "malformed: {what}"),
            Self::BeyondCredit => "the other node sends more than it was given credit for",
            Self::NotReading => "the other node does not read what it is sent",
        })
    }
}

impl std::error::Error for LinkError {}

impl fmt::Display for StreamRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotHere => "the node does not have the stream",
            Self::Full => "the node feeds as many others as it may",
            Self::Draining => "the node is shutting down",
            Self::TooMany => "the link has as many streams as it may have",
            Self::Loop => "the node gets the stream from the one that asks",
        })
    }
}

impl fmt::Display for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsubscribed => "no longer wanted",
            Self::PublisherEnded => "the publisher has ended",
            Self::Lost => "the node does not get the stream any more",
            Self::Stopped => "ended by the node",
        })
    }
}

impl fmt::Display for Goodbye {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaving => "the node is shutting down",
            Self::Duplicate => "there is another link between both",
            Self::WrongNode => "another node was meant",
            Self::NameLost => "its name belongs to another node",
        })
    }
}
