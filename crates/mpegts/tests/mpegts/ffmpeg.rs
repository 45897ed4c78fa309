//! Frames of every codec, both ways, with ffmpeg at the other end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use mpegts::DemuxSettings;

use crate::common::{contents, demux, mux};

const SOURCES: [(&str, &str, &str); 4] = [
    ("b-frames", "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -g 25 -c:a aac", "h264_mp4toannexb"),
    ("mp3", "-c:v libx264 -preset ultrafast -g 25 -c:a libmp3lame", "h264_mp4toannexb"),
    ("opus", "-c:v libx264 -preset ultrafast -g 25 -c:a libopus", "h264_mp4toannexb"),
    (
        "hevc",
        "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -tag:v hvc1 -c:a aac -ar 44100",
        "hevc_mp4toannexb",
    ),
];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mpegts-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What ffmpeg prints; it must have nothing to complain about.
fn ffmpeg(args: &[&str]) -> String {
    let mut command = Command::new("ffmpeg");
    let run = command.args(["-v", "error", "-y"]).args(args).output().expect("ffmpeg is installed");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && errors.trim().is_empty(), "{args:?}: {errors}");
    String::from_utf8(run.stdout).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Three seconds of test pictures and a tone.
fn encoded(folder: &Folder, options: &str) -> PathBuf {
    let is_mp3 = options.contains("mp3");
    let path = folder.0.join(if is_mp3 { "source.flv" } else { "source.mp4" });
    let inputs =
        "-f lavfi -i testsrc=size=160x96:rate=25:duration=3 -f lavfi -i sine=duration=3:sample_rate=48000";
    let mut args: Vec<&str> = inputs.split(' ').chain(options.split(' ')).collect();
    args.extend(["-ac", "2", "-pix_fmt", "yuv420p", "-strict", "-2"]);
    if is_mp3 {
        args.extend(["-ar", "44100"]);
    }
    args.push(text(&path));
    ffmpeg(&args);
    path
}

/// The frames of an MP4 file as a publisher sends them: in order of their DTS.
fn frames_of(path: &Path) -> Vec<Frame> {
    if path.extension().is_some_and(|extension| extension == "flv") {
        let mut file = rtmp::flv::FlvReader::new(1 << 20);
        file.push(&fs::read(path).expect("a file"));
        let tags = std::iter::from_fn(|| file.next_tag().expect("a tag"));
        return tags.map(|tag| rtmp::flv::read_frames(tag.into()).expect("a frame").0).collect();
    }
    let file = std::io::Cursor::new(fs::read(path).expect("a file"));
    let mut file = mp4::Mp4::open(file, mp4::Limits::default()).expect("a file of ffmpeg");
    let mut frames = Vec::new();
    while let Some(sample) = file.next_sample().expect("a sample") {
        frames.extend(sample.config);
        frames.push(sample.frame);
    }
    frames.sort_by_key(|frame| frame.dts);
    frames
}

/// Times in ticks of 90 kHz from the first on, sizes and sums, of a stream of a file.
fn listing(path: &Path, options: &[&str]) -> Vec<[String; 4]> {
    let mut args = vec!["-i", text(path)];
    args.extend(options);
    args.extend(["-f", "framecrc", "-"]);
    let listing = ffmpeg(&args);
    let lines: Vec<Vec<&str>> = listing
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(',').map(str::trim).collect())
        .collect();
    let number = |text: &str| text.parse::<i64>().expect("a number");
    let first = lines.iter().map(|line| number(line[1])).min().unwrap_or(0);
    let time = |text: &str| (number(text) - first).to_string();
    lines.iter().map(|line| [time(line[1]), time(line[2]), line[4].to_owned(), line[5].to_owned()]).collect()
}

#[test]
fn ffmpeg_reads_every_frame_as_it_was() {
    for (name, options, annex_b) in SOURCES {
        let folder = Folder::new(&format!("read-{name}"));
        let source = encoded(&folder, options);
        let written = folder.0.join("written.ts");
        fs::write(&written, mux(&frames_of(&source))).expect("a file");
        let decoded = ["-map", "0:v", "-fps_mode", "passthrough", "-enc_time_base", "1:90000"];
        let (want, got) = (listing(&source, &decoded), listing(&written, &decoded));
        assert!(want.len() == 75 && got == want, "{name}: pictures");
        // The same units, but for delimiters and parameter sets, which belong in a transport stream.
        let without = match annex_b {
            "h264_mp4toannexb" => "filter_units=remove_types=7-9",
            _ => "filter_units=remove_types=32-35|39",
        };
        let filter = format!("{annex_b},{without}");
        let want = listing(&source, &["-map", "0:v", "-c", "copy", "-bsf:v", &filter]);
        let got = listing(&written, &["-map", "0:v", "-c", "copy", "-bsf:v", without]);
        let bytes = |lines: &[[String; 4]]| {
            lines.iter().map(|[_, _, size, sum]| (size.clone(), sum.clone())).collect::<Vec<_>>()
        };
        assert_eq!(bytes(&got), bytes(&want), "{name}: units");
        let filter = if options.contains("aac") { "aac_adtstoasc" } else { "null" };
        let want = listing(&source, &["-map", "0:a", "-c", "copy"]);
        let got = listing(&written, &["-map", "0:a", "-c", "copy", "-bsf:a", filter]);
        assert_eq!(bytes(&got), bytes(without_priming(&want, got.len())), "{name}: audio");
    }
}

