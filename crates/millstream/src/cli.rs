//! The command line: commands by derive, one flag per configuration key from the table of keys.
//!
//! Flags are the strongest layer of the configuration. `--set section.key=value` reaches every key
//! as well; the flags of rarely used keys are shown by `--help` only, not by `-h`.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use config::error::is_near;
use config::{CONFIG_VARIABLE, section_keys};

/// Live media server: WebRTC (WHIP), RTMP, RTSP and SRT in; WebRTC (WHEP), RTMP, RTSP, HTTP-FLV,
/// WebSocket-FLV, MPEG-TS, SRT, HLS and DASH out.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, about, long_about = None)]
pub(crate) struct Cli {
    /// What to do; `serve` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub sources: SourceArgs,
}

/// Commands.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Run the server (default).
    Serve,
    /// Run the server with a live demo channel.
    Demo,
    /// Check or print the configuration.
    Config {
        /// What to do with it.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Check whether this machine gives the server what its configuration asks for.
    ///
    /// Limits, ports and who has them, buffers, clock, certificates, disks, other servers that are needed.
    /// Each bad finding comes with the line that fixes it. Exit code 1 when the server would not start, or a
    /// part of it would not work; 2 when the configuration is wrong.
    Doctor(DoctorArgs),
    /// List, check or repair recordings in a directory.
    ///
    /// Without DIR, the directories of the configuration. `list` and `verify` may run beside a server;
    /// `repair` takes the directory for itself, as a server does at its start.
    Record {
        /// What to do with them.
        #[command(subcommand)]
        action: RecordAction,
    },
    /// Have a running server read its configuration again.
    ///
    /// Prints what has changed, and what takes effect when the server is started again. All of it or, if
    /// there is a mistake, nothing: exit code 1. Exit code 2 if the server does not answer.
    Reload(top::reload::Args),
    /// Have the installed program take over from a running server.
    ///
    /// It is started as the server was, and gets its sockets. Exit code 1 if it cannot take over: the server
    /// goes on as it is. Exit code 2 if the server does not answer.
    Upgrade(top::upgrade::Args),
    /// Exit with 0 if a running server answers.
    ///
    /// For containers and scripts. Exit code 1, with the reason, if it does not.
    Healthcheck(top::health::Args),
    /// Show the streams and sessions of a running server, live.
    Top(top::Args),
    /// Make a list of reads of a remote file, and print what they cost.
    ///
    /// Prints one JSON object: the SHA-256 of all bytes in the order of the list, seconds, requests
    /// and connections, and the bytes of answers: received, used, skipped (between two places that
    /// were read), wasted. Proxies are those of the environment (http_proxy, https_proxy,
    /// all_proxy, no_proxy).
    FetchTrace(fetch_trace::Args),
    /// Serve remote files to players on this machine, with few requests.
    ///
    /// A player opens http://127.0.0.1:8090/https://example.org/film.mp4, and all its requests are
    /// answered by one reader. /stats, and one JSON object at the end, say what that has cost.
    FetchProxy(fetch_proxy::Args),
    /// Print what a shell needs to complete command lines.
    Completions(CompletionsArgs),
    /// Print the man page, or write those of all commands into a directory.
    Man(ManArgs),
}

/// Options of `completions`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManArgs {
    /// Directory for `millstream.1`, `millstream-top.1` and so on.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// What to do with the configuration.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ConfigAction {
    /// Report every error of the configuration; exit code 2 when there is one.
    Check,
    /// Print the effective configuration as TOML.
    Print(PrintArgs),
}

/// Options of `doctor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Print a JSON array of `level`, `about`, `found` and `mend`.
    #[arg(long)]
    pub json: bool,
}

/// What to do with recordings.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RecordAction {
    /// Print a line per recording: state, begin, length, bytes, path.
    List(RecordArgs),
    /// Read recordings as a whole, checksums included; exit code 1 when one is damaged or cannot be read.
    Verify(RecordArgs),
    /// Complete recordings that a crash has left, and cut off what is damaged at their ends.
    Repair(RecordArgs),
}

