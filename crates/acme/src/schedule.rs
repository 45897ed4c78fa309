//! When a certificate is renewed, and when an order that failed is tried again: arithmetic alone.
//!
//! `random` is uniform in `0.0..1.0`, so that servers which were started together do not ask
//! together.

use std::time::Duration;

/// Shortest time between two orders for the same names, whatever came of the first.
pub(crate) const SPACING: Duration = Duration::from_secs(60);
/// Longest time before an order is tried again, unless the authority asks for more.
const RETRY_MAX: Duration = Duration::from_secs(6 * 3_600);
/// No authority can make the server wait longer: its certificates may be about to expire.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// When a certificate that is valid from `begin` to `end` is renewed: `before` its end, which is a
/// third of its life if it is not given and no more than half of it in any case, and a tenth of
/// that later at most.
///
/// `suggested` is what the authority would like (RFC 9773), which counts if it is earlier.
pub(crate) fn renewal(
    (begin, end): (Duration, Duration),
    before: Option<Duration>,
    suggested: Option<Duration>,
    random: f64,
) -> Duration {
    let life = end.saturating_sub(begin);
    let before = before.unwrap_or(life / 3).min(life / 2);
    let own = end.saturating_sub(before) + (before / 10).mul_f64(random);
    suggested.map_or(own, |suggested| own.min(suggested))
}

/// How long after the last of so many failed orders the next one begins.
pub(crate) fn retry(failures: u32, retry_after: Option<Duration>, random: f64) -> Duration {
    let grown = SPACING.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(RETRY_MAX);
    let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    let least = grown.max(asked);
    least + (least / 4).mul_f64(random)
}

/// Uniform in `0.0..1.0`.
pub(crate) fn random() -> f64 {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random bytes");
    f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_certificate_is_renewed_before_its_last_third_is_over() {
        let valid = (100 * DAY, 190 * DAY);
        let cases = [
            (None, None, 0.0, 160 * DAY),
            (None, None, 1.0, 163 * DAY),
            (Some(10 * DAY), None, 0.0, 180 * DAY),
            (Some(1_000 * DAY), None, 0.0, 145 * DAY), // half of its life
            (None, Some(120 * DAY), 0.5, 120 * DAY),   // to be revoked, say
            (None, Some(189 * DAY), 0.0, 160 * DAY),   // an authority that would let it expire
        ];
        for (before, suggested, random, expected) in cases {
            assert_eq!(renewal(valid, before, suggested, random), expected, "{before:?} {suggested:?}");
        }
        assert_eq!(renewal((DAY, DAY / 2), None, None, 0.5), DAY / 2, "a life that ends before it begins");
    }

    #[test]
    fn failed_orders_are_tried_again_ever_more_rarely() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let cases = [(1, 1), (2, 2), (3, 4), (8, 128), (9, 256), (10, 360), (100, 360), (u32::MAX, 360)];
        for (failures, expected) in cases {
            assert_eq!(retry(failures, None, 0.0), minutes(expected), "after {failures}");
            assert!(retry(failures, None, 0.999) < minutes(expected) * 5 / 4 + minutes(1));
        }
        assert_eq!(retry(1, Some(minutes(30)), 0.0), minutes(30), "as the authority asks");
        assert_eq!(retry(10, Some(minutes(30)), 0.0), minutes(360));
        assert_eq!(retry(1, Some(Duration::MAX), 0.0), RETRY_AFTER_MAX);
    }

    #[test]
    fn random_numbers_are_in_their_range() {
        assert!((0..1_000).map(|_| random()).all(|random| (0.0..1.0).contains(&random)));
    }
}
