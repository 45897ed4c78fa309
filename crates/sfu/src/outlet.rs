//! How packets that are not live leave: from the cache, again, or as padding.

use std::time::Instant;

use congestion::Kind;
use rtp::payload::MediaKind;

use super::header_profile::{HEADER_LEN_MAX, HeaderProfile};
use super::pacer::Pacer;
use super::protection::{Protection, REPAIR_LEN_MAX};
use super::resend::Resend;
use super::sent_numbers::SentNumbers;

/// The transports of a stream's viewers.
pub trait Outlet {
    /// Congestion control of this viewer's transport, if it has any.
    fn pacer(&mut self, viewer: u64) -> Option<&mut Pacer>;

    /// Sends a packet with this header and payload. How many bytes left: 0 if none can be sent.
    fn send(&mut self, viewer: u64, kind: MediaKind, header: &[u8], payload: &[u8]) -> usize;

    /// Sends a packet again: under a number of its own, or as it was sent before ([`Resend::is_same`]).
    /// How many bytes left.
    fn send_again(&mut self, packet: &Resend) -> usize;
}

/// Transports without congestion control: what is sent from the cache goes to `send`, and nothing
/// else is sent.
pub fn plain_outlet(send: impl FnMut(u64, MediaKind, &[u8], &[u8])) -> impl Outlet {
    struct Plain<F>(F);
    impl<F: FnMut(u64, MediaKind, &[u8], &[u8])> Outlet for Plain<F> {
        fn pacer(&mut self, _viewer: u64) -> Option<&mut Pacer> {
            None
        }

        fn send(&mut self, viewer: u64, kind: MediaKind, header: &[u8], payload: &[u8]) -> usize {
            (self.0)(viewer, kind, header, payload);
            header.len() + payload.len()
        }

        fn send_again(&mut self, _packet: &Resend) -> usize {
            0
        }
    }
    Plain(send)
}

/// A header that is written but for its transport-wide number.
pub(crate) struct Header<'a> {
    pub(crate) bytes: &'a mut [u8; HEADER_LEN_MAX],
    pub(crate) len: usize,
    pub(crate) has_transport_number: bool,
    /// Where that number is kept, if the packet may be sent again as it is.
    pub(crate) keeps: Option<&'a mut SentNumbers>,
}

/// Sends a packet of the cache, or padding, which counts in the viewer's congestion control. How many bytes
/// left.
pub(crate) fn send_cached(
    outlet: &mut impl Outlet,
    now: Instant,
    viewer: u64,
    kind: Kind,
    header: Header<'_>,
    payload: &[u8],
) -> usize {
    let Header { bytes, len, has_transport_number, keeps } = header;
    if let Some(pacer) = outlet.pacer(viewer) {
        let number = pacer.number(bytes, has_transport_number);
        if let Some(keeps) = keeps {
            keeps.note(bytes, number);
        }
    }
    let media = if kind == Kind::Audio { MediaKind::Audio } else { MediaKind::Video };
    let sent = outlet.send(viewer, media, &bytes[..len], payload);
    if sent > 0
        && let Some(pacer) = outlet.pacer(viewer)
    {
        pacer.sent(now, sent, kind);
    }
    sent
}

/// Sends the repair packets that are due.
pub(crate) fn send_repairs(
    outlet: &mut impl Outlet,
    now: Instant,
    viewer: u64,
    profile: &HeaderProfile,
    protection: &mut Protection,
) {
    let mut out = [0; REPAIR_LEN_MAX];
    while protection.has_repair() {
        let Some((header, len)) = profile.write_repair(protection, outlet.pacer(viewer), &mut out) else {
            return;
        };
        let (header, parity) = out[..len].split_at(header);
        let sent = outlet.send(viewer, MediaKind::Video, header, parity);
        if sent > 0
            && let Some(pacer) = outlet.pacer(viewer)
        {
            pacer.sent(now, sent, Kind::Repeat);
        }
    }
}

/// Sends a packet again: one that was asked for ([`Kind::Repeat`]), or padding. How many bytes left.
pub fn send_again(outlet: &mut impl Outlet, now: Instant, packet: &mut Resend, kind: Kind) -> usize {
    let viewer = packet.token();
    if packet.is_same() {
        let sent = outlet.send_again(packet);
        if sent > 0
            && let Some(pacer) = outlet.pacer(viewer)
        {
            pacer.sent_again(now, sent, packet.transport_number());
        }
        return sent;
    }
    if let Some(pacer) = outlet.pacer(viewer) {
        packet.set_transport_number(pacer.take_number_of(packet.header()));
    }
    let sent = outlet.send_again(packet);
    if sent > 0
        && let Some(pacer) = outlet.pacer(viewer)
    {
        pacer.sent(now, sent, kind);
    }
    sent
}
