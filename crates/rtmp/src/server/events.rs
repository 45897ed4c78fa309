//! What a server session tells and asks its caller.

use super::super::message::MediaMessage;

/// Something the caller must know or answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// The peer wants to use an application: accept, or [`close`](super::ServerSession::close).
    Connect(Box<ConnectRequest>),
    /// The peer wants to publish: accept or reject.
    Publish(Box<PublishRequest>),
    /// The peer wants to play: accept or reject.
    Play(Box<PlayRequest>),
    /// A player pauses or goes on. It has been answered.
    Pause {
        /// Whether it pauses.
        paused: bool,
        /// The player's time when it did, in milliseconds.
        at_ms: u32,
    },
    /// The peer stopped publishing or playing (`deleteStream`, `closeStream`, `FCUnpublish`); it may begin
    /// again.
    StreamEnded,
    /// Audio, video or data of an accepted publisher.
    Media(MediaMessage),
}

/// A `connect` command (Adobe RTMP 1.0 section 7.2.1.1).
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectRequest {
    /// Application, a valid [`name`](crate::name) without query; may contain `/`.
    pub app: String,
    /// Query of `app`, else that of `tcUrl`; empty if there is none.
    pub query: String,
    /// `flashVer`, the nearest thing to a user agent; empty if left out.
    pub flash_version: String,
}

/// A `publish` command (7.2.2.6).
#[derive(Debug, Clone, PartialEq)]
pub struct PublishRequest {
    /// Stream, a valid [`name`](crate::name) without query; may contain `/`
    /// ([`stream_of`](crate::name::stream_of)).
    pub name: String,
    /// Its query; empty if there is none.
    pub query: String,
    /// `live`, `record` or `append`; empty if left out.
    pub mode: String,
}

/// A `play` command (7.2.2.1).
#[derive(Debug, Clone, PartialEq)]
pub struct PlayRequest {
    /// Stream, a valid [`name`](crate::name) without query; may contain `/`
    /// ([`stream_of`](crate::name::stream_of)).
    pub name: String,
    /// Its query; empty if there is none.
    pub query: String,
    /// Start in seconds as sent: -2 live or recorded, -1 live only, else a position. Players that count in
    /// milliseconds send -2000 and -1000.
    pub start: f64,
    /// Duration in seconds as sent; -1 for all.
    pub duration: f64,
}

/// Why a publisher is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishReject {
    /// The name is taken or not allowed: `NetStream.Publish.BadName`.
    BadName,
    /// Token missing or wrong, or the address may not publish: `NetStream.Publish.Unauthorized`.
    Unauthorized,
    /// There is too much to do: `NetConnection.Connect.Rejected`.
    Overloaded,
}

/// Why a player is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayReject {
    /// Nobody publishes it: `NetStream.Play.StreamNotFound`.
    StreamNotFound,
    /// Token missing or wrong: `NetStream.Play.Failed`, which players know to be final.
    Unauthorized,
    /// There is too much to do: `NetConnection.Connect.Rejected`.
    Overloaded,
}
