//! The video made by code is H.264 that an ordinary decoder takes without complaint, marks and all.

use std::io::Write;
use std::process::{Command, Stdio};

use millbench::rtc::mark::{self, Mark};
use millbench::rtc::media::{Frame, Media, Track};

/// Decodes with ffmpeg; what it complained about, and the decoded frames' lines.
fn decode(format: &[&str], stream: &[u8]) -> (String, Vec<String>) {
    let mut ffmpeg = Command::new("ffmpeg")
        .args(["-hide_banner", "-v", "warning", "-err_detect", "explode"])
        .args(format)
        .args(["-i", "pipe:0", "-f", "framecrc", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ffmpeg is installed by scripts/setup");
    let mut input = ffmpeg.stdin.take().expect("it is piped");
    let stream = stream.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&stream));
    let output = ffmpeg.wait_with_output().expect("ffmpeg ends");
    writer.join().expect("the writer ends").expect("ffmpeg reads everything");
    let frames = String::from_utf8(output.stdout).expect("text");
    let frames = frames.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stderr).into_owned(), frames)
}

fn marked(media: &Media, frame: Frame) -> Vec<Vec<u8>> {
    let mark =
        Mark { publisher: u64::MAX, sent_ns: 1_795_000_000_123_456_789, number: 77, ..Mark::default() };
    media
        .payloads(frame)
        .iter()
        .map(|payload| {
            let mut bytes = payload.bytes.clone();
            if payload.marked {
                mark::write(&mut bytes, &mark);
            }
            bytes
        })
        .collect()
}

/// A byte stream (H.264 annex B) of RTP payloads (RFC 6184).
fn byte_stream(media: &Media) -> Vec<u8> {
    let mut stream = Vec::new();
    let unit = |stream: &mut Vec<u8>, bytes: &[u8]| {
        stream.extend_from_slice(&[0, 0, 0, 1]);
        stream.extend_from_slice(bytes);
    };
    for position in 0..2 * media.group_length() {
        for payload in marked(media, Frame { track: Track::Video, position, timestamp: 0, number: 0 }) {
            match payload[0] & 0x1f {
                24 => {
                    let mut rest = &payload[1..];
                    while let [high, low, after @ ..] = rest {
                        let (one, after) = after.split_at(usize::from(*high) << 8 | usize::from(*low));
                        unit(&mut stream, one);
                        rest = after;
                    }
                }
                28 if payload[1] & 0x80 != 0 => {
                    unit(&mut stream, &[payload[0] & 0xe0 | payload[1] & 0x1f]);
                    stream.extend_from_slice(&payload[2..]);
                }
                28 => stream.extend_from_slice(&payload[2..]),
                _ => unit(&mut stream, &payload),
            }
        }
    }
    stream
}

#[test]
fn every_frame_is_decoded_and_differs_from_the_one_before() {
    let (complaints, frames) = decode(&["-f", "h264"], &byte_stream(&Media::new()));
    assert_eq!(complaints, "");
    assert_eq!(frames.len(), 120, "{frames:?}");
    let sums: Vec<&str> = frames.iter().filter_map(|line| line.rsplit(',').next()).collect();
    assert!(sums.windows(2).filter(|pair| pair[0] != pair[1]).count() > 30, "{sums:?}");
}
