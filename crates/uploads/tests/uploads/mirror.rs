//! Live streams in the store, by a store that checks what is written: whenever a playlist is written, all
//! that it names is there, and nothing is deleted that one names.

use std::sync::Arc;
use std::time::Duration;

use cmaf::Segmenter;
use hls::Window;
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use tokio::sync::watch;
use uploads::UploadsThread;
use uploads::settings::{Destination, MirrorSettings, UploadSettings};
use worker_api::pattern::Pattern;
use worker_api::segments::{SegmentsState, SegmentsUpdate, SegmentsView};

use crate::common::{Folder, content, settings, start, until};
use crate::fake::{FakeStore, Fault, On};
use crate::playlist::{Playlist, check};

/// When streams begin, seconds since 1970.
const BEGIN: u64 = 1_700_000_000;
/// Pictures of a second, which is a segment.
const RATE: i64 = 10;

/// A stream that is published: frames in, views out.
struct Live {
    segmenter: Segmenter,
    window: Window,
    tag: Arc<str>,
    views: watch::Sender<SegmentsUpdate>,
    second: i64,
}

impl Live {
    /// `tag` stands for when it was cut first.
    fn new(tag: &str, first_msn: u64) -> Self {
        let segment = Timestamp::from_millis(1_000);
        let segmenter = Segmenter::new(cmaf::Settings { segment, first_msn, ..cmaf::Settings::default() });
        let window = Window::new(hls::Settings::default());
        let state = SegmentsState::Pending;
        let views = watch::Sender::new(SegmentsUpdate { key: "live/mill".into(), state });
        let mut live = Self { segmenter, window, tag: tag.into(), views, second: 0 };
        let zero = (Timestamp::ZERO, Timestamp::ZERO);
        live.push(&Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, zero, AVCC.to_vec()));
        live.push(&Frame::new(TrackId::AUDIO, FrameRole::Config, Codec::Aac, zero, vec![0x11, 0x90]));
        live
    }

    fn push(&mut self, frame: &Frame) {
        let now = Duration::from_secs(BEGIN) + frame.dts.to_duration();
        self.segmenter.push(now, frame.dts, &Arc::new(frame.clone()));
        self.show();
    }

    fn show(&mut self) {
        while let Some(output) = self.segmenter.poll_output() {
            if let Some(target) = self.segmenter.target_duration() {
                self.window.set_target_duration(target);
            }
            self.window.push(output);
        }
        let (tag, window) = (Arc::clone(&self.tag), Arc::new(self.window.clone()));
        let state = SegmentsState::Objects(SegmentsView { tag, window, viewers: Arc::default() });
        self.views.send_replace(SegmentsUpdate { key: "live/mill".into(), state });
    }

    /// Publishes so many seconds more.
    fn publish(&mut self, seconds: i64) {
        for tenth in self.second * RATE..(self.second + seconds) * RATE {
            let time = Timestamp::from_millis(tenth * 1000 / RATE);
            let is_key = tenth % RATE == 0;
            let role = if is_key { FrameRole::Key } else { FrameRole::Inter };
            let picture = content(if is_key { 9_000 } else { 1_500 }, tenth as u32);
            self.push(&Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), picture));
            // Sound of a tenth of a second, in frames of 1024 samples.
            for index in tenth * 4_800 / 1_024..(tenth + 1) * 4_800 / 1_024 {
                let time = Timestamp::from_ticks(index * 1_024, 48_000);
                let sound = content(340, index as u32 + 1_000_000);
                self.push(&Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, (time, time), sound));
            }
        }
        self.second += seconds;
    }

    fn end(&mut self) {
        self.segmenter.finish();
        self.show();
    }

    /// Publishes and has each second's segments sent before the next.
    fn publish_slowly(&mut self, seconds: i64, thread: &UploadsThread) {
        for _ in 0..seconds {
            let sent = thread.uploads().mirror_totals().sent;
            self.publish(1);
            if self.second > 1 {
                until("a segment is sent", || thread.uploads().mirror_totals().sent > sent);
            }
        }
    }
}

