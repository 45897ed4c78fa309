//! Packets in: from a connection or a datagram to the frames of the stream.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use group_send::RecvConfig;
use media::Frame;
use rtp::rtcp::{self, Rtcp};

use super::{Publishing, RtspLink};
use crate::event_loop::Worker;
use crate::ids::ConnId;
use crate::net::ReceivedBatch;
use crate::packet_relay::RelayedPacket;
use crate::proto::session::{Media, PublishPackets, State};
use crate::registry::Origin;
use crate::stats::columns::{Arrival, Reception};
use worker_api::EndReason;

/// Datagrams read from a socket per turn at most; the next turn reads the rest.
const DATAGRAMS_MAX: usize = 4_096;

/// Of the batch that stands in while another is handled; nothing is received into it.
const NO_ROOM: RecvConfig = RecvConfig { messages: 1, message_bytes: 1 };

/// Where a packet is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packet<'a> {
    /// In what has come in the connection.
    Interleaved(usize, usize),
    /// In a datagram.
    Datagram(&'a [u8]),
}

/// The next frame of a publisher whose packets become frames.
fn next_frame(link: &mut RtspLink) -> Option<Arc<Frame>> {
    match &mut link.publishing {
        Some(Publishing::Frames(incoming)) => incoming.next_frame(),
        _ => None,
    }
}

/// What a player says of what it receives, over its tracks.
fn reported(compound: &[u8]) -> Option<Reception> {
    let mut reception: Option<Reception> = None;
    for packet in rtcp::packets(compound) {
        let Ok(Rtcp::ReceiverReport(report)) = packet else { continue };
        for block in report.blocks.iter() {
            reception = Some(Reception {
                lost_packets: block.cumulative_lost.max(0) as u64,
                loss_percent: f32::from(block.fraction_lost) * 100.0 / 256.0,
                rtt_ms: f32::NAN,
                jitter_ms: f32::NAN,
            });
        }
    }
    reception
}

