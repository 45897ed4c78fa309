//! A program in a terminal of its own: a pseudo terminal (pty(7)) as its controlling one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};

use super::screen::Screen;
use crate::common::{TIMEOUT, eventually, eventually_within};

/// The program and its terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// Kept open: output that was not read yet would be lost with the last descriptor of this side.
    line: OwnedFd,
    settings_before: Termios,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts `program` with `arguments` in a terminal of this size.
    pub(crate) fn start(program: &str, arguments: &[&str], columns: u16, rows: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).expect("a pseudo terminal");
        let settings_before = tcgetattr(&pair.slave).expect("its settings");
        let line = || pair.slave.try_clone().expect("another descriptor");
        // util-linux's: a session of its own, with this as its controlling terminal.
        let mut command = Command::new("setsid");
        command.args(["--ctty", program]).args(arguments).env("LANG", "C.UTF-8").env("TERM", "xterm");
        command.env_remove("NO_COLOR").env_remove("LC_ALL").env_remove("LC_CTYPE");
        let child = command.stdin(line()).stdout(line()).stderr(line()).spawn().expect("setsid starts");
        let output = Arc::new(Mutex::new(Vec::new()));
        let keyboard = File::from(pair.master);
        let mut screen = keyboard.try_clone().expect("another descriptor");
        let seen = Arc::clone(&output);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                seen.lock().expect("not poisoned").extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, keyboard, line: pair.slave, settings_before, output }
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> Screen {
        Screen::after(&self.output.lock().expect("not poisoned"))
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Screen) -> bool) {
        let mut seen = Vec::new();
        let found = crate::common::within_patience(|| {
            let screen = self.screen();
            seen = screen.lines();
            wanted(&screen)
        });
        assert!(found, "never on the screen: {what}\n{}", seen.join("\n").trim_end());
    }

    /// Waits until `text` is on the screen.
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.wait_for(text, |screen| screen.shows(text));
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// Changes the size, as a window does when its border is dragged.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let path = ttyname(&self.line).expect("a name");
        let size = ["cols", &columns.to_string(), "rows", &rows.to_string()].map(str::to_owned);
        let status = Command::new("stty").arg("-F").arg(path).args(size).status().expect("stty starts");
        assert!(status.success());
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the program runs");
    }

    /// Waits until the program has ended, and fails unless it left the terminal as it was.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let status =
            eventually_within(TIMEOUT, "the program ends", || self.child.try_wait().expect("its status"));
        eventually("the terminal is as it was", || {
            let screen = self.screen();
            let settings = tcgetattr(&self.line).expect("its settings");
            (!screen.alternate && screen.cursor && settings == self.settings_before).then_some(())
        });
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