fn mirroring(store: &FakeStore) -> UploadSettings {
    let mirror = MirrorSettings {
        streams: Pattern::new("live/*"),
        prefix: "hls".into(),
        listed: Duration::from_secs(6),
        deletes: false,
        waiting_bytes: 64 << 20,
    };
    UploadSettings { mirror: Some(mirror), ..settings(store) }
}

fn deleting(store: &FakeStore) -> UploadSettings {
    let settings = mirroring(store);
    let mirror = settings.mirror.clone().map(|mirror| MirrorSettings { deletes: true, ..mirror });
    UploadSettings { mirror, ..settings }
}

fn mirror(thread: &UploadsThread, live: &Live) {
    thread.uploads().mirror("live", "mill", "live/mill".into(), live.views.subscribe());
}

const VIDEO: &str = "hls/live/mill/v0.m3u8";
const AUDIO: &str = "hls/live/mill/a0.m3u8";
const INDEX: &str = "hls/live/mill/index.m3u8";

fn text(store: &FakeStore, key: &str) -> String {
    store.object(key).map(|object| String::from_utf8(object.content).expect("text")).unwrap_or_default()
}

fn has_ended(store: &FakeStore) -> bool {
    [VIDEO, AUDIO].iter().all(|key| text(store, key).ends_with("#EXT-X-ENDLIST\n"))
}

/// Reads all that was written of a playlist by the strict reader, each as an update of the one before.
fn check_all(store: &FakeStore, key: &str) -> Playlist {
    let mut last = None;
    for (_, text) in store.playlists().into_iter().filter(|(of, _)| of == key) {
        last = Some(check(&text, last.as_ref()));
    }
    last.expect("it was written")
}

/// The bytes of all segments that the window has made, by name.
fn is_whole(store: &FakeStore, live: &Live, id: TrackId, msn: u64) -> bool {
    let segment = live.window.complete_from(id, msn).next().expect("it is in the window");
    let name = hls::Object::Segment(id, segment.msn);
    let there = store.object(&format!("hls/live/mill/{}/{name}", live.tag));
    there.map(|object| object.content) == Some(segment.content.concat())
}

#[test]
fn a_live_stream_is_in_the_store_as_its_segments_come() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let thread = start(&folder, mirroring(&store));
    let mut live = Live::new("18bcfe56800", 100);
    mirror(&thread, &live);
    live.publish_slowly(4, &thread);
    until("all playlists are there", || [VIDEO, AUDIO, INDEX].iter().all(|key| store.object(key).is_some()));
    live.publish_slowly(12, &thread);
    live.end();
    until("it has ended there, too", || has_ended(&store));
    assert_eq!(store.untrue(), [""; 0]);
    let (video, audio) = (check_all(&store, VIDEO), check_all(&store, AUDIO));
    assert_eq!((video.media_sequence + video.segments.len() as u64, video.segments.len()), (116, 6));
    // Whole frames of audio are a little shorter or longer than the pictures beside them.
    assert!(audio.media_sequence.abs_diff(video.media_sequence) <= 1 && audio.segments.len() <= 7);
    let index = text(&store, INDEX);
    assert!(index.contains("\nv0.m3u8\n") && index.contains("URI=\"a0.m3u8\""), "{index}");
    for msn in video.media_sequence..116 {
        assert!(is_whole(&store, &live, TrackId::VIDEO, msn) && is_whole(&store, &live, TrackId::AUDIO, msn));
    }
    let totals = thread.uploads().mirror_totals();
    assert_eq!((totals.sent, totals.left_out, totals.failures, totals.waiting_bytes), (34, 0, 0, 0));
    assert_eq!(store.count(On::Put), 34, "each once: 16 segments and an init segment of each rendition");
    assert_eq!(store.count(On::Delete), 0);
}

