//! What all sessions of a run count together.

use super::delays::Delays;
use crate::stats::Times;

/// Counts since the begin, and distributions since they were last cleared.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Calls that received something.
    pub reads: u64,
    /// Datagrams sent.
    pub writes: u64,
    /// Datagrams the kernel or the cipher refused to send.
    pub not_sent: u64,
    /// Packets of media received by viewers, repeated ones and RTX included.
    pub packets_received: u64,
    /// Bytes of these packets, headers and tags included.
    pub bytes_received: u64,
    /// Packets of media sent by publishers, without those sent again.
    pub packets_sent: u64,
    /// Bytes of these packets before they are encrypted.
    pub bytes_sent: u64,
    /// Packets decrypted.
    pub decrypted: u64,
    /// Packets that were not authentic.
    pub not_authentic: u64,
    /// Packets received before, according to the replay window.
    pub replayed: u64,
    /// Packets of no known kind or payload type.
    pub unknown: u64,
    /// Media before there were keys, or from elsewhere.
    pub early: u64,
    /// Sequence numbers viewers asked for again, and publishers were asked for.
    pub nacks: Nacks,
    /// Key frames asked for: by viewers, of publishers.
    pub plis_sent: u64,
    /// Key frames asked of publishers.
    pub plis_received: u64,
    /// Reports about transport-wide congestion control that publishers got.
    pub transport_feedback: u64,
    /// The same that viewers sent.
    pub transport_reports_sent: u64,
    /// Receiver reports that publishers got.
    pub receiver_reports: u64,
    /// Sender reports that viewers got.
    pub sender_reports: u64,
    /// From the publisher's send call to the arrival in a viewer's socket.
    pub latency: Times,
    /// The same by kind of media.
    pub delays: Delays,
    /// From the time an audio frame was published to the arrival of what a server made of it.
    pub audio_latency: Times,
    /// From the begin of a session to its first whole key frame.
    pub first_key: Times,
    /// From the begin of a publisher to its keys.
    pub connected: Times,
    /// How late publishers sent what was due.
    pub lateness: Times,
}

/// Retransmission in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nacks {
    /// Sequence numbers viewers asked for.
    pub asked: u64,
    /// Sequence numbers publishers were asked for.
    pub heard: u64,
    /// Packets publishers sent again.
    pub answered: u64,
}
