//! What a stream has, as it is described in the directory, so that a node can answer WHEP for a stream that
//! it has not fetched yet.
//!
//! ```text
//! 1 | what is known: 0 nothing yet, 1 tracks, 2 bridges are off, 3 a bug | count:1 track*
//! track    mid | kind:1 | count:1 format* | count:1 (id:1 extension:1)* | count:1 source*
//!          | flags:1 | count:1 rid*
//! format   payload type:1 | codec:1 | clock:4 | channels:1 | fmtp | rtx:1 | feedback:1
//! source   ssrc:4 | has rtx:1 | rtx:4
//! ```
//! Texts have a length of one byte (fmtp: two). The first byte is a version; a description of another one is
//! one of which nothing is known.

use std::sync::Arc;

use cluster::{Description, Lane};
use rtc::sdp::{Feedback, Format, Source, TrackDescription};
use rtp::extension::{Extension, ExtensionMap};
use rtp::payload::{CODECS, MediaKind, encoding_name};
use worker_api::streams::{NotBridged, Published, PublishedTracks, WebrtcAvailability};

const VERSION: u8 = 1;

/// Describes a publication of this node. Tracks that do not fit the directory are left out: players by
/// WebRTC on other nodes are answered once those have fetched the stream.
pub(crate) fn describe(published: &Published) -> Description {
    let (lane, known, tracks) = match published {
        Published::Packets(tracks) => (Lane::Packets, TRACKS, Some(tracks)),
        Published::Frames(WebrtcAvailability::Tracks(tracks, _)) => (Lane::Frames, TRACKS, Some(tracks)),
        Published::Frames(WebrtcAvailability::Impossible(why)) => {
            let known = match why {
                NotBridged::ToPacketsOff | NotBridged::ToFramesOff => BRIDGES_OFF,
                NotBridged::Bug => BUG,
                // The node that fetches the stream finds the reason itself.
                NotBridged::Refused(_) => NOTHING,
            };
            (Lane::Frames, known, None)
        }
        Published::Frames(WebrtcAvailability::Unknown) | Published::Nobody => (Lane::Frames, NOTHING, None),
    };
    let tracks = tracks.map_or(&[][..], |tracks| tracks);
    let mut codecs: Vec<String> = Vec::new();
    for track in tracks {
        let name = track.formats.first().map_or("", |format| encoding_name(format.codec)).to_owned();
        if !name.is_empty() && !codecs.contains(&name) && codecs.len() < cluster::CODECS_MAX {
            codecs.push(name);
        }
    }
    let mut out = vec![VERSION, known];
    if known == TRACKS && put_tracks(&mut out, tracks).is_none() {
        out = vec![VERSION, NOTHING];
    }
    Description { lane, codecs, tracks: out }
}

/// Tracks of packets, as a link says them; `None` if they are larger than it takes.
pub(crate) fn tracks(tracks: &PublishedTracks) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_tracks(&mut out, tracks)?;
    Some(out)
}

/// Tracks of packets as a link said them; `None` if they make no sense.
pub(crate) fn read_tracks(bytes: &[u8]) -> Option<PublishedTracks> {
    let mut read = Reader(bytes);
    let tracks = read.tracks()?;
    read.0.is_empty().then_some(tracks)
}

/// What a description of another node says.
pub(crate) fn published(description: &Description) -> Published {
    let tracks = read(&description.tracks);
    match description.lane {
        Lane::Packets => Published::Packets(match tracks {
            Some(WebrtcAvailability::Tracks(tracks, _)) => tracks,
            _ => PublishedTracks::from([]),
        }),
        Lane::Frames => Published::Frames(tracks.unwrap_or_default()),
    }
}

const NOTHING: u8 = 0;
const TRACKS: u8 = 1;
const BRIDGES_OFF: u8 = 2;
const BUG: u8 = 3;

