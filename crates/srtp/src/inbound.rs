//! The receiving side: SRTP and SRTCP packets of many streams in, plaintext packets out.
//!
//! Three steps, always in this order: [`examine`](InboundContext::examine) reads the header, finds
//! stream, index and key and looks into the replay window, changing nothing; the cipher
//! authenticates; [`accept`](InboundContext::accept) changes the state. A stream that is not there
//! yet comes into being in the third step only.

use std::fmt;

use ssrc_map::SsrcMap;

use crate::cipher::cm::{self, CmJob, CmKey};
use crate::config::Config;
use crate::outbound::{E_FLAG, rtcp_aad};
use crate::packet::{PacketIndex, RTCP_CLEAR, ReplayWindow, RtpHeader, Verdict, rtcp_sender};
use crate::position::{InboundPosition, UsedIndices, check_position};
use crate::session_key::{Cipher, KeyGroup, SessionKey, Transform};
use crate::{MasterKey, Profile, SetupError, UnprotectError};

/// Unprotects the packets of one sender: the cryptographic context of RFC 3711 section 3.2, inbound.
///
/// Streams are created by their first authentic packet if there are template keys (what libsrtp
/// calls a wildcard), otherwise by [`add_stream`](Self::add_stream). Streams are kept, so one that
/// returns continues with its rollover counter.
pub struct InboundContext {
    pub(crate) template: Option<KeyGroup>,
    streams: SsrcMap<InboundStream>,
    /// Whether any key is a counter-mode key, which gains from a batch.
    pub(crate) has_cm_keys: bool,
    /// Packets accepted so far: as long as it stays the same, looking at a packet again finds the same.
    pub(crate) accepted: u64,
    config: Config,
}

/// What is remembered of one SSRC.
struct InboundStream {
    /// Keys of its own; else the template's.
    own: Option<Box<KeyGroup>>,
    rtp: ReplayWindow,
    rtcp: ReplayWindow,
    /// Rollover counter of the next packet, when signalling has set it.
    roc: Option<u32>,
}

/// A packet that may be authenticated: what it claims to be. None of it is trusted before the tag
/// is verified.
///
/// Packets have at most 65,535 bytes, so places in them have 16 bits. As in `Reserved` no field has
/// a value to spare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    index: PacketIndex,
    ssrc: u32,
    /// Which key of its group.
    key: u32,
    header_len: u16,
    /// Bytes of header and payload.
    len: u16,
    /// Where the tag begins.
    tag_at: u16,
    tag_len: u8,
    /// 1 when the stream has keys of its own.
    own_keys: u8,
}

impl InboundContext {
    /// A context whose streams may all use `keys`, or one that has no template keys when there are none.
    ///
    /// With several keys the MKI of each packet says which; all stay valid.
    ///
    /// # Errors
    /// [`SetupError::KeysDoNotFit`], [`SetupError::ReplayWindow`], [`SetupError::UnsupportedBackend`].
    pub fn new(config: &Config, keys: &[MasterKey]) -> Result<Self, SetupError> {
        config.check()?;
        let template = if keys.is_empty() { None } else { Some(KeyGroup::new(keys, config.backend)?) };
        let has_cm_keys = template.as_ref().is_some_and(|keys| !keys.profile.is_aead());
        let streams = SsrcMap::new(config.streams_max);
        Ok(Self { template, streams, has_cm_keys, accepted: 0, config: config.clone() })
    }

    /// A stream with keys of its own.
    ///
    /// # Errors
    /// [`SetupError::StreamExists`], [`SetupError::TooManyStreams`], [`SetupError::NoKeys`],
    /// [`SetupError::KeysDoNotFit`].
    pub fn add_stream(&mut self, ssrc: u32, keys: &[MasterKey]) -> Result<(), SetupError> {
        if self.streams.get(ssrc).is_some() {
            return Err(SetupError::StreamExists);
        }
        let own = KeyGroup::new(keys, self.config.backend)?;
        self.has_cm_keys |= !own.profile.is_aead();
        self.insert(ssrc, Some(Box::new(own))).map_err(|_| SetupError::TooManyStreams)
    }

