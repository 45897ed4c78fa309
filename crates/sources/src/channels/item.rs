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

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::ops::Range;
    use std::process::Command;
    use std::sync::Mutex;

    use range_reader::http::address::AddressPolicy;

    use super::*;
    use crate::settings::AddedBy;

    type Asked = Arc<Mutex<Vec<Vec<Range<usize>>>>>;

    #[tokio::test]
    async fn what_an_item_reads_is_asked_for_in_few_requests_and_without_its_gaps() {
        let film = film();
        let (port, asked) = serve(film.clone());
        let url = format!("http://127.0.0.1:{port}/film.mp4");
        let location = Location::parse(&url, None, AddedBy::Configuration).expect("a URL");
        let settings = SourceSettings { addresses: AddressPolicy::Any, ..SourceSettings::default() };
        let mut item = Item::open(&location, Duration::ZERO, false, &Arc::new(settings));
        let tracks = item.opened().await.expect("a film").tracks.len();
        assert_eq!(tracks, 2, "a picture and audio");
        let mut useful = 0;
        while let Some(sample) = item.next().await {
            useful += sample.expect("a sample").frame.data().len();
        }
        let asked = asked.lock().expect("requests").clone();
        let bytes: usize = asked.iter().flatten().map(|range| range.len()).sum();
        // Head and index, and all that is read; the other picture is not. Losing the hints makes it 1.5
        // times as many bytes, or an answer without end.
        assert!(asked.len() <= 4, "{asked:?}");
        assert!(useful * 3 < film.len() * 2, "{useful} of {}", film.len());
        assert!(bytes < useful * 11 / 10 + 40_000, "{bytes} asked for {useful}: {asked:?}");
    }

    /// Two pictures and audio, in pieces of half a second; the index is at the end.
    fn film() -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("millstream-item-{}.mp4", std::process::id()));
        let picture = "testsrc2=size=320x180:rate=25:duration=20,noise=alls=20:allf=t";
        let made = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", picture])
            .args(["-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", "sine=frequency=440:duration=20"])
            .args(["-map", "0:v", "-map", "1:v", "-map", "2:a", "-c:v", "libx264", "-preset", "ultrafast"])
            .args(["-pix_fmt", "yuv420p", "-bf", "0", "-g", "25", "-c:a", "aac"])
            .args(["-chunk_duration", "500000"])
            .arg(&path)
            .output()
            .expect("ffmpeg: scripts/setup");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let film = std::fs::read(&path).expect("a film");
        std::fs::remove_file(&path).expect("removed");
        film
    }

    /// A server of one file, which keeps what it is asked for. Its threads end with the test's process.
    fn serve(film: Vec<u8>) -> (u16, Asked) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (film, asked) = (Arc::new(film), Asked::default());
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (film, log) = (Arc::clone(&film), Arc::clone(&log));
                std::thread::spawn(move || while answer(&socket, &film, &log).is_some() {});
            }
        });
        (port, asked)
    }

    /// Answers one request for ranges; `None` at the end of the connection.
    fn answer(mut socket: &TcpStream, film: &[u8], log: &Mutex<Vec<Vec<Range<usize>>>>) -> Option<()> {
        let mut ranges = Vec::new();
        for line in BufReader::new(socket).lines() {
            let line = line.ok()?.to_ascii_lowercase();
            if let Some(wanted) = line.strip_prefix("range: bytes=") {
                let parse = |text: &str| {
                    let (first, last) = text.split_once('-')?;
                    let end = last.parse().map_or(film.len(), |last: usize| film.len().min(last + 1));
                    Some(first.parse().ok()?..end)
                };
                ranges = wanted.split(',').map(parse).collect::<Option<_>>()?;
            }
            if line.is_empty() {
                break;
            }
        }
        log.lock().expect("requests").push(ranges.clone());
        let place = |range: &Range<usize>| {
            format!("content-range: bytes {}-{}/{}\r\n", range.start, range.end - 1, film.len())
        };
        let (fields, body) = match &ranges[..] {
            [] => return None,
            [range] => (place(range), film[range.clone()].to_vec()),
            ranges => {
                let part = |range: &Range<usize>| {
                    let head = format!("\r\n--cut\r\n{}\r\n", place(range)).into_bytes();
                    [head, film[range.clone()].to_vec()].concat()
                };
                let parts = ranges.iter().map(part).chain([b"\r\n--cut--\r\n".to_vec()]);
                let kind = "content-type: multipart/byteranges; boundary=cut\r\n".to_owned();
                (kind, parts.collect::<Vec<_>>().concat())
            }
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\netag: \"1\"\r\ncontent-length: {length}\r\n{fields}\r\n"
        );
        socket.write_all(head.as_bytes()).ok()?;
        socket.write_all(&body).ok()
    }
}