/// `None` if they are larger than the directory takes.
fn put_tracks(out: &mut Vec<u8>, tracks: &[TrackDescription]) -> Option<()> {
    out.push(u8::try_from(tracks.len()).ok()?);
    for track in tracks {
        put_text(out, &track.mid)?;
        out.push(u8::from(track.kind == MediaKind::Video));
        out.push(u8::try_from(track.formats.len()).ok()?);
        for format in &track.formats {
            let codec = CODECS.iter().position(|codec| *codec == format.codec)?;
            out.extend([format.payload_type, codec as u8]);
            out.extend(format.clock_rate.to_be_bytes());
            out.push(format.channels);
            out.extend(u16::try_from(format.fmtp.len()).ok()?.to_be_bytes());
            out.extend(format.fmtp.as_bytes());
            out.push(format.rtx_payload_type.unwrap_or(NO_RTX));
            let Feedback { nack, pli, fir, transport_cc, remb } = format.feedback;
            out.push(bits([nack, pli, fir, transport_cc, remb]));
        }
        out.push(u8::try_from(track.extensions.iter().count()).ok()?);
        out.extend(track.extensions.iter().flat_map(|(id, extension)| [id, extension as u8]));
        out.push(u8::try_from(track.sources.len()).ok()?);
        for Source { ssrc, rtx_ssrc } in &track.sources {
            out.extend(ssrc.to_be_bytes());
            out.push(u8::from(rtx_ssrc.is_some()));
            out.extend(rtx_ssrc.unwrap_or_default().to_be_bytes());
        }
        out.push(bits([track.extmap_allow_mixed, false, false, false, false]));
        out.push(u8::try_from(track.rids.len()).ok()?);
        for rid in &track.rids {
            put_text(out, rid)?;
        }
    }
    (out.len() <= cluster::TRACKS_BYTES_MAX).then_some(())
}

/// No payload type has the high bit.
const NO_RTX: u8 = 0xff;

fn bits(flags: [bool; 5]) -> u8 {
    flags.into_iter().zip(0..).map(|(flag, bit)| u8::from(flag) << bit).sum()
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.push(u8::try_from(text.len()).ok()?);
    out.extend(text.as_bytes());
    Some(())
}

