//! Keys of the two buckets, as values and as text.

use crate::names::{NodeName, StreamName};

/// Which bucket a key is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bucket {
    /// What nodes say of themselves.
    Nodes,
    /// Streams and feeds: entries stay until they are deleted, by their owner or after its death.
    Streams,
    /// Heartbeats, by instance: entries expire, and nobody watches.
    Heartbeats,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A node, by its name.
    Node(NodeName),
    /// A publication.
    Stream(StreamName),
    /// Where a node fetches a stream.
    Feed(StreamName, NodeName),
}

impl Key {
    pub(crate) fn bucket(&self) -> Bucket {
        match self {
            Self::Node(_) => Bucket::Nodes,
            Self::Stream(_) | Self::Feed(..) => Bucket::Streams,
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Node(node) => node.token(),
            Self::Stream(stream) => format!("s.{}", stream.token()),
            Self::Feed(stream, node) => format!("f.{}.{}", stream.token(), node.token()),
        }
    }

    /// Which key `text` is, if it is any.
    pub(crate) fn parse(bucket: Bucket, text: &str) -> Option<Self> {
        match bucket {
            Bucket::Nodes => return NodeName::from_token(text).map(Self::Node),
            Bucket::Heartbeats => return None,
            Bucket::Streams => {}
        }
        let mut tokens = text.split('.');
        let (kind, stream) = (tokens.next()?, StreamName::from_token(tokens.next()?)?);
        match (kind, tokens.next(), tokens.next()) {
            ("s", None, None) => Some(Self::Stream(stream)),
            ("f", Some(node), None) => Some(Self::Feed(stream, NodeName::from_token(node)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let (stream, node) = (StreamName::new("live/a.b").unwrap(), NodeName::new("n.1").unwrap());
        for key in [Key::Node(node.clone()), Key::Stream(stream.clone()), Key::Feed(stream, node)] {
            assert_eq!(Key::parse(key.bucket(), &key.text()), Some(key));
        }
        for text in [
            "",
            "s",
            "s.",
            "s.live",
            "x.live_2Fa",
            "s.live_2Fa.b",
            "f.live_2Fa",
            "f.live_2Fa.b.c",
            "f.live_2Fa.",
        ] {
            assert_eq!(Key::parse(Bucket::Streams, text), None, "{text}");
        }
    }
}
