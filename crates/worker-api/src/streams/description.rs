//! What is published as a stream, as bytes: the directory of a cluster carries it to other nodes, which
//! answer WHEP by it before they have fetched the stream.
//!
//! ```text
//! description   version:1 = 1, then
//!               0                                 frames, of which too little is known
//!               1 why? tracks                     frames, which make these packets; what is missing, why
//!               2 why                             frames, which make none
//!               3 tracks                          packets
//! tracks        formats:1 (format)* tracks:1 (track)*
//! format        payload_type:1 codec:1 clock_rate:4 channels:1 rtx_payload_type:1 (255: none) feedback:1 fmtp
//! track         kind:1 (0 audio, 1 video) allow_mixed:1 mid formats:1 (index:1)* extensions:1 (id:1 extension:1)*
//!               sources:1 (has_rtx:1 ssrc:4 rtx_ssrc:4)* rids:1 (rid)*
//! why?          0 | why
//! why           1 bridges to packets are off | 2 bridges to frames are off | 3 a bug | 4 refusal? refusal?
//! refusal?      0 | kind:1, and a codec for kinds 1, 2, 4 and 5
//! codec         number:1 (`Codec::number`), four characters if it is 0
//! fmtp mid rid  length:2 UTF-8
//! ```
//! Numbers are big-endian. Formats are in a table because the tracks of a publisher share them: a hundred
//! tracks fit. A description is taken as a whole or not at all, and what is taken could have been negotiated:
//! it is put into answers to players.

use std::fmt;

use bridge::{Refused, TrackRefusal, b_frames};
use media::{Codec, FourCc, MediaKind};
use rtc::sdp::{FORMATS_MAX, Feedback, Format, MEDIA_MAX, RIDS_MAX, SOURCES_MAX, Source, TrackDescription};
use rtp::extension::{Extension, ExtensionMap};

use super::{NotBridged, Published, PublishedTracks, WebrtcAvailability};

/// Version of the bytes.
const VERSION: u8 = 1;
/// The longest description.
pub const DESCRIPTION_BYTES_MAX: usize = 8 * 1024;
/// Formats of all tracks together.
const FORMATS_OF_ALL_MAX: usize = u8::MAX as usize;
/// Codecs that are named.
const CODECS_MAX: usize = 16;
/// In the place of a payload type: none.
const NO_PAYLOAD_TYPE: u8 = u8::MAX;
/// Why transcoding was refused is text, and does not travel.
const TRANSCODER: &str = "the audio cannot be transcoded";

/// Why bytes are no description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptionError {
    /// Longer than [`DESCRIPTION_BYTES_MAX`].
    TooLong,
    /// Of this version, which is another.
    Version(u8),
    /// They end too early or too late.
    Length,
    /// They say what no node says.
    Contents,
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("a description of tracks is too long"),
            Self::Version(version) => write!(f, "a description of tracks has version {version}"),
            Self::Length => f.write_str("a description of tracks is cut, or goes on behind its end"),
            Self::Contents => f.write_str("a description of tracks makes no sense"),
        }
    }
}

impl std::error::Error for DescriptionError {}

