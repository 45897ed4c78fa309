//! One media playlist, followed: loaded again while it is live, its segments fetched in order and read
//! ahead of their time, as far as there is room.
//!
//! A task of its own for each playlist, so that segments come while frames wait for their time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hls::read::{Key, Map, MediaPlaylist, Playlist, Segment};
use media::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use super::super::failure::Failure;
use super::demux::{Reader, Wanted};
use super::fetch::{FetchError, Fetcher, MAP_BYTES_MAX, SEGMENT_BYTES_MAX, decrypt};
use super::window::{Window, target_duration};
use crate::backoff::random;
use crate::peer::said;
use crate::settings::SourceSettings;

/// Segments that are read and wait.
pub(super) const SEGMENTS_AHEAD_MAX: usize = 2;
/// Requests for segments are at least so far apart: a playlist of very short or missing ones makes
/// nobody send a flood of them.
const SEGMENT_SPACING: Duration = Duration::from_millis(50);
/// A playlist is not loaded more often, whatever its target duration.
const RELOAD_MIN: Duration = Duration::from_millis(300);
/// What could not be fetched is asked for again, once, after this.
const AGAIN: Duration = Duration::from_millis(500);
/// Segments in a row that cannot be had.
const MISSING_MAX: u32 = 3;
/// Loads of a playlist in a row that fail.
const LOADS_FAILED_MAX: u32 = 3;
/// Target durations without a new segment after which a live playlist is dead.
const UNCHANGED_TARGETS_MAX: u32 = 3;
/// Permits are of so many bytes each.
const PERMIT_BYTES: usize = 1 << 10;

/// What comes of a playlist.
#[derive(Debug)]
pub(super) enum News {
    /// A segment.
    Piece(Piece),
    /// The playlist has ended, and all of it was given out.
    End(EndMark),
    /// Nothing more comes.
    Failed(Failure),
}

/// The frames of a segment.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) frames: VecDeque<Frame>,
    /// Pieces of the same number have one clock.
    pub(super) period: u64,
    /// The room that it takes.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// The end of a playlist: another end is that of something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndMark {
    number: u64,
    /// Its last segment, without what changes from request to request.
    path: String,
}

impl EndMark {
    /// `None`: it goes on.
    pub(super) fn of(playlist: &MediaPlaylist) -> Option<Self> {
        let last = playlist.segments.last().map_or("", |segment| segment.uri.as_str());
        let path = last.split(['?', '#']).next().unwrap_or_default().to_owned();
        let number = playlist.media_sequence.saturating_add(playlist.segments.len() as u64);
        playlist.is_ended.then_some(Self { number, path })
    }
}

/// A playlist that was loaded, and where it is.
#[derive(Debug)]
pub(super) struct Loaded {
    /// What it is loaded from.
    pub(super) url: Url,
    /// Where that has led to.
    pub(super) base: Url,
    pub(super) playlist: MediaPlaylist,
}

impl Loaded {
    pub(super) async fn load(fetcher: &Fetcher, url: Url) -> Result<Self, FetchError> {
        match fetcher.playlist(&url).await? {
            (base, Playlist::Media(playlist)) => Ok(Self { url, base, playlist }),
            (_, Playlist::Master(_)) => {
                Err(FetchError::Final("a master playlist lists another one, or itself".to_owned()))
            }
        }
    }
}

/// Follows one playlist.
#[derive(Debug)]
pub(super) struct Follower {
    fetcher: Arc<Fetcher>,
    news: mpsc::Sender<News>,
    room: Arc<Semaphore>,
    reader: Reader,
    window: Window,
    stall_timeout: Duration,
    /// The key that was fetched last, and its URL.
    key: Option<(Url, [u8; 16])>,
    /// The map that was fetched last.
    map: Option<(Url, Arc<Map>, Arc<Vec<u8>>)>,
    missing: u32,
    last_request: Instant,
}

