//! Why a session or a publication is over: every reason there is, its text, and its cause in the metrics.

/// Why a session or a publication is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The peer closed the connection.
    ClosedByPeer,
    /// The peer stopped publishing or playing (RTMP).
    StreamClosedByPeer,
    /// The client deleted its WebRTC session (RFC 9725 section 4.2).
    ClosedByClient,
    /// The operator ended it through the management API.
    Kicked,
    /// The token it was let in with has expired.
    TokenExpired,
    /// The time is over that the operator's hook has given it.
    TimeOver,
    /// Another publisher took the stream over.
    TakenOver,
    /// The publisher was silent when another one asked for the stream.
    Preempted,
    /// Another node of the cluster publishes the stream.
    PublishedElsewhere,
    /// The server is shutting down.
    Draining,
    /// The publisher sent nothing for too long.
    SilentPublisher,
    /// A WebRTC peer no longer consents to media (RFC 7675).
    SilentPeer,
    /// A player waited too long for a publisher.
    NoPublisher,
    /// The connection asked for nothing in time.
    NoRequest,
    /// ICE and DTLS were not done in time.
    ConnectTimeout,
    /// ICE or DTLS failed.
    ConnectFailed,
    /// A player took no bytes for too long.
    Stalled,
    /// A player was too far behind.
    TooFarBehind,
    /// The peer does not read the answers to what it asks.
    AnswersUnread,
    /// The last bytes had all the time they may take.
    Closed,
    /// An HTTP request was answered, with this text.
    Answered(&'static str),
    /// The peer was not let in; the text says why.
    Refused(&'static str),
    /// What the peer sent breaks the protocol; the text says how.
    Protocol(&'static str),
    /// Reading or writing failed.
    ConnectionFailed,
    /// TLS failed.
    TlsFailed,
    /// Whoever asked for the session did not wait for the answer.
    Abandoned,
    /// The stream's video cannot be played by WebRTC.
    VideoNotPlayable,
    /// The format of a player has no place for the stream; the text says for what.
    NotCarried(&'static str),
    /// Nothing of what a publisher sends can be played; the text says why.
    NothingCarried(&'static str),
    /// The stream of a player no longer exists.
    StreamGone,
    /// The stream has as many players as it may have.
    StreamFull,
    /// A defect in the server.
    Defect,
    /// The worker takes nothing from a source of this process.
    WorkerStalled,
    /// The worker itself has ended.
    WorkerEnded,
}

/// Causes as metrics count them, in the order of [`EndCounters`]; see [`EndReason::cause`].
pub const CAUSES: [&str; 22] = [
    "closed_by_peer",
    "kicked",
    "token_expired",
    "time_over",
    "taken_over",
    "preempted",
    "draining",
    "silent",
    "no_publisher",
    "no_request",
    "connect_timeout",
    "connect_failed",
    "too_slow",
    "closed",
    "answered",
    "refused",
    "protocol",
    "connection_failed",
    "abandoned",
    "not_playable",
    "defect",
    "worker",
];

impl EndReason {
    /// One sentence for the peer, the log and the API.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClosedByPeer => "closed by peer",
            Self::StreamClosedByPeer => "stream closed by peer",
            Self::ClosedByClient => "closed by the client",
            Self::Kicked => "ended by the operator",
            Self::TokenExpired => "the token has expired",
            Self::TimeOver => "the time it was given is over",
            Self::TakenOver => "another publisher took over",
            Self::Preempted => "silent, and another publisher came",
            Self::PublishedElsewhere => "the stream is published on another node",
            Self::Draining => "the server is shutting down",
            Self::SilentPublisher => "publisher sent nothing for too long",
            Self::SilentPeer => "the peer is silent",
            Self::NoPublisher => "no publisher in time",
            Self::NoRequest => "no request in time",
            Self::ConnectTimeout => "no connection in time",
            Self::ConnectFailed => "no connection",
            Self::Stalled => "player took nothing for too long",
            Self::TooFarBehind => "player too far behind",
            Self::AnswersUnread => "answers are not read",
            Self::Closed => "closed",
            Self::Answered(text)
            | Self::Refused(text)
            | Self::Protocol(text)
            | Self::NotCarried(text)
            | Self::NothingCarried(text) => text,
            Self::ConnectionFailed => "connection failed",
            Self::TlsFailed => "TLS failed",
            Self::Abandoned => "nobody waited for the answer",
            Self::VideoNotPlayable => "the video cannot be shown by WebRTC",
            Self::StreamGone => "the stream is gone",
            Self::StreamFull => "the stream takes no more players",
            Self::Defect => "defect in the server",
            Self::WorkerStalled => "the worker takes no data",
            Self::WorkerEnded => "the worker has ended",
        }
    }

    /// Label in the metrics; one of [`CAUSES`].
    pub fn cause(self) -> &'static str {
        match self {
            Self::ClosedByPeer | Self::StreamClosedByPeer | Self::ClosedByClient => "closed_by_peer",
            Self::Kicked => "kicked",
            Self::TokenExpired => "token_expired",
            Self::TimeOver => "time_over",
            Self::TakenOver | Self::PublishedElsewhere => "taken_over",
            Self::Preempted => "preempted",
            Self::Draining => "draining",
            Self::SilentPublisher | Self::SilentPeer => "silent",
            Self::NoPublisher => "no_publisher",
            Self::NoRequest => "no_request",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectFailed => "connect_failed",
            Self::Stalled | Self::TooFarBehind | Self::AnswersUnread => "too_slow",
            Self::Closed => "closed",
            Self::Answered(_) => "answered",
            Self::Refused(_) => "refused",
            Self::Protocol(_) => "protocol",
            Self::ConnectionFailed | Self::TlsFailed => "connection_failed",
            Self::Abandoned => "abandoned",
            Self::VideoNotPlayable
            | Self::NotCarried(_)
            | Self::NothingCarried(_)
            | Self::StreamGone
            | Self::StreamFull => "not_playable",
            Self::Defect => "defect",
            Self::WorkerStalled | Self::WorkerEnded => "worker",
        }
    }
}

/// Sessions that have ended, by cause.
#[derive(Debug, Clone, Copy, Default)]
pub struct EndCounters([u64; CAUSES.len()]);

impl EndCounters {
    /// Counts one.
    pub fn count(&mut self, reason: EndReason) {
        let cause = reason.cause();
        if let Some(at) = CAUSES.iter().position(|&other| other == cause) {
            self.0[at] += 1;
        }
    }

    /// All causes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CAUSES.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason that follows in the order of the enum. Without a wildcard: the compiler points here when
    /// there is a new one.
    fn next(reason: EndReason) -> Option<EndReason> {
        use EndReason::*;
        Some(match reason {
            ClosedByPeer => StreamClosedByPeer,
            StreamClosedByPeer => ClosedByClient,
            ClosedByClient => Kicked,
            Kicked => TokenExpired,
            TokenExpired => TimeOver,
            TimeOver => TakenOver,
            TakenOver => Preempted,
            Preempted => PublishedElsewhere,
            PublishedElsewhere => Draining,
            Draining => SilentPublisher,
            SilentPublisher => SilentPeer,
            SilentPeer => NoPublisher,
            NoPublisher => NoRequest,
            NoRequest => ConnectTimeout,
            ConnectTimeout => ConnectFailed,
            ConnectFailed => Stalled,
            Stalled => TooFarBehind,
            TooFarBehind => AnswersUnread,
            AnswersUnread => Closed,
            Closed => Answered("ok"),
            Answered(_) => Refused("no"),
            Refused(_) => Protocol("a chunk is too large"),
            Protocol(_) => ConnectionFailed,
            ConnectionFailed => TlsFailed,
            TlsFailed => Abandoned,
            Abandoned => VideoNotPlayable,
            VideoNotPlayable => NotCarried("no place for it"),
            NotCarried(_) => NothingCarried("no track"),
            NothingCarried(_) => StreamGone,
            StreamGone => StreamFull,
            StreamFull => Defect,
            Defect => WorkerStalled,
            WorkerStalled => WorkerEnded,
            WorkerEnded => return None,
        })
    }

    #[test]
    fn every_reason_is_counted_under_its_cause() {
        for reason in std::iter::successors(Some(EndReason::ClosedByPeer), |reason| next(*reason)) {
            let mut counters = EndCounters::default();
            counters.count(reason);
            let counted: Vec<_> = counters.iter().filter(|(_, count)| *count == 1).collect();
            assert_eq!(counted, [(reason.cause(), 1)], "{reason:?}");
        }
    }
}
