//! What cores and an interface do between two looks at them.

use std::time::Instant;

use crate::clock;
use crate::procfs::{self, CoreTicks, InterfaceCounts};
use crate::report::{CoreShares, InterfaceRates};

/// Looks at this machine from time to time.
#[derive(Debug)]
pub(super) struct MachineLoad {
    interface: Option<String>,
    at: Instant,
    cores: Vec<CoreTicks>,
    counts: Option<InterfaceCounts>,
}

impl MachineLoad {
    /// Begins now.
    pub(super) fn new(interface: Option<String>) -> MachineLoad {
        let mut load = MachineLoad { interface, at: clock::monotonic(), cores: Vec::new(), counts: None };
        load.since_last();
        load
    }

    /// What happened since the last look.
    pub(super) fn since_last(&mut self) -> (Vec<CoreShares>, Option<InterfaceRates>) {
        let now = clock::monotonic();
        let seconds = (now - self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let cores = procfs::cores().unwrap_or_default();
        let counts = self.interface.as_deref().and_then(procfs::interface);
        let shares = cores.iter().zip(&self.cores).map(|(new, old)| shares(*new, *old)).collect();
        let rates = self.counts.zip(counts).map(|(old, new)| rates(new, old, seconds));
        (self.at, self.cores, self.counts) = (now, cores, counts);
        (shares, rates)
    }
}

fn shares(new: CoreTicks, old: CoreTicks) -> CoreShares {
    let all = new.all.saturating_sub(old.all).max(1) as f64;
    let percent = |new: u64, old: u64| new.saturating_sub(old) as f64 * 100.0 / all;
    CoreShares {
        user: percent(new.user, old.user),
        system: percent(new.system, old.system),
        soft: percent(new.soft, old.soft),
    }
}

fn rates(new: InterfaceCounts, old: InterfaceCounts, seconds: f64) -> InterfaceRates {
    let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
    InterfaceRates {
        packets_in: rate(new.packets_in, old.packets_in),
        bits_in: rate(new.bytes_in, old.bytes_in) * 8.0,
        packets_out: rate(new.packets_out, old.packets_out),
        bits_out: rate(new.bytes_out, old.bytes_out) * 8.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_ticks_and_rates_of_seconds() {
        let old = CoreTicks { user: 10, system: 20, soft: 30, all: 100 };
        let new = CoreTicks { user: 60, system: 30, soft: 35, all: 200 };
        assert_eq!(shares(new, old), CoreShares { user: 50.0, system: 10.0, soft: 5.0 });
        assert_eq!(shares(old, old), CoreShares::default(), "no time has passed");
        let counts = |times: u64| InterfaceCounts {
            bytes_in: 1000 * times,
            packets_in: 10 * times,
            bytes_out: 500 * times,
            packets_out: 4 * times,
        };
        let expected =
            InterfaceRates { packets_in: 5.0, bits_in: 4000.0, packets_out: 2.0, bits_out: 2000.0 };
        assert_eq!(rates(counts(2), counts(1), 2.0), expected);
    }

    #[test]
    fn this_machine_has_cores_and_a_loopback() {
        let mut load = MachineLoad::new(Some("lo".to_owned()));
        let (cores, interface) = load.since_last();
        assert!(!cores.is_empty() && interface.is_some());
        assert_eq!(MachineLoad::new(Some("none".to_owned())).since_last().1, None);
    }
}
