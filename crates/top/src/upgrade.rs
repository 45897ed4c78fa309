//! `millstream upgrade`: has another process take over from a running server.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;

use crate::order::{Answer, Order};
use crate::{ServerArgs, wire};

const UPGRADE: Order = Order {
    command: "upgrade",
    path: "/api/v1/upgrade",
    // Longer than it gives the new server.
    timeout: Duration::from_secs(90),
};

/// Options of `millstream upgrade`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What has taken over.
#[derive(Debug, Deserialize)]
struct Upgraded {
    pid: u32,
    release: String,
}

/// What has not.
#[derive(Debug, Deserialize)]
struct Failed {
    error: Reason,
}

/// Why.
#[derive(Debug, Deserialize)]
struct Reason {
    message: String,
}

/// Runs it. What serves now goes to standard output, errors to standard error.
pub fn run(args: &Args) -> ExitCode {
    match UPGRADE.give(&args.server) {
        Ok(Answer::Done(body)) => match serde_json::from_slice::<Upgraded>(&body) {
            Ok(Upgraded { pid, release }) => {
                // A closed pipe is not an error.
                let _ = writeln!(std::io::stdout(), "{} serves, process {pid}", wire::printable(&release));
                ExitCode::SUCCESS
            }
            Err(error) => UPGRADE.no_answer(&format!("the answer cannot be read: {error}")),
        },
        Ok(Answer::Refused(body)) => {
            let reason = serde_json::from_slice::<Failed>(&body).map(|failed| failed.error.message);
            let reason = reason.unwrap_or_default();
            UPGRADE.refused(&format!("{}; the server goes on as it is", wire::printable(&reason)))
        }
        Err(code) => code,
    }
}
