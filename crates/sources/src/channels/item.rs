//! One item while it is played: a thread that reads its file, and the queue of what it has read.
//!
//! The thread waits for files and servers, so that the task that plays never does. It reads ahead
//! as far as the queue and the reader's window allow: an item that is opened early has its first
//! frames ready when the one before ends.

use std::sync::Arc;
use std::time::Duration;

use mp4::{Limits, Mp4, Mp4Error, Sample, Track};
use tokio::sync::{oneshot, watch};

use super::file::MediaFile;
use super::location::Location;
use super::queue::{Closed, Receiver, Sender, queue};
use crate::settings::SourceSettings;

/// Bytes of frames that wait to be played, but for the last one.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// What a queued frame counts besides its bytes.
const FRAME_BYTES: usize = 128;
/// The reader is told this far ahead what will be read,
const HINTED_BYTES: u64 = 32 << 20;
/// and again when so much of it has been read.
const HINT_AGAIN_BYTES: u64 = 24 << 20;

/// What is known of an item once it is open.
#[derive(Debug, Clone)]
pub(super) struct ItemInfo {
    /// Its length; `None` if the file does not say.
    pub duration: Option<Duration>,
    /// Where in it playing begins: the key frame at or before what was asked for.
    pub begins: Duration,
    /// What is played of it: at most one of video and one of audio.
    pub tracks: Vec<Track>,
}

/// An item that is being opened or played. Dropping it ends its thread.
#[derive(Debug)]
pub(super) struct Item {
    opened: oneshot::Receiver<Result<ItemInfo, String>>,
    samples: Receiver<Result<Sample, String>>,
    /// Its receiver is with the thread, which ends when this is dropped.
    _wanted: watch::Sender<bool>,
}

impl Item {
    /// Begins to open `location`, to be played from `join` on. Errors come out of
    /// [`opened`](Self::opened).
    ///
    /// `needs_length`: the file is searched for its length if its index does not say.
    pub(super) fn open(
        location: &Location,
        join: Duration,
        needs_length: bool,
        settings: &Arc<SourceSettings>,
    ) -> Self {
        let (wanted, stop) = watch::channel(false);
        let (tell, opened) = oneshot::channel();
        let (sender, samples) = queue(QUEUE_BYTES_MAX);
        let (location, settings) = (location.clone(), Arc::clone(settings));
        let read = move || {
            let reading = MediaFile::open(&location, &settings, stop)
                .map_err(|error| error.to_string())
                .and_then(|file| open(file, join, needs_length).map_err(|error| error.to_string()));
            let (mp4, result) = match reading {
                Ok((mp4, info)) => (Some(mp4), Ok(info)),
                Err(error) => (None, Err(error)),
            };
            // Nobody listens any more when the item was dropped; then the queue is closed as well.
            let _ = tell.send(result);
            if let Some(mut mp4) = mp4 {
                mp4.get_mut().wait_for_server();
                read_all(mp4, &sender);
            }
        };
        if let Err(error) = worker_api::thread::spawn("channel-item", read) {
            // The thread's ends are dropped with it: what waits for them learns of it.
            tracing::warn!(%error, "no thread for an item of a channel");
        }
        Self { opened, samples, _wanted: wanted }
    }

    /// One that a test reads: what opening gives, and the queue of frames.
    #[cfg(test)]
    pub(crate) fn scripted(
        opened: oneshot::Receiver<Result<ItemInfo, String>>,
        samples: Receiver<Result<Sample, String>>,
    ) -> Self {
        Self { opened, samples, _wanted: watch::Sender::new(false) }
    }

    /// Waits until the item is open. To be asked once; dropping the future loses nothing.
    pub(super) async fn opened(&mut self) -> Result<ItemInfo, String> {
        match (&mut self.opened).await {
            Ok(result) => result,
            Err(_) => Err("the system gives no thread".to_owned()),
        }
    }

    /// The next frame in the order of decoding; `None` after the last. Dropping the future loses
    /// nothing.
    pub(super) async fn next(&mut self) -> Option<Result<Sample, String>> {
        self.samples.pop().await
    }

    /// Waits until no more frames have room, or all are here.
    pub(super) async fn filled(&mut self) {
        self.samples.filled().await;
    }
}

fn open(file: MediaFile, join: Duration, needs_length: bool) -> Result<(Mp4<MediaFile>, ItemInfo), Mp4Error> {
    let mut mp4 = Mp4::open(file, Limits::default())?;
    let duration = if needs_length { mp4.find_duration()? } else { mp4.frames_duration() };
    // Also to the beginning: what the edit list hides before it is left out if a key frame follows.
    let begins = mp4.seek_to(join)?;
    let tracks = mp4.video().into_iter().chain(mp4.audio()).cloned().collect();
    Ok((mp4, ItemInfo { duration, begins, tracks }))
}

/// Reads to the end, or until nobody wants more.
fn read_all(mut mp4: Mp4<MediaFile>, queue: &Sender<Result<Sample, String>>) {
    // Bytes read since the last hint.
    let mut since_hint = u64::MAX;
    loop {
        if since_hint >= HINT_AGAIN_BYTES && mp4.get_ref().takes_hints() {
            // An error here comes again from the frame that is affected.
            if let Ok(upcoming) = mp4.upcoming(HINTED_BYTES) {
                mp4.get_mut().will_need(upcoming);
            }
            since_hint = 0;
        }
        let (entry, bytes) = match mp4.next_sample() {
            Ok(None) => return,
            Ok(Some(sample)) => {
                let bytes = sample.frame.data().len();
                since_hint = since_hint.saturating_add(bytes as u64);
                (Ok(sample), bytes)
            }
            Err(error) => (Err(error.to_string()), 0),
        };
        let is_last = entry.is_err();
        if queue.push(entry, bytes + FRAME_BYTES) == Err(Closed) || is_last {
            return;
        }
    }
}
