//! Answers to requests: what there is, what to wait for, or why not.
//!
//! The server asks [`Window::respond`] and sends what it gives. A request that has to wait costs it a slot:
//! it asks again when the window has changed, until the time that the answer names is over.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use media::TrackId;

use crate::query::BadRequest;
use crate::text::{Date, Shared, Text};
use crate::window::{Rendition, SegmentId, Window};
use crate::{Object, Query};

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Send this.
    Respond(Body),
    /// Ask again when the window has changed; after so long in all, answer 503.
    Wait {
        /// Three target durations, as RFC 8216bis section 6.2.5.2 has it.
        timeout: Duration,
    },
    /// Read this segment from disk ([`Window::recall`]), and ask again when the window has changed.
    Recall(SegmentId),
    /// 404.
    NotFound,
    /// 400.
    Bad(BadRequest),
}

/// Bytes of an answer, and what its headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The bytes, one behind the other.
    pub bytes: Vec<Bytes>,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// `Content-Encoding: gzip`.
    pub is_gzip: bool,
    /// How long it may be kept.
    pub cache: Cache,
    /// Of a segment that still grows: the part to go on with ([`Window::growing`]). Such a body has no
    /// length yet.
    pub grows_from: Option<u32>,
}

/// How long caches may keep an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// For so many seconds.
    Seconds(u32),
    /// It never changes.
    Immutable,
    /// Not at all.
    Never,
}

impl fmt::Display for Cache {
    /// The value of `Cache-Control`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => write!(f, "max-age={seconds}"),
            Self::Immutable => f.write_str("max-age=86400, immutable"),
            Self::Never => f.write_str("no-store"),
        }
    }
}

/// What a client can take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accepts {
    /// `Accept-Encoding` has `gzip`.
    pub gzip: bool,
}

impl Window {
    /// The answer to a request for an object at `now` since 1970. Texts are written once, for all threads
    /// that share the window. `prefix` leads from the stream's own
    /// playlists to the other objects.
    pub fn respond(
        &self,
        object: Object,
        query: &Query,
        accepts: Accepts,
        prefix: &str,
        now: Duration,
    ) -> Answer {
        match object {
            Object::Multivariant => self.respond_multivariant(query, accepts, prefix),
            Object::Mpd => self.respond_mpd(query, accepts, prefix, now),
            Object::Time => {
                let bytes = vec![Bytes::from(Date(now).to_string())];
                Answer::Respond(Body { cache: Cache::Never, ..body(bytes, "text/plain") })
            }
            Object::Playlist(id) => self.respond_playlist(id, query, accepts),
            Object::Init(id, number) => {
                let init = self.rendition(id).and_then(|rendition| {
                    rendition.inits.iter().find(|init| init.number == number).map(|init| init.bytes.clone())
                });
                init.map_or(Answer::NotFound, |init| Answer::Respond(body(vec![init], mp4(id))))
            }
            Object::Segment(id, msn) => self.respond_segment(id, msn),
            Object::Part(id, msn, part) => self.respond_part(id, msn, part),
        }
    }

    /// The parts of a growing segment from one on, and whether it is complete with them. `None` if it is
    /// gone.
    pub fn growing(&self, id: TrackId, msn: u64, from: u32) -> Option<(Vec<Bytes>, bool)> {
        let segment = self.rendition(id)?.segment(msn)?;
        let parts = segment.parts.get(from as usize..).unwrap_or_default();
        Some((parts.iter().map(|part| part.bytes.clone()).collect(), segment.duration.is_some()))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(3 * u64::from(self.target_duration.unwrap_or(UNKNOWN_TARGET_SECONDS)))
    }

    fn wait(&self) -> Answer {
        Answer::Wait { timeout: self.timeout() }
    }

    /// A stream that has just begun has nothing to list for a moment.
    fn not_yet(&self) -> Answer {
        if self.is_ended { Answer::NotFound } else { self.wait() }
    }

