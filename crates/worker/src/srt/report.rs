//! What is known of the links: for statistics, the API and metrics.

use crate::event_loop::Worker;
use crate::net::datagram_port::DatagramPort;
use crate::proto::session::{Session, State};
use crate::stats::columns::Arrival;
use worker_api::snapshot::{SrtCounters, SrtSessionSnapshot};

impl Worker {
    /// Notes loss and round trip of each session: the loss of the path, before packets are sent again.
    pub(crate) fn note_srt(&mut self) {
        for &conn in self.srt.by_socket.values() {
            let session = self.connections.sessions.get(conn);
            let Some(State::Srt(link)) = session.map(|session| &session.state) else { continue };
            let counters = link.connection.counters();
            let (expected, lost) = match link.demuxer.is_some() {
                true => (counters.packets_in + counters.dropped_in, counters.lost_in),
                false => (counters.packets_out, counters.lost_out),
            };
            let rtt_ms = link.connection.round_trip().map_or(f32::NAN, |time| time.as_secs_f32() * 1000.0);
            let arrival = Arrival {
                expected_packets: expected,
                arrived_packets: expected.saturating_sub(lost),
                rtt_ms,
                jitter_ms: f32::NAN,
            };
            self.connections.columns.arrived(conn, arrival);
        }
    }

    /// What only sessions of SRT have.
    pub(crate) fn srt_snapshot(&self, session: &Session) -> Option<SrtSessionSnapshot> {
        let State::Srt(link) = &session.state else { return None };
        let (counters, status) = (link.connection.counters(), link.connection.status(self.ctx.now));
        Some(SrtSessionSnapshot { counters, status })
    }

    /// Counters of all sessions there are and were.
    pub(crate) fn srt_counters(&self) -> SrtCounters {
        let mut counters = self.srt.counters;
        counters.sessions = self.srt.by_socket.len() as u64;
        counters.send_failures = self.srt.ports.iter().map(|port: &DatagramPort| port.failures).sum();
        for &conn in self.srt.by_socket.values() {
            let session = self.connections.sessions.get(conn);
            if let Some(State::Srt(link)) = session.map(|session| &session.state) {
                counters.add(&link.connection.counters());
            }
        }
        counters
    }
}
