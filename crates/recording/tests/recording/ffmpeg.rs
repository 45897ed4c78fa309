//! Frames of every codec, byte for byte, from the publisher to the file, as ffmpeg reads it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use media::{Frame, FrameRole, Timestamp, TrackId};
use recording::settings::Format;

use crate::rig::{Folder, Server, settings};

/// The frames of an MP4 file, in the order in which a publisher sends them.
fn frames_of(path: &Path) -> Vec<Arc<Frame>> {
    let file = std::io::Cursor::new(fs::read(path).unwrap());
    let mut file = mp4::Mp4::open(file, mp4::Limits::default()).unwrap();
    let mut frames = Vec::new();
    while let Some(sample) = file.next_sample().unwrap() {
        frames.extend(sample.config.map(Arc::new));
        frames.push(Arc::new(sample.frame));
    }
    frames
}

/// Seven seconds of test pictures and a tone, encoded by ffmpeg with these options.
fn encoded(folder: &Path, name: &str, options: &str) -> PathBuf {
    let path = folder.join(format!("{name}.source"));
    let sources =
        "-f lavfi -i testsrc=size=160x96:rate=25:duration=7 -f lavfi -i sine=duration=7:sample_rate=48000";
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(sources.split(' '))
        .args(options.split_whitespace())
        .args(["-pix_fmt", "yuv420p", "-strict", "-2", "-f", "mp4"])
        .arg(&path)
        .output()
        .expect("ffmpeg is installed");
    assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    path
}

/// Sizes and hashes of frames, as ffmpeg reads them; `kind` is `v` or `a`.
fn frame_hashes(path: &Path, kind: char) -> Vec<String> {
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(path)
        .args(["-map", &format!("0:{kind}:0"), "-c", "copy", "-f", "framecrc", "-"])
        .output()
        .expect("ffmpeg is installed");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && errors.trim().is_empty(), "{}: {errors}", path.display());
    let text = String::from_utf8(run.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(',').skip(4).take(2).map(str::trim).collect::<Vec<_>>().join(",")).collect()
}

/// The same of frames that were published: Adler-32 that begins with 0 in place of 1.
fn published(frames: &[Arc<Frame>], track: TrackId) -> Vec<String> {
    let hash = |data: &[u8]| {
        let (a, b) = data.iter().fold((0, 0), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        format!("{},0x{:08x}", data.len(), b << 16 | a)
    };
    let is_media = |frame: &&Arc<Frame>| frame.track == track && frame.role != FrameRole::Config;
    frames.iter().filter(is_media).map(|frame| hash(frame.data())).collect()
}

/// Records these frames; the one file that there is then.
fn record(folder: &Folder, format: Format, frames: &[Arc<Frame>]) -> PathBuf {
    let server = Server::start(settings(&folder.0.join("out"), format)).unwrap();
    let mut stream = server.publish("a");
    frames.iter().for_each(|frame| stream.send(frame));
    drop(stream);
    server.stop();
    let files: Vec<_> =
        folder.files().into_iter().filter(|path| path.extension().unwrap() != "source").collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let path = files[0].clone();
    assert_eq!(path.extension().unwrap(), format.extension(), "it is complete");
    path
}

/// Decoded by ffmpeg from the beginning, and after a seek where there is an index.
fn decode(path: &Path, format: Format) {
    for seek in [&[][..], &["-ss", "3"]].into_iter().take(if format == Format::Mp4 { 2 } else { 1 }) {
        let run = Command::new("ffmpeg")
            .args(["-v", "error", "-xerror"])
            .args(seek)
            .arg("-i")
            .arg(path)
            .args(["-f", "null", "-"])
            .output()
            .expect("ffmpeg is installed");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success() && errors.trim().is_empty(), "{}: {errors}", path.display());
    }
}

#[test]
fn every_codec_is_recorded_frame_for_frame() {
    for (name, options) in [
        ("b-frames", "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -g 50 -sc_threshold 0 -c:a aac"),
        ("long-gop", "-c:v libx264 -preset ultrafast -bf 2 -g 250 -sc_threshold 0 -c:a libopus"),
        ("hevc", "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50 -tag:v hvc1 -c:a aac"),
        ("vp9", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus"),
        ("av1", "-c:v libsvtav1 -preset 12 -g 50 -c:a libopus"),
    ] {
        for format in Format::ALL {
            let folder = Folder::new(&format!("{name}-{}", format.extension()));
            let frames = frames_of(&encoded(&folder.0, name, options));
            let path = record(&folder, format, &frames);
            // ffmpeg reads H.264 and AAC from FLV, and what else its version knows of Enhanced RTMP.
            if format == Format::Flv && name != "b-frames" {
                assert!(fs::metadata(&path).unwrap().len() > 10_000);
                continue;
            }
            for (kind, track) in [('v', TrackId::VIDEO), ('a', TrackId::AUDIO)] {
                assert_eq!(frame_hashes(&path, kind), published(&frames, track), "{name} {kind}");
            }
            decode(&path, format);
        }
    }
}

/// Decode and presentation times of packets, as ffprobe has them.
fn times(path: &Path) -> Vec<String> {
    let run = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-show_entries",
            "packet=stream_index,pts_time,dts_time,flags",
            "-of",
            "csv=p=0",
        ])
        .arg(path)
        .output()
        .expect("ffprobe is installed");
    let mut lines: Vec<_> = String::from_utf8(run.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_file_has_the_same_times_before_and_after_it_is_complete() {
    for silence in [0, 700] {
        check_times(Timestamp::from_millis(silence));
    }
}

/// With audio that begins so much later than video.
fn check_times(silence: Timestamp) {
    let folder = Folder::new(&format!("times-{}", silence.millis()));
    let options = "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -g 50 -sc_threshold 0 -c:a aac";
    let mut frames = frames_of(&encoded(&folder.0, "times", options));
    frames.retain(|frame| frame.role != FrameRole::Audio || frame.dts >= silence);
    let path = record(&folder, Format::Mp4, &frames);
    let complete = fs::read(&path).unwrap();
    // Its head as it was, and without the index at its end: what a crash would have left.
    let index_at = 28 + u64::from_be_bytes(complete[36..44].try_into().unwrap()) as usize;
    let mut growing = complete[..index_at].to_vec();
    growing[28..44].copy_from_slice(b"\0\0\0\x10free\0\0\0\0\0\0\0\0");
    let before = folder.0.join("growing.mp4");
    fs::write(&before, growing).unwrap();
    assert_eq!(times(&before), times(&path));
    // "Fast start" is moving the index in front: ffmpeg does it without a complaint.
    let moved = folder.0.join("moved.mp4");
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(&path)
        .args(["-c", "copy", "-movflags", "+faststart"])
        .arg(&moved)
        .output()
        .unwrap();
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    for (kind, track) in [('v', TrackId::VIDEO), ('a', TrackId::AUDIO)] {
        assert_eq!(frame_hashes(&moved, kind), published(&frames, track));
    }
}