#[test]
fn every_frame_that_ffmpeg_writes_is_read_as_it_was() {
    for (name, options, _) in SOURCES {
        let folder = Folder::new(&format!("write-{name}"));
        let source = encoded(&folder, options);
        for (form, more) in [("adts", &[][..]), ("latm", &["-mpegts_flags", "latm"])] {
            if form == "latm" && !options.contains("aac") {
                continue;
            }
            let written = folder.0.join("written.ts");
            let mut args = vec!["-i", text(&source), "-c", "copy"];
            args.extend(more);
            args.push(text(&written));
            ffmpeg(&args);
            let bytes = fs::read(&written).expect("a file");
            let source = frames_of(&source);
            for chunk in [188, 1316, 100_000, 61] {
                let (frames, demuxer) = demux(&bytes, chunk, DemuxSettings::default());
                compare(&format!("{name} {form} {chunk}"), &source, &frames);
                let counters = demuxer.counters();
                let broken = counters.frames_invalid + counters.pes_invalid + counters.discontinuities;
                assert_eq!((broken, counters.sync_losses), (0, 0), "{name}: {counters:?}");
                assert_eq!(demuxer.program(), Some(1));
            }
        }
    }
}

/// Without what an encoder puts ahead of its audio, which the index of the file leaves out.
fn without_priming<T>(frames: &[T], count: usize) -> &[T] {
    let more = frames.len().checked_sub(count).expect("a frame is missing");
    assert!(more <= 1, "{more} frames too many");
    &frames[more..]
}

fn is_media(role: FrameRole) -> bool {
    matches!(role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio)
}

fn compare(name: &str, source: &[Frame], frames: &[Frame]) {
    for track in [TrackId::VIDEO, TrackId::AUDIO] {
        let (want, got) = (contents(source, track), contents(frames, track));
        let media = |contents: &[(FrameRole, Vec<u8>)]| {
            let media = contents.iter().filter(|(role, _)| is_media(*role));
            media.cloned().collect::<Vec<_>>()
        };
        let (want, got) = (media(&want), media(&got));
        let got = without_priming(&got, want.len());
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            // Of H.265, ffmpeg repeats what the encoder says of itself in the configuration.
            let is_longer = got.0 == FrameRole::Key && name.starts_with("hevc") && got.1.ends_with(&want.1);
            assert!(
                got == want || is_longer,
                "{name} {track:?} {at}: {:?} {} {}",
                got.0,
                got.1.len(),
                want.1.len()
            );
        }
        // Configurations say the same, if not in the same bytes: AAC of ffmpeg repeats its rate.
        let of_track = |frames: &[Frame]| {
            let media = frames.iter().filter(|frame| frame.track == track && is_media(frame.role));
            media.map(|frame| (frame.dts, frame.pts)).collect::<Vec<_>>()
        };
        let (want, got) = (of_track(source), of_track(frames));
        let got = without_priming(&got, want.len());
        let offset = got[0].0 - want[0].0;
        // A tick of 90 kHz; FLV rounds to milliseconds what ffmpeg packs into one PES packet.
        let tolerance = if name.starts_with("mp3") { 1_000 } else { 90_000 };
        let tolerance = Timestamp::from_ticks(1, tolerance);
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            for (got, want) in [(got.0, want.0), (got.1, want.1)] {
                let off = got - want - offset;
                let is_right = (-tolerance..=tolerance).contains(&off);
                assert!(is_right, "{name} {track:?} {at}: {} ns", off.ticks(1_000_000_000));
            }
        }
    }
}

#[test]
fn frames_of_ac3_and_e_ac3_are_the_same_both_ways() {
    for (name, codec) in [("ac3", Codec::Ac3), ("eac3", Codec::Eac3)] {
        let folder = Folder::new(name);
        let [source, written, back] =
            ["source", "ts", "back"].map(|end| folder.0.join(format!("{name}.{end}")));
        let input = "-f lavfi -i sine=duration=3:sample_rate=48000 -ac 2 -c:a";
        let mut args: Vec<&str> = input.split(' ').collect();
        args.extend([name, "-f", name, text(&source)]);
        ffmpeg(&args);
        ffmpeg(&["-f", name, "-i", text(&source), "-c", "copy", "-f", "mpegts", text(&written)]);
        let (mut frames, _) = demux(&fs::read(&written).expect("a file"), 1316, DemuxSettings::default());
        let raw: Vec<u8> = frames.iter().flat_map(|frame| frame.data().to_vec()).collect();
        assert!(raw == fs::read(&source).expect("a file") && frames.len() == 94, "{name}: {}", frames.len());
        assert!(frames.iter().all(|frame| frame.codec == codec));
        frames.retain(|frame| frame.role == FrameRole::Audio);
        fs::write(&written, mux(&frames)).expect("a file");
        ffmpeg(&["-i", text(&written), "-map", "0:a", "-c", "copy", "-f", name, text(&back)]);
        assert!(fs::read(&back).expect("a file") == raw, "{name}");
    }
}
