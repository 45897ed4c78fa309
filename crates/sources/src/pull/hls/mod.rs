//! HLS of another server: playlists and segments as one stream of frames, each at its time.
//!
//! ```text
//! playlist ─▶ window: which segments are next ─┐
//! segment ──▶ demux ─▶ frames, up to two ahead ┴▶ merge ─▶ pace ─▶ frames
//! (a task per playlist: rendition.rs)              one clock       one by one
//! ```
//!
//! `url.rs` says which variant is wanted, `fetch.rs` asks for bytes, `rendition.rs` follows a
//! playlist, `window.rs` knows its numbers. Playlists are read by `hls::read`.
//!
//! Segments come in bursts of seconds: frames leave at their times (`crate::pace`), so that a stream
//! is as even as that of a publisher. What a pull holds is bounded: per playlist, frames of
//! [`fetch::SEGMENT_BYTES_MAX`] bytes, and up to three times more that while a segment is read: it,
//! samples that wait for their turn, and its frames. Segments are decrypted and read on other threads.

mod demux;
mod fetch;
mod merge;
mod rendition;
mod url;
mod window;

pub use self::url::HlsUrl;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::hls::read::{MasterPlaylist, Playlist};
use media::Frame;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use self::demux::Wanted;
use self::fetch::Fetcher;
use self::merge::Merge;
use self::rendition::{EndMark, Follower, Loaded, News, SEGMENTS_AHEAD_MAX};
use self::window::target_duration;
use super::failure::Failure;
use crate::pace::Pace;
use crate::settings::SourceSettings;

/// Frames that are given out at once.
const BATCH: usize = 64;
/// While frames are gathered, how often it is looked whether there is room for more.
const GATHER_CHECK: Duration = Duration::from_millis(100);
/// Target durations without a frame after which the source is given up; playlists that stand still
/// fail before.
const STALL_TARGETS: u32 = 4;
/// What is said of a playlist that has ended.
const ENDED: &str = "the playlist has ended";

/// The end that was played last, over all attempts of a pull: it is not played again.
#[derive(Debug, Clone, Default)]
pub(super) struct Played(Arc<Mutex<Option<EndMark>>>);

/// An open stream.
#[derive(Debug)]
pub(super) struct Hls {
    fetcher: Arc<Fetcher>,
    lanes: Vec<Lane>,
    merge: Merge,
    pace: Pace,
    held: Option<Held>,
    ready: VecDeque<Frame>,
    stall_timeout: Duration,
    played: Played,
    end: Option<EndMark>,
    /// Why nothing more comes, as long as frames before that have not been taken.
    failure: Option<Failure>,
}

/// One playlist; its task ends with it.
#[derive(Debug)]
struct Lane {
    news: mpsc::Receiver<News>,
    task: AbortHandle,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The frame that leaves next.
#[derive(Debug)]
struct Held {
    frame: Frame,
    due: Instant,
    /// Frames are gathered behind it until then.
    gathers: bool,
}

impl Hls {
    /// Loads the playlists, and begins to fetch.
    pub(super) async fn open(
        url: &HlsUrl,
        settings: &SourceSettings,
        played: &Played,
    ) -> Result<Self, Failure> {
        let fetcher = Arc::new(Fetcher::new(&url.url, settings)?);
        let (main, audio) = match fetcher.playlist(&url.url).await? {
            (base, Playlist::Media(playlist)) => (Loaded { url: url.url.clone(), base, playlist }, None),
            (base, Playlist::Master(master)) => Self::of_master(&fetcher, url, &base, &master).await?,
        };
        let end = EndMark::of(&main.playlist);
        if end.is_some() && *played.lock() == end {
            return Err(Failure::new(ENDED.to_owned()));
        }
        let target = target_duration(&main.playlist);
        let wanted = if audio.is_some() { Wanted::NoAudio } else { Wanted::All };
        let followed = [(main, wanted)].into_iter().chain(audio.map(|audio| (audio, Wanted::Audio)));
        let lanes: Vec<Lane> = followed
            .map(|(loaded, wanted)| {
                let (follower, news) = Follower::new(Arc::clone(&fetcher), wanted, settings);
                Lane { news, task: tokio::spawn(follower.run(loaded)).abort_handle() }
            })
            .collect();
        Ok(Self {
            merge: Merge::new(lanes.len()),
            pace: Pace::new(settings.stall_timeout),
            held: None,
            ready: VecDeque::new(),
            stall_timeout: settings.stall_timeout + target * STALL_TARGETS,
            played: played.clone(),
            end: None,
            failure: None,
            fetcher,
            lanes,
        })
    }

