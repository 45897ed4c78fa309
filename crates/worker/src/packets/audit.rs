//! Contradictions in the tables of the packets lane, for simulations.

use super::Packets;

impl Packets {
    /// Addresses in the tables of all ports.
    pub(crate) fn addresses(&self) -> usize {
        self.sockets.ports.iter().map(|(_, port)| port.peers.len()).sum()
    }

    /// The first contradiction.
    pub(crate) fn audit(&self) -> Result<(), String> {
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
}
