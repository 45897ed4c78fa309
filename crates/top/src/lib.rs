//! `millstream top`: the live statistics of a server in a terminal.
//!
//! A program of its own inside the binary: it reads no configuration and starts no server, but
//! connects to one as the console in the browser does (`GET /api/v1/stats/stream`). `client`
//! receives messages, `app` holds the state and handles keys, `draw` draws it, `terminal` is the
//! loop; `once` prints one message as text instead. Nodes and links of a cluster (`cluster`) are asked for
//! once a second while they are shown. It only shows: to end sessions, use the API or
//! the console. [`reload`], [`upgrade`] and [`health`] are other commands, which ask by the same client.

mod app;
mod client;
mod cluster;
mod columns;
mod draw;
mod filter;
mod format;
pub mod health;
mod history;
mod once;
mod order;
pub mod reload;
#[cfg(test)]
mod sample;
mod table;
mod target;
mod terminal;
mod theme;
mod tls;
pub mod upgrade;
mod wire;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use app::{App, Focus};
use client::{Connector, Failure, TOKEN_VARIABLE};
use filter::Filter;
use target::Target;
use theme::Theme;
use tls::Trust;

/// Prefix of this command's environment variables.
pub const VARIABLES: &str = "MILLSTREAM_TOP_";
/// Environment variable for `--url`.
const URL_VARIABLE: &str = "MILLSTREAM_TOP_URL";
/// Exit code when there are no statistics to show.
const EXIT_FAILED: u8 = 1;
/// Exit code for invalid arguments, the same as clap's.
const EXIT_USAGE: u8 = 2;

/// Which server a command is about.
#[derive(Debug, Clone, clap::Args)]
pub struct ServerArgs {
    /// The server: http://HOST:PORT, https://HOST:PORT, or HOST alone for port 8080.
    #[arg(long, value_name = "URL", default_value = "http://localhost:8080", env = URL_VARIABLE)]
    pub url: String,
    /// Token for the management API; not needed on the server's own machine unless it is configured
    /// so. Better passed in the environment, which others on this machine cannot read.
    #[arg(long, value_name = "TOKEN", env = TOKEN_VARIABLE, hide_env_values = true)]
    pub token: Option<String>,
    /// PEM file of the certificate authorities to trust instead of the system's; the server's own
    /// certificate works too.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Do not check the server's certificate: anyone who answers can read the token and send false
    /// statistics.
    #[arg(long, conflicts_with = "ca")]
    pub insecure: bool,
}

impl ServerArgs {
    /// The token; none if it is empty, since scripts set a variable to nothing instead of unsetting it.
    fn token(&self) -> Option<&str> {
        self.token.as_deref().filter(|token| !token.is_empty())
    }

    fn trust(&self) -> Trust {
        match &self.ca {
            Some(path) => Trust::File(path.clone()),
            None if self.insecure => Trust::Anybody,
            None => Trust::System,
        }
    }

    /// How to reach the server.
    fn connector(&self) -> Result<Connector, String> {
        let target = Target::parse(&self.url)?;
        let tls = target.tls.then(|| tls::client_config(&self.trust())).transpose()?;
        Connector::new(target, self.token(), tls)
    }
}

/// Options of `millstream top`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one message as text, a line for each worker, stream and session, and exit.
    #[arg(long)]
    pub once: bool,
    /// Begin with the nodes and links of the server's cluster (the key n); with --once, print those.
    #[arg(long)]
    pub nodes: bool,
    /// Only rows that match these words: part of a stream, protocol or role, beginning of an id;
    /// worker:0 role:player ...
    #[arg(long, value_name = "WORDS")]
    pub filter: Option<String>,
    /// Column to sort sessions by, as in its header; with - before it, in reverse.
    #[arg(long, value_name = "COLUMN", default_value = "BIT/S", allow_hyphen_values = true)]
    pub sort: String,
    /// No colours; the same as NO_COLOR=1 in the environment.
    #[arg(long, visible_alias = "no-colour")]
    pub no_color: bool,
}