    fn respond_multivariant(&self, query: &Query, accepts: Accepts, prefix: &str) -> Answer {
        let target = self.target_duration.unwrap_or(UNKNOWN_TARGET_SECONDS);
        let made = || self.multivariant_playlist(prefix);
        let Some(shared) = shared(&self.multivariant, prefix, made) else { return self.not_yet() };
        let with_query = (!query.others.is_empty()).then(|| shared.text.with_suffix(&query.others));
        let cache = Cache::Seconds((target / 2).max(1));
        Answer::Respond(Body { cache, ..text_body(&shared, with_query, accepts, M3U8) })
    }

    fn respond_mpd(&self, query: &Query, accepts: Accepts, prefix: &str, now: Duration) -> Answer {
        let made = || self.mpd(prefix, now).map(Text::opaque);
        let Some(shared) = shared(&self.description, prefix, made) else { return self.not_yet() };
        let with_query = (!query.others.is_empty()).then(|| mpd_with_query(&shared, &query.others));
        Answer::Respond(Body { cache: Cache::Seconds(1), ..text_body(&shared, with_query, accepts, MPD) })
    }

    fn respond_playlist(&self, id: TrackId, query: &Query, accepts: Accepts) -> Answer {
        let (Some(rendition), Some(target)) = (self.rendition(id), self.target_duration) else {
            // Only renditions that there are can be waited for: names are the client's choice.
            let is_beginning = self.renditions.is_empty() || self.target_duration.is_none();
            return if is_beginning { self.not_yet() } else { Answer::NotFound };
        };
        if let Some(msn) = query.msn
            && !self.is_ended
        {
            match rendition.reaches(msn, query.part) {
                Reach::TooFar => return Answer::Bad(BadRequest::TooFarAhead),
                Reach::NotYet => return self.wait(),
                Reach::Has => {}
            }
        }
        // One that has parts and no whole segment yet, because another rendition was there first: players
        // that know no parts find nothing in it, and ffmpeg 5.1 crashes.
        let is_whole = rendition.segments.iter().any(|segment| segment.duration.is_some());
        if query.msn.is_none() && !is_whole && !self.is_ended {
            return self.wait();
        }
        let cache = Cache::Seconds(if query.blocks() { 6 * target } else { (target / 2).max(1) });
        let Some(shared) = self.rendered(id, query.skip) else { return self.not_yet() };
        let with_query = (!query.others.is_empty()).then(|| shared.text.with_suffix(&query.others));
        Answer::Respond(Body { cache, ..text_body(shared, with_query, accepts, M3U8) })
    }

    fn respond_segment(&self, id: TrackId, msn: u64) -> Answer {
        let Some(rendition) = self.rendition(id) else { return Answer::NotFound };
        match rendition.segment(msn) {
            Some(segment) if segment.is_gap => Answer::NotFound,
            Some(segment) if segment.is_stored => {
                let stored = SegmentId { rendition: id, msn };
                let known = self.recalled(stored).map(|bytes| vec![bytes.clone()]);
                known.map_or(Answer::Recall(stored), |bytes| Answer::Respond(body(bytes, mp4(id))))
            }
            Some(segment) => {
                let bytes: Vec<_> = segment.parts.iter().map(|part| part.bytes.clone()).collect();
                let grows_from = segment.duration.is_none().then_some(bytes.len() as u32);
                Answer::Respond(Body { grows_from, ..body(bytes, mp4(id)) })
            }
            None if !self.is_ended && msn == rendition.next_part().0 => self.wait(),
            None => Answer::NotFound,
        }
    }

    fn respond_part(&self, id: TrackId, msn: u64, part: u32) -> Answer {
        let Some(rendition) = self.rendition(id) else { return Answer::NotFound };
        let found = rendition.segment(msn).and_then(|segment| segment.parts.get(part as usize));
        match found {
            Some(part) => Answer::Respond(body(vec![part.bytes.clone()], mp4(id))),
            // What the playlist has as its hint.
            None if !self.is_ended && rendition.next_part() == (msn, part) => self.wait(),
            None => Answer::NotFound,
        }
    }
}

