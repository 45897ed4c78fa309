//! The server's side of the handshake.

use super::super::RtmpError;
use super::digest::{self, CLIENT_KEY, SERVER_KEY};
use super::{BLOCK_BYTES, Block, VERSION, fill_random, skip_block, take_version_and_block};

/// A handshake in progress. It holds what came of C0 and C1, at most 1537 bytes, and nothing after those.
#[derive(Debug)]
pub struct ServerHandshake {
    seed: u64,
    received: Vec<u8>,
    answered: bool,
    c2_bytes_left: usize,
}

impl ServerHandshake {
    /// A handshake that has seen nothing; `seed` makes its random bytes, which protect nothing.
    pub fn new(seed: u64) -> Self {
        Self { seed, received: Vec::new(), answered: false, c2_bytes_left: BLOCK_BYTES }
    }

    /// Takes handshake bytes from the front of `input` and appends S0, S1 and S2 to `out` when it is time;
    /// true when C2 is complete and what follows is the chunk stream.
    pub fn handle_input(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, RtmpError> {
        if !self.answered {
            let Some(c1) = take_version_and_block(&mut self.received, input)? else { return Ok(false) };
            self.answer(&c1, out);
            self.answered = true;
        }
        Ok(skip_block(&mut self.c2_bytes_left, input))
    }

    /// Bytes held for it.
    pub fn buffered_bytes(&self) -> usize {
        self.received.capacity()
    }

    fn answer(&mut self, c1: &Block, out: &mut Vec<u8>) {
        let mut s1 = [0; BLOCK_BYTES];
        fill_random(&mut self.seed, &mut s1[8..]);
        let mut s2 = *c1;
        if let Some((scheme, c1_digest)) = Self::find_digest(c1) {
            s1[4..8].copy_from_slice(&SERVER_VERSION);
            digest::sign(&mut s1, scheme, SERVER_KEY);
            fill_random(&mut self.seed, &mut s2);
            digest::sign_answer(&mut s2, &c1_digest, SERVER_KEY);
        }
        out.reserve_exact(1 + 2 * BLOCK_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&s1);
        out.extend_from_slice(&s2);
    }

    /// A zero where a version may be says the simple form (5.2.3); so does a digest that is not right.
    fn find_digest(c1: &Block) -> Option<(digest::Scheme, [u8; digest::DIGEST_BYTES])> {
        if c1[4..8] == [0; 4] { None } else { digest::find(c1, CLIENT_KEY) }
    }
}

/// Any version that is not zero; this one is what Flash Media Server 4.5 says.
const SERVER_VERSION: [u8; 4] = [4, 5, 0, 1];
