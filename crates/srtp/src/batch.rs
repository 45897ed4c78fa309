//! Many packets in one call: one plaintext for many recipients, or many packets of one sender.
//!
//! In counter mode the tags of up to sixteen packets are computed side by side, which is several
//! times cheaper than one after the other; with GCM a batch saves nothing (and costs some
//! nanoseconds a packet more than single calls). The result of every packet is exactly that of the
//! call for a single one, in the order of the batch. Nothing is allocated.

use arrayvec::ArrayVec;

use crate::cipher::cm;
use crate::inbound::Candidate;
use crate::outbound::{Reserved, write_cm_trailer};
use crate::session_key::Cipher;
use crate::{InboundContext, OutboundContext, ProtectError, UnprotectError};

/// One packet to protect.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Which context of the set protects it.
    pub context: usize,
    /// Where the plaintext is.
    pub plaintext: Plaintext<'a>,
    /// Where the SRTP packet goes, from its first byte on; needs room for it.
    pub out: &'a mut [u8],
    /// Length of the SRTP packet, or why there is none. Set by [`protect_rtp_batch`], whatever it was.
    pub result: Result<usize, ProtectError>,
}

/// Where the plaintext of an [`Outgoing`] packet is.
#[derive(Clone, Copy, Debug)]
pub enum Plaintext<'a> {
    /// A header of the packet's own and a payload that others may share; read once.
    From {
        /// Exactly one RTP header.
        header: &'a [u8],
        /// What follows it.
        payload: &'a [u8],
    },
    /// The first `len` bytes of `out` are the RTP packet.
    InPlace {
        /// Bytes of the RTP packet.
        len: usize,
    },
}

/// One received packet to unprotect in place.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Which context of the set unprotects it.
    pub context: usize,
    /// The SRTP packet.
    pub packet: &'a mut [u8],
    /// Length of the RTP packet, or why it was dropped. Set by [`unprotect_rtp_batch`], whatever it was.
    pub result: Result<usize, UnprotectError>,
}

/// Outbound contexts by number. A slice of contexts is one, and so is a single context, whatever the number.
pub trait OutboundSet {
    /// The context with this number.
    fn outbound(&self, context: usize) -> Option<&OutboundContext>;
    /// The same context, to be changed.
    fn outbound_mut(&mut self, context: usize) -> Option<&mut OutboundContext>;
}

/// Inbound contexts by number. A slice of contexts is one, and so is a single context, whatever the number.
pub trait InboundSet {
    /// The context with this number.
    fn inbound(&self, context: usize) -> Option<&InboundContext>;
    /// The same context, to be changed.
    fn inbound_mut(&mut self, context: usize) -> Option<&mut InboundContext>;
}

