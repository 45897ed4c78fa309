//! Why a key was not taken, or a packet was not protected or unprotected.
//!
//! All are small and `Copy`; each variant of the two packet errors is meant to be one counter.

use std::fmt;

/// Why a key or stream could not be set up. Always the caller's mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetupError {
    /// The master key is not as long as the profile asks ([`Profile::key_len`](crate::Profile::key_len)).
    KeyLength,
    /// The master salt is not as long as the profile asks ([`Profile::salt_len`](crate::Profile::salt_len)).
    SaltLength,
    /// Exported keying material is not twice key and salt long (RFC 5764 section 4.2).
    KeyingMaterialLength,
    /// An MKI is empty or longer than 128 bytes.
    MkiLength,
    /// Keys that serve together have different profiles, or MKIs of different lengths, or the same
    /// MKI, or there are several without an MKI.
    KeysDoNotFit,
    /// No key was given where one is needed.
    NoKeys,
    /// No key has this MKI.
    UnknownMki,
    /// A replay window is below 64 packets, no multiple of 64, or above 32,768.
    ReplayWindow,
    /// The stream is there already.
    StreamExists,
    /// There is no such stream, and no template key to make it with.
    UnknownSsrc,
    /// [`Config::streams_max`](crate::Config::streams_max) streams are there.
    TooManyStreams,
    /// A rollover counter or index would go back, which would reuse a key stream or permit replays.
    Backwards,
    /// The SRTCP index is not below 2^31, or the RTP index not below 2^48.
    IndexTooLarge,
    /// This CPU cannot run the backend of the configuration.
    UnsupportedBackend,
}

/// Why a packet was not protected. Nothing of it may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtectError {
    /// Shorter than a fixed header, or `len` beyond the buffer.
    TooShort,
    /// The protected packet would be longer than 65,535 bytes.
    TooLong,
    /// Version is not 2.
    BadVersion,
    /// CSRCs or the header extension reach beyond the packet, or the header given is not exactly a header.
    BadHeader,
    /// The destination has no room for packet, tag and MKI.
    BufferTooSmall,
    /// No stream has this SSRC and there is no template key.
    UnknownSsrc,
    /// The cap on streams is reached.
    TooManyStreams,
    /// This index has been protected before; doing so again would use the key stream twice.
    IndexUsed,
    /// The index lies before the window, so it is unknown whether it was used.
    TooOld,
    /// Asked to protect a packet again, and it is not known that this very packet was protected under its
    /// index.
    NotTheSame,
    /// 2^48 SRTP or 2^31 SRTCP packets were protected by this key, or the index would pass its end
    /// (RFC 3711 section 9.2).
    KeyExpired,
    /// The batch names a context that is not there.
    UnknownContext,
}

/// Why a received packet was dropped. The packet's bytes are as they were, and no state was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnprotectError {
    /// Shorter than fixed header, tag and MKI.
    TooShort,
    /// Longer than 65,535 bytes.
    TooLong,
    /// Version is not 2.
    BadVersion,
    /// CSRCs or the header extension reach beyond the packet.
    BadHeader,
    /// No stream has this SSRC and there is no template key.
    UnknownSsrc,
    /// No key has the MKI of the packet.
    UnknownMki,
    /// The packet would begin a stream and the cap on streams is reached.
    TooManyStreams,
    /// An SRTCP packet without encryption (E flag clear); every profile here encrypts.
    NotEncrypted,
    /// A packet with this index was accepted before.
    Replayed,
    /// The index lies before the replay window.
    TooOld,
    /// The authentication tag is wrong.
    AuthFailed,
    /// The key has accepted as many packets as it may, or the index is past its end (RFC 3711 section 9.2).
    KeyExpired,
    /// The batch names a context that is not there.
    UnknownContext,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyLength => "the master key is not as long as its profile asks",
            Self::SaltLength => "the master salt is not as long as its profile asks",
            Self::KeyingMaterialLength => "the keying material is not twice key and salt long",
            Self::MkiLength => "an MKI is 1 to 128 bytes long",
            Self::KeysDoNotFit => {
                "keys that serve together need one profile and different MKIs of one length"
            }
            Self::NoKeys => "no master key was given",
            Self::UnknownMki => "no key has this MKI",
            Self::ReplayWindow => "a replay window is a multiple of 64 from 64 to 32768 packets",
            Self::StreamExists => "the stream exists",
            Self::UnknownSsrc => "no stream has this SSRC and there is no template key",
            Self::TooManyStreams => "the cap on streams is reached",
            Self::Backwards => "rollover counters and indices never go back",
            Self::IndexTooLarge => "an SRTCP index is below 2^31, an SRTP index below 2^48",
            Self::UnsupportedBackend => "this CPU cannot run the backend asked for",
        })
    }
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "the packet is shorter than its header",
            Self::TooLong => "the protected packet would be longer than 65535 bytes",
            Self::BadVersion => "the version is not 2",
            Self::BadHeader => "the header does not fit the packet",
            Self::BufferTooSmall => "the destination has no room for the protected packet",
            Self::UnknownSsrc => "no stream has this SSRC and there is no template key",
            Self::TooManyStreams => "the cap on streams is reached",
            Self::IndexUsed => "this index has been protected before",
            Self::TooOld => "the index lies before the window",
            Self::NotTheSame => "no such packet was protected under this index before",
            Self::KeyExpired => "the key has protected as many packets as it may",
            Self::UnknownContext => "the batch names a context that is not there",
        })
    }
}

impl fmt::Display for UnprotectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "the packet is shorter than header, tag and MKI",
            Self::TooLong => "the packet is longer than 65535 bytes",
            Self::BadVersion => "the version is not 2",
            Self::BadHeader => "the header does not fit the packet",
            Self::UnknownSsrc => "no stream has this SSRC and there is no template key",
            Self::UnknownMki => "no key has the MKI of the packet",
            Self::TooManyStreams => "the cap on streams is reached",
            Self::NotEncrypted => "the SRTCP packet is not encrypted",
            Self::Replayed => "the packet was accepted before",
            Self::TooOld => "the packet lies before the replay window",
            Self::AuthFailed => "the authentication tag is wrong",
            Self::KeyExpired => "the key has accepted as many packets as it may",
            Self::UnknownContext => "the batch names a context that is not there",
        })
    }
}

impl std::error::Error for SetupError {}
impl std::error::Error for ProtectError {}
impl std::error::Error for UnprotectError {}
