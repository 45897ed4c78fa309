//! Packets out by UDP, and reports to publishers.

use rtsp::Lower;

use crate::event_loop::Worker;
use crate::ids::ConnId;
use crate::proto::session::State;

impl Worker {
    /// Sends a receiver report to a publisher, the way its packets come.
    pub(super) fn send_rtsp_report(&mut self, conn: ConnId, track: usize, report: &[u8]) {
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        let State::Rtsp(link) = &mut session.state else { return };
        let setup = link.machine.setups().iter().find(|setup| setup.track == track);
        match setup.map(|setup| setup.lower) {
            // Who reads no answers gets no reports either.
            Some(Lower::Interleaved { rtcp, .. }) if session.pending.len() == 0 => {
                let length = u16::try_from(report.len()).unwrap_or_default().to_be_bytes();
                let framing = [rtsp::MAGIC, rtcp, length[0], length[1]];
                session.pending.bytes.extend_from_slice(&framing);
                session.pending.bytes.extend_from_slice(report);
                self.write(conn);
            }
            Some(Lower::Udp { .. }) => {
                let address = link.addresses.get(track).and_then(|addresses| addresses[1]);
                if let (Some(udp), Some(address)) = (link.udp, address) {
                    let port = &mut self.rtsp.pairs[udp.pair].ports[1];
                    port.send(address, report, self.ctx.now_ms);
                    self.connections.columns.sent(conn, report.len() as u64);
                }
            }
            _ => {}
        }
    }

    /// Sends what players by UDP have to get, and flushes the sockets.
    pub(crate) fn send_rtsp(&mut self) {
        let now_ms = self.ctx.now_ms;
        while let Some(conn) = self.rtsp.dirty.pop() {
            let Some(session) = self.connections.sessions.get_mut(conn) else { continue };
            let State::Rtsp(link) = &mut session.state else { continue };
            link.is_dirty = false;
            let out = std::mem::take(&mut link.out);
            let Some(udp) = link.udp else { continue };
            let ports = &mut self.rtsp.pairs[udp.pair].ports;
            let mut rest = &out[..];
            let mut bytes = 0;
            while let Some((&[_, channel, high, low], behind)) = rest.split_first_chunk() {
                let length = usize::from(u16::from_be_bytes([high, low]));
                let Some((packet, next)) = behind.split_at_checked(length) else { break };
                rest = next;
                let (track, at) = (usize::from(channel / 2), usize::from(channel % 2));
                let Some(address) = link.addresses.get(track).and_then(|addresses| addresses[at]) else {
                    continue;
                };
                ports[at].send(address, packet, now_ms);
                self.rtsp.counters.datagrams_out += 1;
                bytes += length as u64;
            }
            self.connections.columns.sent(conn, bytes);
            self.ctx.counters.bytes_out += bytes;
            self.ctx.load.bytes_out += bytes;
            link.out = out;
            link.out.clear();
        }
        for port in self.rtsp.pairs.iter_mut().flat_map(|pair| &mut pair.ports) {
            port.flush(now_ms);
        }
    }
}
