//! `millstream reload`: has a running server read its configuration again, and prints what has changed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use tungstenite::http::StatusCode;

use crate::client::Failure;
use crate::{ServerArgs, wire};

/// Path of the request, below the base URL.
const PATH: &str = "/api/v1/config/reload";
/// How long the server may take: it waits for files, and for keys of signed tokens from elsewhere.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Exit code when the server refuses the configuration.
const EXIT_REFUSED: u8 = 1;
/// Exit code when the server was not asked or did not answer.
const EXIT_NO_ANSWER: u8 = 2;

/// Options of `millstream reload`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Runs it. What has changed goes to standard output, errors to standard error.
pub fn run(args: &Args) -> ExitCode {
    let mut connector = args.server.connector().map_err(Failure::Refused);
    if let Ok(connector) = &mut connector {
        connector.timeout = ANSWER_TIMEOUT;
    }
    match connector.and_then(|connector| connector.ask("POST", PATH)) {
        Ok((StatusCode::OK, body)) => match serde_json::from_slice::<Reloaded>(&body) {
            Ok(reloaded) => {
                // A closed pipe (`| head`) is not an error.
                let _ = std::io::stdout().write_all(text(&reloaded).as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => fail(&format!("the answer cannot be read: {error}"), EXIT_NO_ANSWER),
        },
        Ok((StatusCode::CONFLICT, body)) => {
            let refused = serde_json::from_slice::<Refused>(&body).unwrap_or_default();
            for error in &refused.errors {
                eprintln!("millstream reload: {}", wire::printable(error));
            }
            fail("nothing has changed", EXIT_REFUSED)
        }
        Ok((StatusCode::NOT_FOUND, _)) => {
            fail("the server cannot be asked to reload; is it a Millstream?", EXIT_NO_ANSWER)
        }
        Ok((status, body)) => {
            let failure = crate::client::refusal(status, &body, args.server.token().is_some());
            let (Failure::Lost(reason) | Failure::Refused(reason)) = failure;
            fail(&reason, EXIT_NO_ANSWER)
        }
        Err(Failure::Lost(reason) | Failure::Refused(reason)) => {
            fail(&format!("{}: {reason}", args.server.url), EXIT_NO_ANSWER)
        }
    }
}

/// What has changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reloaded {
    changed: Vec<String>,
    needs_restart: Vec<String>,
    started: Vec<String>,
    restarted: Vec<String>,
    ended: Vec<String>,
    failed: Vec<String>,
}

/// Why nothing has.
#[derive(Debug, Default, Deserialize)]
struct Refused {
    errors: Vec<String>,
}

fn text(reloaded: &Reloaded) -> String {
    let mut text = String::new();
    let lists = [
        ("changed", &reloaded.changed),
        ("started", &reloaded.started),
        ("restarted", &reloaded.restarted),
        ("ended", &reloaded.ended),
        ("failed", &reloaded.failed),
        ("needs a restart", &reloaded.needs_restart),
    ];
    for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let _ = writeln!(text, "{title}: {}", wire::printable(&list.join(", ")));
    }
    if text.is_empty() { "nothing has changed\n".to_owned() } else { text }
}

fn fail(error: &str, code: u8) -> ExitCode {
    eprintln!("millstream reload: {error}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_to_say_is_said() {
        assert_eq!(text(&Reloaded::default()), "nothing has changed\n");
        let changed = ["auth.play", "pull"].map(str::to_owned).to_vec();
        let needs_restart = vec!["rtmp.listen".to_owned()];
        let reloaded = Reloaded { changed, needs_restart, ..Reloaded::default() };
        assert_eq!(text(&reloaded), "changed: auth.play, pull\nneeds a restart: rtmp.listen\n");
    }
}
