//! AV1 of Enhanced RTMP: a configuration record, then temporal units.
//!
//! ```text
//!  av1C   | 1, version 1 | profile 3, level 5 | tier 1, .. | .. | OBUs: the sequence header
//! ```
//! "AV1 Codec ISO Media File Format Binding", section 2.3. Pictures are sent in the order they are shown:
//! what is shown later is hidden inside the unit of an earlier one, and stays there.

use rtp::packetize::{FrameWriter, av1};

/// What is kept of a configuration record.
#[derive(Debug)]
pub(super) struct Av1 {
    /// OBUs to be repeated in front of key frames that bring no sequence header.
    obus: Vec<u8>,
}

impl Av1 {
    /// Reads a record. `None` if it is broken.
    pub(super) fn new(record: &[u8]) -> Option<Self> {
        let [0x81, _, _, _, ref obus @ ..] = *record else { return None };
        let is_usable =
            obus.len() <= CONFIG_OBUS_BYTES_MAX && (obus.is_empty() || av1::has_sequence_header(obus));
        is_usable.then(|| Self { obus: obus.to_vec() })
    }

    /// Writes a temporal unit; nothing if it is broken.
    pub(super) fn write(
        &self,
        unit: &[u8],
        is_key: bool,
        payload_bytes_max: usize,
        writer: &mut FrameWriter<'_>,
    ) {
        let has_header = is_key && av1::has_sequence_header(unit);
        let ahead = if is_key && !has_header { &self.obus[..] } else { &[] };
        let begins_sequence = has_header || !ahead.is_empty();
        // What is broken is not begun, and counts as such.
        let _ = av1::packetize(ahead, unit, begins_sequence, payload_bytes_max, writer);
    }
}

/// OBUs of a record: a sequence header has some dozens of bytes, HDR metadata some more.
const CONFIG_OBUS_BYTES_MAX: usize = 4_096;
