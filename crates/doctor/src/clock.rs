//! Whether the clock is right, and quick to read.

use crate::{Finding, Level, System};

pub(crate) fn examine(system: &System, findings: &mut Vec<Finding>) {
    let answer = system.ask("timedatectl", &["show", "--property=NTPSynchronized", "--value"]);
    findings.push(synchronised(answer.as_deref()));
    findings.extend(source(system));
}

fn synchronised(answer: Option<&str>) -> Finding {
    match answer {
        Some("yes") => Finding::fine("clock", "kept right by NTP"),
        Some("no") => {
            let found = "not kept right by NTP: tokens, certificates and nodes of a cluster go by it";
            Finding::new(Level::Warning, "clock", found, "timedatectl set-ntp true")
        }
        _ => {
            let found = "not known whether anything keeps it right (no answer of timedatectl)";
            Finding::new(
                Level::Hint,
                "clock",
                found,
                "see that chrony or another NTP client runs here or on the host",
            )
        }
    }
}

/// With these the time is read without a system call.
const QUICK: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

fn source(system: &System) -> Option<Finding> {
    let directory = "/sys/devices/system/clocksource/clocksource0";
    let current = system.read(&format!("{directory}/current_clocksource"))?;
    if QUICK.contains(&current.as_str()) {
        return Some(Finding::fine("clock source", current));
    }
    let available = system.read(&format!("{directory}/available_clocksource")).unwrap_or_default();
    let quick = QUICK.into_iter().find(|quick| available.split_whitespace().any(|source| source == *quick));
    let found = format!("{current}: each look at the clock is a system call");
    Some(match quick {
        Some(quick) => {
            let mend = format!("echo {quick} > {directory}/current_clocksource");
            Finding::new(Level::Warning, "clock source", found, mend)
        }
        None => Finding::new(
            Level::Hint,
            "clock source",
            found,
            "another kind of virtual machine has a quicker one",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Files;

    #[test]
    fn a_clock_that_nothing_keeps_right_is_said() {
        assert_eq!(synchronised(Some("yes")).level, Level::Fine);
        assert_eq!(synchronised(Some("no")).level, Level::Warning);
        for answer in [None, Some(""), Some("n/a")] {
            assert_eq!(synchronised(answer).level, Level::Hint, "{answer:?}");
        }
    }

    #[test]
    fn a_slow_source_names_a_quicker_one_where_there_is_one() {
        let directory = "/sys/devices/system/clocksource/clocksource0";
        let (current, available) =
            (format!("{directory}/current_clocksource"), format!("{directory}/available_clocksource"));
        let found = |files: &[(&str, &str)]| source(&Files::new(files).system());
        assert_eq!(found(&[(&current, "tsc\n")]).unwrap().level, Level::Fine);
        let slow = found(&[(&current, "acpi_pm"), (&available, "acpi_pm tsc")]).unwrap();
        assert_eq!(slow.mend.unwrap(), format!("echo tsc > {directory}/current_clocksource"));
        assert_eq!(found(&[(&current, "xen"), (&available, "xen")]).unwrap().level, Level::Hint);
        assert_eq!(found(&[]), None);
    }
}