/// Where recordings are.
#[derive(Debug, Clone, Args)]
pub(crate) struct RecordArgs {
    /// Directory; as often as there are directories.
    #[arg(value_name = "DIR")]
    pub directories: Vec<PathBuf>,
}

/// Options of `config print`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PrintArgs {
    /// Print the defaults, whatever is configured.
    #[arg(long)]
    pub defaults: bool,
    /// With meaning, unit, default and cost of each key as comments.
    #[arg(long)]
    pub documented: bool,
    /// With a comment where each key that is not at its default was set.
    #[arg(long)]
    pub origins: bool,
    /// Print the reference page for all keys (docs/configuration.md) instead of TOML.
    #[arg(long, conflicts_with_all = ["defaults", "documented", "origins"])]
    pub markdown: bool,
}

/// Options that say where the configuration comes from.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// TOML file to read.
    #[arg(long, value_name = "FILE", global = true, env = CONFIG_VARIABLE)]
    pub config: Option<PathBuf>,
    /// Set any key, such as `--set stream.merge_latency_ms=0`.
    #[arg(long, value_name = "SECTION.KEY=VALUE", global = true)]
    pub set: Vec<String>,
}

/// The command line, with flags as `(section.key, value, flag)`.
pub(crate) type Parsed = (Cli, Vec<(String, String, String)>);

/// Parses `arguments`, the first of which is the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, clap::Error> {
    let matches = command().try_get_matches_from(arguments).map_err(name_the_right_flag)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Some(reason) = cli.command.as_ref().and_then(starts_no_server) {
        return refuse_settings(&matches, reason).map(|()| (cli, Vec::new()));
    }
    let mut flags = Vec::new();
    for text in &cli.sources.set {
        let Some((path, value)) = text.split_once('=') else {
            let message = format!("--set {text}: expected SECTION.KEY=VALUE\n");
            return Err(command().error(ErrorKind::ValueValidation, message));
        };
        flags.push((path.trim().to_owned(), value.to_owned(), format!("--set {}", path.trim())));
    }
    let deepest = deepest(&matches);
    for key in section_keys() {
        if let Some(value) = deepest.get_one::<String>(&key.flag()) {
            flags.push((key.path(), value.clone(), format!("--{}", key.flag())));
        }
    }
    Ok((cli, flags))
}

/// Clap suggests any flag that is somewhat similar, with a usage line for it. Here a key that is spelt in
/// another way is named by its flag, and else only what is near.
fn name_the_right_flag(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let given = given.clone();
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let meant = section_keys().into_iter().find(|key| key.is_spelt(&given));
    let meant =
        meant.map(|key| format!("--{}", key.flag())).or_else(|| match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(similar)) if is_near(&given, similar) => Some(similar.clone()),
            _ => None,
        });
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Usage);
    if let Some(flag) = meant {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(flag));
    }
    error
}

/// What a command does that starts no server and reads no configuration.
fn starts_no_server(command: &Command) -> Option<&'static str> {
    match command {
        Command::Reload(_) => Some("`reload` asks one that runs"),
        Command::Upgrade(_) => Some("`upgrade` asks one that runs"),
        Command::Healthcheck(_) => Some("`healthcheck` asks one that runs"),
        Command::Top(_) => Some("`top` only looks at one"),
        Command::FetchTrace(_) => Some("`fetch-trace` needs none"),
        Command::FetchProxy(_) => Some("`fetch-proxy` needs none"),
        Command::Completions(_) => Some("`completions` needs none"),
        Command::Man(_) => Some("`man` needs none"),
        Command::Serve
        | Command::Demo
        | Command::Config { .. }
        | Command::Doctor(_)
        | Command::Record { .. } => None,
    }
}

/// Refuses what configures a server on a command line that starts none. In the environment it may be.
fn refuse_settings(matches: &ArgMatches, reason: &str) -> Result<(), clap::Error> {
    let matches = deepest(matches);
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let sources = ["config", "set"].map(str::to_owned);
    let keys = section_keys().into_iter().map(|key| key.flag());
    match sources.into_iter().chain(keys).find(|id| given(id)) {
        None => Ok(()),
        Some(flag) => {
            let message = format!("--{flag} configures a server, and {reason}\n");
            Err(command().error(ErrorKind::ArgumentConflict, message))
        }
    }
}

