//! Lists of byte ranges: merging what is not worth asking apart, and cutting lists into requests.
//!
//! Pure functions; which ranges are wanted is decided by hints and by `learn.rs`, which gaps are
//! worth receiving by `plan.rs`.

use std::ops::Range;

/// Bytes `start..end` of a file, or everything from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; `None`: the end of the file, wherever that is.
    pub end: Option<u64>,
}

impl From<Range<u64>> for ByteRange {
    fn from(range: Range<u64>) -> Self {
        Self { start: range.start, end: Some(range.end) }
    }
}

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Ranges. Apache takes 200 unless reported otherwise; 1 for servers that refuse several.
    pub ranges_max: usize,
    /// Bytes of the file, gaps that are received along included. The first range is cut where it
    /// passes this, never empty.
    pub bytes_max: u64,
    /// Bytes of the `Range` field. nginx takes 8 kB for a line of a request.
    pub field_bytes_max: usize,
    /// Gaps up to this are received along: they cost less than a part or a request of their own.
    pub gap_bytes_max: u64,
}

/// The ranges of the next request: as many of `wanted` from its front as are in ascending order and
/// within the limits, merged over small gaps.
///
/// `wanted` is in the order of reading. A step back ends the request, since what it leads to is
/// needed later than all before it and servers may send parts in the file's order. Empty ranges are
/// left out. What was taken along is known by [`subtract`]ing the result from `wanted`.
pub fn next_request(wanted: &[Range<u64>], limits: RequestLimits) -> Vec<Range<u64>> {
    let mut request: Vec<Range<u64>> = Vec::new();
    let (mut bytes, mut field_bytes) = (0, 0);
    for range in wanted.iter().filter(|range| !range.is_empty()) {
        let Some(last) = request.last_mut() else {
            let range = range.start..range.end.min(range.start.saturating_add(limits.bytes_max.max(1)));
            (bytes, field_bytes) = (range.end - range.start, field_bytes_of(&range));
            request.push(range);
            continue;
        };
        if range.start < last.start {
            break;
        }
        let merges = range.start <= last.end.saturating_add(limits.gap_bytes_max);
        let from = if merges { last.end } else { range.start };
        let fits = request.len() + usize::from(!merges) <= limits.ranges_max.max(1);
        let last = request.len() - 1;
        let more = range.end.saturating_sub(from);
        field_bytes += if merges { 0 } else { field_bytes_of(range) };
        if !fits || bytes + more > limits.bytes_max || field_bytes > limits.field_bytes_max {
            break;
        }
        bytes += more;
        if merges {
            request[last].end = request[last].end.max(range.end);
        } else {
            request.push(range.clone());
        }
    }
    request
}

