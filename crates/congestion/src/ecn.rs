//! Whether packets are to leave as ECN-capable: as long as nothing on the path takes that off them.
//!
//! Verified by what comes back (RFC 6679 section 7.2.1, RFC 9331 section 4.1): packets that left as ECT have
//! to arrive as ECT or marked. Where they arrive as neither, or not at all, or where all of them are marked
//! although none waits, the path is not to be trusted with it, and packets leave without from then on.

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EcnPath {
    /// Packets leave as ECT; whether they arrive so has yet to be seen.
    #[default]
    Trying,
    /// They do.
    Capable,
    /// They do not.
    Unusable,
}

/// One report, or all since the last decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnCounts {
    pub(crate) capable: u32,
    pub(crate) marked: u32,
    /// Arrived as not capable.
    pub(crate) plain: u32,
}

/// What the packets of one path have shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnCheck {
    pub(crate) path: EcnPath,
    since: EcnCounts,
    /// Packets in a row that were marked while none waited.
    marked_for_nothing: u32,
}

impl EcnCheck {
    /// Takes a report. `waits`: packets waited noticeably; `missing`: so many of the last ones did not come.
    pub(crate) fn report(&mut self, report: EcnCounts, waits: bool, missing: u32) {
        if self.path == EcnPath::Unusable {
            return;
        }
        if waits || report.capable + report.plain > 0 {
            self.marked_for_nothing = 0;
        } else {
            self.marked_for_nothing += report.marked;
        }
        let since = &mut self.since;
        since.capable += report.capable;
        since.marked += report.marked;
        since.plain += report.plain;
        let shown = since.capable + since.marked;
        let all = shown + since.plain;
        let blocked = self.path == EcnPath::Trying && all == 0 && missing >= BLOCKED_PACKETS;
        if blocked || self.marked_for_nothing >= MARKED_PACKETS {
            self.path = EcnPath::Unusable;
        } else if all >= CHECKED_PACKETS {
            // A few that left before, or were reported late, change nothing.
            self.path = if 4 * shown >= 3 * all { EcnPath::Capable } else { EcnPath::Unusable };
            self.since = EcnCounts::default();
        }
    }

    /// Nothing is reported at all: what was new about the packets is not tried any longer.
    pub(crate) fn silence(&mut self) {
        if self.path == EcnPath::Trying {
            self.path = EcnPath::Unusable;
        }
    }
}

/// Arrivals between two decisions.
const CHECKED_PACKETS: u32 = 32;
/// So many of the first packets missing, and none there.
const BLOCKED_PACKETS: u32 = 16;
/// So many marked in a row although none waited: something on the path marks everything.
const MARKED_PACKETS: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reports: &[(u32, u32, u32)], waits: bool, missing: u32) -> EcnPath {
        let mut check = EcnCheck::default();
        for (capable, marked, plain) in reports.iter().copied() {
            check.report(EcnCounts { capable, marked, plain }, waits, missing);
        }
        check.path
    }

    #[test]
    fn a_path_is_capable_where_packets_arrive_as_they_left() {
        for (reports, expected, remark) in [
            (&[(10, 0, 0)][..], EcnPath::Trying, "too few"),
            (&[(40, 0, 0)], EcnPath::Capable, "all arrive so"),
            (&[(30, 4, 2)], EcnPath::Capable, "two left before"),
            (&[(0, 0, 40)], EcnPath::Unusable, "bleached"),
            (&[(40, 0, 0), (0, 0, 40)], EcnPath::Unusable, "bleached since the route changed"),
            (&[(0, 0, 40), (40, 0, 0)], EcnPath::Unusable, "not tried again"),
        ] {
            assert_eq!(after(reports, false, 0), expected, "{remark}");
        }
    }

    #[test]
    fn what_does_not_come_and_what_is_always_marked_is_not_capable() {
        assert_eq!(after(&[(0, 0, 0)], false, 20), EcnPath::Unusable, "as if blocked");
        assert_eq!(after(&[(40, 0, 0), (0, 0, 0)], false, 20), EcnPath::Capable, "an outage later");
        assert_eq!(after(&[(0, 100, 0); 6], false, 0), EcnPath::Unusable, "marked for nothing");
        assert_eq!(after(&[(0, 100, 0); 6], true, 0), EcnPath::Capable, "a queue");
        let mut check = EcnCheck::default();
        check.silence();
        assert_eq!(check.path, EcnPath::Unusable);
    }
}