/// Runs it. Errors go to standard error.
pub fn run(args: &Args) -> ExitCode {
    let (connector, mut app) = match prepare(args) {
        Ok(prepared) => prepared,
        Err(error) => return fail(&error, EXIT_USAGE),
    };
    if args.once {
        return if args.nodes { print_nodes(&connector, &mut app) } else { print_once(&connector, &mut app) };
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return fail("a terminal is needed; without one, use --once", EXIT_USAGE);
    }
    let mut theme = Theme::of_environment(|name| std::env::var(name).ok());
    theme.colour &= !args.no_color;
    match terminal::run(&connector, app, theme) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, EXIT_FAILED),
    }
}

fn prepare(args: &Args) -> Result<(Connector, App), String> {
    let target = Target::parse(&args.server.url)?;
    let unchecked = target.tls && args.server.trust() == Trust::Anybody;
    let mut app =
        App::new(if unchecked { format!("{target} (certificate not checked)") } else { target.to_string() });
    let (title, reversed) =
        args.sort.strip_prefix('-').map_or((args.sort.as_str(), false), |rest| (rest, true));
    if !app.sessions.sort_by(title) {
        let titles: Vec<_> = app.sessions.columns.iter().map(|column| column.title).collect();
        return Err(format!("--sort {title}: there is no such column; there are {}", titles.join(", ")));
    }
    app.sessions.reversed = reversed;
    if args.nodes {
        app.focus = Focus::Nodes;
    }
    app.filter = args.filter.as_deref().unwrap_or_default().chars().take(filter::TEXT_MAX).collect();
    Filter::new(&app.filter).check(None).map_err(|error| format!("--filter: {error}"))?;
    Ok((args.server.connector()?, app))
}

fn print_once(connector: &Connector, app: &mut App) -> ExitCode {
    match connector.connect().and_then(|mut feed| feed.next()) {
        Ok(message) => {
            app.receive(message);
            if let Some(error) = &app.filter_error {
                return fail(&format!("--filter: {error}"), EXIT_USAGE);
            }
            // A closed pipe (`| head`) is not an error.
            let _ = io::stdout().write_all(once::text(app).as_bytes());
            ExitCode::SUCCESS
        }
        Err(Failure::Lost(reason) | Failure::Refused(reason)) => {
            fail(&format!("{}: {reason}", app.server), EXIT_FAILED)
        }
    }
}

fn print_nodes(connector: &Connector, app: &mut App) -> ExitCode {
    match connector.cluster() {
        Ok(cluster) => {
            app.receive_cluster(Ok(cluster));
            let _ = io::stdout().write_all(once::cluster_text(app).as_bytes());
            ExitCode::SUCCESS
        }
        Err(Failure::Lost(reason) | Failure::Refused(reason)) => {
            fail(&format!("{}: {reason}", app.server), EXIT_FAILED)
        }
    }
}

fn fail(error: &str, code: u8) -> ExitCode {
    eprintln!("millstream top: {error}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }

    fn prepared(words: &str) -> Result<(Connector, App), String> {
        prepare(&Alone::try_parse_from(words.split(' ')).expect("well-formed").args)
    }

    #[test]
    fn options_are_carried_out() {
        let (_, app) = prepared("top --sort -loss% --filter whep --url example.org").expect("valid");
        assert_eq!(app.sessions.columns[app.sessions.sort].title, "LOSS%");
        assert!(app.sessions.reversed && app.filter == "whep");
        assert_eq!(app.server, "http://example.org:8080");
        let (_, app) = prepared("top --insecure --url https://example.org").expect("valid");
        assert_eq!(app.server, "https://example.org (certificate not checked)");
    }

    #[test]
    fn options_that_make_no_sense_are_explained() {
        let cases = [
            ("top --sort mood", "BIT/S"),
            ("top --url ftp://x", "http://"),
            ("top --url https://x --ca /nowhere", "/nowhere"),
            ("top --token \u{7f}", "token"),
            ("top --filter foo:bar", "--filter: there is no `foo:`"),
            ("top --filter role:nobody", "there are publisher, player"),
        ];
        for (words, expected) in cases {
            let error = prepared(words).map(|_| ()).expect_err(words);
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