/// Every fault of every kind of request: all segments arrive, once, and no playlist was untrue at any time.
#[test]
fn a_store_that_fails_delays_segments_and_nothing_is_untrue() {
    let faults = [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(403),
        Fault::Hang,
        Fault::Reset,
        Fault::LoseAnswer,
        Fault::Forget,
        Fault::Slow,
    ];
    for fault in faults {
        for on in [On::Head, On::Put, On::Playlist] {
            let (folder, store) = (Folder::new(), FakeStore::start());
            let mut settings = mirroring(&store);
            // Media comes faster than time goes here: nothing is late.
            settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(60);
            let thread = start(&folder, settings);
            let mut live = Live::new("18bcfe56800", 100);
            mirror(&thread, &live);
            live.publish(3);
            store.fail(on, 3, fault);
            live.publish(4);
            live.end();
            until("it has ended there, too", || has_ended(&store));
            // A playlist that the store has lost, and said that it has, is written with the next segment.
            assert_eq!(store.untrue(), [""; 0], "{fault:?} on {on:?}");
            let video = check_all(&store, VIDEO);
            assert!(video.segments.iter().all(|entry| !entry.is_gap), "{fault:?} on {on:?}");
            let from = video.media_sequence;
            assert!(
                (from..107).all(|msn| is_whole(&store, &live, TrackId::VIDEO, msn)),
                "{fault:?} on {on:?}"
            );
            let totals = thread.uploads().mirror_totals();
            assert_eq!((totals.sent, totals.left_out), (16, 0), "{fault:?} on {on:?}: each once");
        }
    }
}

#[test]
fn what_finds_no_room_while_the_store_is_away_is_a_gap_and_what_comes_then_is_there() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let mut settings = mirroring(&store);
    let mirror_settings = settings.mirror.as_mut().expect("it is set");
    // Three or four segments of 22 kB and their sound.
    mirror_settings.waiting_bytes = 120_000;
    mirror_settings.listed = Duration::from_secs(60);
    let thread = start(&folder, settings);
    let uploads = thread.uploads();
    let mut live = Live::new("18bcfe56800", 100);
    mirror(&thread, &live);
    live.publish_slowly(4, &thread);
    until("all playlists are there", || store.object(INDEX).is_some());
    store.fail(On::Any, usize::MAX, Fault::Status(503));
    for _ in 0..20 {
        live.publish(1);
        assert!(uploads.mirror_totals().waiting_bytes <= 120_000 + 60_000);
        // The uploads' thread sees each second.
        std::thread::sleep(Duration::from_millis(5));
    }
    until("the store was asked", || uploads.mirror_totals().failures > 0);
    store.recover();
    live.end();
    until("it has ended there, too", || has_ended(&store));
    assert_eq!(store.untrue(), [""; 0]);
    let video = check_all(&store, VIDEO);
    assert_eq!((video.media_sequence, video.segments.len()), (100, 24));
    let gaps = video.segments.iter().filter(|entry| entry.is_gap).count();
    assert!((10..=20).contains(&gaps), "{gaps}");
    assert!(!video.segments[23].is_gap && is_whole(&store, &live, TrackId::VIDEO, 123));
    assert!(uploads.mirror_totals().left_out >= gaps as u64);
    assert_eq!(uploads.mirror_totals().waiting_bytes, 0);
}

#[test]
fn segments_out_of_the_playlists_are_deleted_where_asked_and_all_after_the_end() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    // Of another program, and of recordings.
    store.insert("hls/live/mill/notes.txt", b"mine");
    store.insert("live/mill/20261127T190500.123Z.mp4", b"a recording");
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(3);
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    live.publish_slowly(10, &thread);
    live.end();
    until("it has ended there, too", || has_ended(&store));
    until("all is deleted", || store.keys().len() == 2);
    assert_eq!(store.untrue(), [""; 0]);
    until("nothing of it is left", || thread.uploads().mirror_totals().streams == 0);
    let totals = thread.uploads().mirror_totals();
    // One that came too late to be sent is deleted in case that it was.
    let media = totals.sent + totals.left_out;
    assert_eq!(totals.deleted, media + 3, "media and three playlists");
}

#[test]
fn a_segment_that_is_left_out_after_an_answer_was_lost_is_deleted_too() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(3);
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    live.publish_slowly(4, &thread);
    until("all playlists are there", || store.object(INDEX).is_some());
    // What comes now is in the store, which does not say so until it is too late.
    store.fail(On::Head, usize::MAX, Fault::LoseAnswer);
    live.publish(1);
    until("it is there", || thread.uploads().mirror_totals().failures > 0);
    live.publish(8);
    store.recover();
    live.end();
    until("nothing of it is left", || store.keys().is_empty());
    assert!(thread.uploads().mirror_totals().left_out > 0);
    assert_eq!(store.untrue(), [""; 0]);
}

