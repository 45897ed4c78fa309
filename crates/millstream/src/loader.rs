//! Reads the configuration: at the start, and again at each reload, in the same way.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Config;
use config::error::{ConfigError, Origin};

/// How often a file is read that changes meanwhile, and the pause between.
const ATTEMPTS: (u32, Duration) = (10, Duration::from_millis(20));

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
        let file = self.file.as_deref().map(read).transpose().map_err(|error| vec![error])?;
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

/// A file that somebody writes while it is read is read again: the half of it that was there may be a valid
/// configuration, and another one.
fn read(path: &Path) -> Result<(String, String), ConfigError> {
    let name = path.display().to_string();
    let origin = Origin::Flag("--config".to_owned());
    let failed = |error| ConfigError::new(&origin, format!("{name} cannot be read: {error}"));
    for _ in 0..ATTEMPTS.0 {
        let before = stamp(path);
        let text = std::fs::read_to_string(path).map_err(failed)?;
        // A pipe can be read once.
        if before == stamp(path) || !path.is_file() {
            return Ok((name, text));
        }
        std::thread::sleep(ATTEMPTS.1);
    }
    Err(ConfigError::new(&origin, format!("{name} changes while it is read")))
}

/// What shows that a file has changed: time of the change in nanoseconds, length, and which file it is.
pub(crate) type Stamp = (i128, u64, u64);

/// The stamp of a file; none if there is no such file.
pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    let changed = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Some((changed, file.len(), file.ino()))
}
