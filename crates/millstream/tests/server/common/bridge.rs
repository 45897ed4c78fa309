//! A live RTMP publisher for the bridges' tests, the bridges' counters, and what a viewer of H.264
//! and Opus has got.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtmp::MediaKind;
use rtmp::flv::Tag;

use super::eventually;
use super::http;
use super::rtc::{Client, OPUS, VP8};
use super::rtmp::RtmpClient;
use super::server::Server;

/// Publishes tags at the speed of their timestamps, again and again, until it is dropped: then its
/// connection breaks.
pub(crate) struct LivePublisher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LivePublisher {
    /// Starts; publishing has been accepted when this returns.
    pub(crate) fn start(server: SocketAddr, stream: &str, tags: Vec<Tag>) -> Self {
        let mut client = RtmpClient::publish(server, stream);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (began, mut offset) = (Instant::now(), 0);
            loop {
                for tag in &tags {
                    // Headers come once: what follows the first round continues it.
                    let is_header = offset > 0 && is_header(tag);
                    let due = began + Duration::from_millis(u64::from(offset + tag.timestamp));
                    // The publisher's pace.
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    if !is_header {
                        client.send(tag.kind, offset + tag.timestamp, &tag.body);
                    }
                }
                offset += tags.last().expect("tags").timestamp + 40;
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for LivePublisher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().expect("it ends once").join();
    }
}

/// Whether a tag is a sequence header or metadata.
pub(crate) fn is_header(tag: &Tag) -> bool {
    tag.kind == MediaKind::Data || tag.timestamp == 0 && tag.body.get(1) == Some(&0)
}

/// A publisher whose audio goes on at the speed of its timestamps as long as it is asked to, and whose frames
/// come when the test says so.
pub(crate) struct SteppedPublisher {
    pub(crate) client: RtmpClient,
    /// Behind its sequence header.
    audio: Vec<Tag>,
    sent: usize,
    began: Instant,
}

impl SteppedPublisher {
    /// Publishes the audio of the sample.
    pub(crate) fn start(server: SocketAddr, stream: &str) -> Self {
        Self::start_behind(server, stream, &[])
    }

    /// The same, behind these tags.
    pub(crate) fn start_behind(server: SocketAddr, stream: &str, tags: &[Tag]) -> Self {
        let mut client = RtmpClient::publish(server, stream);
        client.send_tags(tags);
        let (headers, audio): (Vec<Tag>, Vec<Tag>) = sample_audio().into_iter().partition(is_header);
        client.send_tags(&headers);
        Self { client, audio, sent: 0, began: Instant::now() }
    }

    /// Sends the audio that is due.
    pub(crate) fn turn(&mut self) {
        let round_ms = self.audio.last().expect("audio").timestamp + 23;
        loop {
            let tag = &self.audio[self.sent % self.audio.len()];
            let timestamp = (self.sent / self.audio.len()) as u32 * round_ms + tag.timestamp;
            if self.began.elapsed() < Duration::from_millis(u64::from(timestamp)) {
                return;
            }
            self.client.send(tag.kind, timestamp, &tag.body);
            self.sent += 1;
        }
    }
}

/// The audio of the sample, AAC.
pub(crate) fn sample_audio() -> Vec<Tag> {
    super::flv::sample_tags().into_iter().filter(|tag| tag.kind == MediaKind::Audio).collect()
}

/// A sample of the bridge's own tests, video alone: `h264-b2.flv` has two B-frames between others.
pub(crate) fn video_sample(name: &str) -> Vec<Tag> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bridge/tests/samples").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    super::flv::tags_of(&bytes)
}

/// A metric of `/metrics` whose labels contain `labels`, summed; `None` if there is none.
pub(crate) fn metric(server: &Server, name: &str, labels: &str) -> Option<f64> {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.starts_with(['{', ' ']) && rest.contains(labels);
        value.then(|| rest.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok())).flatten()
    });
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// Waits until a metric has this value: workers report about once a second.
pub(crate) fn wait_for_metric(server: &Server, name: &str, labels: &str, expected: f64) {
    let mut seen = None;
    eventually(&format!("{name}{{{labels}}} is {expected}"), || {
        seen = metric(server, name, labels);
        (seen == Some(expected)).then_some(())
    });
}

/// What a viewer has got so far.
#[derive(Debug, Default)]
pub(crate) struct Viewed {
    /// Frames (markers) and packets of audio.
    pub(crate) frames: u32,
    pub(crate) audio: u32,
    /// Frames whose timestamp was before that of the frame before.
    pub(crate) backwards: u32,
    /// Whether a packet of video begins with an H.264 key frame or its parameter sets (RFC 6184: IDR, SPS,
    /// STAP-A).
    pub(crate) key_frame: bool,
    last: Option<u32>,
}

impl Viewed {
    /// Takes what has come to the viewer.
    pub(crate) fn take(&mut self, viewer: &mut Client) {
        for packet in viewer.media.drain(..) {
            let packet = rtp::Packet::parse(&packet).expect("a packet of the server");
            match packet.payload_type() {
                OPUS => self.audio += 1,
                VP8 if !packet.payload().is_empty() => {
                    let timestamp = packet.timestamp();
                    let back = self.last.is_some_and(|last| timestamp.wrapping_sub(last) >= 1 << 31);
                    (self.backwards, self.last) = (self.backwards + u32::from(back), Some(timestamp));
                    self.frames += u32::from(packet.marker());
                    self.key_frame |= is_key(packet.payload());
                }
                _ => {}
            }
        }
    }
}

fn is_key(payload: &[u8]) -> bool {
    match payload[0] & 0x1f {
        5 | 7 | 24 => true,
        // FU-A: the type is in the second byte.
        28 => payload.get(1).is_some_and(|header| header & 0x1f == 5),
        _ => false,
    }
}
