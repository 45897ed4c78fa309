//! A session: both directions of it, and what libsrtp's interface has beyond a context of `srtp`.
//!
//! libsrtp learns a stream's direction by its first packet; here a stream of its own policy is in
//! both contexts, and a wildcard in the one that it names. What keys a stream that sends has had is
//! remembered: one that comes back goes on with the indices that it had, or is refused.

use crate::policy::{Checked, Key, Streams};
use crate::status::Status;
use srtp::{Config, InboundContext, OutboundContext, Profile, ProtectError, SetupError};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::BuildHasher;
use std::ptr;

/// Most streams of a session. libsrtp has no limit.
const STREAMS_MAX: usize = 65_536;

/// Packets of the window of SRTCP, as in libsrtp.
const RTCP_WINDOW: usize = 128;

/// What a session is made of.
pub struct Session {
    outbound: OutboundContext,
    inbound: InboundContext,
    /// Streams of their own policy.
    own: HashMap<u32, Own>,
    wildcard: Option<(Streams, Own)>,
    /// Bytes that packets grow at most.
    rtp_trailer: usize,
    rtcp_trailer: usize,
    /// Whether any policy has them: then each packet's stream is looked for.
    has_mkis: bool,
    repeats: bool,
    pub(crate) user_data: *mut c_void,
}

/// What is remembered of a policy.
struct Own {
    profile: Profile,
    keys: Vec<Key>,
    /// Hashes of the keys that the indices now in use may have been used under.
    current_keys: Vec<u64>,
    /// Hashes of keys whose indices are no longer known: they are refused.
    retired_keys: Vec<u64>,
    repeats: bool,
    /// It was removed by the caller.
    removed: bool,
    /// Number of the key that protects.
    selected: usize,
}

impl Own {
    fn new(policy: Checked, current_keys: Vec<u64>) -> Self {
        let Checked { profile, keys, repeats, .. } = policy;
        Self { profile, keys, current_keys, retired_keys: Vec::new(), repeats, removed: false, selected: 0 }
    }

    /// Whether one of these keys protected packets whose indices are not known any more.
    fn has_retired(&self, keys: &[u64]) -> bool {
        keys.iter().any(|key| self.retired_keys.contains(key))
    }
}

impl Session {
    pub(crate) fn new(policies: Vec<Checked>) -> Result<Self, Status> {
        let window = policies.first().map_or(128, |policy| policy.window);
        let config = Config {
            streams_max: STREAMS_MAX,
            rtp_replay_window_packets: window,
            rtcp_replay_window_packets: RTCP_WINDOW,
            ..Config::default()
        };
        let mut session = Self {
            outbound: OutboundContext::new(&config, &[])?,
            inbound: InboundContext::new(&config, &[])?,
            own: HashMap::new(),
            wildcard: None,
            rtp_trailer: 0,
            rtcp_trailer: 0,
            has_mkis: false,
            repeats: false,
            user_data: ptr::null_mut(),
        };
        policies.into_iter().try_for_each(|policy| session.add(policy))?;
        Ok(session)
    }

    /// One more stream, or the wildcard.
    pub(crate) fn add(&mut self, policy: Checked) -> Result<(), Status> {
        let masters = policy.masters()?;
        let hashes = self.hashes(&policy);
        match policy.streams {
            Streams::One(ssrc) => {
                let known = self.own.get_mut(&ssrc);
                if known.as_ref().is_some_and(|known| !known.removed || known.has_retired(&hashes)) {
                    return Err(Status::BadParam);
                }
                // Keys that do not fit each other are refused while nothing has changed.
                OutboundContext::new(&Config::default(), &masters)?;
                // A stream of the wildcard may have been here before.
                self.inbound.remove_stream(ssrc);
                self.inbound.add_stream(ssrc, &masters)?;
                match known {
                    // Back again, as it was.
                    Some(known) if known.keys == policy.keys && known.profile == policy.profile => {
                        known.removed = false;
                        return Ok(());
                    }
                    // One of its keys is back: indices that it had are used.
                    Some(known) if hashes.iter().any(|key| known.current_keys.contains(key)) => {}
                    known => {
                        self.outbound.remove_stream(ssrc);
                        if let Some(known) = known {
                            known.retired_keys.append(&mut known.current_keys);
                        }
                    }
                }
                match self.outbound.add_stream(ssrc, &masters) {
                    Err(SetupError::StreamExists) => self.outbound.set_stream_keys(ssrc, &masters)?,
                    Err(error) => {
                        self.inbound.remove_stream(ssrc);
                        return Err(error.into());
                    }
                    Ok(()) => self.outbound.set_rtcp_index(ssrc, 1)?,
                }
                if policy.repeats {
                    self.outbound.remember_packets(ssrc)?;
                }
            }
            Streams::AnyInbound | Streams::AnyOutbound if self.wildcard.is_some() => {
                return Err(Status::BadParam);
            }
            Streams::AnyInbound => self.inbound.set_template_keys(&masters)?,
            Streams::AnyOutbound => self.outbound.set_template_keys(&masters)?,
        }
        self.note(policy, hashes);
        Ok(())
    }

