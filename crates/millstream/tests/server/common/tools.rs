//! The real programs: ffmpeg and rtmpdump, and what they received, packet by packet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{eventually, within_patience};

/// The ten seconds every test publishes.
pub(crate) fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../media/demo.flv")
}

/// One packet of `ffmpeg -f framecrc`: timestamps in ms, Adler-32 of the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) size: u64,
    pub(crate) checksum: String,
}

/// Everything in one `framecrc` output: the codec configuration and the packets of each stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frames {
    pub(crate) extradata: Vec<String>,
    pub(crate) video: Vec<Packet>,
    pub(crate) audio: Vec<Packet>,
}

impl Frames {
    /// Reads `framecrc` texts, which together hold the streams; an incomplete last line is left out.
    pub(crate) fn parse(texts: &[String]) -> Self {
        let mut frames = Self { extradata: Vec::new(), video: Vec::new(), audio: Vec::new() };
        texts.iter().for_each(|text| frames.read(text));
        frames.extradata.sort();
        // Only differences of timestamps are the stream's; where the zero lies is the muxer's choice.
        let zero = frames.video.iter().chain(&frames.audio).map(|packet| packet.dts).min().unwrap_or(0);
        for packet in frames.video.iter_mut().chain(&mut frames.audio) {
            packet.dts -= zero;
            packet.pts -= zero;
        }
        frames
    }

    fn read(&mut self, text: &str) {
        let mut video_index = None;
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line = line.trim_end();
            if let Some(comment) = line.strip_prefix('#') {
                if let Some(rest) = comment.strip_prefix("extradata ") {
                    let fields: Vec<&str> = rest.split([':', ',']).map(str::trim).collect();
                    self.extradata.push(format!("{} bytes, {}", fields[1], fields[2]));
                }
                if let Some(index) =
                    comment.strip_prefix("media_type ").and_then(|rest| rest.strip_suffix(": video"))
                {
                    video_index = Some(index.to_owned());
                }
                continue;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |at: usize| fields[at].parse::<i64>().expect("a number");
            let packet = Packet {
                dts: number(1),
                pts: number(2),
                size: number(4) as u64,
                checksum: fields[5].to_owned(),
            };
            let is_video = video_index.as_deref() == Some(fields[0]);
            if is_video { self.video.push(packet) } else { self.audio.push(packet) }
        }
    }

    /// What a transport stream has in common with other containers: its times, in ticks of 90 kHz, are
    /// rounded to milliseconds, and configurations are left out.
    pub(crate) fn of_transport_stream(mut self) -> Self {
        self.extradata.clear();
        for packet in self.video.iter_mut().chain(&mut self.audio) {
            (packet.dts, packet.pts) = ((packet.dts + 45) / 90, (packet.pts + 45) / 90);
        }
        self
    }

    /// Fails with the first difference, if there is any.
    pub(crate) fn assert_same_as(&self, source: &Frames) {
        assert_eq!(self.extradata, source.extradata, "codec configuration");
        for (name, got, want) in
            [("video", &self.video, &source.video), ("audio", &self.audio, &source.audio)]
        {
            for (index, (got, want)) in got.iter().zip(want).enumerate() {
                assert_eq!(got, want, "{name} packet {index}");
            }
            assert_eq!(got.len(), want.len(), "number of {name} packets");
        }
    }
}

/// Packets of a file, as ffmpeg reads it.
pub(crate) fn frames_of(file: &Path) -> Frames {
    frames_with(file, &[])
}

/// The same with options.
pub(crate) fn frames_with(file: &Path, options: &[&str]) -> Frames {
    let mut command = ffmpeg();
    command.arg("-i").arg(file).args(["-map", "0", "-c", "copy"]).args(options);
    command.args(["-f", "framecrc", "-"]);
    let output = run(&mut command);
    Frames::parse(&[String::from_utf8(output.stdout).expect("framecrc is text")])
}

/// ffmpeg with the options every use here has.
pub(crate) fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
    command
}

/// Publishes the sample once to `url`, `rate` times faster than it plays.
pub(crate) fn publish(url: &str, rate: u32) -> Running {
    publish_repeated(url, rate, 1)
}

