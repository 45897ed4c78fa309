//! What is written to files plays in ffmpeg, frame for frame.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cmaf::Output;
use hls::Object;
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};

use crate::support::{Stream, frames_of, sample};

/// Writes all that a stream made, and its playlists, as a server would name it.
pub(crate) fn write_files(stream: &mut Stream, folder: &Path) -> PathBuf {
    let mut segment = Vec::new();
    for output in &stream.made {
        let (object, bytes) = match output {
            Output::Init(init) => (Object::Init(init.rendition, init.number), init.bytes.to_vec()),
            Output::Part(part) => {
                segment.push((part.rendition, part.bytes.clone()));
                (Object::Part(part.rendition, part.msn, part.number), part.bytes.to_vec())
            }
            Output::Segment(done) => {
                let of = |(rendition, _): &(_, _)| *rendition == done.rendition;
                let bytes =
                    segment.iter().filter(|part| of(part)).flat_map(|(_, bytes)| bytes.to_vec()).collect();
                segment.retain(|part| !of(part));
                (Object::Segment(done.rendition, done.msn), bytes)
            }
            Output::SegmentStart(_) | Output::End => continue,
        };
        let path = folder.join("s").join(object.to_string());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    for track in [TrackId::VIDEO, TrackId::AUDIO] {
        if let Some(playlist) = stream.text(Object::Playlist(track), "") {
            fs::write(folder.join("s").join(Object::Playlist(track).to_string()), playlist).unwrap();
        }
    }
    let master = folder.join("s.m3u8");
    fs::write(&master, stream.text(Object::Multivariant, "").unwrap()).unwrap();
    master
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

#[test]
fn a_stream_written_to_files_has_the_frames_of_its_publisher() {
    let folder = std::env::temp_dir().join(format!("hls-files-{}", std::process::id()));
    for name in ["h264-aac.mp4", "av1-opus.mp4", "h265-hvc1.mp4", "vp9-opus-fragments.mp4"] {
        let settings = hls::Settings { segments: 1000, ..hls::Settings::default() };
        let mut stream = Stream::new(cmaf::Settings::default(), settings);
        let frames = frames_of(&sample(name));
        for frame in &frames {
            stream.push(frame);
        }
        stream.finish();
        let master = write_files(&mut stream, &folder.join(name));
        for (kind, track) in [('v', TrackId::VIDEO), ('a', TrackId::AUDIO)] {
            let expected = published(&frames, track);
            if !expected.is_empty() {
                assert_eq!(frame_hashes(&master, kind), expected, "{name} {kind}");
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Twelve seconds of test pictures and a tone, encoded by ffmpeg with these options.
fn encoded(folder: &Path, name: &str, options: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(format!("{name}.mp4"));
    let sources =
        "-f lavfi -i testsrc=size=160x96:rate=25:duration=12 -f lavfi -i sine=duration=12:sample_rate=48000";
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(sources.split(' '))
        .args(options.split_whitespace())
        .args(["-pix_fmt", "yuv420p", "-strict", "-2", "-movflags", "+faststart"])
        .arg(&path)
        .output()
        .expect("ffmpeg is installed");
    assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    path
}

#[test]
fn segments_of_every_codec_play_without_an_error() {
    let folder = std::env::temp_dir().join(format!("hls-codecs-{}", std::process::id()));
    for (name, options, segments) in [
        ("b-frames", "-c:v libx264 -preset ultrafast -bf 3 -b_strategy 0 -g 50 -sc_threshold 0 -c:a aac", 6),
        ("long-gop", "-c:v libx264 -preset ultrafast -bf 2 -g 250 -sc_threshold 0 -c:a libopus", 2),
        (
            "hevc",
            "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=50 -tag:v hvc1 -c:a aac",
            6,
        ),
        ("vp9", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -c:a libopus", 6),
        ("av1", "-c:v libsvtav1 -preset 12 -g 50 -c:a libopus", 6),
    ] {
        let path = encoded(&folder, name, options);
        let frames = frames_of(&path);
        let settings = hls::Settings { segments: 1000, ..hls::Settings::default() };
        let mut stream = Stream::new(cmaf::Settings::default(), settings);
        for frame in &frames {
            stream.push(frame);
        }
        stream.finish();
        stream.check_boxes();
        let (_, video) = stream.playlists.iter().find(|(track, _)| *track == TrackId::VIDEO).unwrap();
        assert_eq!(video.segments.len(), segments, "{name}");
        let master = write_files(&mut stream, &folder.join(name));
        for (kind, track) in [('v', TrackId::VIDEO), ('a', TrackId::AUDIO)] {
            let expected = published(&frames, track);
            if !expected.is_empty() {
                assert_eq!(frame_hashes(&master, kind), expected, "{name} {kind}");
            }
        }
        // The same by DASH; ffmpeg begins live streams at their end.
        let mpd = stream.text(Object::Mpd, "").unwrap().replace("\"dynamic\"", "\"static\"");
        let description = master.with_extension("mpd");
        fs::write(&description, mpd).unwrap();
        for (kind, track) in [('v', TrackId::VIDEO), ('a', TrackId::AUDIO)] {
            assert_eq!(frame_hashes(&description, kind), published(&frames, track), "{name} {kind} by DASH");
        }
        // Decoded as well, not only taken apart.
        let (is_ok, errors) = decode(&master);
        assert!(is_ok && errors.trim().is_empty(), "{name}: {errors}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Frames of an audio file without a container, as ffprobe finds them.
fn audio_frames(folder: &Path, codec: Codec, name: &str, options: &str, samples: i64) -> Vec<Arc<Frame>> {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-f", "lavfi", "-i", "sine=duration=6:sample_rate=48000", "-ac", "2"])
        .args(options.split(' '))
        .args(["-write_xing", "0", "-id3v2_version", "0"].iter().filter(|_| codec == Codec::Mp3))
        .arg(&path)
        .status();
    assert!(run.unwrap().success(), "{name}");
    let list = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "packet=pos,size", "-of", "csv=p=0"])
        .arg(&path)
        .output()
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    let zero = (Timestamp::ZERO, Timestamp::ZERO);
    let mut frames = Vec::new();
    if codec == Codec::Flac {
        let record = bytes[..4 + 4 + 34].to_vec();
        frames.push(Arc::new(Frame::new(TrackId::AUDIO, FrameRole::Config, codec, zero, record)));
    }
    for (index, line) in String::from_utf8(list.stdout).unwrap().lines().enumerate() {
        let (size, at) = line.trim_end_matches(',').split_once(',').unwrap();
        let (size, at): (usize, usize) = (size.parse().unwrap(), at.parse().unwrap());
        // In whole milliseconds, as containers of live streams have it.
        let time = Timestamp::from_millis(Timestamp::from_ticks(index as i64 * samples, 48_000).millis());
        let data = bytes[at..at + size].to_vec();
        frames.push(Arc::new(Frame::new(TrackId::AUDIO, FrameRole::Audio, codec, (time, time), data)));
    }
    frames
}

#[test]
fn audio_without_configurations_plays() {
    let folder = std::env::temp_dir().join(format!("hls-audio-{}", std::process::id()));
    for (codec, name, options, samples) in [
        (Codec::Mp3, "a.mp3", "-c:a libmp3lame -b:a 128k", 1152),
        (Codec::Ac3, "a.ac3", "-c:a ac3 -b:a 192k", 1536),
        (Codec::Eac3, "a.eac3", "-c:a eac3 -b:a 192k", 1536),
        (Codec::Flac, "a.flac", "-c:a flac -frame_size 4608", 4608),
    ] {
        let frames = audio_frames(&folder, codec, name, options, samples);
        assert!(frames.len() > 50, "{name}");
        let settings = hls::Settings { segments: 1000, ..hls::Settings::default() };
        let mut stream = Stream::new(cmaf::Settings::default(), settings);
        for frame in &frames {
            stream.push(frame);
        }
        stream.finish();
        stream.check_boxes();
        assert_eq!(stream.segmenter.counters(), cmaf::Counters::default(), "{name}");
        let master = write_files(&mut stream, &folder.join(codec.to_string()));
        assert_eq!(frame_hashes(&master, 'a'), published(&frames, TrackId::AUDIO), "{name}");
        let (is_ok, errors) = decode(&master);
        assert!(is_ok && errors.trim().is_empty(), "{name}: {errors}");
    }
    fs::remove_dir_all(folder).unwrap();
}

fn decode(path: &Path) -> (bool, String) {
    let run = Command::new("ffmpeg")
        .args(["-v", "error", "-xerror", "-i"])
        .arg(path)
        .args(["-f", "null", "-"])
        .output();
    let run = run.expect("ffmpeg is installed");
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}
