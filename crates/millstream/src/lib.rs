//! Millstream, a live media server: WebRTC (WHIP), RTMP, RTSP and SRT in; WebRTC (WHEP), RTMP, RTSP,
//! HTTP-FLV, WebSocket-FLV, MPEG-TS, SRT, HLS and DASH out.
//!
//! This crate puts the server together: `run` starts the log, the workers (`worker`), the HTTP side
//! (`control`) and what the server publishes itself (`sources`), and stops them in order; `cli` reads the
//! command line. The binary is [`main`] and the allocator.

mod banner;
mod cli;
mod doctor;
mod logging;
mod moq;
mod record;
mod run;
mod server;

pub use server::Server;

use std::path::Path;
use std::process::ExitCode;

use cli::{Cli, Command, ConfigAction};
use config::Config;
use config::error::ConfigError;

/// Exit code when the configuration is wrong.
const EXIT_CONFIG: u8 = 2;
/// Exit code when the server could not start.
const EXIT_START: u8 = 1;

/// What the binary does: reads the command line, then serves or runs the command.
pub fn main() -> ExitCode {
    let (cli, flags) = match cli::parse(std::env::args()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_CONFIG));
        }
    };
    let command = cli.command.clone().unwrap_or(Command::Serve);
    if let Command::Config { action: ConfigAction::Print(print) } = &command
        && (print.defaults || print.markdown)
    {
        print_out(&if print.markdown {
            config::print::markdown()
        } else {
            config::print::toml(&Config::default(), print.documented, false)
        });
        return ExitCode::SUCCESS;
    }
    if let Command::Top(arguments) = &command {
        return top::run(arguments);
    }
    if let Command::FetchTrace(arguments) = &command {
        return fetch_trace::run(arguments);
    }
    let mut config = match load(&cli, flags) {
        Ok(config) => config,
        Err(errors) => return report(&errors),
    };
    if matches!(command, Command::Demo) {
        config.demo.enabled = true;
    }
    let resolved = config::resolve::resolve(&config, &|name| std::env::var(name).ok());
    match (command, resolved) {
        (Command::Config { action: ConfigAction::Print(print) }, _) => {
            print_out(&config::print::toml(&config, print.documented, print.origins));
            ExitCode::SUCCESS
        }
        (_, Err(errors)) => report(&errors),
        (Command::Config { action: ConfigAction::Check }, Ok(_)) => {
            print_out("OK\n");
            ExitCode::SUCCESS
        }
        (Command::Doctor(arguments), Ok(resolved)) => doctor::run(&arguments, &resolved),
        (Command::Record { action }, Ok(resolved)) => record::run(&action, resolved.record.as_ref()),
        (_, Ok(resolved)) => match run::run(&config, resolved) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("millstream: {error}");
                ExitCode::from(EXIT_START)
            }
        },
    }
}

/// Reads the file and applies environment and flags.
fn load(cli: &Cli, flags: Vec<(String, String, String)>) -> Result<Config, Vec<ConfigError>> {
    let file = cli.sources.config.as_deref().map(read).transpose().map_err(|error| vec![error])?;
    // Names and values that are not UTF-8 cannot be settings.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .collect();
    config::load(&config::Sources { file, environment, flags })
}

fn read(path: &Path) -> Result<(String, String), ConfigError> {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(error) => {
            let origin = config::error::Origin::Flag("--config".to_owned());
            Err(ConfigError::new(&origin, format!("{name} cannot be read: {error}")))
        }
    }
}

fn report(errors: &[ConfigError]) -> ExitCode {
    for error in errors {
        eprintln!("millstream: {error}");
    }
    ExitCode::from(EXIT_CONFIG)
}

/// Writes to standard output; a reader that went away (`| head`) is no error.
fn print_out(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
