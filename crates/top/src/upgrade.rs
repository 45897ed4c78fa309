//! `millstream upgrade`: has another process take over from a running server.

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use tungstenite::http::StatusCode;

use crate::client::Failure;
use crate::{ServerArgs, wire};

/// Path of the request, below the base URL.
const PATH: &str = "/api/v1/upgrade";
/// How long the server may take: longer than it gives the new one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// Exit code when the old server goes on.
const EXIT_FAILED: u8 = 1;
/// Exit code when the server was not asked or did not answer.
const EXIT_NO_ANSWER: u8 = 2;

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
    let mut connector = args.server.connector().map_err(Failure::Refused);
    if let Ok(connector) = &mut connector {
        connector.timeout = ANSWER_TIMEOUT;
    }
    match connector.and_then(|connector| connector.ask("POST", PATH)) {
        Ok((StatusCode::OK, body)) => match serde_json::from_slice::<Upgraded>(&body) {
            Ok(Upgraded { pid, release }) => {
                println!("{} serves, process {pid}", wire::printable(&release));
                ExitCode::SUCCESS
            }
            Err(error) => fail(&format!("the answer cannot be read: {error}"), EXIT_NO_ANSWER),
        },
        Ok((StatusCode::CONFLICT, body)) => {
            let reason = serde_json::from_slice::<Failed>(&body).map(|failed| failed.error.message);
            let reason = reason.unwrap_or_default();
            fail(&format!("{}; the server goes on as it is", wire::printable(&reason)), EXIT_FAILED)
        }
        Ok((StatusCode::NOT_FOUND, _)) => {
            fail("the server cannot be asked to hand over; is it a Millstream?", EXIT_NO_ANSWER)
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

fn fail(error: &str, code: u8) -> ExitCode {
    eprintln!("millstream upgrade: {error}");
    ExitCode::from(code)
}
