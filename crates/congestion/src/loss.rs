//! What losses say of the path when no queue shows: is it too much for a policer or a short buffer,
//! or is it a radio link that loses at any rate?
//!
//! The draft's rule takes every tenth packet lost for congestion, and collapses where a link loses
//! so many at random. Here it is found out: losses above what is usual lower the rate once, by as
//! much; losses that do not fall with it are the link's own. What arrived bounds the rate in either
//! case.

/// Losses of one transport.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    sent: f32,
    lost: f32,
    began_us: u64,
    /// Share that is lost whatever the rate is.
    usual: f32,
    /// Losses in excess of it, and the rate at that time, while a lower one is being tried.
    trial: Option<Trial>,
    /// Bits per second.
    pub(crate) bound: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    excess: f32,
    rate: f64,
    /// Reports before this are about packets that were sent at the old rate.
    from_us: u64,
}

/// What a period of reports was about.
pub(crate) struct Period {
    pub(crate) now_us: u64,
    pub(crate) round_trip_us: u64,
    pub(crate) sent_rate: f64,
    pub(crate) delivered_rate: f64,
    pub(crate) target: f64,
    /// The delay says that there is a queue: the losses are its overflow, and it is answered
    /// already.
    pub(crate) queue: bool,
}

impl Loss {
    /// Counts packets of one report.
    pub(crate) fn count(&mut self, received: u32, lost: i32) {
        self.sent += received as f32 + lost as f32;
        self.lost += lost as f32;
    }

    /// Looks at what was counted, if it is enough to say something.
    pub(crate) fn review(&mut self, period: &Period) {
        let Period { now_us, round_trip_us, sent_rate, delivered_rate, target, queue } = *period;
        if queue {
            self.trial = None;
            return self.restart(now_us);
        }
        if self.sent < PACKETS_MIN || now_us - self.began_us < PERIOD_US {
            return;
        }
        if let Some(trial) = self.trial
            && now_us < trial.from_us
        {
            // Mixed: some of these packets were sent before the rate changed.
            return self.restart(now_us);
        }
        let share = (self.lost / self.sent).clamp(0.0, 1.0);
        // Three standard deviations of so few packets around what is usual.
        let noise = 3.0 * (self.usual.max(0.01) * (1.0 - self.usual) / self.sent).sqrt();
        let excess = share - self.usual;
        if let Some(trial) = self.trial.take() {
            if excess > 0.5 * trial.excess {
                // As much is lost as before: it is not ours.
                self.usual += 0.5 * (excess + trial.excess);
                self.bound = Some(trial.rate * 1.05);
            }
        } else if excess > EXCESS.max(noise) {
            let rate = sent_rate.min(target);
            self.trial = Some(Trial { excess, rate: target, from_us: now_us + round_trip_us + 100_000 });
            self.bound = Some((rate * f64::from(1.0 - excess).max(0.7)).max(delivered_rate.min(rate)));
        } else {
            // The usual share follows slowly upwards, and quickly downwards.
            self.usual += if excess > 0.0 { 0.1 } else { 0.3 } * excess;
            if self.usual < 0.001 {
                self.usual = 0.0;
            }
            self.bound = self.bound.map(|bound| bound * 1.05).filter(|bound| *bound < 2.0 * target);
        }
        self.restart(now_us);
    }

    /// A rate that was seen to arrive lifts the bound.
    pub(crate) fn shown(&mut self, rate: f64) {
        self.bound = self.bound.filter(|bound| *bound > rate);
    }

    /// Forgets what was counted, and bounds nothing.
    pub(crate) fn forget(&mut self, now_us: u64) {
        (self.trial, self.bound) = (None, None);
        self.restart(now_us);
    }

    fn restart(&mut self, now_us: u64) {
        self.sent = 0.0;
        self.lost = 0.0;
        self.began_us = now_us;
    }
}

/// Fewer packets say nothing of a share of some percent.
const PACKETS_MIN: f32 = 50.0;
const PERIOD_US: u64 = 500_000;
/// Losses above the usual share that are answered.
const EXCESS: f32 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    /// Half seconds of 60 packets each at a rate that follows the bound, of which `share` of the
    /// rate is lost. The bounds.
    fn run(loss: &mut Loss, from: u64, periods: u64, share: impl Fn(f64) -> f64) -> Vec<f64> {
        (from..from + periods)
            .map(|period| {
                let rate = loss.bound.unwrap_or(1e6).min(1e6);
                let lost = (60.0 * share(rate)).round() as i32;
                loss.count(60 - lost as u32, lost);
                loss.review(&Period {
                    now_us: (period + 1) * 500_000,
                    round_trip_us: 50_000,
                    sent_rate: rate,
                    delivered_rate: rate * (1.0 - share(rate)),
                    target: rate,
                    queue: false,
                });
                loss.bound.unwrap_or(1e6).min(1e6)
            })
            .collect()
    }

    #[test]
    fn losses_that_stay_are_the_links_own() {
        let mut loss = Loss::default();
        let bounds = run(&mut loss, 0, 20, |_| 0.10);
        assert!(bounds.iter().all(|bound| *bound >= 0.89e6), "{bounds:?}");
        assert!(bounds[10..].iter().all(|bound| *bound == 1e6), "{bounds:?}");
    }

    #[test]
    fn a_policer_is_obeyed() {
        let mut loss = Loss::default();
        let policer = |rate: f64| (1.0 - 0.7e6 / rate).max(0.0);
        let bounds = run(&mut loss, 0, 40, policer);
        assert!(bounds[3..].iter().all(|bound| *bound <= 0.80e6), "{bounds:?}");
        assert!(bounds.iter().all(|bound| *bound >= 0.65e6), "{bounds:?}");
    }

    #[test]
    fn few_losses_change_nothing() {
        let mut loss = Loss::default();
        assert!(run(&mut loss, 0, 20, |_| 0.02).iter().all(|bound| *bound == 1e6));
    }
}