enum Reach {
    Has,
    NotYet,
    TooFar,
}

impl Rendition {
    /// Whether the playlist has a segment, or a part of it (RFC 8216bis section 6.2.5.2).
    fn reaches(&self, msn: u64, part: Option<u32>) -> Reach {
        let (next_msn, next_part) = self.next_part();
        let Some(part) = part else {
            return match msn {
                _ if msn < next_msn => Reach::Has,
                _ if msn <= next_msn.saturating_add(1) => Reach::NotYet,
                _ => Reach::TooFar,
            };
        };
        if msn < next_msn {
            let parts = self.segment(msn).map_or(u32::MAX, |segment| segment.parts.len() as u32);
            // Beyond the last part of a segment is the first of the next one.
            let wraps = part >= parts && msn + 1 == next_msn && next_part == 0;
            return if wraps { Reach::NotYet } else { Reach::Has };
        }
        // So many parts as make three seconds, three at least.
        let target = self.part_target.millis().max(1).cast_unsigned();
        let ahead = if target >= 1000 { 3 } else { 3000_u64.div_ceil(target) };
        match msn - next_msn {
            0 if part < next_part => Reach::Has,
            0 if u64::from(part) <= u64::from(next_part) + ahead => Reach::NotYet,
            1 if u64::from(part) <= ahead => Reach::NotYet,
            _ => Reach::TooFar,
        }
    }
}

fn body(bytes: Vec<Bytes>, content_type: &'static str) -> Body {
    Body { bytes, content_type, is_gzip: false, cache: Cache::Immutable, grows_from: None }
}

fn mp4(id: TrackId) -> &'static str {
    if id.kind == media::MediaKind::Video { "video/mp4" } else { "audio/mp4" }
}

/// A text that is written by the first who asks, with that one's prefix. Others are rare: they get their own.
fn shared<'a>(
    cell: &'a OnceLock<Shared>,
    prefix: &str,
    made: impl FnOnce() -> Option<Text>,
) -> Option<Cow<'a, Shared>> {
    match cell.get() {
        Some(known) if known.prefix == prefix => Some(Cow::Borrowed(known)),
        Some(_) => Some(Cow::Owned(Shared::new(prefix, made()?))),
        None => {
            let made = Shared::new(prefix, made()?);
            let known = cell.get_or_init(|| made.clone());
            Some(if known.prefix == prefix { Cow::Borrowed(known) } else { Cow::Owned(made) })
        }
    }
}

/// A text for a client: compressed once for all, or with its query as it is; that one is not worth it.
fn text_body(shared: &Shared, with_query: Option<Bytes>, accepts: Accepts, kind: &'static str) -> Body {
    match with_query {
        Some(text) => body(vec![text], kind),
        None if accepts.gzip => Body { is_gzip: true, ..body(vec![shared.gzip()], kind) },
        None => body(vec![shared.text.bytes().clone()], kind),
    }
}

/// An MPD whose templates, and the URL of the clock, end with a query.
fn mpd_with_query(shared: &Shared, query: &str) -> Bytes {
    let suffix = format!("?{}\"", query.replace('&', "&amp;").replace('$', "$$"));
    let mpd = String::from_utf8_lossy(shared.text.bytes());
    let ends = [".m4s", ".mp4", "value=\"time"];
    let mpd = ends
        .iter()
        .fold(mpd.into_owned(), |mpd, end| mpd.replace(&format!("{end}\""), &format!("{end}{suffix}")));
    Bytes::from(mpd)
}

const M3U8: &str = "application/vnd.apple.mpegurl";
const MPD: &str = "application/dash+xml";
/// Target duration that is counted with until it is known.
const UNKNOWN_TARGET_SECONDS: u32 = 6;
