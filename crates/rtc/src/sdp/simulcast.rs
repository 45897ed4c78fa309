//! Simulcast by RIDs: `a=rid` (RFC 8851) and `a=simulcast` (RFC 8853).
//!
//! ```text
//! a=rid:<id> send|recv [pt=<payload types>;<restrictions>]
//! a=simulcast:send <id>[,<alternative>][;...] [recv ...]        ~<id>: paused at first
//! ```
//!
//! The first of alternatives is used. Restrictions other than payload types concern the sender
//! only.

use super::error::{Limit, SdpError};
use super::{RIDS_MAX, section::OfferedRid};

/// `a=rid` and `a=simulcast` lines of one media description.
#[derive(Debug, Default)]
pub(super) struct SimulcastLines<'a> {
    rids: Vec<(&'a str, bool, Vec<u8>)>,
    simulcast: Option<&'a str>,
}

impl<'a> SimulcastLines<'a> {
    /// Takes the value of an `a=rid`; malformed ones are skipped.
    pub(super) fn add_rid(&mut self, value: &'a str) -> Result<(), SdpError> {
        if self.rids.len() >= 2 * RIDS_MAX {
            return Err(SdpError::TooMuch(Limit::Rids));
        }
        let mut words = value.split_ascii_whitespace();
        let id = words.next().filter(|id| is_rid(id));
        let sends = match words.next() {
            Some("send") => Some(true),
            Some("recv") => Some(false),
            _ => None,
        };
        if let (Some(id), Some(sends)) = (id, sends) {
            self.rids.push((id, sends, payload_types(words.next().unwrap_or_default())));
        }
        Ok(())
    }

    /// Takes the value of an `a=simulcast`. A second one is skipped (RFC 8853 section 5.1: at most
    /// one).
    pub(super) fn add_simulcast(&mut self, value: &'a str) {
        self.simulcast.get_or_insert(value);
    }

    /// The layers of one direction, `send` or `recv`, in the order of preference.
    pub(super) fn layers(&self, direction: &str) -> Result<Vec<OfferedRid>, SdpError> {
        let mut layers: Vec<OfferedRid> = Vec::new();
        let listed = self.simulcast.and_then(|value| list_of(value, direction)).unwrap_or_default();
        for stream in listed.split(';') {
            let first = stream.split(',').next().unwrap_or_default().trim();
            let (paused, id) = first.strip_prefix('~').map_or((false, first), |id| (true, id));
            let described =
                self.rids.iter().find(|(name, sends, _)| *name == id && *sends == (direction == "send"));
            // One that is not described by a=rid is skipped (RFC 8853 section 5.2).
            let Some((_, _, payload_types)) = described else { continue };
            if layers.iter().any(|layer| layer.id == id) {
                continue;
            }
            if layers.len() >= RIDS_MAX {
                return Err(SdpError::TooMuch(Limit::Rids));
            }
            layers.push(OfferedRid { id: id.to_owned(), paused, payload_types: payload_types.clone() });
        }
        Ok(layers)
    }
}

/// The list after `direction` in `send a;b recv c;d`.
fn list_of<'a>(value: &'a str, direction: &str) -> Option<&'a str> {
    let mut words = value.split_ascii_whitespace();
    words.by_ref().find(|word| *word == direction)?;
    words.next()
}

/// `rid-id` of RFC 8851 section 10 with the correction of erratum 7132: letters, digits, `-` and
/// `_`. A header extension holds 255 bytes, 16 in the one-byte form; longer ones are not used in
/// practice.
fn is_rid(id: &str) -> bool {
    (1..=16).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// The list of `pt=` among restrictions; empty without it: all payload types.
fn payload_types(restrictions: &str) -> Vec<u8> {
    let list = restrictions.split(';').find_map(|part| part.trim().strip_prefix("pt="));
    list.map(|list| list.split(',').filter_map(|word| word.trim().parse().ok()).take(128).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(lines: &[&str], simulcast: &str, direction: &str) -> Vec<String> {
        let mut read = SimulcastLines::default();
        lines.iter().for_each(|line| read.add_rid(line).expect("few lines"));
        read.add_simulcast(simulcast);
        read.layers(direction).expect("few layers").into_iter().map(|layer| layer.id).collect()
    }

    #[test]
    fn layers_come_in_the_order_of_the_simulcast_line() {
        let rids = ["h send", "m send pt=96,97;max-width=640", "l send", "x recv"];
        let cases: [(&str, &str, &[&str]); 8] = [
            ("send l;m;h", "send", &["l", "m", "h"]),
            ("recv x send h;~m", "send", &["h", "m"]),
            ("recv x send h;~m", "recv", &["x"]),
            ("send h,m;l", "send", &["h", "l"]),
            // Not described, described for the other direction, twice.
            ("send q;x;h;h", "send", &["h"]),
            ("send", "send", &[]),
            ("", "send", &[]),
            ("send ;;,~;", "send", &[]),
        ];
        for (line, direction, expected) in cases {
            assert_eq!(ids(&rids, line, direction), expected, "{line:?}");
        }
    }

    #[test]
    fn names_that_do_not_fit_a_header_extension_are_not_taken() {
        let long = format!("{} send", "a".repeat(17));
        assert!(ids(&[&long, "a:b send", "\u{e9} send", " send"], "send a:b;\u{e9}", "send").is_empty());
    }

    #[test]
    fn more_layers_than_the_limit_are_an_error() {
        let mut read = SimulcastLines::default();
        let names: Vec<String> = (0..=RIDS_MAX).map(|at| format!("r{at} send")).collect();
        names.iter().for_each(|line| read.add_rid(line).expect("below the limit of lines"));
        let line =
            format!("send {}", (0..=RIDS_MAX).map(|at| format!("r{at}")).collect::<Vec<_>>().join(";"));
        read.add_simulcast(&line);
        assert_eq!(read.layers("send").map(drop), Err(SdpError::TooMuch(Limit::Rids)));
    }
}
