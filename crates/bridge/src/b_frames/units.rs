//! Parameter sets as another process gets them.

use serde::{Deserialize, Serialize};

/// Their NAL units.
#[derive(Serialize, Deserialize)]
pub(super) struct Units(pub(super) Vec<Vec<u8>>);
