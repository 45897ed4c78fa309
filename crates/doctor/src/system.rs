//! What the kernel says of itself in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// The machine that is looked at.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// This one.
    pub fn this() -> Self {
        Self::below("/")
    }

    /// One whose `/proc` and `/sys` are below this directory.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The whole of a file, without the white space around it.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// A file that has one number in it.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// What a program of this machine prints; `None` where it is not, or fails.
    pub(crate) fn ask(&self, program: &str, arguments: &[&str]) -> Option<String> {
        // Of another root only its files are known.
        if self.root != Path::new("/") {
            return None;
        }
        let output =
            Command::new(program).args(arguments).output().ok().filter(|out| out.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of some files.
    pub(crate) struct Files(tempfile::TempDir);

    impl Files {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().expect("a directory");
            let machine = Self(root);
            for (path, text) in files {
                let path = machine.system().path(path);
                fs::create_dir_all(path.parent().expect("not the root")).expect("its directory");
                fs::write(path, text).expect("written");
            }
            machine
        }

        pub(crate) fn system(&self) -> System {
            System::below(self.0.path())
        }
    }

    #[test]
    fn programs_of_another_root_are_not_asked() {
        assert_eq!(Files::new(&[]).system().ask("true", &[]), None);
        assert_eq!(System::this().ask("true", &[]), Some(String::new()));
        assert_eq!(System::this().ask("there-is-no-such-program", &[]), None);
        assert_eq!(System::this().ask("false", &[]), None);
    }
}
