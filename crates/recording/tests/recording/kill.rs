//! A recorder that is killed (`kill -9`) at any moment, again and again.
//!
//! The test starts itself as the recorder: frames as fast as they are taken, while the parent looks how much
//! of them has come, and kills it. `RECORDING_KILL_TRIALS` says how often (`scripts/record-trials`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use recording::catalogue::State;
use recording::repair::{self, Verdict};
use recording::settings::Format;
use recording::storage::Directory;

use crate::feed;
use crate::rig::{Folder, Server, settings};

const CHILD: &str = "RECORDING_KILL_CHILD";
/// A fragment and the picture behind it, and sound that is ahead of the pictures.
const GATHERED: Duration = Duration::from_millis(1_200);
/// Bytes of a picture: 400 kbit/s, so that a second is written in a moment.
const PICTURE_BYTES: usize = 2_000;

/// Not a test: the recorder, if this process is one. It says each second of media that it has handed over.
#[test]
fn recorder() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let mut settings = settings(Path::new(&directory), Format::Mp4);
    // Files end and begin all the time, too.
    settings.rules[0].files.as_mut().unwrap().rotation.after = Duration::from_secs(20);
    let server = Server::start(settings).unwrap();
    let mut stream = server.publish("a");
    feed::configurations().iter().for_each(|frame| stream.send(frame));
    let mut out = std::io::stdout();
    for second in 0.. {
        feed::frames(second, 1, PICTURE_BYTES).iter().for_each(|frame| stream.send(frame));
        // As in real time, all but the fragment that is being gathered is at the disk.
        while server.recorded() + GATHERED < Duration::from_secs(second as u64 + 1) {
            std::thread::sleep(Duration::from_micros(200));
        }
        writeln!(out, "second {second}").unwrap();
        out.flush().unwrap();
    }
}

/// Starts the recorder, and kills it when it has handed over so many seconds and `micros` have passed. How
/// many it had handed over.
fn record_and_kill(directory: &Path, seconds: i64, micros: u64) -> i64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::recorder", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut handed_over = -1;
    for line in lines {
        let line = line.unwrap();
        let Some((_, second)) = line.split_once("second ") else { continue };
        handed_over = second.parse().unwrap();
        if handed_over >= seconds {
            break;
        }
    }
    assert!(handed_over >= seconds, "the recorder has ended by itself");
    std::thread::sleep(Duration::from_micros(micros));
    child.kill().unwrap();
    child.wait().unwrap();
    handed_over
}

/// Packets that ffprobe finds, of both kinds; `None` if it cannot open the file.
fn packets(path: &Path) -> Option<usize> {
    let run = Command::new("ffprobe")
        .args(["-v", "quiet", "-show_entries", "packet=size", "-of", "csv=p=0"])
        .arg(path)
        .output()
        .expect("ffprobe is installed");
    run.status.success().then(|| String::from_utf8_lossy(&run.stdout).lines().count())
}

#[test]
fn a_recorder_that_is_killed_loses_one_fragment_at_most_and_no_file() {
    if std::env::var(CHILD).is_ok() {
        return;
    }
    let trials: u64 =
        std::env::var("RECORDING_KILL_TRIALS").map_or(40, |count| count.parse().expect("a number"));
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut lost_most, mut lost_sum, mut repaired, mut sound, mut torn) = (0.0_f64, 0.0, 0, 0, 0);
    for trial in 0..trials {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let folder = Folder::new(&format!("kill-{trial}"));
        let (seconds, micros) = (3 + (random >> 33) as i64 % 25, (random >> 17) % 12_000);
        let handed_over = record_and_kill(&folder.0, seconds, micros);
        let what = format!("trial {trial}: {seconds} s and {micros} us");

        // As the crash has left them: each file opens.
        let mut storage = Directory::read(&folder.0);
        let before = repair::list(&mut storage).unwrap();
        for (name, entry) in &before {
            let path = if entry.state == State::Complete { name.path() } else { name.part_path() };
            let path = folder.0.join(path);
            match repair::verify(&mut storage, name, entry.state) {
                Verdict::Sound(_) => sound += 1,
                Verdict::Unfinished(scan) => {
                    torn += u64::from(scan.whole_bytes < scan.bytes);
                    if scan.fragments > 0 {
                        let samples = packets(&path).unwrap_or_else(|| panic!("{what}: ffprobe, {path:?}"));
                        assert!(samples > 0, "{what}: {path:?}");
                    }
                }
                other => panic!("{what}: {other:?}"),
            }
        }
        let kept: Vec<_> =
            folder.files().into_iter().filter(|path| path.extension().unwrap() == "mp4").collect();
        let kept: Vec<_> = kept.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();

        // The next start completes them, and leaves the complete ones alone.
        Server::start(settings(&folder.0, Format::Mp4)).unwrap().stop();
        for (bytes, path) in kept {
            assert_eq!(fs::read(&path).unwrap(), bytes, "{what}: a complete file was touched");
        }
        let mut found = [Vec::new(), Vec::new()];
        for path in folder.files() {
            assert_eq!(path.extension().unwrap(), "mp4", "{what}");
            let (tracks, error) = feed::read(fs::read(&path).unwrap());
            assert_eq!(error, None, "{what}: {path:?}");
            let count = tracks[0].len() + tracks[1].len();
            assert_eq!(packets(&path), Some(count), "{what}: ffprobe, {path:?}");
            found.iter_mut().zip(tracks).for_each(|(all, track)| all.extend(track));
            repaired += 1;
        }
        let published = feed::published(&feed::frames(0, handed_over + 30, PICTURE_BYTES));
        for track in 0..2 {
            assert!(published[track].starts_with(&found[track]), "{what}: not what was published");
        }
        let lost = (handed_over + 1) as f64 - found[0].len() as f64 / 25.0;
        (lost_most, lost_sum) = (lost_most.max(lost), lost_sum + lost.max(0.0));
        assert!(lost <= GATHERED.as_secs_f64(), "{what}: {lost} s are lost");
    }
    println!(
        "kill trials={trials} files={repaired} unreadable=0 complete_before={sound} torn_tails={torn} \
         lost_ms_max={:.0} lost_ms_mean={:.0}",
        lost_most.max(0.0) * 1000.0,
        lost_sum / trials as f64 * 1000.0
    );
}
