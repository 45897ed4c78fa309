//! SSRCs in a session description (RFC 5576): `a=ssrc` and `a=ssrc-group`.
//!
//! ```text
//! a=ssrc:<ssrc> cname:<name>
//! a=ssrc-group:FID <media> <retransmissions>      a=ssrc-group:SIM <layer> <layer> ...
//! a=ssrc-group:FEC-FR <media> <repair packets>                          RFC 5956 section 4.3
//! ```
//!
//! SSRCs of repair packets are no sources. A publisher's are not taken.

use super::SOURCES_MAX;
use super::error::{Limit, SdpError};
use super::track::Source;

/// The SSRCs of one media description.
#[derive(Debug, Default)]
pub(super) struct SourceLines {
    named: Vec<u32>,
    retransmissions: Vec<(u32, u32)>,
    corrections: Vec<(u32, u32)>,
    layers: Vec<u32>,
}

impl SourceLines {
    /// Takes the value of an `a=ssrc`; malformed ones are skipped.
    pub(super) fn add_ssrc(&mut self, value: &str) -> Result<(), SdpError> {
        let ssrc = value.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        let Some(ssrc) = ssrc.filter(|ssrc| !self.named.contains(ssrc)) else { return Ok(()) };
        if self.named.len() >= SOURCES_MAX {
            return Err(SdpError::TooMuch(Limit::Sources));
        }
        self.named.push(ssrc);
        Ok(())
    }

    /// Takes the value of an `a=ssrc-group`; malformed and unknown ones are skipped.
    pub(super) fn add_group(&mut self, value: &str) -> Result<(), SdpError> {
        let mut words = value.split_ascii_whitespace();
        let semantics = words.next().unwrap_or_default();
        let members: Vec<u32> = words.filter_map(|word| word.parse().ok()).take(SOURCES_MAX + 1).collect();
        let known = self.retransmissions.len() + self.corrections.len() + self.layers.len();
        if known + members.len() > 2 * SOURCES_MAX {
            return Err(SdpError::TooMuch(Limit::Sources));
        }
        match (semantics, members.as_slice()) {
            ("FID", &[media, rtx]) => self.retransmissions.push((media, rtx)),
            ("FEC-FR" | "FEC", &[media, fec]) => self.corrections.push((media, fec)),
            ("SIM", layers) => self.layers = layers.to_vec(),
            _ => {}
        }
        Ok(())
    }

    /// SSRC of the first repair packets that are named.
    pub(super) fn fec_ssrc(&self) -> Option<u32> {
        self.corrections.first().map(|&(_, fec)| fec)
    }

    /// SSRCs of media with those of their retransmissions; layers of a `SIM` group in its order.
    pub(super) fn sources(&self) -> Vec<Source> {
        let order = if self.layers.is_empty() { &self.named } else { &self.layers };
        let repair = |ssrc: &u32| {
            self.corrections.iter().chain(&self.retransmissions).any(|(_, repair)| repair == ssrc)
        };
        let rtx_of = |ssrc: u32| {
            self.retransmissions
                .iter()
                .find(|&&(media, rtx)| media == ssrc && rtx != ssrc)
                .map(|&(_, rtx)| rtx)
        };
        let media = order.iter().filter(|ssrc| !repair(ssrc));
        media.map(|&ssrc| Source { ssrc, rtx_ssrc: rtx_of(ssrc) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(ssrcs: &[&str], groups: &[&str]) -> Vec<(u32, Option<u32>)> {
        let mut lines = SourceLines::default();
        ssrcs.iter().for_each(|line| lines.add_ssrc(line).expect("few"));
        groups.iter().for_each(|line| lines.add_group(line).expect("few"));
        lines.sources().into_iter().map(|source| (source.ssrc, source.rtx_ssrc)).collect()
    }

    #[test]
    fn retransmissions_go_with_their_media_and_corrections_go_away() {
        let ssrcs = ["11 cname:a", "11 msid:a b", "12 cname:a", "13 cname:a", "x", "", "4294967296 cname:a"];
        assert_eq!(sources(&ssrcs, &["FID 11 12", "FEC-FR 11 13"]), [(11, Some(12))]);
        assert_eq!(sources(&ssrcs, &[]), [(11, None), (12, None), (13, None)]);
    }

    #[test]
    fn repair_packets_are_found_by_their_group() {
        let mut lines = SourceLines::default();
        lines.add_group("FID 11 12").expect("few");
        assert_eq!(lines.fec_ssrc(), None);
        lines.add_group("FEC-FR 11 13").expect("few");
        assert_eq!(lines.fec_ssrc(), Some(13));
    }

    #[test]
    fn layers_of_a_group_come_in_its_order() {
        let ssrcs = ["1 cname:a", "2 cname:a", "3 cname:a", "4 cname:a"];
        assert_eq!(sources(&ssrcs, &["SIM 3 1", "FID 3 4", "FID 1 2"]), [(3, Some(4)), (1, Some(2))]);
    }

    #[test]
    fn more_ssrcs_than_the_limit_are_an_error() {
        let mut lines = SourceLines::default();
        let added = (0..1000).try_for_each(|ssrc: u32| lines.add_ssrc(&format!("{ssrc} cname:a")));
        assert_eq!(added, Err(SdpError::TooMuch(Limit::Sources)));
        let mut lines = SourceLines::default();
        let added =
            (0..1000).try_for_each(|ssrc: u32| lines.add_group(&format!("FID {ssrc} {}", ssrc + 1000)));
        assert_eq!(added, Err(SdpError::TooMuch(Limit::Sources)));
    }
}
