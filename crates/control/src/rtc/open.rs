//! POST: a session is opened.

use std::net::IpAddr;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rtc::sdp::{
    Answer, IceCredentials, LocalDescription, NegotiationError, Offer, OfferedMedia, Policy, answer_play,
    answer_publish, parse_offer,
};
use rtc::{PeerConfig, Side, Timeouts};
use rtp::payload::MediaKind;
use sources::pull::Demand;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::candidates::candidates;
use super::control::{Played, RtcControl, Session, random};
use super::headers::SDP;
use super::refusal::Refusal;
use super::target::Target;
use super::{OFFER_BYTES_MAX, SESSION_PATH, formats, headers, may, not_stopping, text, uses};
use crate::{Context, Peer};
use worker_api::EndReason;
use worker_api::auth::{Action, Permit};
use worker_api::cluster::redirected;
use worker_api::hooks::{Admitted, Asker, Limits};
use worker_api::rtc::{RtcOpen, RtcRole, ufrag_prefix};
use worker_api::snapshot::Protocol;
use worker_api::streams::{NotBridged, Published, PublishedTracks, WebrtcAvailability};
use worker_api::traces::{Parent, SessionTrace, Traced};
use worker_api::usage::Uses;

/// How often it is looked whether a stream on demand has begun.
const BEGUN_AGAIN: Duration = Duration::from_millis(50);
/// Longest `User-Agent` that is kept, characters.
const USER_AGENT_CHARS_MAX: usize = 128;

/// Answers an offer with 201, or says why not. Both are in the trace of the session.
pub(super) async fn open(
    context: &Context,
    peer: Peer,
    role: RtcRole,
    request: Request,
) -> Result<Response, Refusal> {
    let trace = begin_trace(context, peer, role, &request);
    let opened = open_session(context, peer, role, request, trace.clone()).await;
    // One that was opened goes on where the session is.
    let refused = match &opened {
        Ok(response) => response.status().is_redirection().then_some("played by another node"),
        Err(refusal) => Some(refusal.code()),
    };
    if let (Some(trace), Some(reason)) = (trace, refused) {
        trace.end(Instant::now().into_std(), EndReason::Refused(reason));
    }
    opened
}

/// Begins the trace of a session, within that of the request if it has one (`traceparent`).
fn begin_trace(context: &Context, peer: Peer, role: RtcRole, request: &Request) -> Option<Box<SessionTrace>> {
    let traces = context.rtc.settings().traces.clone()?;
    let target = Target::read(request.uri(), &context.names).ok()?;
    // One that came twice is none (W3C Trace Context section 3.2.1).
    let mut headers = request.headers().get_all("traceparent").iter();
    let parent = headers.next().filter(|_| headers.next().is_none());
    let parent = parent.and_then(|value| Parent::parse(value.to_str().ok()?));
    let protocol = if role == RtcRole::Publish { Protocol::Whip } else { Protocol::Whep };
    let stream = target.key().into();
    let of = Traced { protocol, role: role.into(), stream, address: peer.address };
    traces.begin(Instant::now().into_std(), parent, of)
}

