//! Reads the configuration: at the start, and again at each reload, in the same way.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Config;
use config::error::{ConfigError, Origin};
use worker_api::time::since_1970;

/// How long a file has to be as it is before a reload reads it: half of one that is being written may be a
/// valid configuration too, one without tokens.
const SETTLED: Duration = Duration::from_millis(100);
/// How often that is waited for, and a file is read that changes meanwhile.
const ATTEMPTS: u32 = 50;

/// Where the configuration comes from, apart from the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loader {
    /// The file, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// `section.name`, value, and the flag as written.
    pub(crate) flags: Vec<(String, String, String)>,
    /// The command `demo` turns the demo channel on.
    pub(crate) demo: bool,
    /// The file was blank when it was read last with success.
    pub(crate) was_blank: bool,
}

impl Loader {
    /// Reads the file and applies environment and flags. Also returns whether the file is blank.
    pub(crate) fn load(&self) -> Result<(Config, bool), Vec<ConfigError>> {
        self.load_file(Duration::ZERO)
    }

    /// The same for a reload: somebody may be writing the file, and one that is blank now is refused. So is
    /// a pipe, which a shell may give at the start: whoever opens one may wait for ever.
    pub(crate) fn load_again(&self) -> Result<(Config, bool), Vec<ConfigError>> {
        if let Some(file) = &self.file
            && let Some(reason) = is_special(file)
        {
            let message = format!("{} cannot be read: {reason}", file.display());
            return Err(vec![ConfigError::new(&Origin::Flag("--config".to_owned()), message)]);
        }
        let (config, is_blank) = self.load_file(SETTLED)?;
        if is_blank
            && !self.was_blank
            && let Some(file) = &self.file
        {
            // Without rules everybody may play.
            let message = "the file is empty, and was not before: write a comment into it if that is meant";
            let origin = Origin::File { path: file.display().to_string(), line: 1 };
            return Err(vec![ConfigError::new(&origin, message)]);
        }
        Ok((config, is_blank))
    }

    fn load_file(&self, settled: Duration) -> Result<(Config, bool), Vec<ConfigError>> {
        let file = self.file.as_deref().map(|path| read(path, settled)).transpose();
        let file = file.map_err(|error| vec![error])?;
        let is_blank = file.as_ref().is_some_and(|(_, text)| text.trim().is_empty());
        // Names and values that are not UTF-8 cannot be settings.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect();
        let mut config = config::load(&config::Sources { file, environment, flags: self.flags.clone() })?;
        config.demo.enabled |= self.demo;
        Ok((config, is_blank))
    }
}

/// A file that has not changed for `settled`, nor while it is read.
fn read(path: &Path, settled: Duration) -> Result<(String, String), ConfigError> {
    let name = path.display().to_string();
    let origin = Origin::Flag("--config".to_owned());
    let failed = |error| ConfigError::new(&origin, format!("{name} cannot be read: {error}"));
    for _ in 0..ATTEMPTS {
        let before = stamp(path);
        let wait = before.map_or(Duration::ZERO, |stamp| settled.saturating_sub(stamp.age()));
        if wait.is_zero() {
            let text = std::fs::read_to_string(path).map_err(failed)?;
            // A pipe can be read once.
            if before == stamp(path) || !path.is_file() {
                return Ok((name, text));
            }
        }
        std::thread::sleep(wait.max(Duration::from_millis(1)));
    }
    Err(ConfigError::new(&origin, format!("{name} changes while it is read")))
}

/// Why what is at `path` is not to be opened, if so: a sentence. Whether it is there is not looked at.
pub(crate) fn is_special(path: &Path) -> Option<&'static str> {
    let is_special = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    is_special.then_some("it is not a regular file")
}

/// What shows that a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Time of the change, since 1970.
    changed: Duration,
    bytes: u64,
    /// Which file it is: another one may have taken its place.
    inode: u64,
}

impl Stamp {
    /// How long ago that was. A change in the future, by another machine's clock, is long ago.
    fn age(self) -> Duration {
        since_1970().checked_sub(self.changed).unwrap_or(Duration::MAX)
    }
}

/// The stamp of a file; none if there is no such file.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    let (seconds, nanoseconds) = (u64::try_from(file.mtime()).ok()?, u32::try_from(file.mtime_nsec()).ok()?);
    Some(Stamp { changed: Duration::new(seconds, nanoseconds), bytes: file.len(), inode: file.ino() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_it_has_settled() {
        let path = std::env::temp_dir().join(format!("millstream-loader-{}.toml", std::process::id()));
        std::fs::write(&path, "[auth]\n").expect("written");
        let settled = Duration::from_millis(50);
        let (_, text) = read(&path, settled).expect("read");
        assert_eq!(text, "[auth]\n");
        let changed = stamp(&path).expect("it is there").changed;
        assert!(since_1970() >= changed + settled, "not before");
        // No waiting for one of long ago, nor for one of another machine's future, which would not help.
        let file = std::fs::File::options().append(true).open(&path).expect("opened");
        for changed in [Duration::from_secs(1), since_1970() + Duration::from_secs(3_600)] {
            file.set_modified(std::time::UNIX_EPOCH + changed).expect("a time");
            let (_, text) = read(&path, Duration::from_secs(1_800)).expect("read at once");
            assert_eq!(text, "[auth]\n");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(read(&path, settled).expect_err("gone").to_string().contains("cannot be read"));
    }
}