/// The clap command: the derived one and a flag per key.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let sources: Vec<Arg> = command.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let flags: Vec<Arg> = key_flags().collect();
    // Commands that start no server have them as well, so that they are refused with a reason, but
    // do not list them.
    let hidden: Vec<Arg> = sources.into_iter().chain(flags.clone()).map(|arg| arg.hide(true)).collect();
    let command = NO_SERVER.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |subcommand| subcommand.args(hidden.clone()))
    });
    command.args(flags)
}

/// The same for completions: keys are flags of `millstream`, `serve` and `demo` alone. As flags of every
/// command they made scripts of nearly a megabyte, which a shell reads at its start.
pub(crate) fn command_to_complete() -> clap::Command {
    let flags: Vec<Arg> = key_flags().map(|flag| flag.global(false)).collect();
    let command = ["serve", "demo"].iter().fold(Cli::command(), |command, name| {
        command.mut_subcommand(name, |subcommand| subcommand.args(flags.clone()))
    });
    command.args(flags)
}

/// Whether a flag is that of a key of the configuration.
pub(crate) fn is_key(flag: &Arg) -> bool {
    flag.get_help_heading().is_some_and(|heading| heading.starts_with(KEYS_HEADING))
}

fn key_flags() -> impl Iterator<Item = Arg> {
    section_keys().into_iter().map(|key| {
        let help = match key.unit {
            "" => format!("{} [default: {}]", key.doc, key.default),
            unit => format!("{} [{unit}, default: {}]", key.doc, key.default),
        };
        Arg::new(key.flag())
            .long(key.flag())
            .alias(key.whole_flag())
            .value_name(if key.kind.starts_with("true") { "BOOL" } else { "VALUE" })
            .help(help)
            .help_heading(format!("{KEYS_HEADING}{}", key.section))
            .hide_short_help(!FREQUENT.contains(&key.flag().as_str()))
            .allow_hyphen_values(true)
            .global(true)
    })
}

/// Begins the headings of keys in the help.
const KEYS_HEADING: &str = "Configuration: ";
/// Commands that start no server.
const NO_SERVER: [&str; 8] =
    ["reload", "upgrade", "healthcheck", "top", "fetch-trace", "fetch-proxy", "completions", "man"];

/// Flags shown by `-h`.
const FREQUENT: [&str; 11] = [
    "workers",
    "cores",
    "ports-file",
    "rtmp-listen",
    "http-listen",
    "rtc-udp-listen",
    "rtc-public-addresses",
    "log-format",
    "log-level",
    "stream-merge-latency-ms",
    "tls-self-signed",
];

