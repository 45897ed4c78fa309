//! What WHIP and WHEP keep between requests: settings, sessions with a URL, and how often a client asks.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use rtc::dtls::Certificate;
use rtc::sdp::{Answer, IceCredentials, Offer, TrackDescription};
use rtp::payload::MediaKind;
use tokio::sync::{Mutex, mpsc, watch};

use super::listeners::Listeners;
use super::refusal::Refusal;
use super::registry::{Limits, Registry};
use worker_api::HomeOf;
use worker_api::hand_over::HandedUrl;
use worker_api::live::{Current, Live};
use worker_api::overload::{Overload, OverloadCounters, OverloadOf};
use worker_api::rate::RateLimit;
use worker_api::rtc::{RtcEndpoint, RtcNotice};
use worker_api::settings::{RtcSettings, WorkerSettings, settings_for};
use worker_api::snapshot::Role;
use worker_api::streams::{NotBridged, Published, WebrtcAvailability};

/// Looks up what is published as a stream.
pub type Lookup = dyn Fn(&str) -> Published + Send + Sync;

/// Where a viewer of a stream is to go instead; `true` if this node cannot take it.
pub type Redirect = dyn Fn(&str, bool) -> Option<String> + Send + Sync;

/// What the server knows about WebRTC when it starts.
pub struct RtcParts {
    /// Limits and addresses, as configured.
    pub current: Arc<Live<Current>>,
    /// Where each worker takes media; empty when WebRTC is off.
    pub endpoints: Vec<RtcEndpoint>,
    /// Shown by DTLS.
    pub certificate: Arc<Certificate>,
    /// Says what is published as `app/stream`.
    pub published: Box<Lookup>,
    /// Says on which worker `app/stream` is published, or arrives from another node.
    pub home: Box<HomeOf>,
    /// Says whether viewers of `app/stream` are to go to another node, by its base URL.
    pub redirect: Box<Redirect>,
    /// Says why a worker takes nobody more.
    pub overload: Box<OverloadOf>,
}

impl Limits {
    fn of(settings: &RtcSettings) -> Self {
        Self {
            sessions_max: settings.sessions_max,
            pending_max: settings.pending_max,
            pending_per_address_max: settings.pending_per_address_max,
        }
    }
}

/// How a stream can be played at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaybackOptions {
    /// As frames: RTMP and FLV.
    pub(crate) frames: bool,
    /// As packets: WHEP.
    pub(crate) packets: bool,
    /// What of it players of the other kind than its publisher do not get, and why.
    pub(crate) note: Option<NotBridged>,
}

/// What the handlers know.
pub struct RtcControl {
    pub(super) parts: RtcParts,
    pub(super) registry: Registry<Session>,
    pub(super) rate: RateLimit,
    /// Requests that were refused by authorisation since the start.
    pub(super) denied: AtomicU64,
    /// Requests that were refused because there is too much to do.
    overloaded: std::sync::Mutex<OverloadCounters>,
    /// Who reads events.
    pub(super) listeners: Listeners,
    /// SSRC of the first track to each viewer. The same for all, so that they share packets' headers.
    pub(super) first_ssrc: u32,
}

impl RtcControl {
    /// `None` when the system gives no random bytes.
    pub fn new(parts: RtcParts) -> Option<Self> {
        let settings = parts.current.settings();
        // Far from the end, so that the SSRCs counted from it do not wrap; never 0, which some
        // clients take for none.
        let first_ssrc = u32::from_le_bytes(random()?) >> 2 | 1 << 29;
        Some(Self {
            registry: Registry::new(parts.endpoints.len(), Limits::of(&settings.rtc)),
            rate: RateLimit::new(settings.rtc.posts_per_second_max),
            denied: AtomicU64::new(0),
            overloaded: std::sync::Mutex::default(),
            listeners: Listeners::default(),
            first_ssrc,
            parts,
        })
    }

