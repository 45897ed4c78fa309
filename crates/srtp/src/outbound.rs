//! The sending side: plaintext packets of many streams in, protected packets out.
//!
//! What is decided here is the index of each packet and that no index is ever used twice with a
//! key: that would give away the XOR of two plaintexts, and with GCM the authentication key as well
//! (RFC 7714 section 14.3 asks for this). The ciphers are in `cipher`, batches in `batch.rs`.

use std::fmt;

use ssrc_map::SsrcMap;

use crate::cipher::cm::{self, CmJob};
use crate::config::Config;
use crate::packet::{PACKET_MAX, PacketIndex, RTCP_CLEAR, ReplayWindow, RtpHeader, Verdict, rtcp_sender};
use crate::position::{OutboundPosition, UsedIndices, check_position};
use crate::sent_packets::SentPackets;
use crate::session_key::{Cipher, KeyGroup, SessionKey, Transform};
use crate::tags::{TagQueue, Waiting};
use crate::{MasterKey, Plaintext, Profile, ProtectError, SetupError};

/// Protects the packets of one sender: the cryptographic context of RFC 3711 section 3.2, outbound.
///
/// **One master key serves one direction of one association: never make two of these, or one of
/// these and the peer's, from the same key.** Streams are created by their first packet if there
/// are template keys (what libsrtp calls a wildcard), otherwise by
/// [`add_stream`](Self::add_stream). Those of the template are kept while the context lives: a
/// restarted stream would repeat its nonces. For the same reason no index is used for two packets.
/// Retransmit by RTX with its own SSRC (RFC 4588), or the protected bytes unchanged: kept, or made
/// again by [`protect_rtp_again`](Self::protect_rtp_again).
pub struct OutboundContext {
    pub(crate) template: Option<KeyGroup>,
    pub(crate) streams: SsrcMap<OutboundStream>,
    /// Whether any key is a counter-mode key, which gains from a batch.
    pub(crate) has_cm_keys: bool,
    /// Whether packets of any stream are remembered.
    remembers: bool,
    config: Config,
}

/// What is remembered of one SSRC.
pub(crate) struct OutboundStream {
    /// Keys of its own; else the template's.
    own: Option<Box<KeyGroup>>,
    used: ReplayWindow,
    /// Rollover counter of the next packet, when it was set from outside.
    roc: Option<u32>,
    rtcp_next: u32,
    /// Its newest packets, where they may be protected again.
    sent: Option<Box<SentPackets>>,
}

/// An index that was assigned to one packet: it is used up, whatever happens to the packet.
///
/// No field has a value to spare: the compiler would put the tag of a `Result` there, at an odd
/// place, and moving it would cost 20 ns a packet in failed store forwarding.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    pub(crate) index: PacketIndex,
    pub(crate) ssrc: u32,
    header_len: u32,
    len: u32,
    trailer_len: u16,
    /// 1 when the stream has keys of its own.
    own_keys: u16,
}

