//! Millstream, a live media server: WebRTC (WHIP), RTMP, RTSP and SRT in; WebRTC (WHEP), RTMP, RTSP,
//! HTTP-FLV, WebSocket-FLV, MPEG-TS, SRT, HLS and DASH out.
//!
//! This crate puts the server together: `run` starts the log, the workers (`worker`), the HTTP side
//! (`control`) and what the server publishes itself (`sources`), and stops them in order; `cli` reads the
//! command line. The binary is [`main`] and the allocator.

mod banner;
mod cli;
mod doctor;
mod loader;
mod logging;
mod manual;
mod moq;
mod record;
mod reload;
mod run;
mod server;
mod supervisor;
mod upgrade;

pub use server::Server;

use std::path::Path;
use std::process::ExitCode;

use cli::{Command, ConfigAction};
use config::Config;
use config::error::ConfigError;
use loader::Loader;

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
        print_out(if print.markdown {
            config::print::markdown()
        } else {
            config::print::toml(&Config::default(), print.documented, false)
        });
        return ExitCode::SUCCESS;
    }
    if let Command::Reload(arguments) = &command {
        return top::reload::run(arguments);
    }
    if let Command::Upgrade(arguments) = &command {
        return top::upgrade::run(arguments);
    }
    if let Command::Top(arguments) = &command {
        return top::run(arguments);
    }
    if let Command::FetchTrace(arguments) = &command {
        return fetch_trace::run(arguments);
    }
    if let Command::FetchProxy(arguments) = &command {
        return fetch_proxy::run(arguments);
    }
    if let Command::Healthcheck(arguments) = &command {
        return top::health::run(arguments);
    }
    if let Command::Completions(arguments) = &command {
        print_out(manual::completions(arguments.shell));
        return ExitCode::SUCCESS;
    }
    if let Command::Man(arguments) = &command {
        return print_pages(arguments.directory.as_deref());
    }
    let demo = matches!(command, Command::Demo);
    let mut loader = Loader { file: cli.sources.config, flags, demo, was_blank: false };
    let config = match loader.load() {
        Ok((config, is_blank)) => {
            loader.was_blank = is_blank;
            config
        }
        Err(errors) => return report(&errors),
    };
    let resolved = config::resolve::resolve(&config, &|name| std::env::var(name).ok());
    match (command, resolved) {
        (Command::Config { action: ConfigAction::Print(print) }, _) => {
            print_out(config::print::toml(&config, print.documented, print.origins));
            ExitCode::SUCCESS
        }
        (_, Err(errors)) => report(&errors),
        (Command::Config { action: ConfigAction::Check }, Ok(_)) => {
            print_out("OK\n");
            ExitCode::SUCCESS
        }
        (Command::Doctor(arguments), Ok(resolved)) => doctor::run(&arguments, &resolved),
        (Command::Record { action }, Ok(resolved)) => record::run(&action, resolved.record.as_ref()),
        (_, Ok(resolved)) => match run::run(config, resolved, loader) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("millstream: {error}");
                ExitCode::from(EXIT_START)
            }
        },
    }
}

fn report(errors: &[ConfigError]) -> ExitCode {
    for error in errors {
        eprintln!("millstream: {error}");
    }
    ExitCode::from(EXIT_CONFIG)
}

fn print_pages(directory: Option<&Path>) -> ExitCode {
    let Some(directory) = directory else {
        print_out(manual::page());
        return ExitCode::SUCCESS;
    };
    match manual::write_pages(directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("millstream man: {}: {error}", directory.display());
            ExitCode::from(EXIT_START)
        }
    }
}

/// Writes to standard output; a reader that went away (`| head`) is no error.
fn print_out(text: impl AsRef<[u8]>) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_ref());
}
