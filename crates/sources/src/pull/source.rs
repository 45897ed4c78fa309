//! A stream of another server, whichever protocol it comes by.

use std::net::SocketAddr;
use std::time::Duration;

use media::Frame;
use rtmp::flv::{FlvError, read_frames};

use super::failure::Failure;
use super::hls::{Hls, Played};
use super::http_flv::HttpFlv;
use super::rtmp_play::RtmpPlay;
use super::rtsp_play::RtspPlay;
use super::spec::Origin;
use super::srt::SrtPlay;
use super::udp::UdpTs;
use super::whep::WhepPlay;
use crate::settings::SourceSettings;
use worker_api::snapshot::SrtSessionSnapshot;

/// An open stream.
#[derive(Debug)]
pub(super) enum Source {
    Hls(Box<Hls>),
    Http(Box<HttpFlv>),
    Rtmp(Box<RtmpPlay>),
    Rtsp(Box<RtspPlay>),
    Srt(Box<SrtPlay>),
    Udp(Box<UdpTs>),
    Whep(Box<WhepPlay>),
}

/// A message: the frame in it and those of its other tracks, or why it is none.
pub(super) type Read = Result<(Frame, Vec<Frame>), FlvError>;

impl Source {
    /// Opens it: name, address, TCP, TLS, with HTTP the head of the answer, with HLS the playlists.
    /// `played` is what this pull has played to its end.
    pub(super) async fn open(
        origin: &Origin,
        settings: &SourceSettings,
        played: &Played,
    ) -> Result<Self, Failure> {
        Ok(match origin {
            Origin::Hls(url) => Self::Hls(Box::new(Hls::open(url, settings, played).await?)),
            Origin::Http(url) => Self::Http(Box::new(HttpFlv::open(url, settings).await?)),
            Origin::Udp(url) => Self::Udp(Box::new(UdpTs::open(url, settings)?)),
            Origin::Srt(url) => Self::Srt(Box::new(SrtPlay::open(url, settings).await?)),
            Origin::Rtsp(url) => Self::Rtsp(Box::new(RtspPlay::open(url, settings).await?)),
            Origin::Whep(endpoint) => Self::Whep(Box::new(WhepPlay::open(endpoint, settings).await?)),
            Origin::Rtmp(url) => Self::Rtmp(Box::new(RtmpPlay::open(url, settings).await?)),
        })
    }

    /// Waits for bytes, and says how many came. Then take messages until there is none.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        match self {
            Self::Hls(source) => source.fill().await,
            Self::Http(source) => source.fill().await,
            Self::Rtmp(source) => source.fill().await,
            Self::Rtsp(source) => source.fill().await,
            Self::Srt(source) => source.fill().await,
            Self::Udp(source) => source.fill().await,
            Self::Whep(source) => source.fill().await,
        }
    }

    /// The next message that has come as a whole.
    pub(super) fn next_message(&mut self) -> Result<Option<Read>, Failure> {
        Ok(match self {
            Self::Hls(source) => source.next_frame().map(|frame| Ok((frame, Vec::new()))),
            Self::Http(source) => source.next_message()?.map(read_frames),
            Self::Rtmp(source) => source.next_message()?.map(read_frames),
            Self::Rtsp(source) => source.next_frame().map(|frame| Ok((frame, Vec::new()))),
            Self::Whep(source) => source.next_frame().map(|frame| Ok((frame, Vec::new()))),
            Self::Srt(source) => source.ts.next_frame().map(|frame| Ok((frame, Vec::new()))),
            Self::Udp(source) => source.ts.next_frame().map(|frame| Ok((frame, Vec::new()))),
        })
    }

    /// Nothing more comes: what has no end but the beginning of the next has ended.
    pub(super) fn finish(&mut self) {
        match self {
            Self::Srt(source) => source.ts.finish(),
            Self::Udp(source) => source.ts.finish(),
            Self::Hls(_) | Self::Http(_) | Self::Rtmp(_) | Self::Rtsp(_) | Self::Whep(_) => {}
        }
    }

    /// Time without a message after which it is given up.
    pub(super) fn stall_timeout(&self, settings: &SourceSettings) -> Duration {
        match self {
            Self::Hls(source) => source.stall_timeout(),
            _ => settings.stall_timeout,
        }
    }

    /// Whether it waits for somebody to begin: there is no end to that.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Udp(source) if source.peer().is_none())
    }

    /// Why it waits although something comes.
    pub(super) fn unheard(&self) -> Option<String> {
        match self {
            Self::Udp(source) => source.unheard(),
            _ => None,
        }
    }

    /// Why no media comes although bytes do.
    pub(super) fn complaint(&self) -> String {
        let complaint = match self {
            Self::Srt(source) => source.ts.complaint(),
            Self::Udp(source) => source.ts.complaint(),
            _ => None,
        };
        complaint.unwrap_or_else(|| "nothing of what the source sends is media that can be read".to_owned())
    }

    /// Whether it comes by SRT.
    pub(super) fn is_srt(&self) -> bool {
        matches!(self, Self::Srt(_))
    }

    /// Its SRT connection, once there is one.
    pub(super) fn srt(&self) -> Option<SrtSessionSnapshot> {
        match self {
            Self::Srt(source) => source.link(),
            _ => None,
        }
    }

    /// Who sends it, where that is known.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Hls(source) => source.peer(),
            Self::Http(source) => source.peer(),
            Self::Rtmp(source) => source.peer(),
            Self::Rtsp(source) => source.peer(),
            Self::Srt(source) => Some(source.peer()),
            Self::Udp(source) => source.peer(),
            Self::Whep(source) => source.peer(),
        }
    }
}