    /// Settings in effect.
    pub(super) fn settings(&self) -> Arc<WorkerSettings> {
        self.parts.current.settings()
    }

    /// Requests from now on meet the limits of the settings in effect.
    pub fn apply_settings(&self) {
        let settings = self.settings();
        self.registry.set_limits(Limits::of(&settings.rtc));
        self.rate.set(settings.rtc.posts_per_second_max);
    }

    /// Why nobody more can come in this role, if no worker takes one.
    pub(crate) fn overload(&self, role: impl Into<Role>) -> Option<Overload> {
        let role = role.into();
        let workers = 0..self.settings().workers;
        let all: Option<Vec<_>> = workers.map(|worker| (self.parts.overload)(worker, role)).collect();
        all?.pop()
    }

    /// Somebody was refused for that.
    pub(crate) fn count_overload(&self, role: impl Into<Role>, overload: Overload) {
        let mut counters = self.overloaded.lock().unwrap_or_else(PoisonError::into_inner);
        counters.count(role.into(), overload);
    }

    /// Who was.
    pub(crate) fn overload_counters(&self) -> OverloadCounters {
        *self.overloaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_bridged(&self, app: &str) -> bool {
        settings_for(&self.settings().applications, app).bridge.enabled
    }

    /// Takes in what workers report, until they have ended.
    pub async fn take_notices(&self, mut notices: mpsc::UnboundedReceiver<RtcNotice>) {
        while let Some(notice) = notices.recv().await {
            self.registry.notice(notice);
        }
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.registry.len()
    }

    /// URLs of sessions, for another process. Not of those whose ICE is being restarted.
    pub fn hand_over(&self) -> Vec<HandedUrl> {
        let handed = self.registry.hand_over().into_iter().filter_map(|(id, token, session)| {
            let ice = session.ice.try_lock().ok()?;
            let videos = session.played.iter().flat_map(|played| &played.videos);
            let videos = videos.map(|video| (video.line, video.mid.clone(), video.track, video.published));
            Some(HandedUrl {
                session: id,
                token,
                client: session.client,
                asked: session.asked,
                mid: session.mid.clone(),
                played: session.played.as_ref().map(|played| played.key.clone()),
                videos: videos.collect(),
                tag: ice.tag.clone(),
                remote: ice.remote.clone(),
            })
        });
        handed.collect()
    }

    /// URLs of sessions that another process has handed over.
    pub fn resume(&self, urls: Vec<HandedUrl>) {
        for url in urls {
            let HandedUrl { session: id, token, client, asked, mid, played, videos, tag, remote } = url;
            let video = |(line, mid, track, published)| VideoTrack { line, mid, track, published };
            let videos = videos.into_iter().map(video).collect();
            let session = Session {
                worker: id.worker(),
                client,
                asked,
                mid,
                played: played.map(|key| Played { key, videos }),
                ended: watch::Sender::new(()),
                ice: Mutex::new(IceSession { tag, remote }),
            };
            self.registry.resume(id, &token, client, session);
        }
    }

    /// Requests of WHIP and WHEP that were refused by authorisation (401, 403) since the start.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// How `app/name` can be played. While nobody publishes it players may wait, whatever comes.
    pub(crate) fn playback_options(&self, app: &str, name: &str) -> PlaybackOptions {
        let (frames, packets, note) = match self.published(app, &format!("{app}/{name}")) {
            Published::Nobody | Published::Frames(WebrtcAvailability::Unknown) => (true, true, None),
            Published::Frames(WebrtcAvailability::Tracks(_, note)) => (true, true, note),
            Published::Frames(WebrtcAvailability::Impossible(reason)) => (true, false, Some(reason)),
            Published::Packets(_) if self.is_bridged(app) => (true, true, None),
            Published::Packets(_) => (false, true, Some(NotBridged::ToFramesOff)),
        };
        PlaybackOptions { frames, packets, note }
    }

    /// What is published, for players of this node: another one may bridge what this one does not.
    pub(crate) fn published(&self, app: &str, key: &str) -> Published {
        match (self.parts.published)(key) {
            Published::Frames(_) if !self.is_bridged(app) => {
                Published::Frames(WebrtcAvailability::Impossible(NotBridged::ToPacketsOff))
            }
            published => published,
        }
    }

    /// Whether WebRTC is configured.
    pub(super) fn is_on(&self) -> bool {
        self.parts.endpoints.iter().any(|endpoint| !endpoint.udp.is_empty())
    }

    /// Addresses that stand for those of the sockets: the one that was asked for, else those configured.
    pub(super) fn announced(&self, asked: Option<IpAddr>) -> Vec<IpAddr> {
        match asked {
            Some(address) => vec![address],
            None => self.settings().rtc.public_addresses.clone(),
        }
    }

    /// Counts a request of `client`.
    pub(super) fn admit(&self, client: IpAddr) -> Result<(), Refusal> {
        let now = tokio::time::Instant::now().into_std();
        self.rate.take(client, now).map_err(Refusal::TooMany)
    }
}

impl std::fmt::Debug for RtcControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WebRTC on {} workers, {:?}", self.parts.endpoints.len(), self.registry)
    }
}