/// A tag of this process, whose objects are not taken for those of an earlier one.
fn later() -> String {
    format!("{:x}", worker_api::time::since_1970().as_millis() + 1_000_000)
}

#[test]
fn what_a_killed_server_has_left_is_deleted_by_the_next() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.insert("hls/live/other/index.m3u8", b"#EXTM3U\n");
    store.insert("hls/live/other/v0.m3u8", b"#EXTM3U\n");
    store.insert("hls/live/other/17a/v0/17.m4s", b"a segment");
    store.insert("hls/live/mill/17a/v0/17.m4s", b"a segment");
    store.insert("hls/live/mill/17a/v0/init-0.mp4", b"an init segment");
    store.insert(VIDEO, b"#EXTM3U\n");
    store.insert("hls/live/mill/notes.txt", b"mine");
    store.fail(On::List, 2, Fault::Status(500));
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    live.publish_slowly(5, &thread);
    let of_others = || store.keys().into_iter().filter(|key| key.contains("17a") || key.contains("other"));
    until("what is left is deleted", || of_others().next().is_none());
    assert_eq!(text(&store, "hls/live/mill/notes.txt"), "mine");
    until("its own playlists are there", || store.object(INDEX).is_some());
    assert!(check_all(&store, VIDEO).segments.len() >= 3, "it goes on meanwhile");
    assert_eq!(store.untrue(), [""; 0]);
}

#[test]
fn a_stream_that_is_published_again_replaces_its_playlists_when_it_has_segments() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let thread = start(&folder, mirroring(&store));
    let mut live = Live::new("18bcfe56800", 100);
    mirror(&thread, &live);
    live.publish_slowly(4, &thread);
    live.end();
    until("it has ended there, too", || has_ended(&store));
    let mut again = Live::new("18bcfe56900", 200);
    mirror(&thread, &again);
    again.publish_slowly(4, &thread);
    again.end();
    until("the second has ended", || {
        has_ended(&store) && [VIDEO, AUDIO].iter().all(|key| text(&store, key).contains("18bcfe56900"))
    });
    assert_eq!(store.untrue(), [""; 0]);
    let of_video: Vec<_> = store.playlists().into_iter().filter(|(key, _)| key == VIDEO).collect();
    let first = of_video.iter().rposition(|(_, text)| text.contains("18bcfe56800")).expect("it was there");
    assert!(of_video[first].1.ends_with("#EXT-X-ENDLIST\n"), "an end stays until the second replaces it");
    assert_eq!(check(&text(&store, VIDEO), None).media_sequence, 200);
    until("nothing is left to do", || thread.uploads().mirror_totals().streams == 0);
}

#[test]
fn an_object_of_somebody_else_under_the_name_of_a_segment_stays() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let thread = start(&folder, mirroring(&store));
    store.insert("hls/live/mill/18bcfe56800/v0/101.m4s", b"another");
    let mut live = Live::new("18bcfe56800", 100);
    mirror(&thread, &live);
    live.publish_slowly(4, &thread);
    live.end();
    until("it has ended there, too", || has_ended(&store));
    let gaps: Vec<_> = check_all(&store, VIDEO).segments.iter().map(|entry| entry.is_gap).collect();
    assert_eq!(gaps, [false, true, false, false]);
    assert_eq!(text(&store, "hls/live/mill/18bcfe56800/v0/101.m4s"), "another");
}

#[test]
fn other_streams_are_not_sent() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let thread = start(&folder, mirroring(&store));
    let (mut other, mut live) = (Live::new("18bcfe56800", 100), Live::new("18bcfe56800", 100));
    thread.uploads().mirror("private", "mill", "private/mill".into(), other.views.subscribe());
    mirror(&thread, &live);
    other.publish(4);
    live.publish_slowly(4, &thread);
    until("the stream that is sent is there", || store.object(INDEX).is_some());
    assert!(store.keys().iter().all(|key| key.starts_with("hls/live/mill/")));
}

