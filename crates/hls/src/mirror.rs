//! Live streams for servers that know nothing of HLS, such as a bucket: complete segments as files,
//! and playlists that are rewritten as segments come.
//!
//! Such a server holds no request back, so there are no parts, hints, reports or delta updates.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use media::{Timestamp, TrackId};

use crate::Object;
use crate::text::{Date, Seconds, TextWriter};
use crate::window::{Init, Rendition, Segment, Window};

/// A segment that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteSegment {
    /// Its media sequence number.
    pub msn: u64,
    /// Number of the init segment that it needs; `None` if nothing is in it.
    pub init: Option<u64>,
    /// How long it is.
    pub duration: Timestamp,
    /// Wall clock of its begin, since 1970.
    pub wall_clock: Duration,
    /// Discontinuities up to and with this segment.
    pub discontinuity_sequence: u64,
    /// Whether it is not continuous with the one before.
    pub is_discontinuity: bool,
    /// What it consists of, one behind the other. Nothing: it is a gap, or not in memory any more.
    pub content: Vec<Bytes>,
}

/// A line of a playlist of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSegment {
    /// The segment, without its bytes.
    pub segment: CompleteSegment,
    /// What leads to its objects: a path with a slash at its end, or nothing.
    pub prefix: Arc<str>,
    /// Whether there is no such file: players go on with the next.
    pub is_gap: bool,
}

impl Window {
    /// Renditions that there are, video first.
    pub fn renditions(&self) -> impl Iterator<Item = TrackId> {
        self.renditions.iter().map(|rendition| rendition.id)
    }

    /// Segments of a rendition that are over, from a media sequence number on.
    pub fn complete_from(&self, id: TrackId, msn: u64) -> impl Iterator<Item = CompleteSegment> {
        let segments = self.rendition(id).into_iter().flat_map(|rendition| rendition.segments.iter().rev());
        let newest: Vec<_> = segments.take_while(|segment| segment.msn >= msn).collect();
        newest.into_iter().rev().filter_map(CompleteSegment::of)
    }

    /// An init segment of a rendition.
    pub fn init(&self, id: TrackId, number: u64) -> Option<Bytes> {
        let init = |rendition: &Rendition| rendition.inits.iter().find(|init| init.number == number).cloned();
        self.rendition(id).and_then(init).map(|Init { bytes, .. }| bytes)
    }

    /// The multivariant playlist, whose other playlists are beside it, and which those are; `None` while
    /// there is nothing to play.
    pub fn multivariant(&self) -> Option<(Bytes, Vec<TrackId>)> {
        let text = self.multivariant_playlist("")?;
        let active = self.renditions.iter().filter(|rendition| rendition.is_active());
        Some((text.with_suffix(""), active.map(|rendition| rendition.id).collect()))
    }

    /// Whether the publication is over.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }
}

impl CompleteSegment {
    fn of(segment: &Segment) -> Option<Self> {
        Some(Self {
            msn: segment.msn,
            init: segment.init,
            duration: segment.duration?,
            wall_clock: segment.wall_clock,
            discontinuity_sequence: segment.discontinuity_sequence,
            is_discontinuity: segment.is_discontinuity,
            content: segment.parts.iter().map(|part| part.bytes.clone()).collect(),
        })
    }
}

/// The media playlist of a rendition as a file. `segments` follow each other without a hole and are not none.
pub fn file_playlist<'a>(
    id: TrackId,
    target_seconds: u32,
    segments: impl IntoIterator<Item = &'a ListedSegment>,
    is_ended: bool,
) -> Bytes {
    let mut out = TextWriter::default();
    let mut map = None;
    for (index, ListedSegment { segment, prefix, is_gap }) in segments.into_iter().enumerate() {
        if index == 0 {
            // The number counts tags that are gone: that of the first segment is still there.
            let gone = segment.discontinuity_sequence - u64::from(segment.is_discontinuity);
            out.put(format_args!(
                "#EXTM3U\n#EXT-X-VERSION:8\n#EXT-X-TARGETDURATION:{target_seconds}\n\
                 #EXT-X-MEDIA-SEQUENCE:{}\n#EXT-X-DISCONTINUITY-SEQUENCE:{gone}\n",
                segment.msn,
            ));
        }
        if segment.is_discontinuity {
            out.put(format_args!("#EXT-X-DISCONTINUITY\n"));
        }
        if let Some(number) = segment.init.filter(|number| map != Some(*number)) {
            map = Some(number);
            out.put(format_args!("#EXT-X-MAP:URI=\""));
            out.uri(prefix, Object::Init(id, number));
            out.put(format_args!("\"\n"));
        }
        out.put(format_args!("#EXT-X-PROGRAM-DATE-TIME:{}\n", Date(segment.wall_clock)));
        if *is_gap {
            out.put(format_args!("#EXT-X-GAP\n"));
        }
        out.put(format_args!("#EXTINF:{},\n", Seconds(segment.duration)));
        out.uri(prefix, Object::Segment(id, segment.msn));
        out.put(format_args!("\n"));
    }
    if is_ended {
        out.put(format_args!("#EXT-X-ENDLIST\n"));
    }
    out.finish().with_suffix("")
}
