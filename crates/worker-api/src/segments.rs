//! Streams as segments (HLS, DASH): how workers and the control side, which answer the requests, and the
//! thread that makes the segments tell each other.
//!
//! A worker asks for a stream once ([`SegmentsWanted`]) and from then on gets a [`SegmentsUpdate`] with all
//! that can be requested at present, whenever that changes. Updates replace each other: one that finds no
//! room in the queue is made up for by the next, so that neither side waits.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::Waker;
use std::time::Duration;

use hls::{Accepts, Answer, Object, Query, Range, SegmentId};
use media::TrackId;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::{oneshot, watch};

use crate::Refused;
use crate::viewers::{Viewer, Viewers};

/// How long a request waits for the first view of a stream.
pub const FIRST_VIEW_WAIT: Duration = Duration::from_secs(10);
/// How long a request waits for a segment from disk.
pub const RECALL_WAIT: Duration = Duration::from_secs(10);
/// How soon a segment from disk is asked for again.
pub const RECALL_AGAIN: Duration = Duration::from_secs(1);
/// Updates that may wait for a worker; one that finds no room is sent again a moment later.
pub const UPDATES_MAX: usize = 1024;
/// Messages to the thread that may wait; who finds no room for one answers 503.
pub const WANTED_MAX: usize = 1024;

/// What somebody wants of a stream.
#[derive(Debug)]
pub struct SegmentsWanted {
    /// `app/name`.
    pub key: Arc<str>,
    /// Length of the app in `key`.
    pub app_bytes: usize,
    /// What is wanted of it.
    pub want: Want,
}

/// What is wanted of a stream.
#[derive(Debug)]
pub enum Want {
    /// By this worker, updates: somebody plays it there.
    Updates(usize),
    /// By this worker, nothing: nobody has played it there for a while.
    Nothing(usize),
    /// By the control side, to see it as it changes; it is wanted until the receiver is dropped.
    Watch(oneshot::Sender<watch::Receiver<SegmentsUpdate>>),
    /// That a segment is read from disk. It comes with an update, or is asked for again.
    Recall(SegmentId),
}

/// What a worker has to know of a stream.
#[derive(Debug, Clone)]
pub struct SegmentsUpdate {
    /// `app/name`.
    pub key: Arc<str>,
    /// What can be requested.
    pub state: SegmentsState,
}

/// What can be requested of a stream, or why nothing can.
#[derive(Debug, Clone)]
pub enum SegmentsState {
    /// Nothing is known yet: requests wait.
    Pending,
    /// These objects.
    Objects(SegmentsView),
    /// Nothing at present, which may change; requests are answered so.
    Refused(Refused),
    /// Nothing, and the stream is not cut any more: the next request has it cut again.
    Over(Refused),
}

/// `hls.streams_max` is reached.
pub const TOO_MANY_STREAMS: Refused = Refused::new(503, "too many streams are cut into segments");
/// None of a stream's codecs can be in segments.
pub const NO_CODECS: Refused =
    Refused::new(404, "HLS and DASH players do not play the stream's codecs, as VP8");

/// What can be requested of a stream at one moment.
#[derive(Debug, Clone)]
pub struct SegmentsView {
    /// Names what was cut from then on. It is a part of the path of every object, because init
    /// segments and parts are numbered from 0 each time that a stream is cut, segments by the
    /// second in which that began, and caches keep objects for long.
    pub tag: Arc<str>,
    /// The objects.
    pub window: Arc<hls::Window>,
    /// Who asks for them; the same for all views of the stream.
    pub viewers: Arc<Viewers>,
}

/// What a client asks of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRequest {
    /// Tag of the view that it knows; `None` where it has just come.
    tag: Option<Box<str>>,
    object: Object,
    query: Query,
    accepts: Accepts,
    /// What leads from the stream's own playlists to the other objects, without the tag.
    folder: Box<str>,
    /// `Range`, where it is to be looked at.
    range: Option<Box<str>>,
}