impl Worker {
    /// Reads what waits at the sockets of RTP and RTCP.
    pub(crate) fn receive_rtsp(&mut self) {
        for port in 0..2 * self.rtsp.pairs.len() {
            let mut read = 0;
            while read < DATAGRAMS_MAX && self.rtsp.port(port).readable {
                if let Err(error) = self.rtsp.port(port).receive(&mut self.received) {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::debug!(%error, "receiving failed");
                    }
                    break;
                }
                // Taken out while its datagrams are handled, which takes the whole worker.
                let received = std::mem::replace(&mut self.received, ReceivedBatch::new(NO_ROOM));
                read += received.len();
                for datagram in received.iter() {
                    self.rtsp_datagram(port, datagram.source, datagram.payload);
                }
                self.received = received;
            }
        }
    }

    fn rtsp_datagram(&mut self, port: usize, source: SocketAddr, bytes: &[u8]) {
        self.ctx.counters.bytes_in += bytes.len() as u64;
        self.ctx.load.bytes_in += bytes.len() as u64;
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        let Some(&(conn, track)) = self.rtsp.by_address.get(&(port, source)) else {
            return self.rtsp.counters.unknown += 1;
        };
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        if let State::Rtsp(link) = &mut session.state {
            link.heard_ms = self.ctx.now_ms;
        }
        session.received_ms = self.ctx.now_ms;
        self.connections.columns.received(conn, bytes.len() as u64);
        self.rtsp_packet(conn, track, port % 2 == 1, Packet::Datagram(bytes));
    }

    /// A packet of a track.
    pub(super) fn rtsp_packet(&mut self, conn: ConnId, track: usize, is_rtcp: bool, packet: Packet<'_>) {
        let (now, now_ms) = (self.ctx.now, self.ctx.now_ms);
        self.rtsp.counters.packets_in += 1;
        let Some(session) = self.connections.sessions.get_mut(conn) else { return };
        let State::Rtsp(link) = &mut session.state else { return };
        if !link.is_on {
            return self.rtsp.counters.dropped += 1;
        }
        let RtspLink { machine, publishing, media_ms, .. } = &mut **link;
        let packet = match packet {
            Packet::Interleaved(from, to) => machine.packet((from, to)),
            Packet::Datagram(bytes) => bytes,
        };
        let Some(publishing) = publishing else {
            if let Some(reception) = reported(packet).filter(|_| is_rtcp) {
                self.connections.columns.reported(conn, reception);
            }
            return;
        };
        let (ctx, packets) = (&mut self.ctx, &mut self.packets);
        let taken = catch_unwind(AssertUnwindSafe(|| match (publishing, session.media) {
            (Publishing::Frames(incoming), _) if is_rtcp => incoming.rtcp(now, track, packet).map(drop),
            (Publishing::Frames(incoming), _) => incoming.rtp(now, track, packet),
            (Publishing::Packets(passing), Media::PublishPackets(publish)) => {
                let PublishPackets { stream, epoch } = publish;
                let take = |packet: &[u8]| {
                    let packet = RelayedPacket { stream, epoch, packet, is_rtcp };
                    packets.receive_of(ctx, Origin::Rtsp(conn), packet);
                };
                match is_rtcp {
                    true => passing.rtcp(now, track, packet, take),
                    false => passing.rtp(now, track, packet, take),
                }
            }
            (Publishing::Packets(_), _) => Ok(()),
        }));
        match taken {
            Ok(Ok(())) if is_rtcp => {}
            Ok(Ok(())) => {
                *media_ms = now_ms;
                self.connections.columns.passed(conn, 1);
            }
            Ok(Err(dropped)) => {
                self.rtsp.counters.dropped += 1;
                tracing::trace!(session = %session.id, reason = dropped.reason(), "packet dropped");
            }
            Err(_) => return self.rtsp_failed(conn),
        }
        self.rtsp_frames(conn);
    }

    fn rtsp_failed(&mut self, conn: ConnId) {
        self.ctx.counters.panics += 1;
        tracing::error!(?conn, "a defect in the server ended this RTSP session");
        self.remove(conn, EndReason::Defect);
    }

    /// Takes the frames that a publisher's packets have made.
    fn rtsp_frames(&mut self, conn: ConnId) {
        loop {
            let Some(session) = self.connections.sessions.get_mut(conn) else { return };
            let (State::Rtsp(link), Media::Publish(publish)) = (&mut session.state, session.media) else {
                return;
            };
            let Some(frame) = next_frame(link) else {
                return;
            };
            self.ctx.counters.frames_in += 1;
            self.receive_frame(publish.stream, &frame);
        }
    }

    /// Does what is due for publishers: frames that waited, and receiver reports.
    pub(crate) fn sweep_rtsp(&mut self) {
        let now = self.ctx.now;
        for conn in self.rtsp.publishers.clone() {
            let Some(session) = self.connections.sessions.get_mut(conn) else { continue };
            let State::Rtsp(link) = &mut session.state else { continue };
            let Some(publishing) = &mut link.publishing else { continue };
            let mut reports = Vec::new();
            let worked = catch_unwind(AssertUnwindSafe(|| {
                let send = |track, report: &[u8]| reports.push((track, report.to_vec()));
                match publishing {
                    Publishing::Frames(incoming) => {
                        incoming.poll(now);
                        incoming.report(now, send);
                        incoming.stats()
                    }
                    Publishing::Packets(passing) => {
                        passing.report(now, send);
                        passing.stats()
                    }
                }
            }));
            let Ok(stats) = worked else {
                self.rtsp_failed(conn);
                continue;
            };
            let milliseconds = |time: Duration| time.as_secs_f32() * 1_000.0;
            let arrival = Arrival {
                expected_packets: stats.expected,
                arrived_packets: stats.received,
                rtt_ms: f32::NAN,
                jitter_ms: milliseconds(stats.jitter),
            };
            if !reports.is_empty() {
                self.connections.columns.arrived(conn, arrival);
            }
            for (track, report) in reports {
                self.send_rtsp_report(conn, track, &report);
            }
            self.rtsp_frames(conn);
        }
    }
}