impl Published {
    /// As bytes, at most [`DESCRIPTION_BYTES_MAX`]. `None` if it needs more, or there is nothing to describe.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = Writer(vec![VERSION]);
        match self {
            Self::Nobody => return None,
            Self::Frames(WebrtcAvailability::Unknown) => out.0.push(0),
            Self::Frames(WebrtcAvailability::Tracks(tracks, why)) => {
                out.0.push(1);
                out.why(*why);
                out.tracks(tracks)?;
            }
            Self::Frames(WebrtcAvailability::Impossible(why)) => {
                out.0.push(2);
                out.why(Some(*why));
            }
            Self::Packets(tracks) => {
                out.0.push(3);
                out.tracks(tracks)?;
            }
        }
        (out.0.len() <= DESCRIPTION_BYTES_MAX).then_some(out.0)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has made; never [`Published::Nobody`].
    ///
    /// # Errors
    /// The bytes are no description.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DescriptionError> {
        if bytes.len() > DESCRIPTION_BYTES_MAX {
            return Err(DescriptionError::TooLong);
        }
        let mut read = Reader(bytes);
        match read.u8()? {
            VERSION => {}
            version => return Err(DescriptionError::Version(version)),
        }
        let published = match read.u8()? {
            0 => Self::Frames(WebrtcAvailability::Unknown),
            1 => {
                let why = read.why()?;
                Self::Frames(WebrtcAvailability::Tracks(read.tracks()?, why))
            }
            2 => Self::Frames(WebrtcAvailability::Impossible(read.why()?.ok_or(DescriptionError::Contents)?)),
            3 => Self::Packets(read.tracks()?),
            _ => return Err(DescriptionError::Contents),
        };
        if read.0.is_empty() { Ok(published) } else { Err(DescriptionError::Length) }
    }

    /// Names of the codecs, for people; of frames those that WebRTC gets. At most 16.
    pub fn codecs(&self) -> Vec<String> {
        let (Self::Packets(tracks) | Self::Frames(WebrtcAvailability::Tracks(tracks, _))) = self else {
            return Vec::new();
        };
        let mut codecs = Vec::new();
        for codec in tracks.iter().flat_map(|track| &track.formats).map(|format| format.codec.to_string()) {
            if !codecs.contains(&codec) && codecs.len() < CODECS_MAX {
                codecs.push(codec);
            }
        }
        codecs
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn tracks(&mut self, tracks: &[TrackDescription]) -> Option<()> {
        let mut formats: Vec<&Format> = Vec::new();
        for format in tracks.iter().flat_map(|track| &track.formats) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        self.count(formats.len(), FORMATS_OF_ALL_MAX)?;
        for format in &formats {
            let Format { payload_type, codec, clock_rate, channels, fmtp, rtx_payload_type, feedback } =
                format;
            self.0.push(*payload_type);
            self.codec(*codec);
            self.0.extend(clock_rate.to_be_bytes());
            self.0.extend([*channels, rtx_payload_type.unwrap_or(NO_PAYLOAD_TYPE), feedback_bits(*feedback)]);
            self.text(fmtp)?;
        }
        self.count(tracks.len(), MEDIA_MAX)?;
        for track in tracks {
            let kind = match track.kind {
                MediaKind::Audio => 0,
                MediaKind::Video => 1,
                MediaKind::Data => return None,
            };
            self.0.extend([kind, u8::from(track.extmap_allow_mixed)]);
            self.text(&track.mid)?;
            self.count(track.formats.len(), FORMATS_MAX)?;
            for format in &track.formats {
                let at = formats.iter().position(|other| *other == format)?;
                self.0.push(u8::try_from(at).ok()?);
            }
            self.count(track.extensions.iter().count(), Extension::ALL.len())?;
            for (id, extension) in track.extensions.iter() {
                self.0.extend([id, number_of_extension(extension)]);
            }
            self.count(track.sources.len(), SOURCES_MAX)?;
            for Source { ssrc, rtx_ssrc } in &track.sources {
                self.0.push(u8::from(rtx_ssrc.is_some()));
                self.0.extend(ssrc.to_be_bytes());
                self.0.extend(rtx_ssrc.unwrap_or_default().to_be_bytes());
            }
            self.count(track.rids.len(), RIDS_MAX)?;
            for rid in &track.rids {
                self.text(rid)?;
            }
        }
        Some(())
    }

    fn why(&mut self, why: Option<NotBridged>) {
        match why {
            None => self.0.push(0),
            Some(NotBridged::ToPacketsOff) => self.0.push(1),
            Some(NotBridged::ToFramesOff) => self.0.push(2),
            Some(NotBridged::Bug) => self.0.push(3),
            Some(NotBridged::Refused(Refused { video, audio })) => {
                self.0.push(4);
                self.refusal(video);
                self.refusal(audio);
            }
        }
    }

    fn refusal(&mut self, refusal: Option<TrackRefusal>) {
        let (kind, codec) = match refusal {
            None => (0, None),
            Some(TrackRefusal::NoCodec(codec)) => (1, Some(codec)),
            Some(TrackRefusal::NotTranscoded(codec)) => (2, Some(codec)),
            Some(TrackRefusal::OpusChannels) => (3, None),
            Some(TrackRefusal::HeaderTooLong(codec)) => (4, Some(codec)),
            Some(TrackRefusal::HeaderBroken(codec)) => (5, Some(codec)),
            Some(TrackRefusal::Pictures(b_frames::Refusal::BFrames)) => (6, None),
            Some(TrackRefusal::Pictures(b_frames::Refusal::ReferencedBFrames)) => (7, None),
            Some(TrackRefusal::Pictures(b_frames::Refusal::NoIdr)) => (8, None),
            Some(TrackRefusal::Pictures(b_frames::Refusal::PictureOrder)) => (9, None),
            Some(TrackRefusal::Transcoder(_)) => (10, None),
        };
        self.0.push(kind);
        if let Some(codec) = codec {
            self.codec(codec);
        }
    }

    fn codec(&mut self, codec: Codec) {
        self.0.push(codec.number());
        if let Codec::Unknown(FourCc(name)) = codec {
            self.0.extend(name);
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.0.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
        self.0.extend(text.as_bytes());
        Some(())
    }

    fn count(&mut self, count: usize, max: usize) -> Option<()> {
        self.0.push(u8::try_from(count).ok().filter(|_| count <= max)?);
        Some(())
    }
}

/// Number of a header extension, which must stay what the library's own may not.
fn number_of_extension(extension: Extension) -> u8 {
    match extension {
        Extension::Mid => 0,
        Extension::Rid => 1,
        Extension::RepairedRid => 2,
        Extension::AudioLevel => 3,
        Extension::AbsSendTime => 4,
        Extension::TransportCc => 5,
        Extension::VideoOrientation => 6,
        Extension::DependencyDescriptor => 7,
        Extension::PlayoutDelay => 8,
        Extension::AbsCaptureTime => 9,
    }
}

fn feedback_bits(feedback: Feedback) -> u8 {
    // Congestion control feedback is of viewers only.
    let Feedback { nack, pli, fir, transport_cc, remb, ccfb: _ } = feedback;
    let bits = [nack, pli, fir, transport_cc, remb];
    bits.into_iter().enumerate().fold(0, |bits, (at, is_set)| bits | u8::from(is_set) << at)
}

/// What has not been read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn tracks(&mut self) -> Result<PublishedTracks, DescriptionError> {
        let formats = self.list(FORMATS_OF_ALL_MAX, Self::format)?;
        let tracks = self.list(MEDIA_MAX, |read| read.track(&formats))?;
        Ok(tracks.into())
    }

    fn format(&mut self) -> Result<Format, DescriptionError> {
        let payload_type = self.u8()?;
        let codec = self.codec()?;
        let (clock_rate, channels) = (self.u32()?, self.u8()?);
        let rtx_payload_type = Some(self.u8()?).filter(|number| *number != NO_PAYLOAD_TYPE);
        let bits = self.u8()?;
        let fmtp = self.text()?;
        let payload_types = [payload_type, rtx_payload_type.unwrap_or_default()];
        if payload_types.into_iter().any(|number| number > 127)
            || !rtp::payload::CODECS.contains(&codec)
            || clock_rate == 0
            || bits >= 1 << 5
        {
            return Err(DescriptionError::Contents);
        }
        let [nack, pli, fir, transport_cc, remb] = std::array::from_fn(|at| bits & 1 << at != 0);
        let feedback = Feedback { nack, pli, fir, transport_cc, remb, ccfb: false };
        Ok(Format { payload_type, codec, clock_rate, channels, fmtp, rtx_payload_type, feedback })
    }

    fn track(&mut self, formats: &[Format]) -> Result<TrackDescription, DescriptionError> {
        let kind = if self.flag()? { MediaKind::Video } else { MediaKind::Audio };
        let extmap_allow_mixed = self.flag()?;
        let mid = self.text()?;
        let formats = self.list(FORMATS_MAX, |read| {
            let format = formats.get(usize::from(read.u8()?)).ok_or(DescriptionError::Contents)?;
            if format.codec.kind() == kind { Ok(format.clone()) } else { Err(DescriptionError::Contents) }
        })?;
        let extensions = self.list(Extension::ALL.len(), |read| {
            let (id, number) = (read.u8()?, read.u8()?);
            let extension = Extension::ALL.into_iter().find(|one| number_of_extension(*one) == number);
            Ok((id, extension.ok_or(DescriptionError::Contents)?))
        })?;
        let sources = self.list(SOURCES_MAX, |read| {
            let (has_rtx, ssrc, rtx_ssrc) = (read.flag()?, read.u32()?, read.u32()?);
            Ok(Source { ssrc, rtx_ssrc: has_rtx.then_some(rtx_ssrc) })
        })?;
        let rids = self.list(RIDS_MAX, Self::text)?;
        let map: ExtensionMap = extensions.iter().copied().collect();
        // No format, or an id or extension twice.
        if formats.is_empty() || map.iter().count() != extensions.len() {
            return Err(DescriptionError::Contents);
        }
        let extensions = map;
        Ok(TrackDescription {
            mid,
            kind,
            formats,
            extensions,
            sources,
            extmap_allow_mixed,
            rids,
            red: None,
            fec: None,
        })
    }

    fn why(&mut self) -> Result<Option<NotBridged>, DescriptionError> {
        Ok(Some(match self.u8()? {
            0 => return Ok(None),
            1 => NotBridged::ToPacketsOff,
            2 => NotBridged::ToFramesOff,
            3 => NotBridged::Bug,
            4 => NotBridged::Refused(Refused { video: self.refusal()?, audio: self.refusal()? }),
            _ => return Err(DescriptionError::Contents),
        }))
    }

    fn refusal(&mut self) -> Result<Option<TrackRefusal>, DescriptionError> {
        Ok(Some(match self.u8()? {
            0 => return Ok(None),
            1 => TrackRefusal::NoCodec(self.codec()?),
            2 => TrackRefusal::NotTranscoded(self.codec()?),
            3 => TrackRefusal::OpusChannels,
            4 => TrackRefusal::HeaderTooLong(self.codec()?),
            5 => TrackRefusal::HeaderBroken(self.codec()?),
            6 => TrackRefusal::Pictures(b_frames::Refusal::BFrames),
            7 => TrackRefusal::Pictures(b_frames::Refusal::ReferencedBFrames),
            8 => TrackRefusal::Pictures(b_frames::Refusal::NoIdr),
            9 => TrackRefusal::Pictures(b_frames::Refusal::PictureOrder),
            10 => TrackRefusal::Transcoder(TRANSCODER),
            _ => return Err(DescriptionError::Contents),
        }))
    }

    fn codec(&mut self) -> Result<Codec, DescriptionError> {
        match self.u8()? {
            0 => Ok(Codec::Unknown(FourCc(self.number()?))),
            number => Codec::from_number(number).ok_or(DescriptionError::Contents),
        }
    }

    fn list<T>(
        &mut self,
        max: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, DescriptionError>,
    ) -> Result<Vec<T>, DescriptionError> {
        let count = usize::from(self.u8()?);
        if count > max {
            return Err(DescriptionError::Contents);
        }
        (0..count).map(|_| one(self)).collect()
    }

    fn text(&mut self) -> Result<String, DescriptionError> {
        let len = usize::from(u16::from_be_bytes(self.number()?));
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| DescriptionError::Contents)?;
        // It becomes a part of a line in an answer.
        if text.chars().any(char::is_control) {
            return Err(DescriptionError::Contents);
        }
        Ok(text.to_owned())
    }

    fn flag(&mut self) -> Result<bool, DescriptionError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DescriptionError::Contents),
        }
    }

    fn u8(&mut self) -> Result<u8, DescriptionError> {
        Ok(self.number::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, DescriptionError> {
        self.number().map(u32::from_be_bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], DescriptionError> {
        self.take(N)?.try_into().map_err(|_| DescriptionError::Length)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], DescriptionError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DescriptionError::Length)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(payload_type: u8, codec: Codec, fmtp: &str) -> Format {
        Format {
            payload_type,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            channels: 2,
            fmtp: fmtp.to_owned(),
            rtx_payload_type: Some(payload_type + 1),
            feedback: Feedback {
                nack: true,
                pli: false,
                fir: true,
                transport_cc: false,
                remb: true,
                ccfb: false,
            },
        }
    }

    /// A track as Chromium offers one for video, with three layers.
    fn video(mid: &str) -> TrackDescription {
        let fmtp = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f";
        TrackDescription {
            mid: mid.to_owned(),
            kind: MediaKind::Video,
            formats: vec![format(96, Codec::Vp8, ""), format(98, Codec::H264, fmtp)],
            extensions: [(4, Extension::Mid), (15, Extension::AbsCaptureTime)].into_iter().collect(),
            sources: vec![Source { ssrc: 7, rtx_ssrc: Some(u32::MAX) }, Source { ssrc: 8, rtx_ssrc: None }],
            extmap_allow_mixed: true,
            rids: ["h", "m", "l"].map(str::to_owned).to_vec(),
            red: None,
            fec: None,
        }
    }

    fn audio() -> TrackDescription {
        TrackDescription {
            mid: String::new(),
            kind: MediaKind::Audio,
            formats: vec![Format { rtx_payload_type: None, ..format(111, Codec::Opus, "useinbandfec=1") }],
            extensions: ExtensionMap::default(),
            sources: Vec::new(),
            extmap_allow_mixed: false,
            rids: Vec::new(),
            red: None,
            fec: None,
        }
    }

    /// One of each kind.
    fn all() -> Vec<Published> {
        let refused = |video, audio| NotBridged::Refused(Refused { video, audio });
        let refusals = [
            TrackRefusal::OpusChannels,
            TrackRefusal::Pictures(b_frames::Refusal::BFrames),
            TrackRefusal::Pictures(b_frames::Refusal::ReferencedBFrames),
            TrackRefusal::Pictures(b_frames::Refusal::NoIdr),
            TrackRefusal::Pictures(b_frames::Refusal::PictureOrder),
            TrackRefusal::Transcoder(TRANSCODER),
            TrackRefusal::NoCodec(Codec::Unknown(FourCc(*b"apv1"))),
        ];
        let of_codecs = Codec::NUMBERED.into_iter().flat_map(|codec| {
            [
                TrackRefusal::NoCodec(codec),
                TrackRefusal::NotTranscoded(codec),
                TrackRefusal::HeaderTooLong(codec),
                TrackRefusal::HeaderBroken(codec),
            ]
        });
        let whys = [NotBridged::ToPacketsOff, NotBridged::ToFramesOff, NotBridged::Bug];
        let refused = refusals.into_iter().chain(of_codecs).map(|refusal| refused(None, Some(refusal)));
        let whys = whys.into_iter().chain(refused).map(WebrtcAvailability::Impossible);
        let tracks: PublishedTracks = [audio(), video("0"), video("1")].into();
        let both = NotBridged::Refused(Refused {
            video: Some(TrackRefusal::NoCodec(Codec::Aac)),
            audio: Some(TrackRefusal::OpusChannels),
        });
        let frames = [
            WebrtcAvailability::Unknown,
            WebrtcAvailability::Tracks(tracks.clone(), None),
            WebrtcAvailability::Tracks([audio()].into(), Some(both)),
        ];
        let packets = [Published::Packets(tracks), Published::Packets([].into())];
        packets.into_iter().chain(frames.into_iter().chain(whys).map(Published::Frames)).collect()
    }

    #[test]
    fn what_is_written_is_read_and_nothing_shorter_or_longer() {
        for published in all() {
            let bytes = published.to_bytes().expect("it is small");
            assert_eq!(Published::from_bytes(&bytes).as_ref(), Ok(&published));
            for len in 0..bytes.len() {
                let read = Published::from_bytes(&bytes[..len]);
                assert_eq!(read, Err(DescriptionError::Length), "{published:?} of {len} bytes");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Published::from_bytes(&longer), Err(DescriptionError::Length));
        }
        assert_eq!(Published::Nobody.to_bytes(), None);
    }

    #[test]
    fn every_codec_and_extension_has_a_number_of_its_own() {
        assert!(Codec::NUMBERED.map(Codec::number).into_iter().eq(1..=15));
        let mut numbers = Extension::ALL.map(number_of_extension);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..Extension::ALL.len() as u8));
    }

    #[test]
    fn a_hundred_tracks_of_the_same_formats_fit_and_what_does_not_is_no_description() {
        let of = |count: usize, fmtp: &dyn Fn(usize) -> String| {
            let track = |at: usize| TrackDescription {
                formats: vec![format(96, Codec::H264, &fmtp(at))],
                rids: Vec::new(),
                ..video("0")
            };
            Published::Packets((0..count).map(track).collect())
        };
        let long = "x".repeat(100);
        let same = of(100, &|_| long.clone());
        let bytes = same.to_bytes().expect("it fits");
        assert!(bytes.len() < DESCRIPTION_BYTES_MAX / 2, "{}", bytes.len());
        assert_eq!(Published::from_bytes(&bytes), Ok(same));
        assert_eq!(of(100, &|at| format!("{long}{at}")).to_bytes(), None, "too many bytes");
        assert_eq!(of(MEDIA_MAX + 1, &|_| String::new()).to_bytes(), None, "too many tracks");
        assert_eq!(
            Published::from_bytes(&vec![VERSION; DESCRIPTION_BYTES_MAX + 1]),
            Err(DescriptionError::TooLong)
        );
    }

    #[test]
    fn what_no_publisher_negotiates_is_refused() {
        let bytes = Published::Packets([audio()].into()).to_bytes().expect("it is small");
        // version, packets, one format: 96 codec clock:4 channels rtx feedback fmtp, one track: kind mixed
        // mid ..
        let fmtp = 12 + 2;
        let track = fmtp + "useinbandfec=1".len() + 1;
        for (at, to, remark) in [
            (1, &[4][..], "no lane"),
            (3, &[128], "a payload type beyond 127"),
            (4, &[6], "a codec that RTP does not carry"),
            (4, &[1], "video in a track of audio"),
            (4, &[200], "no codec"),
            (5, &[0; 4], "a clock that stands still"),
            (11, &[0x20], "feedback of an unknown kind"),
            (fmtp, b"\n", "a line end in a line"),
            (track, &[2], "neither audio nor video"),
            (track + 1, &[2], "neither yes nor no"),
            (track + 4, &[0], "a track without a format"),
            (track + 5, &[1], "a format that is not in the table"),
        ] {
            let mut changed = bytes.clone();
            changed[at..][..to.len()].copy_from_slice(to);
            let read = Published::from_bytes(&changed);
            let refused = matches!(read, Err(DescriptionError::Contents | DescriptionError::Length));
            assert!(refused, "{remark}: {read:?}");
        }
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Published::from_bytes(&other), Err(DescriptionError::Version(2)));
    }

    #[test]
    fn changed_bytes_never_panic_and_what_is_read_is_written_alike() {
        let mut state = 1_u64;
        let bytes: Vec<_> = all().iter().map(|published| published.to_bytes().expect("small")).collect();
        for round in 0..200_000_usize {
            let mut bytes = bytes[round % bytes.len()].clone();
            for _ in 0..=round % 3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 56) as u8;
            }
            if let Ok(published) = Published::from_bytes(&bytes) {
                // Formats that no track has are left out.
                let again = published.to_bytes().expect("no longer than it was");
                assert_eq!(Published::from_bytes(&again), Ok(published));
            }
        }
    }

    #[test]
    fn codecs_are_named_once_each() {
        let published = Published::Packets([audio(), video("0"), video("1")].into());
        assert_eq!(published.codecs(), ["Opus", "VP8", "H.264"]);
        assert_eq!(Published::Frames(WebrtcAvailability::Unknown).codecs(), [""; 0]);
    }
}