    /// Gives a stream other keys, or keys of its own instead of the template's. Its indices continue.
    ///
    /// # Errors
    /// [`SetupError::UnknownSsrc`], [`SetupError::NoKeys`], [`SetupError::KeysDoNotFit`].
    pub fn set_stream_keys(&mut self, ssrc: u32, keys: &[MasterKey]) -> Result<(), SetupError> {
        let own = KeyGroup::new(keys, self.config.backend)?;
        let stream = self.streams.get_mut(ssrc).ok_or(SetupError::UnknownSsrc)?;
        self.has_cm_keys |= !own.profile.is_aead();
        stream.own = Some(Box::new(own));
        Ok(())
    }

    /// Gives the context other template keys, or the first ones. The indices of its streams continue;
    /// those with their own keys are not affected.
    ///
    /// # Errors
    /// [`SetupError::NoKeys`], [`SetupError::KeysDoNotFit`].
    pub fn set_template_keys(&mut self, keys: &[MasterKey]) -> Result<(), SetupError> {
        let template = KeyGroup::new(keys, self.config.backend)?;
        self.has_cm_keys |= !template.profile.is_aead();
        self.template = Some(template);
        Ok(())
    }

    /// Forgets a stream. Returns whether it was there.
    ///
    /// **Its replay protection is lost too**: with template keys, anyone who recorded its packets
    /// can send them again and restart the stream. Meant for streams that signalling has ended,
    /// before the cap is reached.
    pub fn remove_stream(&mut self, ssrc: u32) -> bool {
        self.streams.remove(ssrc).is_some()
    }

