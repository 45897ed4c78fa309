//! The rest of the cluster, as workers and the control side see it.
//!
//! The workers' registry has an [`Elsewhere`] if the node is part of a cluster. It asks what other nodes
//! publish, and reports what this one publishes and wants. What it answers with is done by commands:
//!
//! ```text
//! registry --wanted, unwanted, started, changed, ended--> Elsewhere   (in order, each change once)
//! registry, control --published?--> Elsewhere                         (at once, from a local copy)
//! Elsewhere --publish (Protocol::Node), tap, end_publication--> workers
//! ```
//!
//! A stream of another node that is *fetched* is an internal publication of [`Protocol::Node`]. It gives way
//! to every other publisher, and nothing is reported of it: it is there because the stream is wanted.
//!
//! [`Protocol::Node`]: crate::snapshot::Protocol::Node

use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use media::Codec;
use rtmp::name::has_query_key;

use crate::streams::{Epoch, Published};

/// The rest of the cluster. `key` is `app/name` everywhere.
///
/// **Calls come from workers in the middle of their work, reports with the registry locked: none may wait,
/// or call the registry or a worker.** An implementation reads a map, or puts what it is told into a queue.
pub trait Elsewhere: Debug + Send + Sync {
    /// What another living node publishes under this name, from the local copy of the directory; never what
    /// this node publishes, and never [`Published::Nobody`].
    fn published(&self, key: &str) -> Option<Published>;

    /// Base URL of the node where an HTTP player or viewer of the stream is to go instead, by
    /// `cluster.redirect`; `is_full` says that this node cannot take it. `None` if it is to stay.
    fn redirect(&self, key: &str, is_full: bool) -> Option<String>;

    /// Players are here, and no client or source of this node publishes the stream: it is to be fetched when
    /// another node has it, now or later. Also while it is fetched, until [`unwanted`](Self::unwanted).
    fn wanted(&self, key: &str);

    /// The stream is not wanted any more: the last player has left, or this node has a publisher of its own,
    /// of which [`started`](Self::started) says more.
    fn unwanted(&self, key: &str);

    /// Whether there are other nodes at all: where not, nobody is sent to one.
    fn has_nodes(&self) -> bool {
        true
    }

    /// How long a first player waits for a stream that nobody publishes, and that begins because it is
    /// played (an on-demand pull). `None`: it does not begin so, or cannot now.
    fn begins_within(&self, _key: &str) -> Option<Duration> {
        None
    }

    /// What a stream has here has changed. Unlike [`wanted`](Self::wanted) it is also reported while the
    /// stream is published here, and counts only players that somebody watches: no recordings and pushes, and
    /// of segments those that clients ask for.
    fn watched(&self, _key: &str, _watched: Watched) {}

    /// A publication begins here, which is not a fetched one. It does not wait for the cluster: if the name
    /// is taken there, `WorkerHandles::end_publication` ends it. One that replaces another of this node has a
    /// larger epoch, and the other is not reported as ended.
    fn started(&self, publication: &Publication<'_>);

    /// What a publication of this node is to players by WebRTC has become known, or has changed: on
    /// a node that bridges it, whether this one does or not.
    fn changed(&self, key: &str, epoch: Epoch, published: &Published);

    /// What a publication of frames consists of, for people who look at the cluster: its codecs are
    /// others than those that players by WebRTC get.
    fn codecs(&self, _key: &str, _epoch: Epoch, _codecs: &[Codec]) {}

    /// A publication that was reported has ended, and no other of this node has replaced it.
    fn ended(&self, key: &str, epoch: Epoch);
}

/// What a stream has here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched {
    /// Players.
    pub has_players: bool,
    /// A publisher, or what is fetched from another node.
    pub is_published: bool,
    /// Address of the player that has come last while nothing was published, if it is known.
    pub asked_by: Option<IpAddr>,
}