impl OutboundContext {
    /// A context whose streams all use `keys`, or one that has no template keys when there are none.
    ///
    /// Of several keys the first protects until [`select_key`](Self::select_key) names another;
    /// they need MKIs.
    ///
    /// # Errors
    /// [`SetupError::KeysDoNotFit`], [`SetupError::ReplayWindow`], [`SetupError::UnsupportedBackend`].
    pub fn new(config: &Config, keys: &[MasterKey]) -> Result<Self, SetupError> {
        config.check()?;
        let template = if keys.is_empty() { None } else { Some(KeyGroup::new(keys, config.backend)?) };
        let has_cm_keys = template.as_ref().is_some_and(|keys| !keys.profile.is_aead());
        let streams = SsrcMap::new(config.streams_max);
        Ok(Self { template, streams, has_cm_keys, remembers: false, config: config.clone() })
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

    /// Gives a stream other keys, or keys of its own instead of the template's; its indices continue.
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

    /// Gives the context other template keys, or the first ones; the indices of its streams continue.
    /// Streams with their own keys are not affected.
    ///
    /// # Errors
    /// [`SetupError::NoKeys`], [`SetupError::KeysDoNotFit`].
    pub fn set_template_keys(&mut self, keys: &[MasterKey]) -> Result<(), SetupError> {
        let template = KeyGroup::new(keys, self.config.backend)?;
        self.has_cm_keys |= !template.profile.is_aead();
        self.template = Some(template);
        Ok(())
    }

    /// Forgets a stream with keys of its own, and which indices it used. Returns whether it was there.
    ///
    /// **The SSRC must never get the same keys again**: its packets would repeat nonces. A stream that
    /// uses the template keys stays, for that reason, and the answer is `false`.
    pub fn remove_stream(&mut self, ssrc: u32) -> bool {
        self.streams.get(ssrc).is_some_and(|stream| stream.own.is_some())
            && self.streams.remove(ssrc).is_some()
    }

    /// Makes the template key with this MKI protect from the next packet on. Indices continue.
    /// Streams with their own keys are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownMki`], [`SetupError::NoKeys`] without template keys.
    pub fn select_key(&mut self, mki: &[u8]) -> Result<(), SetupError> {
        self.template.as_mut().ok_or(SetupError::NoKeys)?.select(mki)
    }

    /// [`select_key`](Self::select_key) for a stream with keys of its own.
    ///
    /// # Errors
    /// [`SetupError::UnknownMki`], [`SetupError::UnknownSsrc`], [`SetupError::NoKeys`] for a stream
    /// that uses the template keys.
    pub fn select_stream_key(&mut self, ssrc: u32, mki: &[u8]) -> Result<(), SetupError> {
        let stream = self.streams.get_mut(ssrc).ok_or(SetupError::UnknownSsrc)?;
        stream.own.as_mut().ok_or(SetupError::NoKeys)?.select(mki)
    }

    /// Protects the RTP packet `packet[..len]` in place. Returns the length of the SRTP packet.
    ///
    /// `packet` needs room for [`Profile::rtp_overhead`] bytes and the MKI behind `len`.
    ///
    /// # Errors
    /// Any [`ProtectError`] but `UnknownContext`. What `packet` holds then must not be sent.
    #[inline]
    pub fn protect_rtp(&mut self, packet: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        let reserved = self.reserve_in_place(packet, len)?;
        self.seal_one(reserved, None, packet)
    }

    /// Protects the RTP packet made of `header` and `payload` into `out`, reading the payload once:
    /// a payload shared by many recipients is not copied first. Returns the length of the SRTP
    /// packet, which begins at `out[0]`.
    ///
    /// # Errors
    /// Any [`ProtectError`] but `UnknownContext`; `BadHeader` also when `header` is not exactly one
    /// RTP header.
    #[inline]
    pub fn protect_rtp_from(
        &mut self,
        header: &[u8],
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        let reserved = self.reserve_from(header, payload, out)?;
        self.seal_one(reserved, Some(payload), out)
    }

    /// [`protect_rtp`](Self::protect_rtp) or [`protect_rtp_from`](Self::protect_rtp_from), except
    /// that a tag of counter mode is left to [`TagQueue::finish`], which computes many side by
    /// side. Everything else about the packet is final: its index, its length, and whether it is
    /// refused.
    ///
    /// `out` is what [`TagPlaces`](crate::TagPlaces) finds at `place`. With GCM, where keys are a
    /// library's ([`Backend::Portable`](crate::Backend::Portable)), and with a full queue, the
    /// packet is finished at once.
    ///
    /// # Errors
    /// As those functions; nothing is queued then.
    #[inline]
    pub fn protect_rtp_later<P: Copy>(
        &mut self,
        plaintext: Plaintext<'_>,
        out: &mut [u8],
        tags: &mut TagQueue<P>,
        place: P,
    ) -> Result<usize, ProtectError> {
        let (reserved, source) = match plaintext {
            Plaintext::From { header, payload } => (self.reserve_from(header, payload, out)?, Some(payload)),
            Plaintext::InPlace { len } => (self.reserve_in_place(out, len)?, None),
        };
        if self.has_cm_keys
            && !tags.is_full()
            && let Some(key) = self.key(&reserved)
            && let Cipher::Cm(cipher) = &key.rtp.cipher
            && let Some((mac, kernel)) = cipher.mac()
        {
            let (body, trailer) = out.split_at_mut(reserved.len());
            cm::encrypt(&mut reserved.cm_job(&key.rtp, cipher, source, body));
            trailer[..key.mki.len()].copy_from_slice(&key.mki);
            let packet = Waiting {
                mac: mac.clone(),
                kernel,
                suffix: reserved.index.roc().to_be_bytes(),
                len: reserved.len,
                tag_at: reserved.len + key.mki.len() as u32,
                tag_len: (reserved.trailer_len() - key.mki.len()) as u32,
                place,
            };
            tags.push(packet);
            return Ok(reserved.len() + reserved.trailer_len());
        }
        self.seal_one(reserved, source, out)
    }

    /// Remembers from now on what was protected for `ssrc`, so that
    /// [`protect_rtp_again`](Self::protect_rtp_again) knows it; makes the stream if need be. It takes 8
    /// KiB, and about a nanosecond for each byte that is protected.
    ///
    /// # Errors
    /// [`SetupError::UnknownSsrc`], [`SetupError::TooManyStreams`].
    pub fn remember_packets(&mut self, ssrc: u32) -> Result<(), SetupError> {
        let stream = self.stream_for_setup(ssrc)?;
        stream.sent.get_or_insert_with(|| Box::new(SentPackets::new()));
        self.remembers = true;
        Ok(())
    }

    /// Protects the RTP packet `packet[..len]` in place again, under the index that it had: with the
    /// same key the result is what it was, byte for byte. The index is the one nearest to the highest so
    /// far, as a receiver takes it, whichever rollover counter that means.
    ///
    /// # Errors
    /// [`ProtectError::NotTheSame`] unless this very packet was protected before, is among the newest 512
    /// of its stream, and [`remember_packets`](Self::remember_packets) was called for that; else as
    /// [`protect_rtp`](Self::protect_rtp).
    pub fn protect_rtp_again(&mut self, packet: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        let plain = packet.get(..len).ok_or(ProtectError::TooShort)?;
        let header = RtpHeader::parse(plain)?;
        let stream = self.streams.get(header.ssrc).ok_or(ProtectError::NotTheSame)?;
        let sent = stream.sent.as_ref().ok_or(ProtectError::NotTheSame)?;
        let index = PacketIndex::next(None, stream.used.highest(), header.sequence);
        let index = index.ok_or(ProtectError::NotTheSame)?;
        let (clear, payload) = plain.split_at(header.len);
        if !sent.is_same(index, clear, payload) {
            return Err(ProtectError::NotTheSame);
        }
        let keys = match &stream.own {
            Some(own) => &**own,
            None => self.template.as_ref().ok_or(ProtectError::UnknownSsrc)?,
        };
        let trailer_len = usize::from(keys.rtp_tag_len) + keys.mki_len;
        check_room(len + trailer_len, packet.len())?;
        let own_keys = u16::from(stream.own.is_some());
        let reserved = Reserved {
            index,
            ssrc: header.ssrc,
            header_len: header.len as u32,
            len: len as u32,
            trailer_len: trailer_len as u16,
            own_keys,
        };
        self.seal_one(reserved, None, packet)
    }

    /// Protects the RTCP packet `packet[..len]` (usually compound) in place. Returns the length of
    /// the SRTCP packet.
    ///
    /// `packet` needs room for [`Profile::rtcp_overhead`] bytes and the MKI behind `len`.
    ///
    /// # Errors
    /// Any [`ProtectError`] but `BadHeader`, `IndexUsed`, `TooOld`, `UnknownContext`.
    pub fn protect_rtcp(&mut self, packet: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        let ssrc = rtcp_sender(packet.get(..len).ok_or(ProtectError::TooShort)?)?;
        self.seal_rtcp(ssrc, len, None, packet)
    }

    /// Protects the RTCP packet `plain` into `out`. Returns the length of the SRTCP packet.
    ///
    /// # Errors
    /// As [`protect_rtcp`](Self::protect_rtcp).
    pub fn protect_rtcp_from(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, ProtectError> {
        let ssrc = rtcp_sender(plain)?;
        self.seal_rtcp(ssrc, plain.len(), Some(plain), out)
    }

    /// Sets the rollover counter the next packet of `ssrc` has, and makes the stream if need be:
    /// for a stream that is taken over from elsewhere. The counter it has already is taken as it
    /// is.
    ///
    /// # Errors
    /// [`SetupError::Backwards`] below what [`roc`](Self::roc) says, [`SetupError::UnknownSsrc`],
    /// [`SetupError::TooManyStreams`].
    pub fn set_roc(&mut self, ssrc: u32, roc: u32) -> Result<(), SetupError> {
        let stream = self.stream_for_setup(ssrc)?;
        let current = stream.rollover_counter();
        if roc < current {
            return Err(SetupError::Backwards);
        }
        if roc > current || stream.used.highest().is_none() {
            stream.roc = Some(roc);
        }
        Ok(())
    }

    /// Sets the index of the next SRTCP packet of `ssrc`, and makes the stream if need be.
    ///
    /// # Errors
    /// [`SetupError::Backwards`], [`SetupError::IndexTooLarge`], [`SetupError::UnknownSsrc`],
    /// [`SetupError::TooManyStreams`].
    pub fn set_rtcp_index(&mut self, ssrc: u32, index: u32) -> Result<(), SetupError> {
        if index >= RTCP_INDEX_END {
            return Err(SetupError::IndexTooLarge);
        }
        let stream = self.stream_for_setup(ssrc)?;
        if index < stream.rtcp_next {
            return Err(SetupError::Backwards);
        }
        stream.rtcp_next = index;
        Ok(())
    }

    /// Rollover counter of a stream: that of its highest packet so far, or what was set for the
    /// next; 0 at first.
    pub fn roc(&self, ssrc: u32) -> Option<u32> {
        self.streams.get(ssrc).map(OutboundStream::rollover_counter)
    }

    /// Index of the next SRTCP packet of a stream; 2^31 when there can be none.
    pub fn rtcp_index(&self, ssrc: u32) -> Option<u32> {
        self.streams.get(ssrc).map(|stream| stream.rtcp_next)
    }

    /// How far each stream is, for a context with the same keys that goes on in place of this one, which
    /// must protect nothing any more. Streams with keys of their own are left out.
    pub fn positions(&self) -> impl Iterator<Item = OutboundPosition> {
        let shared = self.streams.iter().filter(|(_, stream)| stream.own.is_none());
        shared.map(|(ssrc, stream)| OutboundPosition {
            ssrc,
            rtp: UsedIndices::of(&stream.used),
            rtcp_next: stream.rtcp_next,
        })
    }

    /// Goes on with a stream where another context was. What was sent there cannot be
    /// [protected again](Self::protect_rtp_again).
    ///
    /// # Errors
    /// [`SetupError::StreamExists`], [`SetupError::TooManyStreams`], [`SetupError::NoKeys`] without template
    /// keys, [`SetupError::IndexTooLarge`].
    pub fn resume(&mut self, position: &OutboundPosition) -> Result<(), SetupError> {
        check_position(position.rtp, Some(position.rtcp_next.into()))?;
        if self.template.is_none() {
            return Err(SetupError::NoKeys);
        }
        if self.streams.get(position.ssrc).is_some() {
            return Err(SetupError::StreamExists);
        }
        self.insert(position.ssrc, None).map_err(|_| SetupError::TooManyStreams)?;
        if let Some(stream) = self.streams.get_mut(position.ssrc) {
            stream.rtcp_next = position.rtcp_next;
            if let Some(used) = position.rtp {
                stream.used = used.window(self.config.rtp_replay_window_packets);
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

    /// [`reserve`](Self::reserve) for the packet `packet[..len]`.
    #[inline(always)]
    pub(crate) fn reserve_in_place(&mut self, packet: &[u8], len: usize) -> Result<Reserved, ProtectError> {
        let header = RtpHeader::parse(packet.get(..len).ok_or(ProtectError::TooShort)?)?;
        let reserved = self.reserve(header, len, packet.len())?;
        if self.remembers {
            let (header, payload) = packet[..len].split_at(header.len);
            self.remember(&reserved, header, payload);
        }
        Ok(reserved)
    }

    /// [`reserve`](Self::reserve) for a packet in two parts; copies the header to its place.
    #[inline(always)]
    pub(crate) fn reserve_from(
        &mut self,
        header: &[u8],
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<Reserved, ProtectError> {
        let parsed = RtpHeader::parse(header)?;
        if parsed.len != header.len() {
            return Err(ProtectError::BadHeader);
        }
        let reserved = self.reserve(parsed, header.len() + payload.len(), out.len())?;
        if self.remembers {
            self.remember(&reserved, header, payload);
        }
        out[..header.len()].copy_from_slice(header);
        Ok(reserved)
    }

    /// Finds the index of a packet of `len` bytes with this header and uses it up; `room` is the
    /// destination's size.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        header: RtpHeader,
        len: usize,
        room: usize,
    ) -> Result<Reserved, ProtectError> {
        let stream = match self.streams.get_mut(header.ssrc) {
            Some(stream) => stream,
            None => {
                self.begin_stream(header.ssrc, len, room)?;
                self.streams.get_mut(header.ssrc).ok_or(ProtectError::TooManyStreams)?
            }
        };
        let own_keys = u16::from(stream.own.is_some());
        let index = PacketIndex::next(stream.roc, stream.used.highest(), header.sequence);
        let keys = match &mut stream.own {
            Some(own) => &mut **own,
            None => self.template.as_mut().ok_or(ProtectError::UnknownSsrc)?,
        };
        let trailer_len = usize::from(keys.rtp_tag_len) + keys.mki_len;
        check_room(len + trailer_len, room)?;
        let key = &mut keys.active_mut().rtp;
        if !key.is_fresh() {
            return Err(ProtectError::KeyExpired);
        }
        let index = index.ok_or(ProtectError::KeyExpired)?;
        match stream.used.look(index.0) {
            Verdict::New => {}
            Verdict::Seen => return Err(ProtectError::IndexUsed),
            Verdict::TooOld => return Err(ProtectError::TooOld),
        }
        stream.used.mark(index.0);
        stream.roc = None;
        key.spend();
        // The protected packet has at most 65,535 bytes and the header lies within it; an MKI has
        // at most 128 bytes.
        Ok(Reserved {
            index,
            ssrc: header.ssrc,
            header_len: header.len as u32,
            len: len as u32,
            trailer_len: trailer_len as u16,
            own_keys,
        })
    }

    /// Notes a packet that is going to be protected, where its stream remembers packets.
    #[cold]
    #[inline(never)]
    fn remember(&mut self, reserved: &Reserved, header: &[u8], payload: &[u8]) {
        let stream = self.streams.get_mut(reserved.ssrc);
        if let Some(sent) = stream.and_then(|stream| stream.sent.as_mut()) {
            sent.note(reserved.index, header, payload);
        }
    }

    /// Makes the stream of a packet of `len` bytes that is going to be protected.
    #[cold]
    fn begin_stream(&mut self, ssrc: u32, len: usize, room: usize) -> Result<(), ProtectError> {
        let keys = self.template.as_ref().ok_or(ProtectError::UnknownSsrc)?;
        check_room(len + usize::from(keys.rtp_tag_len) + keys.mki_len, room)?;
        if !keys.active().rtp.is_fresh() {
            return Err(ProtectError::KeyExpired);
        }
        self.insert(ssrc, None)
    }

    /// The key a reserved packet is protected by; none if `reserved` is another context's.
    #[inline]
    pub(crate) fn key(&self, reserved: &Reserved) -> Option<&SessionKey> {
        let keys = if reserved.own_keys != 0 {
            self.streams.get(reserved.ssrc)?.own.as_deref()?
        } else {
            self.template.as_ref()?
        };
        (reserved.trailer_len() == usize::from(keys.rtp_tag_len) + keys.mki_len).then(|| keys.active())
    }

    /// Encrypts and authenticates one packet whose header is in `out` already.
    #[inline(always)]
    pub(crate) fn seal_one(
        &self,
        reserved: Reserved,
        source: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        let key = self.key(&reserved).ok_or(ProtectError::UnknownContext)?;
        let (body, trailer) = out.split_at_mut(reserved.len());
        let trailer = &mut trailer[..reserved.trailer_len()];
        match &key.rtp.cipher {
            Cipher::Gcm(cipher) => {
                // The header is associated data; tag, then MKI (RFC 7714 section 8.2).
                let (header, text) = body.split_at_mut(reserved.header_len as usize);
                let tag = cipher.seal(&key.rtp.nonce(reserved.ssrc, reserved.index.0), header, source, text);
                let (tag_place, mki) = trailer.split_at_mut(tag.len());
                tag_place.copy_from_slice(&tag);
                if !mki.is_empty() {
                    mki.copy_from_slice(&key.mki);
                }
            }
            Cipher::Cm(cipher) => {
                let mut job = [reserved.cm_job(&key.rtp, cipher, source, body)];
                cm::seal(&mut job);
                write_cm_trailer(trailer, &key.mki, &job[0].tag);
            }
        }
        Ok(reserved.len() + reserved.trailer_len())
    }

    /// Protects the RTCP packet `plain` into `out`, or the first `len` bytes of `out` in place.
    fn seal_rtcp(
        &mut self,
        ssrc: u32,
        len: usize,
        plain: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<usize, ProtectError> {
        if self.streams.get(ssrc).is_none() {
            let keys = self.template.as_ref().ok_or(ProtectError::UnknownSsrc)?;
            check_room(len + keys.profile.rtcp_overhead() + keys.mki_len, out.len())?;
            self.insert(ssrc, None)?;
        }
        let stream = self.streams.get_mut(ssrc).expect("the stream was there or was inserted");
        let keys = match &mut stream.own {
            Some(own) => &mut **own,
            None => self.template.as_mut().ok_or(ProtectError::UnknownSsrc)?,
        };
        let profile = keys.profile;
        let trailer_len = profile.rtcp_overhead() + keys.mki_len;
        check_room(len + trailer_len, out.len())?;
        let key = keys.active_mut();
        let index = stream.rtcp_next;
        if !key.rtcp.is_fresh() || index >= RTCP_INDEX_END {
            return Err(ProtectError::KeyExpired);
        }
        key.rtcp.spend();
        stream.rtcp_next = index + 1;

        let (body, trailer) = out.split_at_mut(len);
        let trailer = &mut trailer[..trailer_len];
        let source = plain.map(|plain| {
            let (clear, text) = plain.split_at(RTCP_CLEAR);
            body[..RTCP_CLEAR].copy_from_slice(clear);
            text
        });
        let flag_and_index = (E_FLAG | index).to_be_bytes();
        match &key.rtcp.cipher {
            Cipher::Gcm(cipher) => {
                let (clear, text) = body.split_at_mut(RTCP_CLEAR);
                let aad = rtcp_aad(clear, flag_and_index);
                let tag = cipher.seal(&key.rtcp.nonce(ssrc, u64::from(index)), &aad, source, text);
                let (tag_place, rest) = trailer.split_at_mut(tag.len());
                tag_place.copy_from_slice(&tag);
                rest[..4].copy_from_slice(&flag_and_index);
                rest[4..].copy_from_slice(&key.mki);
            }
            Cipher::Cm(cipher) => {
                let mut job = [CmJob {
                    key: cipher,
                    iv: key.rtcp.initial_counter(ssrc, u64::from(index)),
                    suffix: flag_and_index,
                    packet: body,
                    payload_offset: RTCP_CLEAR,
                    source,
                    tag: [0; 20],
                }];
                cm::seal(&mut job);
                trailer[..4].copy_from_slice(&flag_and_index);
                write_cm_trailer(&mut trailer[4..], &key.mki, &job[0].tag);
            }
        }
        Ok(len + trailer_len)
    }

    fn stream_for_setup(&mut self, ssrc: u32) -> Result<&mut OutboundStream, SetupError> {
        if self.streams.get(ssrc).is_none() {
            if self.template.is_none() {
                return Err(SetupError::UnknownSsrc);
            }
            self.insert(ssrc, None).map_err(|_| SetupError::TooManyStreams)?;
        }
        Ok(self.streams.get_mut(ssrc).expect("the stream was there or was inserted"))
    }

    fn insert(&mut self, ssrc: u32, own: Option<Box<KeyGroup>>) -> Result<(), ProtectError> {
        let used = ReplayWindow::new(self.config.rtp_replay_window_packets);
        let stream = OutboundStream { own, used, roc: None, rtcp_next: 0, sent: None };
        self.streams.insert(ssrc, stream).map(|_| ()).map_err(|_| ProtectError::TooManyStreams)
    }
}

impl fmt::Debug for OutboundContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundContext")
            .field("profile", &self.profile())
            .field("streams", &self.streams())
            .finish_non_exhaustive()
    }
}

impl OutboundStream {
    fn rollover_counter(&self) -> u32 {
        self.roc.unwrap_or_else(|| PacketIndex(self.used.highest().unwrap_or(0)).roc())
    }
}

impl Reserved {
    /// Bytes of the plaintext packet.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes behind them: tag and MKI.
    #[inline]
    pub(crate) fn trailer_len(&self) -> usize {
        self.trailer_len.into()
    }

    /// The work of protecting a counter-mode packet.
    #[inline]
    pub(crate) fn cm_job<'a>(
        &self,
        transform: &Transform,
        cipher: &'a cm::CmKey,
        source: Option<&'a [u8]>,
        body: &'a mut [u8],
    ) -> CmJob<'a> {
        CmJob {
            key: cipher,
            iv: transform.initial_counter(self.ssrc, self.index.0),
            suffix: self.index.roc().to_be_bytes(),
            packet: body,
            payload_offset: self.header_len as usize,
            source,
            tag: [0; 20],
        }
    }
}

/// Whether a protected packet of `len` bytes is allowed and fits into `room`.
#[inline]
fn check_room(len: usize, room: usize) -> Result<(), ProtectError> {
    if len > PACKET_MAX {
        return Err(ProtectError::TooLong);
    }
    if len > room { Err(ProtectError::BufferTooSmall) } else { Ok(()) }
}

/// MKI, then as much of the tag as there is room for (RFC 3711 section 3.1).
#[inline]
pub(crate) fn write_cm_trailer(trailer: &mut [u8], mki: &[u8], tag: &[u8; 20]) {
    let (mki_place, tag_place) = trailer.split_at_mut(mki.len());
    if !mki.is_empty() {
        mki_place.copy_from_slice(mki);
    }
    tag_place.copy_from_slice(&tag[..tag_place.len()]);
}

/// Associated data of an encrypted SRTCP packet: the clear header, then E flag and index (RFC 7714
/// section 9.2).
pub(crate) fn rtcp_aad(clear: &[u8], flag_and_index: [u8; 4]) -> [u8; RTCP_CLEAR + 4] {
    let mut aad = [0; RTCP_CLEAR + 4];
    aad[..RTCP_CLEAR].copy_from_slice(clear);
    aad[RTCP_CLEAR..].copy_from_slice(&flag_and_index);
    aad
}

/// Set in the word before an SRTCP tag when the packet is encrypted; the index is the rest (RFC
/// 3711 section 3.4).
pub(crate) const E_FLAG: u32 = 1 << 31;
const RTCP_INDEX_END: u32 = 1 << 31;
