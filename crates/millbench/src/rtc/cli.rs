//! Options of `millbench rtc`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use group_send::BackendKind;
use srtp::Profile;

use super::describe::SHAPES_MAX;
use super::impair::Faults;
use crate::option_values::{RunArgs, positive, seconds};

/// What WebRTC sessions do.
#[derive(Debug, Subcommand)]
pub enum RtcCommand {
    /// Publish generated media, or a file, N times by WHIP. Give each its own stream with `{}`.
    ///
    /// `http://host:port/whip/app/stream{}`; `janus://host:port/{}` for rooms of Janus's videoroom
    /// plugin; or `rtp://host:port` for plain RTP: audio to this port, video to the one two above.
    Publish(RtcPublishArgs),
    /// Play N times by WHEP, from Janus's streaming plugin, or from the floor.
    ///
    /// `http://host:port/whep/app/stream{}`, `janus://host:port/MOUNTPOINT` or `floor://host:port`.
    Play(RtcPlayArgs),
    /// What cipher and system calls alone cost: sends what a trace says to every viewer, without a server.
    ///
    /// The lower bound that servers are compared with. `rtc play --trace` makes the trace, and `rtc
    /// play floor://host:port` the viewers. Prints a JSON line with address and back end first, and
    /// one of counters last.
    Floor(RtcFloorArgs),
}

/// Options of `rtc publish`.
#[derive(Debug, Args)]
pub struct RtcPublishArgs {
    /// Options of every run.
    #[command(flatten)]
    pub load: RtcLoadArgs,

    /// Pairs of an audio and a video track that each publisher sends in one transport.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub pairs: u16,
}

/// Options of `rtc play`.
#[derive(Debug, Args)]
pub struct RtcPlayArgs {
    /// Options of every run.
    #[command(flatten)]
    pub load: RtcLoadArgs,

    /// Publish first, from this process: to the played URL with `whip` for `whep`, or to the URL
    /// given after `=`.
    ///
    /// An `rtmp://` URL publishes the same frames as whole frames, and AAC, for the server to bridge.
    ///
    /// With `{}` in the URL, one publisher per stream. Latency is measured from the publisher's
    /// send call to the arrival in the viewer's socket; it needs the publisher on this machine, not
    /// in this process.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub publish: Option<String>,

    /// Decrypt one packet in as many, after the first key frame; `all` is 1, `none` is 0.
    ///
    /// Undecrypted packets are counted by their headers. Only decrypted ones yield latency.
    #[arg(long, value_name = "N", default_value = "all", value_parser = one_in)]
    pub decrypt: u32,

    /// Kinds of offers that viewers make in turn: other payload types, other ids of header extensions.
    ///
    /// The first three number as Chromium, Firefox and Safari do. A server writes packet headers
    /// for each kind.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=SHAPES_MAX))]
    pub shapes: u16,

    /// Do not ask for missing packets.
    #[arg(long)]
    pub no_nack: bool,

    /// Agree on transport-wide numbers, and report arrivals every 50 to 100 ms.
    ///
    /// Otherwise viewers do not offer it: a server that was promised reports would wait for them.
    #[arg(long)]
    pub transport_feedback: bool,

    /// Write lengths and times of the packets that the first viewer gets in 4 s to this file, for
    /// `rtc floor`.
    ///
    /// The run has to last about 5 s: the first half second is left out.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Options of `rtc floor`.
#[derive(Debug, Args)]
pub struct RtcFloorArgs {
    /// Address and UDP port to send from; port 0 takes a free port, which the first line of output names.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// What to send: a file of `rtc play --trace`.
    #[arg(long, value_name = "FILE")]
    pub like: PathBuf,

    /// How datagrams reach the network.
    #[arg(long, value_enum, default_value_t = Backend::Gso)]
    pub backend: Backend,

    /// Interface that AF_XDP sends by.
    #[arg(long, value_name = "NAME", required_if_eq("backend", "af_xdp"))]
    pub interface: Option<String>,

    /// SRTP profile; viewers have to be given the same one.
    #[arg(long, value_enum, default_value_t = ProfileName::Gcm128)]
    pub profile: ProfileName,

    /// Pin to this core (counted from 0).
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
}

/// Back ends of `group-send` that the floor can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// One system call a datagram.
    Sendmsg,
    /// Many datagrams a system call.
    Sendmmsg,
    /// Runs of equal datagrams, cut by the kernel.
    Gso,
    /// `io_uring(7)`.
    #[value(name = "io_uring")]
    IoUring,
    /// Frames handed to the device.
    #[value(name = "af_xdp")]
    AfXdp,
}

impl Backend {
    /// As the library names it.
    pub fn kind(self) -> BackendKind {
        match self {
            Backend::Sendmsg => BackendKind::Sendmsg,
            Backend::Sendmmsg => BackendKind::Sendmmsg,
            Backend::Gso => BackendKind::Gso,
            Backend::IoUring => BackendKind::IoUring,
            Backend::AfXdp => BackendKind::AfXdp,
        }
    }
}

/// Options of every run.
#[derive(Debug, Args)]
pub struct RtcLoadArgs {
    /// Options of every run.
    #[command(flatten)]
    pub run: RunArgs,

