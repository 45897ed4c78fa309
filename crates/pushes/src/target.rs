//! A server or receiver that a stream is sent to, whichever protocol it takes it by.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::Frame;
use sources::settings::SourceSettings;
use worker_api::snapshot::SrtSessionSnapshot;

use crate::failure::{Failure, NotSent};
use crate::rtmp::RtmpPush;
use crate::rtsp::RtspPush;
use crate::spec::TargetUrl;
use crate::srt::SrtPush;
use crate::udp::UdpPush;
use crate::whip::{OwnPorts, WhipPush};

/// Longest goodbye.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// An open target.
#[derive(Debug)]
pub(crate) enum Target {
    Rtmp(Box<RtmpPush>),
    Rtsp(Box<RtspPush>),
    Srt(Box<SrtPush>),
    Udp(Box<UdpPush>),
    Whip(Box<WhipPush>),
}

impl Target {
    /// Opens it: it accepts the stream when this returns. `own_ports` are those this server listens
    /// on, `is_pushed` says whether a stream of this server would be pushed, and `begin` is what
    /// the stream begins with, where the target wants to know its tracks
    /// ([`TargetUrl::needs_tracks`]).
    pub(crate) async fn open(
        url: &TargetUrl,
        settings: &SourceSettings,
        own_ports: &[u16],
        is_pushed: impl Fn(&str) -> bool,
        begin: &[Arc<Frame>],
    ) -> Result<Self, Failure> {
        // What a push sends to this server is pushed again, and so on.
        let would_loop = url.stream().is_some_and(|stream| is_pushed(&stream));
        let all_ports = own_ports;
        let own_ports = if would_loop { own_ports } else { &[] };
        Ok(match url {
            TargetUrl::Rtmp(url) => Self::Rtmp(Box::new(RtmpPush::open(url, settings, own_ports).await?)),
            TargetUrl::Rtsp(url) => {
                Self::Rtsp(Box::new(RtspPush::open(url, settings, own_ports, begin).await?))
            }
            TargetUrl::Srt(url) => Self::Srt(Box::new(SrtPush::open(url, settings, own_ports).await?)),
            TargetUrl::Whip(endpoint) => {
                let ports = OwnPorts { first: own_ports, redirected: all_ports };
                Self::Whip(Box::new(WhipPush::open(endpoint, settings, ports, begin).await?))
            }
            TargetUrl::Udp(target) => Self::Udp(Box::new(UdpPush::open(target)?)),
        })
    }

    /// Takes a frame, which [`drive`](Self::drive) sends.
    pub(crate) fn send(&mut self, frame: &Frame) -> Result<(), NotSent> {
        match self {
            Self::Rtmp(target) => target.send(frame),
            Self::Rtsp(target) => target.send(frame),
            Self::Srt(target) => target.send(frame),
            Self::Udp(target) => target.send(frame),
            Self::Whip(target) => target.send(frame),
        }
    }

    /// Whether it takes another frame at present.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            Self::Rtmp(target) => target.wire().has_room(),
            Self::Rtsp(target) => target.has_room(),
            Self::Srt(target) => target.has_room(),
            Self::Udp(target) => target.has_room(),
            Self::Whip(target) => target.has_room(),
        }
    }

    /// Whether the peer has asked for a key frame since the last call.
    pub(crate) fn take_key_frame_request(&mut self) -> bool {
        match self {
            Self::Whip(target) => target.take_key_frame_request(),
            Self::Rtmp(_) | Self::Rtsp(_) | Self::Srt(_) | Self::Udp(_) => false,
        }
    }

    /// Whether something waits for the peer to take it.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            Self::Rtmp(target) => target.wire().pending() > 0,
            Self::Rtsp(target) => target.wire().pending() > 0,
            Self::Srt(target) => !target.has_room(),
            // Nobody has to take it.
            Self::Udp(_) => false,
            Self::Whip(target) => target.is_blocked(),
        }
    }

    /// Moves bytes, and says how many went out. Nothing is lost when it is dropped while it waits.
    pub(crate) async fn drive(&mut self) -> Result<u64, Failure> {
        match self {
            Self::Rtmp(target) => target.drive().await,
            Self::Rtsp(target) => target.drive().await,
            Self::Srt(target) => target.drive().await,
            Self::Udp(target) => target.drive().await,
            Self::Whip(target) => target.drive().await,
        }
    }

    /// Whether a stream begins here with its newest key frame, not with what came since: the
    /// receiver would get a burst that its clock does not allow.
    pub(crate) fn begins_live(&self) -> bool {
        matches!(self, Self::Udp(_))
    }

    /// Sends the end of the stream, as far as the peer takes it.
    pub(crate) async fn finish(self) {
        let finishing = async {
            match self {
                Self::Rtmp(target) => target.finish().await,
                Self::Rtsp(target) => target.finish().await,
                Self::Srt(target) => target.finish().await,
                Self::Udp(target) => target.finish().await,
                Self::Whip(target) => target.finish().await,
            }
        };
        // Who does not take it is left alone.
        let _ = tokio::time::timeout(FINISH_WITHIN, finishing).await;
    }

    /// Whether it takes SRT.
    pub(crate) fn is_srt(&self) -> bool {
        matches!(self, Self::Srt(_))
    }

    /// Its SRT connection, if it has one.
    pub(crate) fn srt(&self) -> Option<SrtSessionSnapshot> {
        match self {
            Self::Srt(target) => target.link(),
            Self::Rtmp(_) | Self::Rtsp(_) | Self::Udp(_) | Self::Whip(_) => None,
        }
    }

    /// Where it is.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Rtmp(target) => target.wire().peer(),
            Self::Rtsp(target) => target.wire().peer(),
            Self::Srt(target) => Some(target.peer()),
            Self::Udp(target) => Some(target.peer()),
            Self::Whip(target) => target.peer(),
        }
    }
}