/// An answer with its range applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranged {
    /// The body is whole: 200.
    Whole,
    /// The body is these bytes of so many: 206.
    Part {
        /// Position of the first.
        first: u64,
        /// Position of the last.
        last: u64,
        /// Length of the object.
        of: u64,
    },
    /// The object has only so many: 416.
    Unsatisfiable {
        /// Length of the object.
        of: u64,
    },
}

impl Ranged {
    /// What a range is of an object of so many bytes.
    pub fn of(range: Range, of: u64) -> Self {
        match range {
            Range::All => Self::Whole,
            Range::Part { first, last } => Self::Part { first, last, of },
            Range::Unsatisfiable => Self::Unsatisfiable { of },
        }
    }
}

impl ObjectRequest {
    /// Whether its client has just come, as far as that is seen: each request for an MPD is like the
    /// first.
    pub fn is_first(&self) -> bool {
        self.tag.is_none() && self.object == Object::Multivariant
    }

    /// Whether its client has just come, or plays by DASH and asks for the MPD again.
    pub fn may_be_first(&self) -> bool {
        self.tag.is_none() && matches!(self.object, Object::Multivariant | Object::Mpd)
    }

    /// Reads a path and its query.
    pub fn read(target: Target<'_>, query: &str, gzip: bool) -> Result<Self, Refused> {
        let (tag, object) = match target.object {
            Own::Playlist(object) => (None, object),
            Own::Tagged(path) => {
                let tagged = path.split_once('/').and_then(|(tag, name)| Some((tag, Object::parse(name)?)));
                let (tag, object) = tagged.ok_or(Refused::new(404, "there is no such part of a stream"))?;
                (Some(tag.into()), object)
            }
        };
        let query = Query::parse(query).map_err(|error| Refused::new(400, error.reason()))?;
        let name = target.stream.rsplit_once('/').map_or(target.stream, |(_, name)| name);
        let folder = if tag.is_some() { String::new() } else { format!("{name}.hls/") };
        Ok(Self { tag, object, query, accepts: Accepts { gzip }, folder: folder.into(), range: None })
    }

    /// Adds the request's `Range`. A condition for it (`If-Range`) never holds, because objects have no
    /// validators: the range is then ignored (RFC 9110 section 13.1.5).
    #[must_use]
    pub fn with_range(self, range: Option<&str>, is_conditional: bool) -> Self {
        let can_have = matches!(self.object, Object::Init(..) | Object::Segment(..) | Object::Part(..));
        let range = range.filter(|_| can_have && !is_conditional).map(Box::from);
        Self { range, ..self }
    }

    /// Leaves of a body what was asked for. One that still grows is given whole, as servers may.
    pub fn apply_range(&self, body: &mut hls::Body) -> Ranged {
        let Some(range) = self.range.as_ref().filter(|_| body.grows_from.is_none()) else {
            return Ranged::Whole;
        };
        let of = body.len();
        let ranged = Ranged::of(Range::read(range, of), of);
        if let Ranged::Part { first, last, .. } = ranged {
            body.cut(first, last);
        }
        ranged
    }

    /// Whether it may be part of a segment that still grows.
    pub fn segment(&self) -> Option<(TrackId, u64)> {
        match self.object {
            Object::Segment(rendition, msn) => Some((rendition, msn)),
            _ => None,
        }
    }
}

impl SegmentsView {
    /// A viewer has been answered at `now` since 1970.
    pub fn note_viewer(&self, viewer: &Viewer<'_>, now: Duration) {
        self.viewers.note(viewer, now, self.window.target_duration());
    }

    /// Whether a viewer plays the stream already.
    pub fn has_viewer(&self, viewer: &Viewer<'_>, now: Duration) -> bool {
        self.viewers.has(viewer, now, self.window.target_duration())
    }

    /// How many viewers the stream has.
    pub fn viewers(&self, now: Duration) -> u64 {
        self.viewers.count(now, self.window.target_duration())
    }

    /// Answers a request at `now` since 1970.
    pub fn respond(&self, request: &ObjectRequest, now: Duration) -> Answer {
        if request.tag.as_ref().is_some_and(|tag| **tag != *self.tag) {
            return Answer::NotFound;
        }
        let prefix = match &request.tag {
            Some(_) => String::new(),
            None => format!("{}{}/", request.folder, self.tag),
        };
        self.window.respond(request.object, &request.query, request.accepts, &prefix, now)
    }
}