    /// Other keys for what is there.
    pub(crate) fn update(&mut self, policy: Checked) -> Result<(), Status> {
        let masters = policy.masters()?;
        let hashes = self.hashes(&policy);
        match (policy.streams, &self.wildcard) {
            (Streams::One(ssrc), _)
                if self.own.get(&ssrc).is_some_and(|own| !own.removed && !own.has_retired(&hashes)) =>
            {
                self.outbound.set_stream_keys(ssrc, &masters)?;
                self.inbound.set_stream_keys(ssrc, &masters)?;
                if policy.repeats {
                    self.outbound.remember_packets(ssrc)?;
                }
            }
            (Streams::AnyInbound, Some((Streams::AnyInbound, _))) => {
                self.inbound.set_template_keys(&masters)?;
            }
            (Streams::AnyOutbound, Some((Streams::AnyOutbound, _))) => {
                self.outbound.set_template_keys(&masters)?;
            }
            _ => return Err(Status::BadParam),
        }
        self.note(policy, hashes);
        Ok(())
    }

    fn note(&mut self, policy: Checked, hashes: Vec<u64>) {
        let mki_len = policy.mki_len();
        self.rtp_trailer = self.rtp_trailer.max(policy.profile.rtp_overhead() + mki_len);
        self.rtcp_trailer = self.rtcp_trailer.max(policy.profile.rtcp_overhead() + mki_len);
        self.has_mkis |= mki_len > 0;
        self.repeats |= policy.repeats;
        let streams = policy.streams;
        let mut own = Own::new(policy, hashes);
        let before = match streams {
            Streams::One(ssrc) => self.own.remove(&ssrc),
            _ => None,
        };
        match (before, &self.wildcard) {
            (Some(before), _) => {
                own.current_keys.extend(before.current_keys);
                own.retired_keys = before.retired_keys;
            }
            // A stream may have sent by the wildcard, and a wildcard by other keys.
            (None, Some((_, wildcard))) => own.current_keys.extend(&wildcard.current_keys),
            (None, None) => {}
        }
        own.current_keys.sort_unstable();
        own.current_keys.dedup();
        match streams {
            Streams::One(ssrc) => {
                self.own.insert(ssrc, own);
            }
            wildcard => self.wildcard = Some((wildcard, own)),
        }
    }

    /// Keys to be recognized by, which are not kept beyond their use for that.
    fn hashes(&self, policy: &Checked) -> Vec<u64> {
        policy.keys.iter().map(|key| self.own.hasher().hash_one(key.bytes.as_slice())).collect()
    }

    pub(crate) fn remove(&mut self, ssrc: u32) -> Result<(), Status> {
        let own = self.own.get_mut(&ssrc).filter(|own| !own.removed).ok_or(Status::NoCtx)?;
        own.removed = true;
        self.inbound.remove_stream(ssrc);
        Ok(())
    }

    /// Protects `packet[..len]`; the trailer has its room behind.
    pub(crate) fn protect(
        &mut self,
        packet: &mut [u8],
        len: usize,
        mki: Option<usize>,
    ) -> Result<usize, Status> {
        let ssrc = ssrc_at(packet, len, 8, 12)?;
        self.prepare(ssrc, mki)?;
        match self.outbound.protect_rtp(packet, len) {
            Err(ProtectError::IndexUsed | ProtectError::TooOld) if self.repeats => {
                Ok(self.outbound.protect_rtp_again(packet, len)?)
            }
            result => Ok(result?),
        }
    }

