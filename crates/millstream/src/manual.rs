//! Man pages and completions of shells, made from the description of the command line.
//!
//! Packages write them into files; who has the binary alone gets them from it. Each key of the configuration
//! is a flag of every command, but only the page of `millstream` itself lists them.

use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli;

/// What a shell reads to complete command lines.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command_to_complete(), "millstream", &mut script);
    script
}

/// The page of `millstream`.
pub(crate) fn page() -> Vec<u8> {
    main_page(&built())
}

/// Writes that page and one for each command into a directory, as `millstream-config-print.1`.
pub(crate) fn write_pages(directory: &Path) -> io::Result<()> {
    let command = built();
    let mut pages = vec![(name(&command), main_page(&command))];
    command.get_subcommands().for_each(|command| add_pages(command, &mut pages));
    pages.iter().try_for_each(|(name, page)| std::fs::write(directory.join(format!("{name}.1")), page))
}

fn built() -> Command {
    // What `-h` leaves out for its length belongs into a page.
    let whole = |command: Command| command.mut_args(|arg| arg.hide_short_help(false));
    let mut command = whole(cli::command()).disable_help_subcommand(true);
    command.build();
    command
}

fn main_page(command: &Command) -> Vec<u8> {
    // In the synopsis, keys would be most of a screen.
    let synopsis = command.clone().mut_args(|arg| if cli::is_key(&arg) { arg.hide(true) } else { arg });
    let mut page = rendered(command.clone(), synopsis);
    page.extend_from_slice(REST.as_bytes());
    page
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let flags_hidden = command.clone().mut_args(|arg| {
        // All but the file, which most commands need.
        let is_key = arg.is_global_set() && arg.get_id() != "config";
        if is_key { arg.hide(true) } else { arg }
    });
    pages.push((name(command), rendered(flags_hidden.clone(), flags_hidden)));
    command.get_subcommands().for_each(|command| add_pages(command, pages));
}

/// `millstream-config-print`.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Without a date, so that the same sources give the same page.
fn rendered(command: Command, synopsis: Command) -> Vec<u8> {
    let has_commands = command.has_subcommands();
    let source = concat!("millstream ", env!("CARGO_PKG_VERSION"));
    // An empty date would be left out, and the source be in its place.
    let man = Man::new(command).date(" ").source(source).manual("Millstream");
    let mut page = Vec::new();
    let write = |page: &mut Vec<u8>| {
        man.render_title(page)?;
        man.render_name_section(page)?;
        Man::new(synopsis).render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        if has_commands { man.render_subcommands_section(page) } else { Ok(()) }
    };
    let written: io::Result<()> = write(&mut page);
    written.expect("a vector takes what is written");
    page
}

/// What the command line does not know of itself.
const REST: &str = r".SH SIGNALS
.TP
\fBSIGTERM\fR, \fBSIGINT\fR
Sessions are notified and ended, what is recorded is completed, and the process exits with 0. A second
one ends it at once, with 130.
.TP
\fBSIGHUP\fR
The configuration is read again; with a mistake nothing changes.
.SH EXIT STATUS
.TP
\fB0\fR
The server was asked to stop, and has stopped.
.TP
\fB1\fR
It could not start, as when a port is in use.
.TP
\fB2\fR
The command line or the configuration is wrong.
.SH FILES
.TP
\fI/etc/millstream/millstream.toml\fR
What packages start the server with. Without \fB\-\-config\fR and \fBMILLSTREAM_CONFIG\fR no file is read.
.TP
\fI/var/lib/millstream\fR
Recordings, where packages put them.
.SH SEE ALSO
\fBmillstream\-top\fR(1), \fBmillstream\-doctor\fR(1), \fBmillstream\-reload\fR(1), \fBmillstream\-config\fR(1)
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_the_keys_are_in_one() {
        let directory = std::env::temp_dir().join(format!("millstream-man-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        write_pages(&directory).expect("written");
        let mut pages: Vec<_> = std::fs::read_dir(&directory)
            .expect("listed")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, std::fs::read_to_string(&path).expect("text"))
            })
            .collect();
        std::fs::remove_dir_all(&directory).expect("removed");
        pages.sort();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for expected in ["millstream.1", "millstream-config-print.1", "millstream-top.1"] {
            assert!(names.contains(&expected), "{names:?}");
        }
        for (name, page) in &pages {
            let has_keys =
                page.contains(r"\-\-limits\-ring\-frames") && page.contains("ring between two workers");
            assert_eq!(has_keys, name == "millstream.1", "{name}");
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
        }
        for (name, has_file) in [
            ("millstream-doctor.1", true),
            ("millstream-config-check.1", true),
            ("millstream-record.1", true),
            ("millstream-record-verify.1", true),
            ("millstream-top.1", false),
            ("millstream-healthcheck.1", false),
        ] {
            let (_, page) = pages.iter().find(|(other, _)| other == name).expect(name);
            assert_eq!(page.contains(r"\-\-config"), has_file, "{name}: {page}");
        }
        let (_, top) = pages.iter().find(|(name, _)| name == "millstream-top.1").expect("top");
        assert!(top.contains(r"\-\-once"), "{top}");
        assert!(String::from_utf8(page()).expect("text").contains("SIGHUP"));
    }

    #[test]
    fn completions_have_commands_and_keys() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let script = String::from_utf8(completions(shell)).expect("text");
            for word in ["fetch-trace", "rtmp-listen", "millstream"] {
                assert!(script.contains(word), "{shell} lacks {word}");
            }
        }
    }
}