    /// MP4 or WebM file to publish, and to play, instead of generated media: H.264, H.265, VP8, VP9
    /// or AV1 without B-frames, and Opus. It is repeated.
    ///
    /// Viewers without publishers in this process offer its video codec. Latency is that of its
    /// audio, whose padding has room for send times. A key frame that is asked for is the next one
    /// of the file.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,

    /// Sessions started per second.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 200.0, value_parser = positive)]
    pub ramp: f64,

    /// A viewer whose last packet is older than this at the end of the run has failed. Seconds.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub silence: Duration,

    /// Token, sent as `Authorization: Bearer`.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,

    /// Probability from 0 to 1 that a datagram is lost, in each direction of each session.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Time each datagram takes longer, in each direction of each session. Milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2000))]
    pub delay: u32,

    /// Share of the packets that may be missing in the end without the run being a failure.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub accept_loss: f64,

    /// Offer no retransmission format (RTX).
    #[arg(long)]
    pub no_rtx: bool,

    /// Have lost audio packets repaired too, which browsers do not ask for.
    #[arg(long)]
    pub nack_audio: bool,

    /// SRTP profiles to offer, best first.
    #[arg(long, value_name = "PROFILE", value_delimiter = ',', default_value = "gcm128,gcm256,cm-sha1")]
    pub profiles: Vec<ProfileName>,

    /// Do not have the kernel note arrival times, which costs it about 40 ns a datagram; latency
    /// then ends where this program looks at the socket.
    #[arg(long)]
    pub no_timestamps: bool,

    /// Threads that ask for sessions over HTTP, beside the one that carries media.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub signal_threads: u16,

    /// Climb no further after a step that lost packets, or in which not all sessions were up.
    #[arg(long)]
    pub stop_at_loss: bool,
}

/// SRTP profiles by short names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// AEAD_AES_128_GCM.
    Gcm128,
    /// AEAD_AES_256_GCM.
    Gcm256,
    /// AES_CM_128_HMAC_SHA1_80.
    CmSha1,
}

impl ProfileName {
    /// The profile.
    pub fn profile(self) -> Profile {
        match self {
            ProfileName::Gcm128 => Profile::AeadAes128Gcm,
            ProfileName::Gcm256 => Profile::AeadAes256Gcm,
            ProfileName::CmSha1 => Profile::AesCm128HmacSha1_80,
        }
    }

    /// As reports name it.
    pub fn name_of(profile: Profile) -> String {
        match profile {
            Profile::AeadAes128Gcm => "gcm128".to_owned(),
            Profile::AeadAes256Gcm => "gcm256".to_owned(),
            Profile::AesCm128HmacSha1_80 => "cm-sha1".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

impl RtcLoadArgs {
    /// Faults of each direction.
    pub fn faults(&self) -> Faults {
        Faults { loss: self.loss, delay: Duration::from_millis(self.delay.into()) }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (0.0..=1.0).contains(&value).then_some(value).ok_or_else(|| "from 0 to 1".to_owned())
}

fn one_in(text: &str) -> Result<u32, String> {
    match text {
        "all" => Ok(1),
        "none" => Ok(0),
        number => number.parse().map_err(|_| "all, none or a number".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn play(arguments: &str) -> Result<RtcPlayArgs, String> {
        let words =
            ["millbench", "rtc", "play", "http://h/whep/a/s"].into_iter().chain(arguments.split_whitespace());
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Command::Rtc(RtcCommand::Play(play)) => play.load.run.validate().map(|()| play),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn decryption_is_all_none_or_one_in_n() {
        for (text, expected) in [("", 1), ("--decrypt all", 1), ("--decrypt none", 0), ("--decrypt 50", 50)] {
            assert_eq!(play(text).map(|play| play.decrypt), Ok(expected), "{text}");
        }
        assert!(play("--decrypt some").is_err());
    }

    #[test]
    fn faults_and_profiles_are_read() {
        let play = play("--loss 0.05 --delay 20 --profiles cm-sha1,gcm128").expect("valid");
        let faults = Faults { loss: 0.05, delay: Duration::from_millis(20) };
        assert_eq!(
            (play.load.faults(), &play.load.profiles[..]),
            (faults, &[ProfileName::CmSha1, ProfileName::Gcm128][..])
        );
    }

    #[test]
    fn the_floor_names_back_ends_as_the_library_does() {
        for name in ["sendmsg", "sendmmsg", "gso", "io_uring", "af_xdp"] {
            let words = ["millbench", "rtc", "floor", "--like", "f", "--interface", "i", "--backend", name];
            let parsed = Cli::try_parse_from(words).expect("a known back end").command;
            let Command::Rtc(RtcCommand::Floor(floor)) = parsed else { panic!("{parsed:?}") };
            assert_eq!(floor.backend.kind().name(), name);
        }
        for wrong in
            ["", "--like f --backend af_xdp", "--like f --backend tc_clone", "--like f --profile null"]
        {
            let words = ["millbench", "rtc", "floor"].into_iter().chain(wrong.split_whitespace());
            assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "-n 0",
            "-n 3,2",
            "--shapes 0",
            "--shapes 60",
            "--loss 1.5",
            "--loss x",
            "--delay -1",
            "--profiles null",
            "--streams 0",
        ] {
            assert!(play(wrong).is_err(), "{wrong}");
        }
    }
}