/// Protects every packet and sets its `result`.
///
/// The packets may be of one context or of many: one plaintext for M recipients, or k packets for
/// one. The result is that of [`OutboundContext::protect_rtp`] or
/// [`OutboundContext::protect_rtp_from`] for each in turn, and [`ProtectError::UnknownContext`]
/// where the set has no such context.
pub fn protect_rtp_batch<S: OutboundSet + ?Sized>(contexts: &mut S, packets: &mut [Outgoing<'_>]) {
    for packets in packets.chunks_mut(LANES) {
        let mut waiting = ArrayVec::<(usize, Reserved), LANES>::new();
        for (at, packet) in packets.iter_mut().enumerate() {
            let begun = begin(contexts, packet, |reserved| waiting.push((at, reserved)));
            if let Err(error) = begun {
                packet.result = Err(error);
            }
        }
        if !waiting.is_empty() {
            seal(&*contexts, packets, &waiting);
        }
    }
}

/// Unprotects every packet in place and sets its `result`.
///
/// The result is that of [`InboundContext::unprotect_rtp`] for each in turn, and
/// [`UnprotectError::UnknownContext`] where the set has no such context.
pub fn unprotect_rtp_batch<S: InboundSet + ?Sized>(contexts: &mut S, packets: &mut [Incoming<'_>]) {
    for packets in packets.chunks_mut(LANES) {
        let mut waiting = ArrayVec::<Waiting, LANES>::new();
        for (at, packet) in packets.iter_mut().enumerate() {
            let begun = examine(contexts, packet, |candidate, accepted| {
                waiting.push(Waiting { at, candidate, accepted, authentic: false });
            });
            if let Err(error) = begun {
                packet.result = Err(error);
            }
        }
        if waiting.is_empty() {
            continue;
        }
        authenticate(&*contexts, packets, &mut waiting);
        for waiting in &waiting {
            let packet = &mut packets[waiting.at];
            packet.result = finish(contexts, packet, waiting);
        }
    }
}

impl OutboundSet for OutboundContext {
    fn outbound(&self, _context: usize) -> Option<&OutboundContext> {
        Some(self)
    }

    fn outbound_mut(&mut self, _context: usize) -> Option<&mut OutboundContext> {
        Some(self)
    }
}

impl OutboundSet for [OutboundContext] {
    fn outbound(&self, context: usize) -> Option<&OutboundContext> {
        self.get(context)
    }

    fn outbound_mut(&mut self, context: usize) -> Option<&mut OutboundContext> {
        self.get_mut(context)
    }
}

impl InboundSet for InboundContext {
    fn inbound(&self, _context: usize) -> Option<&InboundContext> {
        Some(self)
    }

    fn inbound_mut(&mut self, _context: usize) -> Option<&mut InboundContext> {
        Some(self)
    }
}

impl InboundSet for [InboundContext] {
    fn inbound(&self, context: usize) -> Option<&InboundContext> {
        self.get(context)
    }

    fn inbound_mut(&mut self, context: usize) -> Option<&mut InboundContext> {
        self.get_mut(context)
    }
}

/// Protects the packet at once if its context has GCM keys only. With counter mode it gets its
/// index and its header in place, and goes to `waits` (straight from where it is made: moving it
/// about costs more than finding it out).
#[inline(always)]
fn begin<S: OutboundSet + ?Sized>(
    contexts: &mut S,
    packet: &mut Outgoing<'_>,
    waits: impl FnOnce(Reserved),
) -> Result<(), ProtectError> {
    let context = contexts.outbound_mut(packet.context).ok_or(ProtectError::UnknownContext)?;
    match packet.plaintext {
        Plaintext::From { header, payload } if context.has_cm_keys => {
            context.reserve_from(header, payload, packet.out).map(waits)
        }
        Plaintext::InPlace { len } if context.has_cm_keys => {
            context.reserve_in_place(packet.out, len).map(waits)
        }
        Plaintext::From { header, payload } => {
            packet.result = context.protect_rtp_from(header, payload, packet.out);
            Ok(())
        }
        Plaintext::InPlace { len } => {
            packet.result = context.protect_rtp(packet.out, len);
            Ok(())
        }
    }
}

/// Encrypts and authenticates up to `LANES` packets; those with counter mode side by side.
#[inline]
fn seal<S: OutboundSet + ?Sized>(contexts: &S, packets: &mut [Outgoing<'_>], waiting: &[(usize, Reserved)]) {
    let mut jobs = ArrayVec::<_, LANES>::new();
    let mut trailers = ArrayVec::<(&mut [u8], &[u8]), LANES>::new();
    let mut next = waiting.iter().peekable();
    for (at, packet) in packets.iter_mut().enumerate() {
        let Some((_, reserved)) = next.next_if(|waiting| waiting.0 == at) else { continue };
        packet.result = Err(ProtectError::UnknownContext);
        let Some(context) = contexts.outbound(packet.context) else { continue };
        let Some(key) = context.key(reserved) else { continue };
        let source = match packet.plaintext {
            Plaintext::From { payload, .. } => Some(payload),
            Plaintext::InPlace { .. } => None,
        };
        let Cipher::Cm(cipher) = &key.rtp.cipher else {
            packet.result = context.seal_one(*reserved, source, packet.out);
            continue;
        };
        packet.result = Ok(reserved.len() + reserved.trailer_len());
        let (body, trailer) = packet.out.split_at_mut(reserved.len());
        jobs.push(reserved.cm_job(&key.rtp, cipher, source, body));
        trailers.push((&mut trailer[..reserved.trailer_len()], &key.mki));
    }
    cm::seal(&mut jobs);
    for (job, (trailer, mki)) in jobs.iter().zip(trailers) {
        write_cm_trailer(trailer, mki, &job.tag);
    }
}

/// A packet of a batch whose turn comes when the tags are known.
struct Waiting {
    /// Its place in the batch.
    at: usize,
    /// What it claims to be. `None` if it was refused, which an earlier packet of the batch may
    /// change, or if it is handled as a single packet for another reason.
    candidate: Option<Candidate>,
    /// Packets its context had accepted when that was found out.
    accepted: u64,
    authentic: bool,
}

/// Unprotects the packet at once if its context has GCM keys only; else it goes to `waits`.
#[inline(always)]
fn examine<S: InboundSet + ?Sized>(
    contexts: &mut S,
    packet: &mut Incoming<'_>,
    waits: impl FnOnce(Option<Candidate>, u64),
) -> Result<(), UnprotectError> {
    let context = contexts.inbound_mut(packet.context).ok_or(UnprotectError::UnknownContext)?;
    if context.has_cm_keys {
        waits(context.examine(packet.packet).ok(), context.accepted);
    } else {
        packet.result = context.unprotect_rtp(packet.packet);
    }
    Ok(())
}

/// Finds out which of the waiting packets are authentic. Changes no packet and no state.
#[inline]
fn authenticate<S: InboundSet + ?Sized>(contexts: &S, packets: &mut [Incoming<'_>], waiting: &mut [Waiting]) {
    let mut jobs = ArrayVec::<_, LANES>::new();
    let mut trailers = ArrayVec::<(&[u8], Candidate, &mut bool), LANES>::new();
    let mut next = waiting.iter_mut().peekable();
    for (at, packet) in packets.iter_mut().enumerate() {
        let Some(Waiting { candidate, authentic, .. }) = next.next_if(|waiting| waiting.at == at) else {
            continue;
        };
        if let Some(claim) = *candidate
            && let Some(context) = contexts.inbound(packet.context)
            && let Ok(key) = context.fresh_rtp_key(&claim)
            && let Cipher::Cm(cipher) = &key.rtp.cipher
        {
            let (body, trailer) = packet.packet.split_at_mut(claim.len());
            jobs.push(claim.cm_job(&key.rtp, cipher, body));
            trailers.push((trailer, claim, authentic));
        } else {
            *candidate = None;
        }
    }
    cm::authenticate(&mut jobs);
    for (job, (trailer, candidate, authentic)) in jobs.iter().zip(trailers) {
        *authentic = candidate.tag_is(trailer, &job.tag);
    }
}

/// Accepts and decrypts a packet found authentic.
///
/// Earlier packets of the batch may have advanced the windows since it was examined. If that
/// changes what the packet claims to be (for example its ROC), or whether it may be new, it is
/// handled as a single packet.
#[inline]
fn finish<S: InboundSet + ?Sized>(
    contexts: &mut S,
    packet: &mut Incoming<'_>,
    waiting: &Waiting,
) -> Result<usize, UnprotectError> {
    let context = contexts.inbound_mut(packet.context).ok_or(UnprotectError::UnknownContext)?;
    let Some(candidate) = waiting.candidate else { return context.unprotect_rtp(packet.packet) };
    if waiting.accepted != context.accepted && context.examine(packet.packet) != Ok(candidate) {
        return context.unprotect_rtp(packet.packet);
    }
    // The packets before it may have used up the key, too.
    context.fresh_rtp_key(&candidate)?;
    if !waiting.authentic {
        return Err(UnprotectError::AuthFailed);
    }
    context.accept(&candidate)?;
    let key = context.key(&candidate).ok_or(UnprotectError::UnknownContext)?;
    if let Cipher::Cm(cipher) = &key.rtp.cipher {
        let (body, _) = packet.packet.split_at_mut(candidate.len());
        cm::decrypt(&mut candidate.cm_job(&key.rtp, cipher, body));
    }
    Ok(candidate.len())
}

/// Packets worked on side by side.
const LANES: usize = 16;