/// Record with one SPS and one PPS (96x64), sizes of four bytes.
const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";

/// Deletes soon, and pauses for longer than any test lasts after what fails.
fn pausing_for_ever(store: &FakeStore) -> UploadSettings {
    let mut settings = deleting(store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    (settings.retry_min, settings.retry_max) = (Duration::from_secs(600), Duration::from_secs(600));
    settings.stall_timeout = Duration::from_secs(600);
    settings
}

#[test]
fn what_cannot_be_cleaned_up_keeps_no_segment_waiting() {
    for (on, fault) in [
        (On::Delete, Fault::Status(403)),
        (On::Delete, Fault::Hang),
        (On::List, Fault::Status(403)),
        (On::List, Fault::Hang),
    ] {
        let (folder, store) = (Folder::new(), FakeStore::start());
        store.fail(on, usize::MAX, fault);
        let thread = start(&folder, pausing_for_ever(&store));
        let mut live = Live::new(&later(), 100);
        mirror(&thread, &live);
        live.publish_slowly(3, &thread);
        until("it is tried", || {
            // Segments go on to leave the playlist, so that some are to be deleted.
            live.publish_slowly(1, &thread);
            store.count(on) > 0
        });
        live.publish_slowly(12, &thread);
    }
}

#[test]
fn segments_that_come_without_a_pause_keep_no_deletion_from_its_end() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::Delete, usize::MAX, Fault::Slow);
    let thread = start(&folder, deleting(&store));
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    until("something is deleted", || {
        live.publish_slowly(1, &thread);
        thread.uploads().mirror_totals().deleted > 2
    });
    assert_eq!(store.untrue(), [""; 0]);
}

#[test]
fn a_clock_that_was_set_back_has_nothing_deleted_that_is_live() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    store.fail(On::List, 3, Fault::Status(500));
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    let thread = start(&folder, settings);
    // A stream that seems to be older than the process.
    let mut live = Live::new("17b", 100);
    mirror(&thread, &live);
    live.publish_slowly(3, &thread);
    until("it is known what there is", || store.count(On::List) > 3);
    until("something is deleted", || {
        live.publish_slowly(1, &thread);
        thread.uploads().mirror_totals().deleted > 2
    });
    assert_eq!(store.untrue(), [""; 0]);
    assert!(store.object("hls/live/mill/17b/v0/init-100.mp4").is_some());
}

#[test]
fn an_object_of_somebody_else_under_the_name_of_an_init_segment_stays() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    let key = format!("hls/live/mill/{}/v0/init-100.mp4", live.tag);
    store.insert(&key, b"another");
    mirror(&thread, &live);
    live.publish(4);
    until("the sound is sent", || thread.uploads().mirror_totals().sent > 3);
    live.end();
    until("nothing of it is left", || thread.uploads().mirror_totals().streams == 0);
    assert_eq!(store.keys(), [key]);
}

#[test]
fn a_directory_keeps_no_folders_of_streams_that_were_deleted() {
    let (folder, out, store) = (Folder::new(), Folder::new(), FakeStore::start());
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    settings.destination = Destination::Directory(out.0.clone());
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    live.publish_slowly(3, &thread);
    until("the playlists are there", || out.0.join("hls/live/mill/index.m3u8").exists());
    live.end();
    until("nothing of it is left", || thread.uploads().mirror_totals().streams == 0);
    assert!(!out.0.join("hls/live/mill").exists());
}

#[test]
fn a_stream_that_is_over_leaves_its_room_to_those_that_are_live() {
    let (folder, store) = (Folder::new(), FakeStore::start());
    let mut settings = deleting(&store);
    settings.mirror.as_mut().expect("it is set").listed = Duration::from_secs(1);
    store.fail(On::Any, usize::MAX, Fault::Status(503));
    let thread = start(&folder, settings);
    let mut live = Live::new(&later(), 100);
    mirror(&thread, &live);
    live.publish(3);
    until("segments wait", || thread.uploads().mirror_totals().waiting_bytes > 0);
    live.end();
    until("none waits", || thread.uploads().mirror_totals().waiting_bytes == 0);
    assert!(thread.uploads().mirror_totals().left_out > 0);
}