    pub(crate) fn protect_rtcp(
        &mut self,
        packet: &mut [u8],
        len: usize,
        mki: Option<usize>,
    ) -> Result<usize, Status> {
        let ssrc = ssrc_at(packet, len, 4, 8)?;
        self.prepare(ssrc, mki)?;
        // libsrtp counts SRTCP packets from 1.
        if self.outbound.rtcp_index(ssrc).is_none_or(|index| index == 0) {
            self.outbound.set_rtcp_index(ssrc, 1)?;
        }
        Ok(self.outbound.protect_rtcp(packet, len)?)
    }

    pub(crate) fn unprotect(&mut self, packet: &mut [u8], with_mki: bool) -> Result<usize, Status> {
        self.check_mki(ssrc_at(packet, packet.len(), 8, 12)?, with_mki)?;
        Ok(self.inbound.unprotect_rtp(packet)?)
    }

    pub(crate) fn unprotect_rtcp(&mut self, packet: &mut [u8], with_mki: bool) -> Result<usize, Status> {
        self.check_mki(ssrc_at(packet, packet.len(), 4, 8)?, with_mki)?;
        Ok(self.inbound.unprotect_rtcp(packet)?)
    }

    /// Bytes behind a packet that are written at most.
    pub(crate) fn rtp_trailer(&self) -> usize {
        self.rtp_trailer
    }

    pub(crate) fn rtcp_trailer(&self) -> usize {
        self.rtcp_trailer
    }

    pub(crate) fn roc(&self, ssrc: u32) -> Result<u32, Status> {
        self.outbound.roc(ssrc).max(self.inbound.roc(ssrc)).ok_or(Status::BadParam)
    }

    pub(crate) fn set_roc(&mut self, ssrc: u32, roc: u32) -> Result<(), Status> {
        // Either direction may be ahead, and neither may go back.
        if self.own.get(&ssrc).is_some_and(|own| own.removed) || self.roc(ssrc).is_ok_and(|now| roc < now) {
            return Err(Status::BadParam);
        }
        let results = [self.outbound.set_roc(ssrc, roc), self.inbound.set_roc(ssrc, roc)];
        if results.contains(&Ok(())) { Ok(()) } else { Err(Status::BadParam) }
    }

    /// Chooses the key of a packet that is to be protected, and begins to remember packets of a stream
    /// of the wildcard where they may be repeated.
    fn prepare(&mut self, ssrc: u32, mki: Option<usize>) -> Result<(), Status> {
        if self.own.get(&ssrc).is_some_and(|own| own.removed) {
            return Err(Status::NoCtx);
        }
        if self.repeats && self.outbound.roc(ssrc).is_none() {
            let repeats = matches!(&self.wildcard, Some((Streams::AnyOutbound, own)) if own.repeats);
            if repeats {
                self.outbound.remember_packets(ssrc)?;
            }
        }
        if !self.has_mkis {
            return if mki.is_some() { Err(Status::BadMki) } else { Ok(()) };
        }
        let (own, is_wildcard) = match (self.own.get_mut(&ssrc), &mut self.wildcard) {
            (Some(own), _) => (own, false),
            (None, Some((Streams::AnyOutbound, own))) => (own, true),
            _ => return Err(Status::NoCtx),
        };
        let Some(number) = mki else {
            return if own.keys[0].mki.is_empty() { Ok(()) } else { Err(Status::BadMki) };
        };
        let key = own.keys.get(number).filter(|key| !key.mki.is_empty()).ok_or(Status::BadMki)?;
        if own.selected != number {
            match is_wildcard {
                true => self.outbound.select_key(&key.mki)?,
                false => self.outbound.select_stream_key(ssrc, &key.mki)?,
            }
            own.selected = number;
        }
        Ok(())
    }

    /// Whether the caller and the keys agree on there being an MKI.
    fn check_mki(&self, ssrc: u32, with_mki: bool) -> Result<(), Status> {
        let has_mki = self.has_mkis && {
            let own = self.own.get(&ssrc).or(self.wildcard.as_ref().map(|(_, own)| own));
            own.is_some_and(|own| !own.keys[0].mki.is_empty())
        };
        if has_mki == with_mki { Ok(()) } else { Err(Status::BadMki) }
    }
}

/// The SSRC of a packet that has a whole header.
fn ssrc_at(packet: &[u8], len: usize, at: usize, header_len: usize) -> Result<u32, Status> {
    let header = packet.get(..len.min(header_len)).filter(|header| header.len() == header_len);
    let header = header.ok_or(Status::BadParam)?;
    Ok(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]))
}
