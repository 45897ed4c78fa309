//! Parameter sets as another process gets them.

use media::bitstream::Malformed;
use serde::{Deserialize, Serialize};

/// Their NAL units.
#[derive(Serialize, Deserialize)]
pub(super) struct Units(pub(super) Vec<Vec<u8>>);

impl Units {
    /// Puts each where `put` keeps them. One that is refused is left out: another of its number has made it
    /// senseless since, and no picture can use it.
    pub(super) fn put_each(&self, mut put: impl FnMut(&[u8]) -> Result<bool, Malformed>) {
        for unit in &self.0 {
            let _ = put(unit);
        }
    }
}
