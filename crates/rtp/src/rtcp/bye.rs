//! Goodbye (RFC 3550 section 6.6): SSRCs that leave.

use super::{BYE, begin, end};

/// A goodbye.
#[derive(Clone, Copy, Debug)]
pub struct Bye<'a> {
    ssrcs: &'a [u8],
    reason: &'a [u8],
}

impl<'a> Bye<'a> {
    pub(super) fn read(count: u8, body: &'a [u8]) -> Option<Self> {
        let (ssrcs, rest) = body.split_at_checked(4 * usize::from(count))?;
        let reason = match rest {
            [] => rest,
            [len, text @ ..] => text.get(..usize::from(*len))?,
        };
        Some(Self { ssrcs, reason })
    }

    /// The SSRCs that leave; at most 31.
    pub fn ssrcs(&self) -> impl Iterator<Item = u32> + 'a {
        self.ssrcs.as_chunks().0.iter().map(|ssrc| u32::from_be_bytes(*ssrc))
    }

    /// The reason; may be empty, and is not always UTF-8.
    pub fn reason(&self) -> &'a [u8] {
        self.reason
    }

    /// Appends a goodbye of at most 31 SSRCs, with a reason of at most 255 bytes unless that is empty.
    pub fn write(out: &mut Vec<u8>, ssrcs: &[u32], reason: &str) {
        let ssrcs = &ssrcs[..ssrcs.len().min(31)];
        let start = begin(out, BYE, ssrcs.len() as u8);
        ssrcs.iter().for_each(|ssrc| out.extend(ssrc.to_be_bytes()));
        let reason = &reason.as_bytes()[..reason.len().min(255)];
        if !reason.is_empty() {
            out.push(reason.len() as u8);
            out.extend(reason);
        }
        end(out, start);
    }
}
