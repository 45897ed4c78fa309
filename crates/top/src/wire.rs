//! A message from the network, made safe for the terminal.
//!
//! The server is not trusted: control characters are removed from texts. `stats::message` checks
//! that the columns are consistent.

use stats::message::{BadMessage, StatsMessage};

/// Reads a message and cleans its texts.
pub(crate) fn decode(bytes: &[u8]) -> Result<StatsMessage, BadMessage> {
    let mut message = StatsMessage::from_messagepack(bytes)?;
    for text in message.streams.name.iter_mut().chain(&mut message.protocols) {
        if text.contains(is_unprintable) {
            *text = printable(text);
        }
    }
    Ok(message)
}

/// `text` with a mark in place of every character that would move the cursor, ring the bell or
/// change the direction of writing.
pub(crate) fn printable(text: &str) -> String {
    text.replace(is_unprintable, "\u{fffd}")
}

/// Control characters, line and paragraph separators, and the invisible ones that reorder text
/// (Unicode Standard Annex 9, section 2).
fn is_unprintable(c: char) -> bool {
    let reorders =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_stream_cannot_write_to_the_terminal_by_its_name() {
        let mut message = sample::message(1, 2, 4);
        message.streams.name[0] = "live/\u{1b}[2Jx\u{7}\u{202e}y".to_owned();
        message.protocols[0] = "rt\rmp".to_owned();
        let read = decode(&message.to_messagepack()).expect("a message");
        assert_eq!(read.streams.name[0], "live/\u{fffd}[2Jx\u{fffd}\u{fffd}y");
        assert_eq!(read.streams.name[1], message.streams.name[1]);
        assert_eq!(read.protocols[0], "rt\u{fffd}mp");
    }
}