/// Matches of the innermost command: global flags given before or after it are there.
fn deepest(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some((_, inner)) => deepest(inner),
        None => matches,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Vec<(String, String, String)> {
        parse(line.split(' ').map(str::to_owned)).expect("valid").1
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_work_before_and_after_the_command() {
        let expected = vec![("server.workers".to_owned(), "3".to_owned(), "--workers".to_owned())];
        for line in
            ["millstream --workers 3", "millstream demo --workers 3", "millstream --workers 3 config print"]
        {
            assert_eq!(flags(line), expected, "{line}");
        }
        assert_eq!(flags("millstream serve --stream-wait-for-publisher-seconds -1")[0].1, "-1");
    }

    #[test]
    fn set_reaches_any_key() {
        let found = flags("millstream --set stream.merge_latency_ms=0 --set auth.publish_token=a=b");
        assert_eq!(
            found[0],
            ("stream.merge_latency_ms".into(), "0".into(), "--set stream.merge_latency_ms".into())
        );
        assert_eq!(found[1].1, "a=b");
        assert!(parse(["millstream", "--set", "x"].map(str::to_owned)).is_err());
    }

    #[test]
    fn the_short_help_shows_flags_that_exist() {
        let help = command().render_help().to_string();
        for flag in FREQUENT {
            assert!(help.contains(&format!("--{flag} ")), "{flag}: {help}");
        }
        assert!(help.contains("WHIP") && !help.contains("--limits-"), "{help}");
    }

    #[test]
    fn top_takes_its_own_options_and_no_settings() {
        let words = |line: &str| parse(line.split(' ').map(str::to_owned));
        let (cli, flags) = words("millstream top --url example.org --sort -LOSS%").expect("valid");
        assert!(flags.is_empty());
        let Some(Command::Top(args)) = cli.command else { panic!("{:?}", cli.command) };
        assert_eq!((args.server.url.as_str(), args.sort.as_str()), ("example.org", "-LOSS%"));
        let refused = [
            "top --workers 3",
            "--workers 3 top",
            "reload --set a.b=c",
            "top --config a.toml",
            "top --set a.b=c",
        ];
        for line in refused {
            let error = words(&format!("millstream {line}")).map(|_| ()).expect_err(line);
            assert!(error.to_string().contains("configures a server"), "{line}: {error}");
        }
        let mut command = command();
        let top = command.find_subcommand_mut("top").expect("a command");
        let help = top.render_long_help().to_string();
        assert!(
            help.contains("--url") && !help.contains("--workers") && !help.contains("--config"),
            "{help}"
        );
    }

    #[test]
    fn fetch_trace_takes_its_own_options_and_no_settings() {
        let words = |line: &str| parse(line.split(' ').map(str::to_owned));
        let line =
            "millstream fetch-trace http://localhost/a --trace reads.csv --hints --header a:b --header c:d";
        let (cli, flags) = words(line).expect("valid");
        assert!(flags.is_empty());
        let Some(Command::FetchTrace(args)) = cli.command else { panic!("{:?}", cli.command) };
        assert_eq!((args.hints, args.header), (true, vec!["a:b".to_owned(), "c:d".to_owned()]));
        let error = words(&format!("{line} --workers 3")).map(|_| ()).expect_err("a setting");
        assert!(error.to_string().contains("configures a server, and `fetch-trace` needs none"), "{error}");
        assert!(words("millstream fetch-trace http://localhost/a").is_err(), "no trace");
        let mut command = command();
        let help = command.find_subcommand_mut("fetch-trace").expect("a command").render_help().to_string();
        assert!(help.contains("--hints") && !help.contains("--workers"), "{help}");
    }

    #[test]
    fn an_unknown_flag_is_an_error_with_a_suggestion() {
        let error = parse(["millstream", "--rtmp-lisen", "*:1"].map(str::to_owned)).expect_err("unknown");
        assert!(error.to_string().contains("--rtmp-listen"), "{error}");
        for unlike in ["--zebra-crossing", "--pending-rtc-worker", "--x"] {
            let error =
                parse(["millstream", unlike, "1"].map(str::to_owned)).expect_err("unknown").to_string();
            assert_eq!(error.matches("--").count(), 1 + error.matches("--help").count(), "{error}");
        }
    }

    #[test]
    fn every_key_is_found_by_section_and_name_however_they_are_joined() {
        // Each key in one of six ways: the parser is made again for each, which takes 50 ms unoptimised.
        for (number, key) in section_keys().into_iter().enumerate() {
            let whole = format!("{}-{}", key.section, key.name);
            let spellings = [whole.replace('_', "-"), key.path(), whole.replace(['.', '-'], "_")];
            let spelling = &spellings[number / 2 % 3];
            let spelling = if number % 2 == 0 { spelling.clone() } else { spelling.to_uppercase() };
            match parse(["millstream", &format!("--{spelling}"), "1"].map(str::to_owned)) {
                Ok((_, flags)) => assert_eq!(flags[0].0, key.path(), "{spelling}"),
                Err(error) => {
                    let (text, right) = (error.to_string(), format!("'--{}'", key.flag()));
                    assert!(text.contains(&right), "{spelling}: {text}");
                    // What was given, what is right, and where help is.
                    assert!(text.matches("--").count() <= 3, "{spelling}: {text}");
                }
            }
        }
        assert_eq!(flags("millstream --server-workers 3")[0].0, "server.workers");
    }
}
