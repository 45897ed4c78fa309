//! `millstream reload`: has a running server read its configuration again, and prints what has changed.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;

use crate::order::{Answer, Order};
use crate::{ServerArgs, wire};

const RELOAD: Order = Order {
    command: "reload",
    path: "/api/v1/config/reload",
    // It waits for files, and for keys of signed tokens from elsewhere.
    timeout: Duration::from_secs(60),
};

/// Options of `millstream reload`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Runs it. What has changed goes to standard output, errors to standard error.
pub fn run(args: &Args) -> ExitCode {
    match RELOAD.give(&args.server) {
        Ok(Answer::Done(body)) => match serde_json::from_slice::<Reloaded>(&body) {
            Ok(reloaded) => {
                // A closed pipe (`| head`) is not an error.
                let _ = std::io::stdout().write_all(text(&reloaded).as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => RELOAD.no_answer(&format!("the answer cannot be read: {error}")),
        },
        Ok(Answer::Refused(body)) => {
            let refused = serde_json::from_slice::<Refused>(&body).unwrap_or_default();
            for error in &refused.errors {
                eprintln!("millstream reload: {}", wire::printable(error));
            }
            RELOAD.refused("nothing has changed")
        }
        Err(code) => code,
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