async fn open_session(
    context: &Context,
    peer: Peer,
    role: RtcRole,
    request: Request,
    trace: Option<Box<SessionTrace>>,
) -> Result<Response, Refusal> {
    let control = &context.rtc;
    if !control.is_on() {
        return Err(Refusal::Off);
    }
    not_stopping(context)?;
    control.admit(peer.address.ip())?;
    let target = Target::read(request.uri(), &context.names)?;
    let permit = may(context, peer, role, &target, &request).inspect_err(|denied| {
        tracing::info!(peer = %peer.address, stream = %target.key(), ?role, reason = denied.reason(), "refused");
    })?;
    let is_limited = target.bits_per_second_max.is_some() || target.height_max.is_some();
    if is_limited && role == RtcRole::Publish {
        let text = "max_bitrate and max_height are for players: a publisher sends what it likes";
        return Err(Refusal::Parameter(text));
    }
    if is_limited && !control.settings().rtc.adaptation {
        return Err(Refusal::Parameter("max_bitrate and max_height need rtc.adaptation, which is off"));
    }
    if role == RtcRole::Play
        && let Some(response) = redirect(control, &target.key(), request.uri(), false)
    {
        return response;
    }
    if let Some(overload) = control.overload(role) {
        return turn_away(control, role, &target.key(), request.uri(), Refusal::Overloaded(overload));
    }
    if let Some(ip) = target.address.filter(|ip| !control.settings().rtc.addresses_on_request.contains(ip)) {
        tracing::info!(peer = %peer.address, stream = %target.key(), address = %ip, "refused: outside address");
        return Err(Refusal::OtherAddress(ip));
    }
    if !headers::is_of_type(request.headers(), SDP) {
        return Err(Refusal::MediaType(SDP));
    }
    if !headers::accepts(request.headers(), SDP) {
        return Err(Refusal::NotAccepted(SDP));
    }
    let uses = uses(context, peer, &target, &request)?;
    let user_agent = user_agent(request.headers());
    let uri = request.uri().clone();
    let body = text(request.into_body(), OFFER_BYTES_MAX).await?;
    if body.is_empty() {
        return Err(Refusal::Empty);
    }
    let offer = parse_offer(&body)?;
    let admitted = ask_hook(context, peer, role, &target, user_agent.clone()).await?;
    let _demand = match role {
        RtcRole::Play => control.begin(context, &target, peer.address.ip()).await,
        RtcRole::Publish => None,
    };
    let published = control.tracks_for(role, &target)?;
    let wanted = Wanted { role, user_agent, offer, published, permit, admitted, uses, trace };
    let key = target.key();
    let opened = wanted.open(context, peer, target).await.inspect_err(|refusal| {
        if matches!(refusal, Refusal::Undecodable(_) | Refusal::NotPlayable(_)) {
            tracing::info!(peer = %peer.address, stream = %key, reason = refusal.message(), "player refused");
        }
    });
    match opened {
        Ok((token, answer, tag)) => created(control, role, &token, &tag, answer.sdp),
        Err(refusal @ (Refusal::Full | Refusal::Overloaded(_))) => {
            turn_away(control, role, &key, &uri, refusal)
        }
        Err(refusal) => Err(refusal),
    }
}

/// There is no room: a viewer may go to another node.
fn turn_away(
    control: &RtcControl,
    role: RtcRole,
    key: &str,
    uri: &Uri,
    refusal: Refusal,
) -> Result<Response, Refusal> {
    let elsewhere = (role == RtcRole::Play).then(|| redirect(control, key, uri, true)).flatten();
    elsewhere.unwrap_or_else(|| {
        if let Refusal::Overloaded(overload) = refusal {
            control.count_overload(role, overload);
        }
        Err(refusal)
    })
}

/// Asks the operator's hook about one whom the rules let in, if there is one.
async fn ask_hook(
    context: &Context,
    peer: Peer,
    role: RtcRole,
    target: &Target,
    user_agent: Option<Box<str>>,
) -> Result<Option<Admitted>, Refusal> {
    let (action, protocol) = match role {
        RtcRole::Publish => (Action::Publish, Protocol::Whip),
        RtcRole::Play => (Action::Play, Protocol::Whep),
    };
    let policy = context.policy();
    let Some(hooks) = policy.hooks.as_ref().filter(|hooks| hooks.admits(action)) else {
        return Ok(None);
    };
    let (key, address) = (target.key().into(), peer.address);
    let asker = Asker { action, key, session: None, protocol, address, user_agent };
    let answer = hooks.ask_and_wait(asker, None).await;
    answer.map(Some).map_err(Refusal::from)
}

/// The smaller limit of two, where there are some.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Sends a viewer to another node (RFC 9725 section 4.5), if it is to go: it makes the same request there.
fn redirect(control: &RtcControl, key: &str, uri: &Uri, is_full: bool) -> Option<Result<Response, Refusal>> {
    let base = (control.parts.redirect)(key, is_full)?;
    let location = redirected(&base, uri.path_and_query().map_or("", |target| target.as_str()))?;
    let Ok(location) = HeaderValue::from_str(&location) else {
        return Some(Err(Refusal::Internal("the address of another node")));
    };
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    Some(Ok(response))
}

/// What can be played.
struct Playable {
    tracks: PublishedTracks,
    /// Why what the publisher sends is not all there.
    note: Option<NotBridged>,
}

/// What a client asks for, read and allowed.
struct Wanted {
    role: RtcRole,
    user_agent: Option<Box<str>>,
    offer: Offer,
    /// Of a stream that is to be played.
    published: Option<Playable>,
    permit: Permit,
    /// What the hook has said, if it was asked.
    admitted: Option<Admitted>,
    uses: Uses,
    trace: Option<Box<SessionTrace>>,
}

