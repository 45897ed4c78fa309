//! `millstream healthcheck`: whether a server answers, by its exit code, for containers and scripts without
//! a client of HTTP.

use std::process::ExitCode;
use std::time::Duration;

use tungstenite::http::StatusCode;

use crate::client::Failure;
use crate::{ServerArgs, wire};

/// Less than what supervisors wait for a check.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Exit code when the server says no, or nothing. Containers know 0 and 1 only.
const EXIT_UNHEALTHY: u8 = 1;

/// Options of `millstream healthcheck`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Ask whether it takes new sessions: every worker answers, and it does not stop. Without, whether
    /// it answers.
    #[arg(long)]
    pub ready: bool,
}

/// Runs it. Nothing is printed if all is well.
pub fn run(args: &Args) -> ExitCode {
    match check(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("millstream healthcheck: {}: {reason}", args.server.url);
            ExitCode::from(EXIT_UNHEALTHY)
        }
    }
}

fn check(args: &Args) -> Result<(), String> {
    let mut connector = args.server.connector()?;
    connector.timeout = ANSWER_TIMEOUT;
    let path = if args.ready { "/readyz" } else { "/healthz" };
    match connector.ask("GET", path) {
        Ok((StatusCode::OK, _)) => Ok(()),
        Ok((status, body)) => {
            Err(format!("{status}: {}", wire::printable(String::from_utf8_lossy(&body).trim())))
        }
        Err(Failure::Lost(reason) | Failure::Refused(reason)) => Err(reason),
    }
}
