//! Certificates from an authority: where the keys are kept, and the port that the authority asks
//! at.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::{Finding, Level, Wanted};

/// What orders of certificates need.
#[derive(Debug, Clone, Default)]
pub struct Acme {
    /// Where account, keys and certificates are kept.
    pub state_directory: PathBuf,
    /// The port that the authority connects to.
    pub port: u16,
    /// The key of the listener that must get those connections.
    pub listener: &'static str,
    /// Whether that listens at this very port.
    pub listens: bool,
}

pub(crate) fn examine(wanted: &Wanted, findings: &mut Vec<Finding>) {
    let Some(Acme { state_directory, port, listener, listens }) = &wanted.acme else { return };
    // Whether it can be written is looked at with all other directories; it need not be there yet.
    if let Ok(there) = std::fs::metadata(state_directory) {
        let (mode, shown) = (there.permissions().mode() & 0o777, state_directory.display());
        findings.push(match mode & 0o077 {
            0 => Finding::fine("acme", format!("{shown} is for its owner alone")),
            _ => {
                let found = format!("{shown} holds private keys and has mode {mode:o}");
                Finding::new(Level::Warning, "acme", found, format!("chmod 700 {shown}"))
            }
        });
    }
    findings.push(match listens {
        true => Finding::fine("acme", format!("{listener} has port {port}, where the authority asks")),
        false => {
            let found = format!("the authority asks at port {port} of each name, and {listener} has another");
            let mend = format!("forward port {port} from outside to {listener}, or set {listener} to it");
            Finding::new(Level::Hint, "acme", found, mend)
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_others_can_read_are_a_warning() {
        let root = tempfile::tempdir().unwrap();
        let state_directory = root.path().to_owned();
        let wanted = Wanted {
            acme: Some(Acme { state_directory, port: 443, listener: "https.listen", listens: true }),
            ..Wanted::default()
        };
        for (mode, expected) in [(0o700, Level::Fine), (0o750, Level::Warning), (0o704, Level::Warning)] {
            std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let mut findings = Vec::new();
            examine(&wanted, &mut findings);
            assert_eq!((findings[0].level, findings[1].level), (expected, Level::Fine), "{mode:o}");
        }
    }

    #[test]
    fn a_port_that_has_to_be_forwarded_is_said() {
        let acme = Acme {
            state_directory: "/nowhere/at/all".into(),
            port: 80,
            listener: "http.listen",
            listens: false,
        };
        let mut findings = Vec::new();
        examine(&Wanted { acme: Some(acme), ..Wanted::default() }, &mut findings);
        assert_eq!(findings.len(), 1);
        let mend = findings[0].mend.as_deref().unwrap();
        assert!(mend.contains("forward port 80 from outside to http.listen"), "{mend}");
    }
}
