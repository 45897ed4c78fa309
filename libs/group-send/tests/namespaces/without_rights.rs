//! Without rights every trial is ignored, with one line that says why, and none counts as passed.
//!
//! The trial runs this very program again without capabilities, as root or not.

use crate::Privileged;
use crate::backends::Need;
use std::process::Command;

pub(crate) fn trials() -> Vec<Privileged> {
    vec![Privileged::new("without_rights::trials_are_ignored", Need::Hosts, trials_are_ignored)]
}

fn trials_are_ignored() {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"])
        .arg(program)
        .output()
        .expect("setpriv (util-linux)");
    let (results, lines) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{results}{lines}");
    let trials =
        results.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ignored")).count();
    assert!(trials > 100, "{results}");
    assert!(
        results.contains(&format!("test result: ok. 0 passed; 0 failed; {trials} ignored;")),
        "{results}"
    );
    let skipped = |line: &&str| {
        line.starts_with("skipped: ") && line.contains(": needs root (CAP_SYS_ADMIN, CAP_NET_ADMIN)")
    };
    assert_eq!(lines.lines().filter(skipped).count(), trials, "{lines}");
    assert_eq!(lines.lines().count(), trials, "{lines}");
}
