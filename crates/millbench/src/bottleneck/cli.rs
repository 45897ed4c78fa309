//! Options of `millbench bottleneck`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use netsim::Random;
use netsim::bottleneck::{MS, PathConfig, SECOND, Trace, Us};

/// Options of the relay.
#[derive(Clone, Debug, Args)]
pub struct BottleneckArgs {
    /// Address and UDP port of the server.
    #[arg(long, value_name = "ADDR")]
    pub to: SocketAddr,

    /// Address and UDP port for clients; port 0 takes a free port, which the first line of output names.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// Which way the bottleneck is. The other has the delay only.
    #[arg(long, value_enum, default_value_t = Direction::Down)]
    pub limit: Direction,

    /// Kilobits a second, or a schedule such as `0:2500,20:600,40:2500`: from second 20 on 600.
    ///
    /// `lte` wanders around 2000 as the rate of a telephone does. IP and UDP count, with 28 bytes a
    /// datagram. A schedule begins with the first packet of media.
    #[arg(long, value_name = "KBIT[,S:KBIT...]", default_value = "2500")]
    pub rate: Rate,

    /// What would have to wait longer is dropped, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    pub queue_ms: u64,

    /// Time that every datagram takes in each direction, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    pub delay_ms: u64,

    /// Depth of the token bucket: what was not used of so much time passes at once, milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub burst_ms: u64,

    /// Share of the packets that are lost at random, behind the queue.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Share of the packets that take up to 20 ms longer and are overtaken.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    pub reorder: f64,

    /// Packets are handed on at multiples of this, milliseconds; 0 at once.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub grant_ms: u64,

    /// Nothing passes for 300 ms, every 2 to 8 s.
    #[arg(long)]
    pub outages: bool,

    /// A bulk flow of TCP (a model: CUBIC) shares the bottleneck from this second on.
    #[arg(long, value_name = "S")]
    pub bulk_from: Option<u64>,

    /// Waits and losses count from this second on ...
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub from: u64,

    /// ... until this one.
    #[arg(long, value_name = "S", default_value_t = 3600)]
    pub until: u64,

    /// Decides what is lost, reordered and interrupted.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write a line for each packet through the bottleneck: microseconds, flow, bytes, microseconds
    /// it waited, what became of it.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// From the server to clients.
    Down,
    /// From clients to the server.
    Up,
}

/// Rates by time.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Seconds and kilobits a second, in order; the first is at 0.
    Steps(Vec<(u64, f64)>),
    /// Wanders.
    Lte,
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "lte" {
            return Ok(Rate::Lte);
        }
        let step = |part: &str| {
            let (second, rate) = part.split_once(':').unwrap_or(("0", part));
            let second = second.parse::<u64>().map_err(|_| format!("{second:?} is no second"))?;
            let rate = rate.parse::<f64>().ok().filter(|rate| *rate > 0.0);
            Ok((second, rate.ok_or_else(|| format!("{part:?} has no rate above 0"))?))
        };
        let steps: Vec<(u64, f64)> = text.split(',').map(step).collect::<Result<_, String>>()?;
        if steps[0].0 != 0 || !steps.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("seconds rise from 0".to_owned());
        }
        Ok(Rate::Steps(steps))
    }
}

impl BottleneckArgs {
    /// The path in the direction that is limited.
    pub fn path(&self) -> PathConfig {
        let trace = match &self.rate {
            Rate::Steps(steps) => {
                Trace(steps.iter().map(|&(second, kbit)| (second * SECOND, kbit * 1e3)).collect())
            }
            Rate::Lte => Trace::lte(self.seed, LONGEST),
        };
        let outages = if self.outages { outages(self.seed) } else { Vec::new() };
        PathConfig {
            burst: self.burst_ms * MS,
            loss: self.loss,
            reorder: self.reorder,
            grant: self.grant_ms * MS,
            outages,
            ..PathConfig::plain(trace, self.delay_ms * MS, self.queue_ms * MS)
        }
    }
}

fn outages(seed: u64) -> Vec<(Us, Us)> {
    let mut random = Random::new(seed ^ 0x0a7a9e);
    let begins = std::iter::successors(Some(2 * SECOND), move |at| {
        Some(at + 2 * SECOND + random.below(6 * SECOND)).filter(|at| *at < LONGEST)
    });
    begins.map(|at| (at, at + 300 * MS)).collect()
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (0.0..=1.0).contains(&value).then_some(value).ok_or_else(|| "from 0 to 1".to_owned())
}

/// Nothing random is drawn for later than this.
const LONGEST: Us = 3600 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_one_number_or_steps_from_second_0() {
        assert_eq!("700".parse(), Ok(Rate::Steps(vec![(0, 700.0)])));
        assert_eq!("0:2500,10:600.5".parse(), Ok(Rate::Steps(vec![(0, 2500.0), (10, 600.5)])));
        assert_eq!("lte".parse(), Ok(Rate::Lte));
        for wrong in ["", "x", "0", "5:100", "0:100,0:200", "0:100,9:200,8:300", "0:-1"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