    /// Unprotects an SRTP packet in place. Returns the length of the RTP packet.
    ///
    /// # Errors
    /// Any [`UnprotectError`] but `NotEncrypted`, `UnknownContext`. `packet` and all state are then
    /// as before.
    #[inline]
    pub fn unprotect_rtp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        let candidate = self.examine(packet)?;
        let transform = &self.fresh_rtp_key(&candidate)?.rtp;
        let (body, trailer) = packet.split_at_mut(candidate.len());
        match &transform.cipher {
            Cipher::Gcm(cipher) => {
                // Authenticates and decrypts in one pass, and leaves the packet as it was if it is forged.
                let (header, text) = body.split_at_mut(candidate.header_len.into());
                let tag = trailer.first_chunk().ok_or(UnprotectError::TooShort)?;
                if !cipher.open(&transform.nonce(candidate.ssrc, candidate.index.0), header, text, tag) {
                    return Err(UnprotectError::AuthFailed);
                }
            }
            Cipher::Cm(cipher) => {
                let mut job = [candidate.cm_job(transform, cipher, body)];
                cm::authenticate(&mut job);
                if !candidate.tag_is(trailer, &job[0].tag) {
                    return Err(UnprotectError::AuthFailed);
                }
                cm::decrypt(&mut job[0]);
            }
        }
        self.accept(&candidate)?;
        Ok(candidate.len())
    }

    /// Unprotects an SRTCP packet in place. Returns the length of the RTCP packet.
    ///
    /// # Errors
    /// Any [`UnprotectError`] but `BadHeader`, `UnknownContext`. `packet` and all state are then as before.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        let candidate = self.examine_rtcp(packet)?;
        let key = self.key(&candidate).ok_or(UnprotectError::UnknownContext)?;
        if !key.rtcp.is_fresh() {
            return Err(UnprotectError::KeyExpired);
        }
        let flag_and_index = (E_FLAG | candidate.index.0 as u32).to_be_bytes();
        let (body, trailer) = packet.split_at_mut(candidate.len());
        match &key.rtcp.cipher {
            Cipher::Gcm(cipher) => {
                let (clear, text) = body.split_at_mut(RTCP_CLEAR);
                let aad = rtcp_aad(clear, flag_and_index);
                let tag = trailer.first_chunk().ok_or(UnprotectError::TooShort)?;
                if !cipher.open(&key.rtcp.nonce(candidate.ssrc, candidate.index.0), &aad, text, tag) {
                    return Err(UnprotectError::AuthFailed);
                }
            }
            Cipher::Cm(cipher) => {
                let mut job = [CmJob {
                    key: cipher,
                    iv: key.rtcp.initial_counter(candidate.ssrc, candidate.index.0),
                    suffix: flag_and_index,
                    packet: body,
                    payload_offset: RTCP_CLEAR,
                    source: None,
                    tag: [0; 20],
                }];
                cm::authenticate(&mut job);
                if !candidate.tag_is(trailer, &job[0].tag) {
                    return Err(UnprotectError::AuthFailed);
                }
                cm::decrypt(&mut job[0]);
            }
        }
        self.accept_rtcp(&candidate)?;
        Ok(candidate.len())
    }

    /// Sets the rollover counter of the next packet of `ssrc`, and creates the stream if necessary:
    /// for a receiver that joins late and gets the counter by signalling (RFC 3711 section 3.3.1).
    ///
    /// It applies from the next authentic packet on; until then a packet of another ROC counts as
    /// forged, and a wrong counter may be set again, unless it is below that of the highest
    /// authentic packet.
    ///
    /// # Errors
    /// [`SetupError::Backwards`] below the counter of the highest authentic packet,
    /// [`SetupError::UnknownSsrc`], [`SetupError::TooManyStreams`].
    pub fn set_roc(&mut self, ssrc: u32, roc: u32) -> Result<(), SetupError> {
        if self.streams.get(ssrc).is_none() {
            if self.template.is_none() {
                return Err(SetupError::UnknownSsrc);
            }
            self.insert(ssrc, None).map_err(|_| SetupError::TooManyStreams)?;
        }
        let stream = self.streams.get_mut(ssrc).expect("the stream was there or was inserted");
        match stream.rtp.highest().map(|highest| PacketIndex(highest).roc()) {
            Some(current) if roc < current => return Err(SetupError::Backwards),
            Some(current) if roc == current => stream.roc = None,
            _ => stream.roc = Some(roc),
        }
        Ok(())
    }

    /// Rollover counter of a stream: that of its highest authentic packet, or what was set for the
    /// next; 0 at first.
    pub fn roc(&self, ssrc: u32) -> Option<u32> {
        let stream = self.streams.get(ssrc)?;
        Some(stream.roc.unwrap_or_else(|| PacketIndex(stream.rtp.highest().unwrap_or(0)).roc()))
    }

    /// How far each stream is, for a context with the same keys that goes on in place of this one. Streams
    /// with keys of their own are left out.
    pub fn positions(&self) -> impl Iterator<Item = InboundPosition> {
        let shared = self.streams.iter().filter(|(_, stream)| stream.own.is_none());
        shared.map(|(ssrc, stream)| InboundPosition {
            ssrc,
            rtp: UsedIndices::of(&stream.rtp),
            rtcp: UsedIndices::of(&stream.rtcp),
        })
    }

    /// Goes on with a stream where another context was. What that has accepted is refused as a replay, and
    /// so are packets more than 64 behind.
    ///
    /// # Errors
    /// [`SetupError::StreamExists`], [`SetupError::TooManyStreams`], [`SetupError::NoKeys`] without template
    /// keys, [`SetupError::IndexTooLarge`].
    pub fn resume(&mut self, position: &InboundPosition) -> Result<(), SetupError> {
        check_position(position.rtp, position.rtcp.map(|used| used.highest))?;
        if self.template.is_none() {
            return Err(SetupError::NoKeys);
        }
        if self.streams.get(position.ssrc).is_some() {
            return Err(SetupError::StreamExists);
        }
        self.insert(position.ssrc, None).map_err(|_| SetupError::TooManyStreams)?;
        if let Some(stream) = self.streams.get_mut(position.ssrc) {
            if let Some(used) = position.rtp {
                stream.rtp = used.window(self.config.rtp_replay_window_packets);
            }
            if let Some(used) = position.rtcp {
                stream.rtcp = used.window(self.config.rtcp_replay_window_packets);
            }
        }
        Ok(())
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The SSRCs of all streams, in no order.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> {
        self.streams.iter().map(|(ssrc, _)| ssrc)
    }

    /// Profile of the template keys.
    pub fn profile(&self) -> Option<Profile> {
        self.template.as_ref().map(|keys| keys.profile)
    }

    /// First step for an SRTP packet: what does it claim to be, and may it be new?
    #[inline(always)]
    pub(crate) fn examine(&self, packet: &[u8]) -> Result<Candidate, UnprotectError> {
        let header = RtpHeader::parse(packet)?;
        let stream = self.streams.get(header.ssrc);
        let keys = self.keys_of(stream)?;
        let tag_len = usize::from(keys.rtp_tag_len);
        let len = (packet.len().checked_sub(tag_len + keys.mki_len))
            .filter(|&len| len >= header.len)
            .ok_or(UnprotectError::TooShort)?;
        // GCM: tag, MKI (RFC 7714 section 8.2). Counter mode: MKI, tag (RFC 3711 section 3.1).
        let (tag_at, mki_at) =
            if keys.profile.is_aead() { (len, len + tag_len) } else { (len + keys.mki_len, len) };
        let key = match keys.mki_len {
            0 => 0,
            mki_len => keys.position(&packet[mki_at..mki_at + mki_len]).ok_or(UnprotectError::UnknownMki)?,
        };
        let index = match stream {
            None => PacketIndex::new(0, header.sequence),
            Some(stream) => {
                let index = PacketIndex::next(stream.roc, stream.rtp.highest(), header.sequence)
                    .ok_or(UnprotectError::KeyExpired)?;
                not_replayed(&stream.rtp, index)?;
                index
            }
        };
        let own_keys = stream.is_some_and(|stream| stream.own.is_some());
        Ok(Candidate {
            ssrc: header.ssrc,
            index,
            key: key as u32,
            header_len: header.len as u16,
            len: len as u16,
            tag_at: tag_at as u16,
            tag_len: tag_len as u8,
            own_keys: own_keys.into(),
        })
    }

    /// Third step: the packet is authentic.
    #[inline]
    pub(crate) fn accept(&mut self, candidate: &Candidate) -> Result<(), UnprotectError> {
        let Some(stream) = self.streams.get_mut(candidate.ssrc) else {
            self.insert(candidate.ssrc, None)?;
            return self.accept(candidate);
        };
        // Once more: whatever was decided on before the tag was known, this is what keeps a packet
        // from counting twice.
        not_replayed(&stream.rtp, candidate.index)?;
        stream.rtp.mark(candidate.index.0);
        stream.roc = None;
        self.accepted += 1;
        let keys = stream.own.as_deref_mut().or(self.template.as_mut());
        keys.expect("the key was found when it was used").key_mut(candidate.key as usize).rtp.spend();
        Ok(())
    }

    /// The key of a candidate, unless it has served as many packets as it may.
    ///
    /// Apart from [`examine`](Self::examine), which does not touch the key: in a batch the keys of
    /// all packets are fetched at once, when they are needed.
    #[inline]
    pub(crate) fn fresh_rtp_key(&self, candidate: &Candidate) -> Result<&SessionKey, UnprotectError> {
        let key = self.key(candidate).ok_or(UnprotectError::UnknownContext)?;
        if key.rtp.is_fresh() { Ok(key) } else { Err(UnprotectError::KeyExpired) }
    }

    /// The key of a candidate; none if it is another context's.
    #[inline]
    pub(crate) fn key(&self, candidate: &Candidate) -> Option<&SessionKey> {
        let keys = if candidate.own_keys != 0 {
            self.streams.get(candidate.ssrc)?.own.as_deref()?
        } else {
            self.template.as_ref()?
        };
        Some(keys.key(candidate.key as usize))
    }

    /// First step for an SRTCP packet.
    fn examine_rtcp(&self, packet: &[u8]) -> Result<Candidate, UnprotectError> {
        let ssrc = rtcp_sender(packet)?;
        let stream = self.streams.get(ssrc);
        let keys = self.keys_of(stream)?;
        let (tag_len, mki_len) = (keys.profile.rtcp_tag_len(), keys.mki_len);
        let len = (packet.len().checked_sub(tag_len + 4 + mki_len))
            .filter(|&len| len >= RTCP_CLEAR)
            .ok_or(UnprotectError::TooShort)?;
        // GCM: tag, index, MKI (RFC 7714 section 9.2). Counter mode: index, MKI, tag (RFC 3711 section 3.4).
        let (tag_at, index_at) =
            if keys.profile.is_aead() { (len, len + tag_len) } else { (len + 4 + mki_len, len) };
        let word = packet[index_at..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        if word & E_FLAG == 0 {
            return Err(UnprotectError::NotEncrypted);
        }
        let mki = &packet[index_at + 4..index_at + 4 + mki_len];
        let key = keys.position(mki).ok_or(UnprotectError::UnknownMki)?;
        let index = PacketIndex(u64::from(word & !E_FLAG));
        if let Some(stream) = stream {
            not_replayed(&stream.rtcp, index)?;
        }
        let own_keys = stream.is_some_and(|stream| stream.own.is_some());
        Ok(Candidate {
            index,
            ssrc,
            key: key as u32,
            header_len: RTCP_CLEAR as u16,
            len: len as u16,
            tag_at: tag_at as u16,
            tag_len: tag_len as u8,
            own_keys: own_keys.into(),
        })
    }

    fn accept_rtcp(&mut self, candidate: &Candidate) -> Result<(), UnprotectError> {
        let Some(stream) = self.streams.get_mut(candidate.ssrc) else {
            self.insert(candidate.ssrc, None)?;
            return self.accept_rtcp(candidate);
        };
        stream.rtcp.mark(candidate.index.0);
        let keys = stream.own.as_deref_mut().or(self.template.as_mut());
        keys.expect("the key was found when it was used").key_mut(candidate.key as usize).rtcp.spend();
        Ok(())
    }

    /// Keys for packets of `stream`, or of a stream that is not there yet and could begin.
    #[inline]
    fn keys_of<'a>(&'a self, stream: Option<&'a InboundStream>) -> Result<&'a KeyGroup, UnprotectError> {
        let own = stream.and_then(|stream| stream.own.as_deref());
        let keys = own.or(self.template.as_ref()).ok_or(UnprotectError::UnknownSsrc)?;
        if stream.is_none() && self.streams.len() >= self.streams.limit() {
            return Err(UnprotectError::TooManyStreams);
        }
        Ok(keys)
    }

    fn insert(&mut self, ssrc: u32, own: Option<Box<KeyGroup>>) -> Result<(), UnprotectError> {
        let stream = InboundStream {
            own,
            rtp: ReplayWindow::new(self.config.rtp_replay_window_packets),
            rtcp: ReplayWindow::new(self.config.rtcp_replay_window_packets),
            roc: None,
        };
        self.streams.insert(ssrc, stream).map(|_| ()).map_err(|_| UnprotectError::TooManyStreams)
    }
}

impl fmt::Debug for InboundContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundContext")
            .field("profile", &self.profile())
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}

