//! Contradictions in the tables of the packets lane, for simulations.

use std::time::Instant;

use super::{Packets, TIMER_MIN};
use crate::ids::PortId;

impl Packets {
    /// Addresses in the tables of all ports.
    pub(crate) fn addresses(&self) -> usize {
        self.sockets.ports.iter().map(|(_, port)| port.peers.len()).sum()
    }

    /// After every turn: datagrams that were made have left, were refused or dropped, or wait; and the kernel
    /// has taken as many as are counted.
    pub(crate) fn add_up(&self) -> Result<(), String> {
        let (sent, ports) = (&self.sockets.sent, &self.sockets.ports);
        let waiting: u64 = ports.iter().map(|(_, port)| port.waiting() as u64).sum();
        let taken: u64 = ports.iter().map(|(_, port)| port.taken()).sum();
        let settled = sent.sent + sent.failed + sent.dropped - sent.unmade;
        if sent.packets != settled + waiting || sent.sent != taken {
            return Err(format!("{waiting} datagrams wait, {taken} were taken, and counted are {sent:?}"));
        }
        Ok(())
    }

    /// The first contradiction.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut streams = self.streams.iter();
        if let Some((id, _)) = streams.find(|(_, stream)| stream.sfu.has_arrivals() && !stream.queued) {
            return Err(format!("{id:?} has packets that nobody forwards"));
        }
        let mut streams = self.streams.iter();
        if let Some((id, stream)) = streams.find(|(_, stream)| !stream.sfu.is_within_limits()) {
            return Err(format!("{id:?} keeps more than it may: {:?}", stream.sfu.stats()));
        }
        if self.by_id.len() != self.sessions.len() {
            return Err(format!("{} ids of {} sessions", self.by_id.len(), self.sessions.len()));
        }
        let (mut ufrags, mut addresses) = (0, 0);
        for (peer, session) in self.sessions.iter() {
            if self.by_id.get(&session.id) != Some(&peer) {
                return Err(format!("{} is {peer:?} and is found as another", session.id));
            }
            for ufrag in &session.transport.ufrags {
                if self.by_ufrag.get(ufrag) != Some(&peer) {
                    return Err(format!("a username fragment of {peer:?} leads elsewhere"));
                }
                ufrags += 1;
            }
            for &(port, remote) in &session.transport.addresses {
                // Another session may have come to the same address since.
                let found = self.sockets.ports.get(port).and_then(|port| port.session_at(remote));
                addresses += usize::from(found == Some(peer));
            }
            if session.streams().any(|stream| self.streams.get(stream).is_none()) {
                return Err(format!("{peer:?} has a stream that is gone"));
            }
        }
        if ufrags != self.by_ufrag.len() {
            return Err(format!("{} username fragments of sessions, {} known", ufrags, self.by_ufrag.len()));
        }
        if addresses != self.addresses() {
            return Err(format!("{addresses} addresses of sessions, {} known", self.addresses()));
        }
        Ok(())
    }

    /// Every session that has a deadline has a timer.
    pub(crate) fn audit_timers(&mut self, now: Instant) -> Result<(), String> {
        for (peer, session) in self.sessions.iter_mut() {
            let transport = &mut session.transport;
            let Some(due) = transport.peer.next_timeout() else { continue };
            if transport.due.is_none_or(|set| set > due.max(now) + TIMER_MIN) {
                let late = transport.due.map(|set| set - due);
                return Err(format!("{peer:?} has a deadline, and a timer that is late by {late:?}"));
            }
        }
        Ok(())
    }

    /// Video that waits is sent without another event.
    pub(crate) fn audit_video(&self, now: Instant) -> Result<(), String> {
        let is_later = !self.video.is_empty() && self.timeout(now) > TIMER_MIN;
        if is_later { Err(String::from("video waits, and nobody will send it")) } else { Ok(()) }
    }

    /// Whether what waits at a port is read without another event.
    pub(crate) fn reads_later(&self, port: PortId) -> bool {
        self.sockets.ports.get(port).is_some_and(|port| port.readable || port.reading.next().is_some())
    }
}