/// `ranges` in ascending order, those that overlap, touch or are `gap_bytes_max` apart at most
/// joined.
pub fn merge(ranges: &[Range<u64>], gap_bytes_max: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.dedup_by(|next, last| {
        let joins = next.start <= last.end.saturating_add(gap_bytes_max);
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    sorted
}

/// What of `wanted`, its order kept, is not in `have`. `have` ascends and does not overlap itself.
///
/// Takes `wanted * log(have)` steps and one for each piece that results.
pub fn subtract(wanted: &[Range<u64>], have: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::with_capacity(wanted.len());
    for range in wanted {
        let mut start = range.start;
        let first = have.partition_point(|held| held.end <= range.start);
        for held in have[first..].iter().take_while(|held| held.start < range.end) {
            if start < held.start {
                left.push(start..held.start);
            }
            start = start.max(held.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// Bytes of all ranges together; those in two ranges count twice.
pub fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.end.saturating_sub(range.start)))
}

/// Bytes that a range takes in a `Range` field: `first-last,`.
fn field_bytes_of(range: &Range<u64>) -> usize {
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
    digits(range.start) + digits(range.end - 1) + 2
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANY: RequestLimits =
        RequestLimits { ranges_max: 200, bytes_max: u64::MAX, field_bytes_max: 4000, gap_bytes_max: 0 };

    #[test]
    fn a_request_takes_what_ascends() {
        let wanted = [0..48, 900..1000, 48..100, 200..300];
        assert_eq!(next_request(&wanted, ANY), [0..48, 900..1000]);
        assert_eq!(next_request(&wanted[2..], ANY), [48..100, 200..300]);
        assert_eq!(next_request(&[], ANY), []);
        assert_eq!(next_request(&[5..5, 7..9], ANY), [7..9]);
    }

    #[test]
    fn small_gaps_are_received_along() {
        let limits = RequestLimits { gap_bytes_max: 10, ..ANY };
        assert_eq!(next_request(&[0..48, 58..60, 71..80], limits), [0..60, 71..80]);
        assert_eq!(next_request(&[0..48, 20..30, 40..90], limits), [0..90]);
    }

    #[test]
    fn a_request_keeps_its_limits() {
        let wanted: Vec<Range<u64>> = (0..100).map(|n| n * 1000..n * 1000 + 100).collect();
        let taken = |limits| next_request(&wanted, limits).len();
        assert_eq!(taken(ANY), 100);
        assert_eq!(taken(RequestLimits { ranges_max: 7, ..ANY }), 7);
        assert_eq!(taken(RequestLimits { ranges_max: 0, ..ANY }), 1);
        assert_eq!(taken(RequestLimits { bytes_max: 350, ..ANY }), 3);
        // `0-99,` is 5 bytes, `1000-1099,` to `9000-9099,` are 10, and so on.
        assert_eq!(taken(RequestLimits { field_bytes_max: 30, ..ANY }), 3);
        assert_eq!(next_request(&wanted, RequestLimits { bytes_max: 60, ..ANY }), [0..60]);
        assert_eq!(next_request(&wanted, RequestLimits { bytes_max: 0, ..ANY }), [0..1]);
    }

    #[test]
    fn field_bytes_are_those_of_the_text() {
        for range in [0..1, 0..10, 0..11, 99..101, 12_345..9_999_999_999] {
            assert_eq!(
                field_bytes_of(&range),
                format!("{}-{},", range.start, range.end - 1).len(),
                "{range:?}"
            );
        }
    }

    #[test]
    fn ranges_at_the_end_of_numbers_do_not_overflow() {
        let wanted = [u64::MAX - 9..u64::MAX - 4, u64::MAX - 2..u64::MAX];
        let limits = RequestLimits { gap_bytes_max: u64::MAX, ..ANY };
        assert_eq!(next_request(&wanted, limits), [u64::MAX - 9..u64::MAX]);
        assert_eq!(merge(&wanted, u64::MAX), [u64::MAX - 9..u64::MAX]);
        assert_eq!(bytes_of(&[0..u64::MAX, 0..u64::MAX]), u64::MAX);
    }

    fn lists() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0_u64..120, 0_u64..20).prop_map(|(start, len)| start..start + len), 0..12)
    }

    fn holds(ranges: &[Range<u64>], byte: u64) -> bool {
        ranges.iter().any(|range| range.contains(&byte))
    }

    proptest! {
        #[test]
        fn merging_holds_the_bytes_and_the_small_gaps(ranges in lists(), gap in 0_u64..10) {
            let merged = merge(&ranges, gap);
            for pair in merged.windows(2) {
                prop_assert!(pair[1].start > pair[0].end + gap);
            }
            for byte in 0..150 {
                let between = (0..byte).rev().find(|byte| holds(&ranges, *byte));
                let next = (byte..150).find(|byte| holds(&ranges, *byte));
                let in_gap = between.zip(next).is_some_and(|(last, next)| next - last - 1 <= gap);
                prop_assert_eq!(holds(&merged, byte), holds(&ranges, byte) || in_gap, "byte {}", byte);
            }
        }

        #[test]
        fn subtracting_leaves_the_other_bytes_in_order(wanted in lists(), have in lists()) {
            let have = merge(&have, 0);
            let left = subtract(&wanted, &have);
            let bytes = |ranges: &[Range<u64>]| ranges.iter().cloned().flatten().collect::<Vec<_>>();
            let expected: Vec<u64> =
                bytes(&wanted).into_iter().filter(|byte| !holds(&have, *byte)).collect();
            prop_assert_eq!(bytes(&left), expected);
        }

        #[test]
        fn requests_go_through_the_whole_list(
            wanted in lists(), ranges_max in 1_usize..5, bytes_max in 1_u64..60, gap in 0_u64..10
        ) {
            let limits = RequestLimits { ranges_max, bytes_max, field_bytes_max: 40, gap_bytes_max: gap };
            let (mut left, mut got) = (wanted.clone(), Vec::new());
            while bytes_of(&left) > 0 {
                let request = next_request(&left, limits);
                prop_assert!(!request.is_empty() && request.len() <= ranges_max);
                prop_assert!(bytes_of(&request) <= bytes_max);
                prop_assert!(request.windows(2).all(|pair| pair[0].end + gap < pair[1].start));
                left = subtract(&left, &request);
                got.extend(request);
            }
            for byte in 0..150 {
                prop_assert!(!holds(&wanted, byte) || holds(&got, byte), "byte {}", byte);
            }
        }
    }
}
