//! What `millstream reload` and `millstream upgrade` have in common: a POST without a body that the server
//! carries out (200) or refuses because of what it was to do (409).

use std::process::ExitCode;
use std::time::Duration;

use tungstenite::http::StatusCode;

use crate::ServerArgs;
use crate::client::{Failure, refusal};

/// Exit code when the server refuses.
const EXIT_REFUSED: u8 = 1;
/// Exit code when the server was not asked or did not answer.
const EXIT_NO_ANSWER: u8 = 2;

/// A command that has a running server do something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// Its name, for what it prints.
    pub(crate) command: &'static str,
    /// Path of the request, below the base URL.
    pub(crate) path: &'static str,
    /// How long the server may take.
    pub(crate) timeout: Duration,
}

/// What the server says.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is done.
    Done(Vec<u8>),
    /// It is not.
    Refused(Vec<u8>),
}

impl Order {
    /// Asks for it; `Err` once why there is no answer was printed.
    pub(crate) fn give(self, server: &ServerArgs) -> Result<Answer, ExitCode> {
        let mut connector = server.connector().map_err(|reason| self.no_answer(&located(server, &reason)))?;
        connector.timeout = self.timeout;
        let reason = match connector.ask("POST", self.path) {
            Ok((StatusCode::OK, body)) => return Ok(Answer::Done(body)),
            Ok((StatusCode::CONFLICT, body)) => return Ok(Answer::Refused(body)),
            Ok((StatusCode::NOT_FOUND, _)) => {
                format!("the server cannot be asked to {}; is it a Millstream?", self.command)
            }
            Ok((status, body)) => {
                let (Failure::Lost(reason) | Failure::Refused(reason)) =
                    refusal(status, &body, server.token().is_some());
                reason
            }
            Err(Failure::Lost(reason) | Failure::Refused(reason)) => located(server, &reason),
        };
        Err(self.no_answer(&reason))
    }

    /// The server has refused.
    pub(crate) fn refused(self, reason: &str) -> ExitCode {
        self.fail(reason, EXIT_REFUSED)
    }

    /// There is no answer, or none that can be read.
    pub(crate) fn no_answer(self, reason: &str) -> ExitCode {
        self.fail(reason, EXIT_NO_ANSWER)
    }

    fn fail(self, reason: &str, code: u8) -> ExitCode {
        eprintln!("millstream {}: {reason}", self.command);
        ExitCode::from(code)
    }
}

fn located(server: &ServerArgs, reason: &str) -> String {
    format!("{}: {reason}", server.url)
}
