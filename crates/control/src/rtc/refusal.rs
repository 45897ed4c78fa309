//! Every way a WHIP or WHEP request is refused, and the answer for each.
//!
//! The codes are those of RFC 9725 section 4 and draft-ietf-wish-whep section 4; clients are told
//! by them in general and by `code` and `message` in particular. What may work later says when
//! (`Retry-After`, RFC 9110 section 10.2.3).

use std::net::IpAddr;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rtc::sdp::{NegotiationError, SdpError};
use rtmp::name::NameError;

use super::headers::{ACCEPT_PATCH, ACCEPT_POST, FRAGMENT};
use super::registry::AtCapacity;
use crate::error_response;
use worker_api::NoAnswer;
use worker_api::auth::Denied;
use worker_api::overload::Overload;
use worker_api::rtc::{LayerRefusal, RtcRefusal};
use worker_api::streams::NotBridged;

/// When to come back after what passes by itself: load, and sessions that did not connect.
const BUSY_SECONDS: u64 = 5;
/// When to look again for a stream that nobody publishes.
const NOT_LIVE_SECONDS: u64 = 2;
/// When a publisher that has begun has said what it sends: its headers come with its first frames.
const NOT_READY_SECONDS: u64 = 1;
/// When a server that is being restarted may be back.
const DRAINING_SECONDS: u64 = 10;

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 400: the path names no stream.
    Path,
    /// 400: no stream may have the name.
    Name(NameError),
    /// 400: `?eip=` is no IP address.
    Address,
    /// 403: `?eip=` is none of the addresses that may be asked for.
    OtherAddress(IpAddr),
    /// 400: a parameter of the URL, and what it takes.
    Parameter(&'static str),
    /// 400: what is wrong with the request for a layer or for events.
    Request(String),
    /// 404: the session publishes, and so it has no layers to choose from and no events.
    NotPlaying,
    /// 404: the stream has no such encoding.
    NoLayer,
    /// 409: there is no choice of layers at present, for this reason.
    NoChoice(&'static str),
    /// 503: as many listen to events, of this session or of all, as may.
    Listeners,
    /// 400: there is no body.
    Empty,
    /// 400: the body is no text.
    NotText,
    /// 400 or 422: the offer or fragment.
    Sdp(SdpError),
    /// 400: `If-Match` is no list of entity tags.
    IfMatch,
    /// 400: new user fragment without a password, or the other way round.
    HalfCredentials,
    /// 401 or 403.
    Denied(Denied),
    /// 404: a path that is made like those of other servers.
    Misplaced,
    /// 404: WebRTC is not configured.
    Off,
    /// 404: no such session, or it has ended.
    NoSession,
    /// 405: the methods that are allowed.
    Method(&'static str),
    /// 406: the client does not take the media type of the answer.
    NotAccepted(&'static str),
    /// 406: published as frames that make no packets, for this reason.
    NotPlayable(NotBridged),
    /// 406: the player lacks what the stream needs; both in words.
    Undecodable(String),
    /// 406: nothing that both sides can do.
    Negotiation(NegotiationError),
    /// 422: some of the media a publisher would send cannot be taken (RFC 9725 section 4.4.3: all
    /// or nothing).
    Partial,
    /// 409: the stream has a publisher.
    Taken,
    /// 409: it has one on another node.
    TakenElsewhere,
    /// 409: nobody publishes the stream.
    NotLive,
    /// 409: published, and it is not known yet as what.
    NotReady,
    /// 412: `If-Match` is of another ICE session.
    OtherIceSession,
    /// 413: the body is too large.
    TooLarge,
    /// 415: the media type that is accepted.
    MediaType(&'static str),
    /// 428: no `If-Match`.
    NoIfMatch,
    /// 429: too many requests of this address; how long to wait.
    TooMany(Duration),
    /// 429: this address has, or opens, as many connections as it may.
    TooManyOfAddress,
    /// 429: too many sessions of this address that are not connected.
    PendingOfAddress,
    /// 503: every worker is full.
    Full,
    /// 503: there is too much to do.
    Overloaded(Overload),
    /// 503: a worker does not answer.
    Silent(NoAnswer),
    /// 503: the server is stopping.
    Draining,
    /// 500: what must not happen.
    Internal(&'static str),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Path
            | Self::Name(_)
            | Self::Address
            | Self::Parameter(_)
            | Self::Request(_)
            | Self::Empty
            | Self::NotText
            | Self::IfMatch
            | Self::HalfCredentials => StatusCode::BAD_REQUEST,
            Self::Sdp(error) if error.is_malformed() => StatusCode::BAD_REQUEST,
            // Understood, and of a kind this server does not do whatever is negotiated.
            Self::Sdp(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Negotiation(NegotiationError::NoCommonCodec) => StatusCode::NOT_ACCEPTABLE,
            Self::Negotiation(_) | Self::Partial => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Denied(denied) if denied.challenge().is_some() => StatusCode::UNAUTHORIZED,
            Self::Denied(denied) if denied.is_exceeded() => StatusCode::TOO_MANY_REQUESTS,
            Self::Denied(denied) if denied.is_temporary() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Denied(_) | Self::OtherAddress(_) => StatusCode::FORBIDDEN,
            Self::Misplaced | Self::Off | Self::NoSession | Self::NotPlaying | Self::NoLayer => {
                StatusCode::NOT_FOUND
            }
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAccepted(_) | Self::NotPlayable(_) | Self::Undecodable(_) => StatusCode::NOT_ACCEPTABLE,
            Self::Taken | Self::TakenElsewhere | Self::NotLive | Self::NotReady | Self::NoChoice(_) => {
                StatusCode::CONFLICT
            }
            Self::OtherIceSession => StatusCode::PRECONDITION_FAILED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NoIfMatch => StatusCode::PRECONDITION_REQUIRED,
            Self::TooMany(_) | Self::TooManyOfAddress | Self::PendingOfAddress => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Full | Self::Overloaded(_) | Self::Silent(_) | Self::Draining | Self::Listeners => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Path | Self::Name(_) => "invalid_name",
            Self::Address | Self::NotText | Self::IfMatch | Self::HalfCredentials => "bad_request",
            Self::Parameter(_) | Self::Request(_) => "bad_request",
            Self::NoLayer => "no_such_layer",
            Self::NoChoice(_) => "no_choice_of_layers",
            Self::Listeners => "too_many_listeners",
            Self::Empty => "malformed_sdp",
            Self::Sdp(error) if error.is_malformed() => "malformed_sdp",
            Self::Sdp(_) | Self::Negotiation(_) | Self::Partial => "unsupported_sdp",
            Self::Denied(denied) => denied.code(),
            Self::OtherAddress(_) => "address_not_allowed",
            Self::Off => "webrtc_off",
            Self::Misplaced | Self::NoSession | Self::NotPlaying => "not_found",
            Self::Method(_) => "method_not_allowed",
            Self::NotAccepted(_) => "not_acceptable",
            Self::NotPlayable(_) => "not_playable",
            Self::Undecodable(_) => "codec_not_supported",
            Self::Taken | Self::TakenElsewhere => "already_published",
            Self::NotLive => "not_live",
            Self::NotReady => "not_ready",
            Self::OtherIceSession => "precondition_failed",
            Self::TooLarge => "payload_too_large",
            Self::MediaType(_) => "unsupported_media_type",
            Self::NoIfMatch => "precondition_required",
            Self::TooMany(_) | Self::TooManyOfAddress | Self::PendingOfAddress => "too_many_requests",
            Self::Full => "full",
            Self::Overloaded(_) => "overloaded",
            Self::Silent(_) => "worker_unavailable",
            Self::Draining => "stopping",
            Self::Internal(_) => "internal_error",
        }
    }

    pub(super) fn message(&self) -> String {
        let text = match self {
            Self::Name(error) => error.reason(),
            Self::Path => {
                "the path must be /whip/{app}/{stream} or /whep/{app}/{stream}, with names in percent-encoded UTF-8 and no slash at the end"
            }
            Self::Address => "eip takes an IP address without a port",
            Self::OtherAddress(ip) => {
                return format!("eip={ip}: only addresses of rtc.addresses_on_request can be asked for");
            }
            Self::Parameter(text) | Self::NoChoice(text) => text,
            Self::Request(text) => return text.clone(),
            Self::NotPlaying => "only sessions that play have layers and events",
            Self::NoLayer => "the stream has no encoding of this name",
            Self::Listeners => "too many readers of events",
            Self::Empty => "the body is empty: an SDP offer is expected",
            Self::NotText => "the body is not UTF-8 text",
            Self::Sdp(error) => return error.to_string(),
            Self::IfMatch => "If-Match is neither `*` nor a list of entity tags",
            Self::HalfCredentials => "an ICE restart needs a=ice-ufrag and a=ice-pwd",
            Self::Denied(Denied::TokenMissing) => {
                "a token is required: Authorization: Bearer TOKEN, or ?token=TOKEN"
            }
            Self::Denied(denied) => denied.reason(),
            Self::Misplaced => "WHIP is at /whip/{app}/{stream}, WHEP at /whep/{app}/{stream}",
            Self::Off => "WebRTC is not configured (rtc.udp_listen)",
            Self::NoSession => "no such session; it may have ended",
            Self::Method(allowed) => return format!("this path takes {allowed} only"),
            Self::NotAccepted(sent) => return format!("the answer is {sent}, which Accept excludes"),
            Self::NotPlayable(reason) => return format!("{reason}; play the stream by RTMP or FLV"),
            Self::Undecodable(reason) => return reason.clone(),
            Self::Negotiation(error) => return error.to_string(),
            Self::Partial => {
                "some of the offered media cannot be taken, and then none is: H.264, H.265, VP8, VP9, AV1, Opus and G.711 can"
            }
            Self::Taken => "the stream has a publisher already",
            Self::TakenElsewhere => "the stream has a publisher already, on another node",
            Self::NotLive => "nobody publishes the stream at present",
            Self::NotReady => "the publisher has begun, and what it sends is not known yet",
            Self::OtherIceSession => "If-Match names another ICE session than the present one",
            Self::TooLarge => "the body is too large",
            Self::MediaType(wanted) => return format!("the body must be {wanted}"),
            Self::NoIfMatch => "If-Match is missing: send the ETag of the ICE session, or `*` to restart ICE",
            Self::TooMany(_) => "too many requests from this address",
            Self::TooManyOfAddress => "too many connections from this address",
            Self::PendingOfAddress => "too many sessions from this address that are not connected",
            Self::Full => "the server is full",
            Self::Overloaded(overload) => overload.reason(),
            Self::Silent(NoAnswer { worker, .. }) => {
                return format!("worker {worker} did not answer in time");
            }
            Self::Draining => "the server is stopping",
            Self::Internal(text) => text,
        };
        text.to_owned()
    }

    fn retry_after(&self) -> Option<u64> {
        match self {
            // Rounded up, so that who waits that long is let in.
            Self::TooMany(wait) => Some((wait.as_millis().div_ceil(1000) as u64).max(1)),
            // A publisher that has lost its connection may find its own old session, which ends soon.
            Self::PendingOfAddress | Self::Full | Self::Silent(_) | Self::Listeners => Some(BUSY_SECONDS),
            Self::Overloaded(_) | Self::TooManyOfAddress => Some(BUSY_SECONDS),
            Self::Denied(denied) if denied.is_exceeded() => Some(BUSY_SECONDS),
            Self::Taken | Self::TakenElsewhere => Some(BUSY_SECONDS),
            Self::Draining => Some(DRAINING_SECONDS),
            Self::NotLive => Some(NOT_LIVE_SECONDS),
            Self::NotReady => Some(NOT_READY_SECONDS),
            _ => None,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = error_response::error(self.status(), self.code(), self.message());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        match self {
            Self::Denied(denied) => {
                let challenge = denied.challenge().map(HeaderValue::from_static);
                headers.extend(challenge.map(|challenge| (header::WWW_AUTHENTICATE, challenge)));
            }
            Self::Method(allowed) => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
            }
            Self::MediaType(wanted) => {
                let name = if wanted == FRAGMENT { ACCEPT_PATCH } else { ACCEPT_POST };
                headers.insert(name, HeaderValue::from_static(wanted));
            }
            _ => {}
        }
        response
    }
}

impl From<SdpError> for Refusal {
    fn from(error: SdpError) -> Self {
        Self::Sdp(error)
    }
}

impl From<NegotiationError> for Refusal {
    fn from(error: NegotiationError) -> Self {
        Self::Negotiation(error)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<NoAnswer> for Refusal {
    fn from(no_answer: NoAnswer) -> Self {
        Self::Silent(no_answer)
    }
}

impl From<AtCapacity> for Refusal {
    fn from(at_capacity: AtCapacity) -> Self {
        match at_capacity {
            AtCapacity::Address => Self::PendingOfAddress,
            AtCapacity::Workers => Self::Full,
            AtCapacity::Overloaded(overload) => Self::Overloaded(overload),
        }
    }
}

impl From<LayerRefusal> for Refusal {
    fn from(refusal: LayerRefusal) -> Self {
        match refusal {
            LayerRefusal::NoSession => Self::NoSession,
            LayerRefusal::NoTrack => Self::NoChoice("the session plays no video, or is not connected yet"),
            LayerRefusal::NoEncoding => Self::NoLayer,
            LayerRefusal::EncodingMissing => {
                Self::Request("encodingId is missing: the stream has several encodings".to_owned())
            }
            LayerRefusal::NoChoice => {
                Self::NoChoice("the stream has no layers to choose from, here or at present")
            }
        }
    }
}

impl From<RtcRefusal> for Refusal {
    fn from(refusal: RtcRefusal) -> Self {
        match refusal {
            RtcRefusal::Taken => Self::Taken,
            RtcRefusal::TakenElsewhere => Self::TakenElsewhere,
            RtcRefusal::NotFound => Self::NotLive,
            RtcRefusal::Full => Self::Full,
            RtcRefusal::TooManyOfAddress => Self::TooManyOfAddress,
            RtcRefusal::Overloaded(overload) => Self::Overloaded(overload),
            RtcRefusal::Draining => Self::Draining,
            RtcRefusal::Invalid => Self::Internal("the worker refused what was negotiated"),
        }
    }
}