/// Publishes the sample so many times, one behind the other.
pub(crate) fn publish_repeated(url: &str, rate: u32, times: usize) -> Running {
    let mut command = ffmpeg();
    let (rate, more) = (rate.to_string(), (times - 1).to_string());
    command.args(["-readrate", &rate, "-stream_loop", &more, "-i"]).arg(sample());
    command.args(["-c", "copy", "-f", "flv", url]);
    Running::start(command, "ffmpeg publishing")
}

/// Plays a URL with ffmpeg and notes every packet.
pub(crate) struct Player {
    running: Running,
    listings: [PathBuf; 2],
}

impl Player {
    /// Starts; packets are written to files whose names begin with `listing`.
    pub(crate) fn start(url: &str, listing: PathBuf) -> Self {
        Self::start_with(url, listing, [&[], &[]])
    }

    /// The same with options for video and for audio.
    pub(crate) fn start_with(url: &str, listing: PathBuf, options: [&[&str]; 2]) -> Self {
        let listings = [listing.with_extension("video"), listing.with_extension("audio")];
        let mut command = ffmpeg();
        command.args(["-i", url]);
        // Two outputs, because one would hold packets of one kind back until the other kind has
        // caught up. Each packet's line is written at once.
        for ((stream, listing), options) in ["0:v", "0:a"].into_iter().zip(&listings).zip(options) {
            command
                .args(["-map", stream, "-c", "copy"])
                .args(options)
                .args(["-flush_packets", "1", "-f", "framecrc", "-y"])
                .arg(listing);
        }
        Self { running: Running::start(command, "ffmpeg playing"), listings }
    }

    /// Waits until nothing has come for a second, ends ffmpeg and gives all that came.
    pub(crate) fn frames_after_end(mut self) -> Frames {
        let texts =
            || self.listings.each_ref().map(|listing| fs::read_to_string(listing).unwrap_or_default());
        let (mut last, mut quiet) = (0, 0);
        within_patience(|| {
            let now = texts().iter().map(String::len).sum();
            quiet = if now == last { quiet + 1 } else { 0 };
            last = now;
            self.running.has_ended() || (last > 0 && quiet >= 50)
        });
        let frames = Frames::parse(&texts());
        self.running.kill();
        frames
    }
}

/// Compares what was played with the sample, of which so many packets may be missing at the end.
pub(crate) fn compare(played: &Frames, source: &Frames, missing_max: usize) {
    for (name, played, source) in
        [("video", &played.video, &source.video), ("audio", &played.audio, &source.audio)]
    {
        let missing = source.len().checked_sub(played.len()).expect("no more than was sent");
        assert!(missing <= missing_max, "{name}: {missing} packets are missing");
        // The last one that came may be cut.
        let checked = played.len() - usize::from(missing_max > 1);
        for (index, (got, want)) in played[..checked].iter().zip(source).enumerate() {
            assert_eq!((got.size, &got.checksum), (want.size, &want.checksum), "{name} packet {index}");
            // Ticks of 90 kHz, back in milliseconds, beside an audio frame's.
            let off = [got.dts - want.dts, got.pts - want.pts];
            assert!(off.iter().all(|off| (-2..=2).contains(off)), "{name} packet {index}: {off:?} ms");
        }
    }
}

/// A program that runs beside the test; killed when dropped.
pub(crate) struct Running {
    child: Child,
    what: &'static str,
}

impl Running {
    /// Starts `command`; a missing program fails with how to get it.
    pub(crate) fn start(mut command: Command, what: &'static str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{}", cannot_run(&command, &error)));
        Self { child, what }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("ask for the exit status").is_some()
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn finish(mut self) {
        let what = format!("{} ends", self.what);
        let status = eventually(&what, || self.child.try_wait().expect("ask for the exit status"));
        assert!(status.success(), "{} ended with {status}", self.what);
    }

    /// Waits for its end, which must be a failure.
    pub(crate) fn finish_refused(mut self) {
        let what = format!("{} ends", self.what);
        let status = eventually(&what, || self.child.try_wait().expect("ask for the exit status"));
        assert!(!status.success(), "{} succeeded although the server had to refuse it", self.what);
    }

    /// Ends it at once, in whatever it was doing (SIGKILL).
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program to its end, which must be a success.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{}", cannot_run(command, &error)));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn cannot_run(command: &Command, error: &std::io::Error) -> String {
    format!(
        "cannot run {}: {error}; scripts/setup installs what the tests need",
        command.get_program().display()
    )
}