/// `None` if it makes no sense, or to a later version.
fn read(bytes: &[u8]) -> Option<WebrtcAvailability> {
    let mut read = Reader(bytes);
    if read.byte()? != VERSION {
        return None;
    }
    let availability = match read.byte()? {
        NOTHING => WebrtcAvailability::Unknown,
        TRACKS => WebrtcAvailability::Tracks(read.tracks()?, None),
        BRIDGES_OFF => WebrtcAvailability::Impossible(NotBridged::ToPacketsOff),
        BUG => WebrtcAvailability::Impossible(NotBridged::Bug),
        _ => return None,
    };
    read.0.is_empty().then_some(availability)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn text(&mut self, len: usize) -> Option<String> {
        std::str::from_utf8(self.take(len)?).ok().map(str::to_owned)
    }

    fn short_text(&mut self) -> Option<String> {
        let len = self.byte()?;
        self.text(len.into())
    }

    fn tracks(&mut self) -> Option<PublishedTracks> {
        let count = self.byte()?;
        (0..count).map(|_| self.track()).collect::<Option<Vec<_>>>().map(Arc::from)
    }

    fn track(&mut self) -> Option<TrackDescription> {
        let mid = self.short_text()?;
        let kind = match self.byte()? {
            0 => MediaKind::Audio,
            1 => MediaKind::Video,
            _ => return None,
        };
        // Nothing can be done with a track without one.
        let count = self.byte().filter(|formats| *formats > 0)?;
        let formats = (0..count).map(|_| self.format()).collect::<Option<Vec<_>>>()?;
        let count = self.byte()?;
        let mut extensions = ExtensionMap::new();
        for _ in 0..count {
            let (id, extension) = (self.byte()?, self.byte()?);
            let known = Extension::ALL.into_iter().find(|known| *known as u8 == extension)?;
            extensions.set(id, known).then_some(())?;
        }
        let count = self.byte()?;
        let sources = (0..count).map(|_| self.source()).collect::<Option<Vec<_>>>()?;
        let extmap_allow_mixed = self.byte()? & 1 != 0;
        let count = self.byte()?;
        let rids = (0..count).map(|_| self.short_text()).collect::<Option<Vec<_>>>()?;
        Some(TrackDescription { mid, kind, formats, extensions, sources, extmap_allow_mixed, rids })
    }

    fn format(&mut self) -> Option<Format> {
        let payload_type = self.byte().filter(|payload_type| *payload_type < 0x80)?;
        let codec = *CODECS.get(usize::from(self.byte()?))?;
        let (clock_rate, channels) = (self.number()?, self.byte()?);
        let len = u16::from_be_bytes(self.take(2)?.try_into().expect("two bytes"));
        let fmtp = self.text(len.into())?;
        let rtx_payload_type = Some(self.byte()?).filter(|payload_type| *payload_type != NO_RTX);
        let bits = self.byte()?;
        let [nack, pli, fir, transport_cc, remb] = [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 != 0);
        let feedback = Feedback { nack, pli, fir, transport_cc, remb };
        Some(Format { payload_type, codec, clock_rate, channels, fmtp, rtx_payload_type, feedback })
    }

    fn source(&mut self) -> Option<Source> {
        let (ssrc, has_rtx, rtx) = (self.number()?, self.byte()?, self.number()?);
        Some(Source { ssrc, rtx_ssrc: (has_rtx != 0).then_some(rtx) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracks() -> PublishedTracks {
        let feedback = Feedback { nack: true, pli: true, fir: false, transport_cc: false, remb: true };
        let video = TrackDescription {
            mid: "1".to_owned(),
            kind: MediaKind::Video,
            formats: vec![Format {
                payload_type: 96,
                codec: rtp::payload::Codec::H264,
                clock_rate: 90_000,
                channels: 1,
                fmtp: "profile-level-id=42e01f;packetization-mode=1".to_owned(),
                rtx_payload_type: Some(97),
                feedback,
            }],
            extensions: [(1, Extension::Mid), (3, Extension::AbsCaptureTime)].into_iter().collect(),
            sources: vec![
                Source { ssrc: 0xdead_beef, rtx_ssrc: Some(1) },
                Source { ssrc: 2, rtx_ssrc: None },
            ],
            extmap_allow_mixed: true,
            rids: vec!["h".to_owned(), "l".to_owned()],
        };
        let format = Format {
            payload_type: 111,
            codec: rtp::payload::Codec::Opus,
            clock_rate: 48_000,
            channels: 2,
            fmtp: String::new(),
            rtx_payload_type: None,
            feedback: Feedback::default(),
        };
        let audio = TrackDescription {
            mid: String::new(),
            kind: MediaKind::Audio,
            formats: vec![format],
            extensions: ExtensionMap::new(),
            sources: Vec::new(),
            extmap_allow_mixed: false,
            rids: Vec::new(),
        };
        Arc::from([video, audio])
    }

    #[test]
    fn another_node_reads_what_this_one_described() {
        for known in [
            Published::Packets(tracks()),
            Published::Frames(WebrtcAvailability::Tracks(tracks(), None)),
            Published::Frames(WebrtcAvailability::Unknown),
            Published::Frames(WebrtcAvailability::Impossible(NotBridged::ToPacketsOff)),
            Published::Frames(WebrtcAvailability::Impossible(NotBridged::Bug)),
        ] {
            let description = describe(&known);
            assert!(description.fits());
            assert_eq!(published(&description), known);
        }
        assert_eq!(describe(&Published::Packets(tracks())).codecs, ["H264", "opus"]);
        let on_a_link = super::tracks(&tracks()).expect("they fit");
        assert_eq!(read_tracks(&on_a_link), Some(tracks()));
        assert_eq!(read_tracks(&on_a_link[1..]), None);
    }

    #[test]
    fn nonsense_is_a_stream_of_which_nothing_is_known() {
        let good = describe(&Published::Frames(WebrtcAvailability::Tracks(tracks(), None)));
        for len in 0..good.tracks.len() {
            let cut = Description { tracks: good.tracks[..len].to_vec(), ..good.clone() };
            assert_eq!(published(&cut), Published::Frames(WebrtcAvailability::Unknown), "cut at {len}");
        }
        for at in 0..good.tracks.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = good.clone();
                changed.tracks[at] = value;
                // Whatever it is taken for, each track has a format.
                if let Published::Frames(WebrtcAvailability::Tracks(tracks, _)) = published(&changed) {
                    assert!(tracks.iter().all(|track| !track.formats.is_empty()));
                }
            }
        }
        let longer = Description { tracks: [good.tracks.clone(), vec![0]].concat(), ..good };
        assert_eq!(published(&longer), Published::Frames(WebrtcAvailability::Unknown));
    }

    #[test]
    fn tracks_that_do_not_fit_are_left_out() {
        let mut track = tracks()[0].clone();
        track.formats[0].fmtp = "x".repeat(9_000);
        let description = describe(&Published::Packets(Arc::from([track])));
        assert!(description.fits());
        assert_eq!(published(&description), Published::Packets(Arc::from([])));
    }
}