/// Sends updates to one worker.
#[derive(Debug, Clone)]
pub struct UpdateSender {
    updates: SyncSender<SegmentsUpdate>,
    waker: Waker,
}

impl UpdateSender {
    /// Queues in `updates` and wakes by `waker`.
    pub fn new(updates: SyncSender<SegmentsUpdate>, waker: Waker) -> Self {
        Self { updates, waker }
    }

    /// Queues an update and wakes the worker; whether there was room.
    pub fn send(&self, update: SegmentsUpdate) -> bool {
        let sent = self.updates.try_send(update).is_ok();
        if sent {
            self.waker.wake_by_ref();
        }
        sent
    }
}

/// Where it is sent what is wanted.
pub type WantedSender = Sender<SegmentsWanted>;

/// The end of the thread that makes segments.
#[derive(Debug)]
pub struct SegmentsEnd {
    /// What is wanted.
    pub wanted: Receiver<SegmentsWanted>,
    /// For the control side to send to it.
    pub sender: WantedSender,
    /// To each worker, in order.
    pub updates: Vec<UpdateSender>,
}

/// What a path of HTTP asks for, if that is a playlist, a segment or a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// `app/name`, as the path has it.
    pub stream: &'a str,
    object: Own<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own<'a> {
    /// The multivariant playlist or the MPD.
    Playlist(Object),
    /// What they list: tag and name.
    Tagged(&'a str),
}

impl<'a> Target<'a> {
    /// Reads `/{app}/{stream}.m3u8`, `/{app}/{stream}.mpd` and `/{app}/{stream}.hls/{tag}/{object}`.
    pub fn read(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/').filter(|_| !is_on_demand(path))?;
        if let Some((stream, object)) = path.rsplit_once(".hls/") {
            return Some(Self { stream, object: Own::Tagged(object) });
        }
        let (stream, extension) = path.rsplit_once('.')?;
        let object = match extension {
            "m3u8" => Object::Multivariant,
            "mpd" => Object::Mpd,
            _ => return None,
        };
        Some(Self { stream, object: Own::Playlist(object) })
    }
}

/// Whether a path of HTTP is for recordings and files, which `control` serves; no application of that name is
/// played by HTTP.
pub fn is_on_demand(path: &str) -> bool {
    path.starts_with("/vod/")
}

/// Whether a value of `Accept-Encoding` has gzip, not with a weight of nothing (RFC 9110 section 12.5.3).
pub fn accepts_gzip(value: &str) -> bool {
    value.split(',').any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = parameters.split(';').any(|parameter| {
            let weight = parameter.trim().strip_prefix("q=");
            weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
        });
        ["gzip", "x-gzip", "*"].contains(&name.trim().to_ascii_lowercase().as_str()) && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_stream_and_what_of_it() {
        let rows = [
            ("/live/a.m3u8", Some(("live/a", Own::Playlist(Object::Multivariant)))),
            ("/live/a.b.mpd", Some(("live/a.b", Own::Playlist(Object::Mpd)))),
            ("/live/sub/a.hls/x/v0.m3u8", Some(("live/sub/a", Own::Tagged("x/v0.m3u8")))),
            ("/live/a.hls/", Some(("live/a", Own::Tagged("")))),
            ("/live/a.flv", None),
            ("/vod/files/a.mp4/index.m3u8", None),
            ("/vod/live/live/a.mpd", None),
            ("/vod.m3u8", Some(("vod", Own::Playlist(Object::Multivariant)))),
            ("/live/a", None),
            ("live/a.m3u8", None),
        ];
        for (path, expected) in rows {
            let read = Target::read(path).map(|Target { stream, object }| (stream, object));
            assert_eq!(read, expected, "{path}");
        }
    }

    #[test]
    fn gzip_is_accepted_unless_its_weight_is_nothing() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZip;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br, deflate", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value), expected, "{value}");
        }
    }
}
