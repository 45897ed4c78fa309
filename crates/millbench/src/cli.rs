//! Command line: what each option means, its unit and its default.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bottleneck::cli::BottleneckArgs;
use crate::hls::cli::HlsCommand;
use crate::option_values::{RunArgs, positive, seconds};
use crate::playback;
use crate::rtc::cli::RtcCommand;

/// Load generator for live streaming servers.
///
/// Holds N publishers or players, checks every byte that arrives, and reports what each client costs the
/// server. Exits 0 when every session worked and nothing was missing, 1 when a session failed or a byte is
/// missing, 2 when the run could not be done at all.
#[derive(Debug, Parser)]
#[command(name = "millbench", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// RTMP sessions.
    #[command(subcommand)]
    Rtmp(RtmpCommand),
    /// HTTP-FLV sessions.
    #[command(subcommand)]
    Flv(FlvCommand),
    /// Sessions by HTTP as MPEG-TS.
    #[command(subcommand)]
    Ts(FlvCommand),
    /// SRT sessions: `srt://host:port?streamid=...&latency=MS`.
    #[command(subcommand)]
    Srt(RtmpCommand),
    /// RTSP sessions.
    #[command(subcommand)]
    Rtsp(RtspCommand),
    /// HLS, low-latency HLS and DASH sessions.
    #[command(subcommand)]
    Hls(HlsCommand),
    /// WebRTC sessions: WHIP and WHEP.
    #[command(subcommand)]
    Rtc(RtcCommand),
    /// What the kernel alone costs: sends the sample to every RTMP player with plain writes and no server.
    ///
    /// The lower bound that servers are compared with. Accepts any application and stream name,
    /// sends the sample at the given cadence, and prints one JSON line of counters per second.
    Floor(FloorArgs),
    /// A path with a bottleneck for real WebRTC clients: relays UDP to a server at a rate, through a queue.
    ///
    /// Clients use its address in place of the server's. Prints a JSON line with its address first,
    /// one with the time when media begins, and what was measured last, when it is ended by a
    /// signal.
    Bottleneck(BottleneckArgs),
}

/// What RTMP and SRT sessions do.
#[derive(Debug, Subcommand)]
pub enum RtmpCommand {
    /// Publish the sample N times. Give each its own stream name with `{}`.
    Publish(PublishArgs),
    /// Play N times.
    Play(PlayArgs),
}

/// What HTTP-FLV and HTTP-TS sessions do.
#[derive(Debug, Subcommand)]
pub enum FlvCommand {
    /// Play N times.
    Play(PlayArgs),
}

/// What RTSP sessions do.
#[derive(Debug, Subcommand)]
pub enum RtspCommand {
    /// Play N times.
    Play(RtspPlayArgs),
}

/// Options of `rtsp play`.
#[derive(Debug, Args)]
pub struct RtspPlayArgs {
    /// Options of every player.
    #[command(flatten)]
    pub play: PlayArgs,

    /// Packets come by UDP, and not in the connection.
    #[arg(long)]
    pub udp: bool,
}

/// Options of `publish`.
#[derive(Debug, Args)]
pub struct PublishArgs {
    /// Options of every run.
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Options of `play`.
#[derive(Debug, Args)]
pub struct PlayArgs {
    /// Options of every run.
    #[command(flatten)]
    pub load: LoadArgs,

    /// Publish the sample first, from this process: to the played URL, or to the RTMP or SRT URL given
    /// after `=`.
    ///
    /// With `{}` in the URL, one publisher per stream.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub publish: Option<String>,

    /// Media a simulated player buffers before it plays and after it ran dry, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = playback::DEFAULT_BUFFER_MS)]
    pub buffer_ms: u32,
}

/// Options of every run.
///
/// A session that the server does not answer at all holds back the ramp once 256 of its kind wait.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// Sessions started per second.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0, value_parser = positive)]
    pub ramp: f64,

    /// A player whose last frame is older than this at the end of the run has failed. Seconds.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    pub silence: Duration,

    /// FLV file to publish instead of the embedded sample.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,

    /// Publishers send in pulses: what has become due, every MS milliseconds. 0 sends each message
    /// when it is due.
    ///
    /// Encoders send each message at once; some load generators send in pulses of 300 ms, which
    /// costs a server less.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub pulse_ms: u32,

    /// Event-loop threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
}

/// Options of `floor`.
#[derive(Debug, Args)]
pub struct FloorArgs {
    /// Address to listen on; port 0 takes a free port, which the first line of output names.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// When bytes leave.
    #[arg(long, value_enum, default_value_t = Cadence::Ms100)]
    pub mode: Cadence,

    /// Pin to this core (counted from 0).
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,

    /// FLV file to send instead of the embedded sample.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
}

/// When the floor's bytes leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cadence {
    /// What is ready, every 350 ms per socket; sockets are spread evenly over the period.
    #[value(name = "350ms")]
    Ms350,
    /// What is ready, every 100 ms per socket; sockets are spread evenly over the period.
    #[value(name = "100ms")]
    Ms100,
    /// Each message as soon as it is due; what is ready for a socket leaves in one write.
    #[value(name = "lowlat")]
    LowLatency,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn play(arguments: &str) -> Result<PlayArgs, String> {
        let words =
            ["millbench", "rtmp", "play", "rtmp://h/a/s"].into_iter().chain(arguments.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Rtmp(RtmpCommand::Play(play)) => play.load.run.validate().map(|()| play),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn steps_are_a_rising_list() {
        assert_eq!(play("-n 300,1000,2000").map(|play| play.load.run.sessions), Ok(vec![300, 1000, 2000]));
        for wrong in ["-n 0", "-n 5,5", "-n 5,4", "-n x", "-n -1", "-n ,", "--streams 0", "--interval 0.01"] {
            assert!(play(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_have_bounds() {
        assert_eq!(
            play("--duration 2.5").map(|play| play.load.run.duration),
            Ok(Duration::from_millis(2500))
        );
        for wrong in
            ["--duration -1", "--duration nan", "--duration 1e9", "--ramp 0", "--ramp inf", "--threads 0"]
        {
            assert!(play(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn publish_takes_its_url_only_after_an_equals_sign() {
        assert_eq!(play("--publish -n 2").map(|play| play.publish), Ok(Some(String::new())));
        assert_eq!(
            play("--publish=rtmp://x/a/s").map(|play| play.publish),
            Ok(Some("rtmp://x/a/s".to_owned()))
        );
        assert_eq!(play("").map(|play| play.publish), Ok(None));
    }

    #[test]
    fn the_floor_knows_the_three_cadences() {
        for (name, cadence) in
            [("350ms", Cadence::Ms350), ("100ms", Cadence::Ms100), ("lowlat", Cadence::LowLatency)]
        {
            let parsed = Cli::try_parse_from(["millbench", "floor", "--mode", name]).expect("a known mode");
            assert!(matches!(parsed.command, Command::Floor(floor) if floor.mode == cadence), "{name}");
        }
    }
}
