//! Probes: a few packets sent faster than the target, to see whether the path carries that.
//!
//! A probe lasts 30 ms and has five packets or more. Where the path does not carry it, its queue
//! grows by the excess of these 30 ms only. When one succeeds the next follows at once.

/// Packets of one probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Not 0.
    pub(crate) cluster: u8,
    pub(crate) rate: f64,
    pub(crate) began_us: u64,
    /// Still to be sent.
    pub(crate) bytes_left: i64,
    pub(crate) packets_left: i32,
    pub(crate) sent: Span,
    /// The packets of it that arrived, at our end and at the other.
    pub(crate) left: Span,
    pub(crate) arrived: Span,
    pub(crate) reported: u32,
}

/// Bytes and times of the packets of a probe, at one end of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    first_us: i64,
    last_us: i64,
    bytes: u64,
    first_bytes: u64,
    pub(crate) packets: u32,
}

impl Span {
    pub(crate) fn add(&mut self, at_us: i64, bytes: u16) {
        let bytes = u64::from(bytes);
        if self.packets == 0 {
            (self.first_us, self.last_us, self.first_bytes) = (at_us, at_us, bytes);
        }
        self.last_us = self.last_us.max(at_us);
        self.bytes += bytes;
        self.packets += 1;
    }

    pub(crate) fn last_us(&self) -> i64 {
        self.last_us
    }

    fn lasts_us(&self) -> i64 {
        (self.last_us - self.first_us).max(1)
    }
}

/// What a probe has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shown {
    /// What arrived, never more than what was sent.
    pub(crate) rate: f64,
    /// It arrived slower than it was sent: this is what the path carries.
    pub(crate) is_limit: bool,
}

impl Probe {
    pub(crate) fn new(cluster: u8, rate: f64, now_us: u64) -> Self {
        let bytes = (rate / 8.0 * seconds(rate)).max(f64::from(PACKETS) * PACKET_BYTES_MIN) as i64;
        Self {
            cluster,
            rate,
            began_us: now_us,
            bytes_left: bytes,
            packets_left: PACKETS,
            sent: Span::default(),
            left: Span::default(),
            arrived: Span::default(),
            reported: 0,
        }
    }

    /// Whether everything was sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.bytes_left <= 0 && self.packets_left <= 0
    }

    /// Size of a packet of padding that fits it.
    pub(crate) fn packet_bytes(&self) -> usize {
        (self.rate / 8.0 * seconds(self.rate) / f64::from(PACKETS)).clamp(PACKET_BYTES_MIN, PACKET_BYTES_MAX)
            as usize
    }

    /// When its next packet is to be sent.
    pub(crate) fn sent_us_at_rate(&self) -> u64 {
        match self.sent.packets {
            0 => self.began_us,
            _ => self.sent.first_us as u64 + (self.sent.bytes as f64 * 8e6 / self.rate) as u64,
        }
    }

    /// `None` if too little of it arrived.
    pub(crate) fn shown(&self) -> Option<Shown> {
        let (left, arrived) = (&self.left, &self.arrived);
        if arrived.packets < 4 || arrived.packets * 10 < self.sent.packets * 6 {
            return None;
        }
        let (left_us, arrived_us) = (left.lasts_us() as f64, arrived.lasts_us() as f64);
        let is_limit = arrived_us > 1.11 * left_us;
        let gaps = f64::from(arrived.packets - 1);
        let bytes = match is_limit {
            // What came after the first took all the time.
            true => (arrived.bytes - arrived.first_bytes) as f64,
            // Packets of different sizes left at an even pace.
            false => arrived.bytes as f64 * gaps / (gaps + 1.0),
        };
        // A picture that leaves meanwhile is faster; but packets of one moment do not show any rate.
        let rate = (bytes * 8e6 / arrived_us.max(left_us)).min(1.5 * self.rate);
        Some(Shown { rate, is_limit })
    }
}

/// How long a probe is. A slow one is more than a picture of others long, whose packets come in
/// bursts.
fn seconds(rate: f64) -> f64 {
    if (0.5e6..1e6).contains(&rate) { 0.050 } else { 0.030 }
}

pub(crate) const PACKETS: i32 = 5;
const PACKET_BYTES_MIN: f64 = 200.0;
const PACKET_BYTES_MAX: f64 = 1150.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe of 1 Mbit/s in packets of 750 bytes, which arrive this far apart.
    fn probe(gaps_us: i64, lost: u32) -> Option<Shown> {
        let mut probe = Probe::new(1, 1e6, 0);
        assert_eq!((probe.bytes_left, probe.packet_bytes()), (3750, 750));
        for packet in 0..5 {
            assert_eq!(probe.sent_us_at_rate(), 6000 * packet);
            probe.sent.add(6000 * packet as i64, 750);
            if packet >= u64::from(lost) {
                probe.left.add(6000 * packet as i64, 750);
                probe.arrived.add(gaps_us * packet as i64, 750);
            }
        }
        probe.shown()
    }

    #[test]
    fn what_arrives_as_fast_as_it_was_sent_is_no_limit() {
        assert_eq!(probe(6000, 0), Some(Shown { rate: 1e6, is_limit: false }));
        assert_eq!(probe(1000, 0), Some(Shown { rate: 1e6, is_limit: false }), "no more than was sent");
        assert_eq!(probe(12_000, 0), Some(Shown { rate: 0.5e6, is_limit: true }));
        assert_eq!(probe(6000, 1), Some(Shown { rate: 1e6, is_limit: false }));
        assert_eq!(probe(6000, 2), None, "too few arrived");
    }
}
