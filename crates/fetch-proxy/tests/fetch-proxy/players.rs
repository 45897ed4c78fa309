//! ffmpeg and ffprobe, alone and through the proxy, against a server that counts requests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Running;
use crate::origin::Origin;

/// 30 ms and 100 Mbit/s: over bare loopback, reading all between two positions is the fastest seek.
const LINK: Option<(Duration, u32)> = Some((Duration::from_millis(30), 12_500_000));

#[test]
fn real_players_make_no_more_requests_through_the_proxy() {
    let film = film();
    let bytes = std::fs::read(&film).expect("a film");
    // What a player does, and how often its URL is in that.
    let probe: &[&str] = &["ffprobe", "-v", "error", "-show_entries", "packet=pts,size", "-of", "csv", "URL"];
    let play: &[&str] = &["ffmpeg", "-nostdin", "-v", "error", "-i", "URL", "-f", "framemd5", "-"];
    let seek: &[&str] =
        &["ffmpeg", "-nostdin", "-v", "error", "-ss", "20", "-i", "URL", "-t", "2", "-f", "framemd5", "-"];
    // One picture each at four places, as for thumbnails.
    let jumps: &[&str] = &[
        "ffmpeg",
        "-nostdin",
        "-v",
        "error",
        "-ss",
        "4",
        "-i",
        "URL",
        "-ss",
        "25",
        "-i",
        "URL",
        "-ss",
        "11",
        "-i",
        "URL",
        "-ss",
        "18",
        "-i",
        "URL",
        "-filter_complex",
        "[0:v][1:v][2:v][3:v]hstack=4",
        "-frames:v",
        "1",
        "-f",
        "framemd5",
        "-",
    ];
    for (name, line) in [("ffprobe", probe), ("play", play), ("seek", seek), ("four seeks", jumps)] {
        let expected = printed(line, &film.display().to_string());
        let alone = Origin::start(bytes.clone(), LINK);
        assert_eq!(printed(line, &alone.url("/film.mp4")), expected, "{name} alone");
        let (behind, proxy) = (Origin::start(bytes.clone(), LINK), Running::local(8));
        assert_eq!(printed(line, &proxy.url(&behind.url("/film.mp4"))), expected, "{name} through the proxy");
        let cost = proxy.stop().total;
        let (alone, through) = (alone.heads().len(), behind.heads().len());
        println!(
            "{name}: {alone} requests alone, {through} through the proxy ({} of the player), {} of {} bytes",
            cost.player_requests,
            cost.bytes_received,
            bytes.len()
        );
        assert!(through <= alone, "{name}: {:?}", behind.heads());
        assert_eq!(through as u64, cost.requests, "{name}");
    }
}

/// What the program prints, with `url` for its URLs.
fn printed(line: &[&str], url: &str) -> String {
    let words = line[1..].iter().map(|word| if *word == "URL" { url } else { word });
    let output = Command::new(line[0]).args(words).output().expect("ffmpeg: scripts/setup");
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Thirty seconds of pictures that compress badly, with audio, in an MP4 file whose index is at its end.
fn film() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fetch-proxy.mp4");
    let made = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-y"])
        .args(["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=30,noise=alls=12:allf=t"])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:duration=30"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-pix_fmt", "yuv420p"])
        .args(["-c:a", "aac"])
        .arg(&path)
        .output()
        .expect("ffmpeg: scripts/setup");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    path
}