/// A publication of this node that begins.
#[derive(Debug, Clone, Copy)]
pub struct Publication<'a> {
    /// `app/name`.
    pub key: &'a str,
    /// Which publication on this node.
    pub epoch: Epoch,
    /// Index of the worker that is its home: a tap there costs no crossing between workers.
    pub worker: usize,
    /// Its lane, and what is known of its tracks.
    pub published: &'a Published,
    /// It may take the name over from another node, by `stream.second_publisher`.
    pub takes_over: bool,
}

/// Where a player that asked for `target`, a path with its query, goes on the node at `base`. `None` if it was
/// sent here like that: nobody is sent on, so that of nodes that are all full none sends players in circles.
pub fn redirected(base: &str, target: &str) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let separator = if query.is_empty() { "" } else { "&" };
    (!has_query_key(query, REDIRECTED)).then(|| format!("{base}{path}?{query}{separator}{REDIRECTED}"))
}

/// Where a player by RTMP goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtmpElsewhere {
    /// URL of the application, to connect to.
    pub connection: String,
    /// URL of the stream, for players that take one.
    pub stream: String,
}

/// The same for a player by RTMP: at the host of `base`, at this port, with the queries with which it has
/// connected and asked for the stream.
pub fn redirected_rtmp(
    base: &str,
    port: u16,
    (app, name): (&str, &str),
    (of_connection, of_stream): (&str, &str),
) -> Option<RtmpElsewhere> {
    let (_, rest) = base.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = match authority.rsplit_once(':') {
        // Not within an IPv6 address.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let base = format!("rtmp://{host}:{port}");
    let both = [of_connection, of_stream].into_iter().filter(|query| !query.is_empty());
    let both = both.collect::<Vec<_>>().join("&");
    let stream = redirected(&base, &format!("/{app}/{name}?{both}"))?;
    let connection = redirected(&base, &format!("/{app}?{of_connection}"))?;
    Some(RtmpElsewhere { connection, stream })
}

/// What a query has when another node sent the player.
const REDIRECTED: &str = "redirected";

#[cfg(test)]
mod tests {
    use super::{RtmpElsewhere, redirected, redirected_rtmp};

    #[test]
    fn players_by_rtmp_go_to_the_same_host() {
        let cases = [
            ("https://b.example.com", "b.example.com:1936"),
            ("http://192.0.2.1:8080", "192.0.2.1:1936"),
            ("http://[2001:db8::1]:8080/x", "[2001:db8::1]:1936"),
            ("http://[2001:db8::1]", "[2001:db8::1]:1936"),
        ];
        for (base, host) in cases {
            let elsewhere = redirected_rtmp(base, 1936, ("live/x", "a"), ("token=t", "y=1"));
            let expected = RtmpElsewhere {
                connection: format!("rtmp://{host}/live/x?token=t&redirected"),
                stream: format!("rtmp://{host}/live/x/a?token=t&y=1&redirected"),
            };
            assert_eq!(elsewhere, Some(expected), "{base}");
        }
        for queries in [("redirected", ""), ("", "x&redirected"), ("redirected=1", "y")] {
            assert_eq!(redirected_rtmp("http://b", 1936, ("live", "a"), queries), None, "{queries:?}");
        }
    }

    #[test]
    fn a_player_is_sent_to_another_node_once() {
        // (target, where it goes)
        for (target, expected) in [
            ("/live/a.flv", Some("http://b/live/a.flv?redirected")),
            ("/live/a.flv?", Some("http://b/live/a.flv?redirected")),
            ("/live/a.flv?token=x&y", Some("http://b/live/a.flv?token=x&y&redirected")),
            (
                "/live/redirected?token=redirected",
                Some("http://b/live/redirected?token=redirected&redirected"),
            ),
            ("/live/a.flv?redirected", None),
            ("/live/a.flv?token=x&redirected&y", None),
        ] {
            assert_eq!(redirected("http://b", target).as_deref(), expected, "{target}");
        }
    }
}