impl Follower {
    /// One, and where its news come.
    pub(super) fn new(
        fetcher: Arc<Fetcher>,
        wanted: Wanted,
        settings: &SourceSettings,
    ) -> (Self, mpsc::Receiver<News>) {
        let (news, comes) = mpsc::channel(SEGMENTS_AHEAD_MAX);
        let follower = Self {
            fetcher,
            news,
            room: Arc::new(Semaphore::new(SEGMENT_BYTES_MAX / PERMIT_BYTES)),
            reader: Reader::new(wanted, settings.message_bytes_max),
            window: Window::default(),
            stall_timeout: settings.stall_timeout,
            key: None,
            map: None,
            missing: 0,
            last_request: Instant::now(),
        };
        (follower, comes)
    }

    /// Runs until the playlist ends or fails, or nobody takes its news.
    pub(super) async fn run(mut self, first: Loaded) {
        let last = match self.follow(first).await {
            Ok(mark) => News::End(mark),
            Err(failure) => News::Failed(failure),
        };
        // Whoever is gone needs no news.
        let _ = self.news.send(last).await;
    }

    async fn follow(&mut self, mut loaded: Loaded) -> Result<EndMark, Failure> {
        let mut changed = Instant::now();
        loop {
            let began = Instant::now();
            let lost = self.window.lost;
            let next = self.window.load(&loaded.playlist);
            if self.window.lost > lost {
                tracing::warn!(segments = self.window.lost - lost, "HLS segments left the playlist unplayed");
            }
            let has_changed = !next.is_empty();
            for index in next {
                let segment = &loaded.playlist.segments[index];
                let (number, period) = self.window.take(segment);
                self.segment(&loaded.base, segment, number, period).await?;
            }
            if let Some(mark) = EndMark::of(&loaded.playlist) {
                return Ok(mark);
            }
            let target = target_duration(&loaded.playlist);
            if has_changed {
                changed = Instant::now();
            }
            let dead_after = (target * UNCHANGED_TARGETS_MAX).max(self.stall_timeout);
            // RFC 8216 section 6.3.4; all who follow a playlist do not come at the same moment.
            let pause = if has_changed { target } else { target / 2 };
            let pause = pause.mul_f64(0.9 + 0.2 * f64::from(random()) / f64::from(u32::MAX));
            sleep_until((began + pause).max(Instant::now() + RELOAD_MIN.min(pause))).await;
            loaded = self.load_again(loaded, target).await?;
            if changed.elapsed() > dead_after && self.is_unchanged(&loaded.playlist) {
                let seconds = changed.elapsed().as_secs();
                return Err(Failure::new(format!("the playlist has had no new segment for {seconds} s")));
            }
        }
    }

    fn is_unchanged(&mut self, playlist: &MediaPlaylist) -> bool {
        !playlist.is_ended && self.window.load(playlist).is_empty()
    }