impl Candidate {
    /// Bytes of header and payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// The work of authenticating, then decrypting a counter-mode packet.
    #[inline]
    pub(crate) fn cm_job<'a>(
        &self,
        transform: &Transform,
        cipher: &'a CmKey,
        body: &'a mut [u8],
    ) -> CmJob<'a> {
        CmJob {
            key: cipher,
            iv: transform.initial_counter(self.ssrc, self.index.0),
            suffix: self.index.roc().to_be_bytes(),
            packet: body,
            payload_offset: self.header_len.into(),
            source: None,
            tag: [0; 20],
        }
    }

    /// Whether the packet carries this tag, or the beginning of it; takes the same time wherever they differ.
    /// `trailer` is what follows header and payload.
    #[inline]
    pub(crate) fn tag_is(&self, trailer: &[u8], tag: &[u8; 20]) -> bool {
        let at = usize::from(self.tag_at - self.len);
        let Some(received) = trailer.get(at..at + usize::from(self.tag_len)) else { return false };
        let difference = received.iter().zip(tag).fold(0, |difference, (a, b)| difference | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

#[inline]
fn not_replayed(window: &ReplayWindow, index: PacketIndex) -> Result<(), UnprotectError> {
    match window.look(index.0) {
        Verdict::New => Ok(()),
        Verdict::Seen => Err(UnprotectError::Replayed),
        Verdict::TooOld => Err(UnprotectError::TooOld),
    }
}
