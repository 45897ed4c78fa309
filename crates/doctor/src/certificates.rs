//! Whether certificates are valid, and for how long.

use std::time::Duration;

use crate::{Finding, Level, Wanted};

/// A certificate that the server shows.
#[derive(Debug, Clone, Default)]
pub struct Certificate {
    /// The key of the configuration and the file.
    pub source: String,
    /// Names in it.
    pub names: Vec<String>,
    /// When it begins and ends to be valid, since 1970.
    pub valid: (Duration, Duration),
}

/// `now` is since 1970.
pub(crate) fn examine(wanted: &Wanted, now: Duration, findings: &mut Vec<Finding>) {
    findings.extend(wanted.certificates.iter().map(|certificate| look_at(certificate, now)));
}

fn look_at(certificate: &Certificate, now: Duration) -> Finding {
    let Certificate { source, names, valid: (begin, end) } = certificate;
    let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    let days = |time: Duration| time.as_secs() / 86_400;
    let mend = match source.starts_with("`acme.") {
        true => {
            "the server renews it by itself: its log and /api/v1/certificates say why it has not".to_owned()
        }
        false => {
            format!("renew it, and put the new one where {source} names it: the server takes it up by itself")
        }
    };
    if now < *begin {
        let found =
            format!("{source}, for {names}, is not valid before {} days from now", days(*begin - now) + 1);
        return Finding::new(Level::Fault, "certificate", found, "set the clock, or use another certificate");
    }
    match end.checked_sub(now) {
        None | Some(Duration::ZERO) => {
            let found = format!("{source}, for {names}, expired {} days ago", days(now - *end));
            Finding::new(Level::Fault, "certificate", found, mend)
        }
        // Some are for days only.
        Some(left) if left < SOON.min((*end - *begin) / 4) => {
            let found = format!("{source}, for {names}, expires in {} days", days(left));
            Finding::new(Level::Warning, "certificate", found, mend)
        }
        Some(left) => {
            Finding::fine("certificate", format!("{source}, for {names}, is valid for {} days", days(left)))
        }
    }
}

/// Time to do something about it. Automatic renewal has been due for two weeks then.
const SOON: Duration = Duration::from_secs(14 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_expires_is_said_in_days() {
        let day = Duration::from_secs(86_400);
        let certificate = Certificate {
            source: "`tls.certificate` a.pem".to_owned(),
            names: vec!["example.org".to_owned()],
            valid: (100 * day, 190 * day),
        };
        for (now, level, part) in [
            (day * 99, Level::Fault, "not valid before 2 days"),
            (day * 100, Level::Fine, "valid for 90 days"),
            (day * 176, Level::Fine, "valid for 14 days"),
            (day * 177, Level::Warning, "expires in 13 days"),
            (day * 190, Level::Fault, "expired 0 days ago"),
            (day * 200, Level::Fault, "expired 10 days ago"),
        ] {
            let finding = look_at(&certificate, now);
            assert_eq!(finding.level, level, "{finding}");
            assert!(finding.found.contains(part), "{finding}");
        }
    }
}