/// What is kept of a session for its URL.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) worker: usize,
    /// Who asked for it.
    pub(super) client: IpAddr,
    /// The address that it asked to have named.
    pub(super) asked: Option<IpAddr>,
    /// `a=mid` of the first media description that was accepted.
    pub(super) mid: String,
    /// Of a session that plays.
    pub(super) played: Option<Played>,
    /// Dropped with the session.
    pub(super) ended: watch::Sender<()>,
    /// Held while a worker restarts ICE, so that restarts come one after the other.
    pub(super) ice: Mutex<IceSession>,
}

/// What a session plays.
#[derive(Debug, Clone)]
pub(super) struct Played {
    /// `app/stream`.
    pub(super) key: String,
    /// Its video tracks.
    pub(super) videos: Vec<VideoTrack>,
}

/// A video track of a session that plays.
#[derive(Debug, Clone)]
pub(super) struct VideoTrack {
    /// Which of the media descriptions of the offer it is.
    pub(super) line: usize,
    /// `a=mid` of that.
    pub(super) mid: String,
    /// Which of the tracks that were accepted it is.
    pub(super) track: usize,
    /// Which of the video tracks of the stream it plays.
    pub(super) published: usize,
}

impl Played {
    /// What `answer` to `offer` lets its client play.
    pub(super) fn new(key: String, offer: &Offer, answer: &Answer) -> Self {
        let tracks = answer.tracks.iter().zip(&answer.published).enumerate();
        let videos = tracks.filter(|(_, (track, _))| track.kind == MediaKind::Video);
        let video = |(at, (track, &published)): (usize, (&TrackDescription, &usize))| VideoTrack {
            line: offer.media.iter().position(|media| media.mid == track.mid).unwrap_or(at),
            mid: track.mid.clone(),
            track: at,
            published,
        };
        Self { key, videos: videos.map(video).collect() }
    }
}

/// The ICE session that a restart replaces.
#[derive(Debug)]
pub(super) struct IceSession {
    pub(super) tag: String,
    pub(super) remote: IceCredentials,
}

impl Session {
    /// Of an answer that `client` gets, on `worker`.
    pub(super) fn new(
        worker: usize,
        client: IpAddr,
        asked: Option<IpAddr>,
        local: &IceCredentials,
        answer: &Answer,
        played: Option<Played>,
    ) -> Self {
        let ice = IceSession { tag: local.ufrag.clone(), remote: answer.remote.ice.clone() };
        let mid = answer.tracks.first().map_or_else(String::new, |track| track.mid.clone());
        let ended = watch::Sender::new(());
        Self { worker, client, asked, mid, played, ended, ice: Mutex::new(ice) }
    }
}

/// Bytes nobody can guess.
pub(super) fn random<const COUNT: usize>() -> Option<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}
