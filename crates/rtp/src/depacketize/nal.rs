//! NAL units with their sizes ahead of them, and the one that is still coming in fragments.

use super::Broken;

/// A unit that comes in fragments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fragments {
    /// Where its size is to be written, and its type.
    open: Option<(usize, u8)>,
}

impl Fragments {
    /// A whole unit.
    pub(super) fn whole(&self, unit: &[u8], frame: &mut Vec<u8>) -> Result<(), Broken> {
        self.end()?;
        frame.extend_from_slice(&(unit.len() as u32).to_be_bytes());
        frame.extend_from_slice(unit);
        Ok(())
    }

    /// The first fragment of a unit of type `kind`; its header is separate from its body.
    pub(super) fn start(
        &mut self,
        kind: u8,
        head: &[u8],
        body: &[u8],
        frame: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        self.end()?;
        self.open = Some((frame.len(), kind));
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(head);
        frame.extend_from_slice(body);
        Ok(())
    }

    /// A further fragment; `is_last` ends the unit.
    pub(super) fn go_on(
        &mut self,
        kind: u8,
        body: &[u8],
        is_last: bool,
        frame: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let (at, open) = self.open.ok_or(Broken::MissingStart)?;
        if open != kind {
            return Err(Broken::MissingStart);
        }
        frame.extend_from_slice(body);
        if is_last {
            let len = (frame.len() - at - 4) as u32;
            frame[at..at + 4].copy_from_slice(&len.to_be_bytes());
            self.open = None;
        }
        Ok(())
    }

    /// Nothing may be open here.
    pub(super) fn end(&self) -> Result<(), Broken> {
        if self.open.is_some() { Err(Broken::MissingEnd) } else { Ok(()) }
    }
}
