//! Parts of `scripts/bench range-reader`: a link that is emulated, and clients that read a trace
//! over it as others do.
//!
//! ```text
//! range-reader-bench link --upstream 127.0.0.1:80 --rtt-ms 50 --mbit 20
//! range-reader-bench read --how read-through|reopen|prepatch|oracle --host 127.0.0.1:8080 \
//!     --path /t.mp4 --trace reads.csv
//! ```
//! `link` prints the port it listens on, works until standard input ends, and prints what passed.
//! `read` prints one JSON object with the sum of what it read. The script starts both, many at a
//! time, and compares.

mod link;
mod oracle;
mod read;
mod trace;

use std::collections::HashMap;
use std::process::ExitCode;
use std::str::FromStr;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let outcome = Options::parse(words).and_then(|options| match command.as_str() {
        "link" => link::run(&options),
        "read" => read::run(&options),
        _ => Err("usage: range-reader-bench link|read --option value ...".to_owned()),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("range-reader-bench {command}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `--name value` pairs.
struct Options(HashMap<String, String>);

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("{word}: expected --option"))?;
            let value = words.next().ok_or(format!("{word}: a value is missing"))?;
            found.insert(name.to_owned(), value);
        }
        Ok(Self(found))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or(format!("--{name} is missing"))
    }

    fn value<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("--{name} {text}: not understood"))
    }
}