    async fn of_master(
        fetcher: &Fetcher,
        url: &HlsUrl,
        base: &::url::Url,
        master: &MasterPlaylist,
    ) -> Result<(Loaded, Option<Loaded>), Failure> {
        let chosen = url.choice.of(master);
        let chosen = chosen.ok_or_else(|| Failure::new("the playlist lists no variant".to_owned()))?;
        let (variant, audio) = (chosen.variant, chosen.audio);
        let resolution = variant.resolution;
        tracing::debug!(bandwidth = variant.bandwidth, ?resolution, "HLS variant chosen");
        let main = Loaded::load(fetcher, fetcher.resolve(base, &variant.uri)?).await?;
        let audio = match audio {
            Some(uri) => Some(Loaded::load(fetcher, fetcher.resolve(base, uri)?).await?),
            None => None,
        };
        Ok((main, audio))
    }

    /// Waits until frames are due, and says how many bytes came meanwhile.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.ready.len() < BATCH {
            let now = Instant::now();
            match &self.held {
                Some(held) if held.due <= now => self.ready.extend(self.held.take().map(|held| held.frame)),
                _ if !self.ready.is_empty() && !self.has_more() => break,
                Some(held) if held.gathers && self.is_full() => {
                    self.pace.go_on(now, held.due);
                    self.held.iter_mut().for_each(|held| (held.due, held.gathers) = (now, false));
                }
                Some(held) if held.gathers => sleep_until(held.due.min(now + GATHER_CHECK)).await,
                Some(held) => sleep_until(held.due).await,
                None => match self.hold().await {
                    Ok(()) => {}
                    Err(failure) if self.ready.is_empty() => return Err(failure),
                    Err(failure) => {
                        self.failure = Some(failure);
                        break;
                    }
                },
            }
        }
        Ok(self.fetcher.take_received())
    }

    /// Whether there is a frame without waiting.
    fn has_more(&self) -> bool {
        self.held.is_none() && self.merge.needs().is_none_or(|lane| !self.lanes[lane].news.is_empty())
    }

    /// Whether no more can be fetched ahead.
    fn is_full(&self) -> bool {
        self.lanes.iter().all(|lane| lane.news.len() >= SEGMENTS_AHEAD_MAX || lane.task.is_finished())
    }

    /// Waits for the next frame, and gives it its time.
    async fn hold(&mut self) -> Result<(), Failure> {
        let mut was_awaited = false;
        while let Some(index) = self.merge.needs() {
            let news = &mut self.lanes[index].news;
            let next = match news.try_recv() {
                Err(TryRecvError::Empty) => {
                    was_awaited = true;
                    news.recv().await
                }
                next => next.ok(),
            };
            match next {
                Some(News::Piece(piece)) => self.merge.push(index, piece),
                Some(News::End(mark)) => {
                    // The first playlist says what it is that has ended.
                    if index == 0 {
                        self.end = Some(mark);
                    }
                    self.merge.end(index);
                }
                Some(News::Failed(failure)) => return Err(failure),
                None => return Err(Failure::new("a playlist is not followed any more".to_owned())),
            }
        }
        let Some(frame) = self.merge.next() else {
            debug_assert!(self.merge.has_ended());
            *self.played.lock() = self.end.take();
            return Err(Failure::new(ENDED.to_owned()));
        };
        let now = Instant::now();
        let at = frame.dts.millis().max(0).cast_unsigned();
        let (due, late) = self.pace.due(now, at, was_awaited);
        self.held = Some(Held { frame, due, gathers: !late.is_zero() && due > now });
        Ok(())
    }

    /// The next frame that is due.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Who has answered last.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.fetcher.peer()
    }

    /// Time without a frame after which it is given up.
    pub(super) fn stall_timeout(&self) -> Duration {
        self.stall_timeout
    }
}

impl Played {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<EndMark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
