//! Datagrams over a TCP connection, each behind its length (RFC 4571 §2), as ICE-TCP has them (RFC
//! 6544 §3).
//!
//! ```text
//!  0                   1
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//! |            length             |  datagram of that many bytes
//! ```
//!
//! A state machine over bytes: the worker owns connections and knows the peer of each.

/// Longest datagram accepted from a connection, in bytes: larger than a UDP datagram on any path. A
/// greater length ends the connection, because the stream cannot be resynchronized after it.
pub const FRAME_BYTES_MAX: usize = 2048;

/// Bytes of the length before each datagram.
pub const FRAME_HEADER_BYTES: usize = 2;

/// A length above [`FRAME_BYTES_MAX`]: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLong;

impl std::fmt::Display for FrameTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a frame of more than {FRAME_BYTES_MAX} bytes")
    }
}

impl std::error::Error for FrameTooLong {}

/// The prefix of a datagram of `length` bytes.
///
/// # Panics
///
/// If `length` is above 65,535; datagrams are never.
#[must_use]
pub fn frame_header(length: usize) -> [u8; FRAME_HEADER_BYTES] {
    u16::try_from(length).expect("a datagram has at most 65535 bytes").to_be_bytes()
}

/// Cuts the bytes of one connection into datagrams.
///
/// **Give it all bytes read with [`Deframer::push`], then call [`Deframer::pop`] until it gives
/// `None`.** It keeps at most one frame that is not whole, and no memory at all while there is
/// none.
#[derive(Default)]
pub struct Deframer {
    bytes: Vec<u8>,
    /// `0 <= read <= bytes.len()`: what has been given out already.
    read: usize,
}

impl Deframer {
    /// Takes bytes of the connection, in their order.
    ///
    /// Copies them; the buffer holds at most one read of the socket and one incomplete frame.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.read > 0 {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole datagram. Empty ones are skipped: nothing here sends them, some peers do to
    /// keep a NAT open.
    ///
    /// Mutable, for it is decrypted in place.
    ///
    /// # Errors
    ///
    /// [`FrameTooLong`], again at every later call.
    pub fn pop(&mut self) -> Result<Option<&mut [u8]>, FrameTooLong> {
        while let Some(&[high, low]) =
            self.bytes.get(self.read..self.read + FRAME_HEADER_BYTES).and_then(<[u8]>::as_array)
        {
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > FRAME_BYTES_MAX {
                return Err(FrameTooLong);
            }
            let start = self.read + FRAME_HEADER_BYTES;
            if self.bytes.len() < start + length {
                return Ok(None);
            }
            self.read = start + length;
            if length > 0 {
                return Ok(Some(&mut self.bytes[start..start + length]));
            }
        }
        if self.read == self.bytes.len() {
            // Nothing lies here while a connection is silent.
            (self.bytes, self.read) = (Vec::new(), 0);
        }
        Ok(None)
    }

    /// What waits for the rest of its frame.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Goes on with the [rest](Self::rest) of another one.
    #[must_use]
    pub fn resume(rest: Vec<u8>) -> Self {
        Self { bytes: rest, read: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(datagrams: &[&[u8]]) -> Vec<u8> {
        let frame = |datagram: &&[u8]| [&frame_header(datagram.len())[..], datagram].concat();
        datagrams.iter().flat_map(frame).collect()
    }

    fn cut(deframer: &mut Deframer, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        for piece in pieces {
            deframer.push(piece);
            while let Some(datagram) = deframer.pop().unwrap() {
                datagrams.push(datagram.to_vec());
            }
        }
        datagrams
    }

    #[test]
    fn datagrams_come_out_however_the_bytes_are_cut() {
        let datagrams: [&[u8]; 4] = [b"a", &[7; 300], b"", b"last"];
        let stream = framed(&datagrams);
        let expected = [&b"a"[..], &[7; 300], b"last"];
        for first in 0..=stream.len() {
            for second in [first, (first + 1).min(stream.len()), (first + 40).min(stream.len())] {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                let mut deframer = Deframer::default();
                assert_eq!(cut(&mut deframer, &pieces), expected, "cut at {first} and {second}");
                assert_eq!(deframer.rest(), b"");
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(cut(&mut Deframer::default(), &bytes), expected);
    }

    #[test]
    fn another_one_goes_on_wherever_a_frame_is_cut() {
        let stream = framed(&[b"first", &[7; 300], b"last"]);
        let expected = [&b"first"[..], &[7; 300], b"last"];
        for at in 0..=stream.len() {
            let (before, after) = stream.split_at(at);
            let mut old = Deframer::default();
            let mut datagrams = cut(&mut old, &[before]);
            let mut new = Deframer::resume(old.rest().to_vec());
            datagrams.extend(cut(&mut new, &[after]));
            assert_eq!(datagrams, expected, "cut at {at}");
        }
    }

    #[test]
    fn lengths_up_to_the_limit_pass_and_one_more_ends_the_connection() {
        let longest = vec![1; FRAME_BYTES_MAX];
        assert_eq!(cut(&mut Deframer::default(), &[&framed(&[&longest])]), [longest]);
        let mut deframer = Deframer::default();
        deframer.push(&frame_header(FRAME_BYTES_MAX + 1));
        assert_eq!(deframer.pop(), Err(FrameTooLong));
        assert_eq!(deframer.pop(), Err(FrameTooLong));
    }

    #[test]
    fn a_silent_connection_holds_no_memory() {
        let mut deframer = Deframer::default();
        assert_eq!(cut(&mut deframer, &[&framed(&[&[1; 1000], &[2; 500]])]).len(), 2);
        assert_eq!(deframer.bytes.capacity(), 0);
    }
}