impl Wanted {
    /// Makes the answer and has a worker open the session. Gives the token, the answer and the entity tag.
    async fn open(
        self,
        context: &Context,
        peer: Peer,
        target: Target,
    ) -> Result<(String, Answer, String), Refusal> {
        let control = &context.rtc;
        let home = self.published.as_ref().and_then(|_| (control.parts.home)(&target.key()));
        let overload = |worker| (control.parts.overload)(worker, self.role.into());
        let reservation = control.registry.reserve(peer.address.ip(), home, overload)?;
        let worker = reservation.worker();
        let local = control.local_description(worker, peer.address.ip(), &target)?;
        let answer = match &self.published {
            Some(published) => self.answer_play(control, &local, published)?,
            None => self.answer_publish(&local)?,
        };
        let played = (self.role == RtcRole::Play).then(|| Played::new(target.key(), &self.offer, &answer));
        let session = Session::new(worker, peer.address.ip(), target.address, &local.ice, &answer, played);
        let tag = local.ice.ufrag.clone();
        let (reply, answered) = oneshot::channel();
        let (admission, limits) = match self.admitted {
            Some(admitted) => (admitted.admission, admitted.limits),
            None => (None, Limits::default()),
        };
        let open = RtcOpen {
            role: self.role,
            app: target.app,
            stream: target.stream,
            address: peer.address,
            user_agent: self.user_agent,
            peer: control.peer_config(local.ice, &answer),
            tracks: answer.tracks.clone(),
            published: answer.published.clone(),
            bits_per_second_max: least(target.bits_per_second_max, limits.bits_per_second_max),
            height_max: least(target.height_max, limits.height_max),
            until: self.permit.until,
            admission,
            time_over: limits.until,
            uses: Some(Box::new(self.uses)),
            trace: self.trace,
            reply,
        };
        let id = context.workers.rtc_open(worker, open, answered).await??;
        let Some(token) = reservation.enter(id, session) else {
            // Nobody can reach it: if it has not ended, it does now.
            context.workers.rtc_close(id).await?;
            return Err(Refusal::Full);
        };
        tracing::debug!(session = %id, peer = %peer.address, role = ?self.role, "offer answered");
        Ok((token, answer, tag))
    }
}

impl Wanted {
    /// An answer with what of the stream the player can take; not one that would leave it in the dark.
    fn answer_play(
        &self,
        control: &RtcControl,
        local: &LocalDescription,
        published: &Playable,
    ) -> Result<Answer, Refusal> {
        let Playable { tracks, note } = published;
        let policy = Policy::play();
        let policy = if control.settings().rtc.adaptation { policy } else { policy.without_estimation() };
        let answer = answer_play(&self.offer, local, &policy, tracks);
        let only_codecs = matches!(answer, Ok(_) | Err(NegotiationError::NoCommonCodec));
        let has_video = tracks.iter().any(|track| track.kind == MediaKind::Video);
        if let Some(reason) = note.filter(|_| !has_video && formats::wants_video(&self.offer)) {
            return Err(Refusal::NotPlayable(reason));
        }
        match formats::obstacle(&self.offer, tracks, answer.as_ref().ok()) {
            Some(reason) if only_codecs => Err(Refusal::Undecodable(reason)),
            _ => Ok(answer?),
        }
    }

    /// An answer that takes all that is offered.
    fn answer_publish(&self, local: &LocalDescription) -> Result<Answer, Refusal> {
        let answer = answer_publish(&self.offer, local, &Policy::publish())?;
        let offered = |media: &&OfferedMedia| media.kind.is_some() && media.live && media.direction.sends();
        let offered = self.offer.media.iter().filter(offered).count();
        if answer.tracks.len() < offered { Err(Refusal::Partial) } else { Ok(answer) }
    }
}

impl RtcControl {
    /// Begins a stream that is on demand, and waits until it is known what it is; at most as long as
    /// players wait. The stream is wanted until the result is dropped, which is when the session has
    /// been opened: from then on its player wants it.
    async fn begin(&self, context: &Context, target: &Target, address: IpAddr) -> Option<Demand> {
        let demand = context.pulls.demand(&target.app, &target.stream, address)?;
        let until = Instant::now() + demand.within;
        let is_unknown = || {
            let published = self.published(&target.app, &target.key());
            matches!(published, Published::Nobody | Published::Frames(WebrtcAvailability::Unknown))
        };
        while is_unknown() && Instant::now() < until {
            sleep(BEGUN_AGAIN).await;
        }
        Some(demand)
    }