    async fn load_again(&self, loaded: Loaded, target: Duration) -> Result<Loaded, Failure> {
        let mut failures = 0;
        loop {
            match Loaded::load(&self.fetcher, loaded.url.clone()).await {
                Ok(loaded) => return Ok(loaded),
                Err(FetchError::Missing(reason)) if failures + 1 < LOADS_FAILED_MAX => {
                    tracing::debug!(reason, "an HLS playlist is loaded again");
                    failures += 1;
                    sleep(target / 2 * failures).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fetches and reads a segment, and hands it on. One that cannot be had is passed; not too many.
    async fn segment(
        &mut self,
        base: &Url,
        segment: &Segment,
        number: u64,
        period: u64,
    ) -> Result<(), Failure> {
        if segment.is_gap {
            return Ok(());
        }
        sleep_until(self.last_request + SEGMENT_SPACING).await;
        self.last_request = Instant::now();
        let mut outcome = self.fetch(base, segment, number).await;
        if matches!(outcome, Err(FetchError::Missing(_))) {
            sleep(AGAIN).await;
            outcome = self.fetch(base, segment, number).await;
        }
        let reason = match outcome {
            Ok((frames, room)) if !frames.is_empty() => {
                self.missing = 0;
                let piece = Piece { frames: frames.into(), period, room: Some(room) };
                // The receiver ends this task when it ends.
                let _ = self.news.send(News::Piece(piece)).await;
                return Ok(());
            }
            Ok(_) => "a segment has nothing that can be played".to_owned(),
            Err(FetchError::Missing(reason)) => reason,
            Err(FetchError::Final(reason)) => return Err(Failure::new(reason)),
        };
        self.missing += 1;
        tracing::warn!(segment = number, reason, "an HLS segment is left out");
        if self.missing >= MISSING_MAX { Err(Failure::new(reason)) } else { Ok(()) }
    }

    async fn fetch(
        &mut self,
        base: &Url,
        segment: &Segment,
        number: u64,
    ) -> Result<(Vec<Frame>, OwnedSemaphorePermit), FetchError> {
        let map = match &segment.map {
            Some(map) => Some(self.map(base, map, number).await?),
            None => None,
        };
        let url = self.fetcher.resolve(base, &segment.uri)?;
        let bytes = self.fetcher.media(&url, segment.range, SEGMENT_BYTES_MAX, segment.duration).await?;
        let bytes = self.plain(bytes, base, segment.key.as_deref(), number).await?;
        // Frames take about as much as their segment.
        let permits = bytes.len().div_ceil(PERMIT_BYTES).min(SEGMENT_BYTES_MAX / PERMIT_BYTES) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let room = room.map_err(|_| FetchError::Final("there is no room".to_owned()))?;
        let init = map.and_then(|()| self.map.as_ref().map(|(_, _, bytes)| Arc::clone(bytes)));
        let frames = self.reader.read(bytes, init).await.map_err(FetchError::Missing)?;
        Ok((frames, room))
    }

    /// Has the map of a segment fetched.
    async fn map(&mut self, base: &Url, map: &Arc<Map>, number: u64) -> Result<(), FetchError> {
        let url = self.fetcher.resolve(base, &map.uri)?;
        if self.map.as_ref().is_some_and(|(known, of, _)| *known == url && of == map) {
            return Ok(());
        }
        let bytes = self.fetcher.media(&url, map.range, MAP_BYTES_MAX, Duration::ZERO).await?;
        let bytes = self.plain(bytes, base, map.key.as_deref(), number).await?;
        self.map = Some((url, Arc::clone(map), Arc::new(bytes)));
        Ok(())
    }

    async fn plain(
        &mut self,
        bytes: Vec<u8>,
        base: &Url,
        key: Option<&Key>,
        number: u64,
    ) -> Result<Vec<u8>, FetchError> {
        let (uri, iv) = match key {
            None => return Ok(bytes),
            Some(Key::Aes128 { uri, iv }) => (uri, iv),
            Some(Key::Other(method)) => {
                let method = said(method, "");
                let reason =
                    format!("segments are encrypted by {method}; only AES-128 of whole segments is read");
                return Err(FetchError::Final(reason));
            }
        };
        let url = self.fetcher.resolve(base, uri)?;
        let key = match &self.key {
            Some((known, key)) if *known == url => *key,
            _ => {
                let key = self.fetcher.key(&url).await?;
                self.key = Some((url, key));
                key
            }
        };
        let iv = iv.unwrap_or_else(|| u128::from(number).to_be_bytes());
        // On another thread, as a segment is read there.
        let plain = tokio::task::spawn_blocking(move || decrypt(bytes, key, iv)).await.ok().flatten();
        plain.ok_or_else(|| FetchError::Missing("a segment cannot be decrypted".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_playlist_says_is_cut_in_the_reason() {
        let url = Url::parse("https://a.example/x.m3u8").expect("a URL");
        let settings = SourceSettings::default();
        let fetcher = Arc::new(Fetcher::new(&url, &settings).expect("a client"));
        let (mut follower, _news) = Follower::new(fetcher, Wanted::All, &settings);
        let key = Key::Other(format!("SAMPLE-AES\u{1b}[31m{}", "z".repeat(100_000)));
        let Err(FetchError::Final(reason)) = follower.plain(Vec::new(), &url, Some(&key), 0).await else {
            panic!("it is not read");
        };
        assert!(reason.starts_with("segments are encrypted by SAMPLE-AES[31mzz"), "{reason}");
        assert!(reason.ends_with("z; only AES-128 of whole segments is read") && reason.len() < 500);
    }
}
