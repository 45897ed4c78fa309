//! Command line of `millbench hls`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::option_values::{RunArgs, positive};

/// What HLS and DASH sessions do.
#[derive(Debug, Subcommand)]
pub enum HlsCommand {
    /// Play N times: the URL is that of the multivariant playlist, or of the MPD for `--mode dash`.
    Play(Box<HlsPlayArgs>),
    /// What the kernel alone costs: answers the same requests from memory, by a loop without a server.
    ///
    /// It cuts the sample once and holds every response ready; a request costs it a read, a look into a table
    /// and a write.
    Floor(HlsFloorArgs),
}

/// How players fetch a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Low-latency HLS: a blocking reload of the media playlist for each part, then the part.
    #[default]
    #[value(name = "ll")]
    LowLatency,
    /// HLS: the media playlist once per target duration, whole segments, three behind the newest.
    #[value(name = "plain")]
    Plain,
    /// DASH: segments while they grow, and the MPD as often as it asks for.
    #[value(name = "dash")]
    Dash,
}

impl Mode {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::LowLatency => "ll",
            Self::Plain => "plain",
            Self::Dash => "dash",
        }
    }
}

/// Options of `hls play`.
#[derive(Debug, Args)]
pub struct HlsPlayArgs {
    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// How players fetch the stream.
    #[arg(long, value_enum, default_value_t)]
    pub mode: Mode,

    /// Publish the sample first, from this process, to this RTMP URL.
    #[arg(long, value_name = "URL", require_equals = true)]
    pub publish: Option<String>,

    /// Sessions started per second.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 500.0, value_parser = positive)]
    pub ramp: f64,

    /// FLV file to publish instead of the embedded sample.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,

    /// Do not compare frames with the sample, only the copies of players: another server may add NAL units.
    #[arg(long)]
    pub no_source: bool,
}

/// Options of `hls floor`.
#[derive(Debug, Args)]
pub struct HlsFloorArgs {
    /// Address to listen on; port 0 takes a free port, which the first line of output names.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// Pin to this core (counted from 0).
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,

    /// FLV file to send instead of the embedded sample.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
}
