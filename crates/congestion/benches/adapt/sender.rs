//! What decides the rate: the controller of this crate, and those it is compared with.

use std::time::{Duration, Instant};

use congestion::{Allowance, Config, Controller, Kind, PacketReport};

use crate::gcc::Gcc;
use crate::path::Us;

/// The contenders.
pub(crate) enum Sender {
    Ours(Box<Controller>),
    Gcc(Box<Gcc>),
    /// Bits per second.
    Fixed(f64),
}

/// Virtual time as the crate has it.
#[derive(Clone, Copy)]
pub(crate) struct Epoch(pub(crate) Instant);

impl Epoch {
    pub(crate) fn instant(self, at: Us) -> Instant {
        self.0 + Duration::from_micros(at)
    }

    pub(crate) fn us(self, at: Instant) -> Us {
        (at - self.0).as_micros() as Us
    }
}

impl Sender {
    pub(crate) fn new(name: &str, epoch: Epoch, now: Us) -> Self {
        match name {
            "ours" => Self::Ours(Box::new(Controller::new(Config::default(), epoch.instant(now)))),
            "gcc" => Self::Gcc(Box::new(Gcc::new(now))),
            "fixed" => Self::Fixed(1.7e6),
            _ => panic!("no such contender: {name}"),
        }
    }

    pub(crate) fn sent(&mut self, number: u16, bytes: usize, at: Us, kind: Kind, epoch: Epoch) {
        match self {
            Self::Ours(controller) => controller.sent(number, bytes, epoch.instant(at), kind),
            Self::Gcc(gcc) => gcc.sent(number, bytes, at),
            Self::Fixed(_) => {}
        }
    }

    pub(crate) fn feedback(&mut self, reports: &[PacketReport], at: Us, epoch: Epoch) {
        match self {
            Self::Ours(controller) => controller.feedback(reports.iter().copied(), epoch.instant(at)),
            Self::Gcc(gcc) => gcc.feedback(reports, at),
            Self::Fixed(_) => {}
        }
    }

    /// Rate to choose layers by.
    pub(crate) fn estimate(&self) -> f64 {
        match self {
            Self::Ours(controller) => controller.estimate() as f64,
            Self::Gcc(gcc) => gcc.target(),
            Self::Fixed(rate) => *rate,
        }
    }

    /// Rate of a source that follows it.
    pub(crate) fn media_target(&self, at: Us, epoch: Epoch) -> f64 {
        match self {
            Self::Ours(controller) => controller.media_target(epoch.instant(at)) as f64,
            Self::Gcc(gcc) => gcc.target(),
            Self::Fixed(rate) => *rate,
        }
    }

    pub(crate) fn demand(&mut self, rate: f64) {
        if let Self::Ours(controller) = self {
            controller.demand(rate as u64);
        }
    }

    pub(crate) fn pacing(&mut self, at: Us, epoch: Epoch) -> Allowance {
        match self {
            Self::Ours(controller) => controller.pacing(epoch.instant(at)),
            Self::Gcc(gcc) => gcc.pacing(at, epoch),
            Self::Fixed(_) => Allowance { bytes: usize::MAX, padding_bytes: 0, next: None },
        }
    }

    pub(crate) fn handle_timeout(&mut self, at: Us, epoch: Epoch) {
        if let Self::Ours(controller) = self {
            controller.handle_timeout(epoch.instant(at));
        }
    }
}