    /// What is published, for a player; `None` for a publisher.
    fn tracks_for(&self, role: RtcRole, target: &Target) -> Result<Option<Playable>, Refusal> {
        if role == RtcRole::Publish {
            return Ok(None);
        }
        match self.published(&target.app, &target.key()) {
            Published::Packets(tracks) => Ok(Some(Playable { tracks, note: None })),
            Published::Frames(WebrtcAvailability::Tracks(tracks, note)) => {
                Ok(Some(Playable { tracks, note }))
            }
            Published::Frames(WebrtcAvailability::Unknown) => Err(Refusal::NotReady),
            Published::Frames(WebrtcAvailability::Impossible(reason)) => Err(Refusal::NotPlayable(reason)),
            Published::Nobody => Err(Refusal::NotLive),
        }
    }

    /// This side of a session on `worker`, for a client at `client`.
    fn local_description(
        &self,
        worker: usize,
        client: IpAddr,
        target: &Target,
    ) -> Result<LocalDescription, Refusal> {
        let endpoint = self.parts.endpoints.get(worker).ok_or(Refusal::Off)?;
        let number = u64::from_le_bytes(random().ok_or(NO_RANDOMNESS)?);
        Ok(LocalDescription {
            ice: new_credentials(worker)?,
            fingerprint: self.parts.certificate.fingerprint(),
            candidates: candidates(endpoint, &self.announced(target.address), client),
            ice_lite: true,
            // RFC 9429 section 5.2.1: 63 bits.
            session_id: number >> 1,
            first_ssrc: self.first_ssrc,
            stream_id: target.stream.clone(),
        })
    }

    fn peer_config(&self, local_ice: IceCredentials, answer: &Answer) -> PeerConfig {
        let pending = self.settings().rtc.pending_timeout;
        let mut dtls =
            rtc::dtls::Config::new(self.parts.certificate.clone(), answer.remote.fingerprints.clone());
        dtls.handshake_timeout = pending;
        PeerConfig {
            side: Side::Lite,
            local_ice,
            remote_ice: answer.remote.ice.clone(),
            local_addresses: Vec::new(),
            remote_candidates: answer.remote.candidates.clone(),
            dtls,
            dtls_role: answer.setup.answerer_role(),
            timeouts: Timeouts { ice: pending, dtls: pending, ..Timeouts::default() },
        }
    }
}

/// The system gives no random bytes: nothing can be kept apart or secret.
const NO_RANDOMNESS: Refusal = Refusal::Internal("the system gives no random bytes");

/// Credentials of this side for a session on `worker`, which the first characters name: 48 and 192 random
/// bits (RFC 8445 section 5.3 asks for 24 and 128).
pub(super) fn new_credentials(worker: usize) -> Result<IceCredentials, Refusal> {
    use base64::Engine as _;
    // Only characters of RFC 8839's `ice-char`, and none that a URL, a header or SDP would have to quote.
    let text = |bytes: &[u8]| {
        base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes).replace(['+', '/'], "0")
    };
    let (ufrag, password) = random::<6>().zip(random::<24>()).ok_or(NO_RANDOMNESS)?;
    let ufrag: String =
        ufrag_prefix(worker).map(char::from).into_iter().chain(text(&ufrag).chars()).collect();
    IceCredentials::new(&ufrag, &text(&password)).ok_or(Refusal::Internal("own ICE credentials"))
}

fn created(
    control: &RtcControl,
    role: RtcRole,
    token: &str,
    tag: &str,
    sdp: String,
) -> Result<Response, Refusal> {
    let mut response = (StatusCode::CREATED, sdp).into_response();
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(SDP));
    // Relative, because this server does not know under which name and path prefix it is reached.
    let path = format!("{SESSION_PATH}{token}");
    let location = HeaderValue::from_str(&path);
    out.insert(header::LOCATION, location.map_err(|_| Refusal::Internal("the URL of a session"))?);
    if role == RtcRole::Play {
        headers::link_extensions(out, &path);
    }
    out.extend(headers::etag(tag));
    headers::link_ice_servers(out, &control.settings().rtc.ice_servers);
    Ok(response)
}

fn user_agent(headers: &HeaderMap) -> Option<Box<str>> {
    let text = headers.get(header::USER_AGENT)?.to_str().ok()?;
    Some(text.chars().take(USER_AGENT_CHARS_MAX).collect())
}
