//! The client's side of the handshake.

use super::super::RtmpError;
use super::digest::{self, CLIENT_KEY, SERVER_KEY, Scheme};
use super::{BLOCK_BYTES, Block, VERSION, fill_random, skip_block, take_version_and_block};

/// Which form a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HandshakeForm {
    /// As in the specification.
    #[default]
    Simple,
    /// With digest, the digest part first.
    DigestScheme0,
    /// With digest, the key part first.
    DigestScheme1,
}

/// A handshake in progress, seen from the client.
#[derive(Debug)]
pub struct ClientHandshake {
    seed: u64,
    form: HandshakeForm,
    received: Vec<u8>,
    answered: bool,
    s2_bytes_left: usize,
}

impl ClientHandshake {
    /// Begins a handshake: appends C0 and C1 to `out`. `seed` makes its random bytes.
    pub fn new(form: HandshakeForm, mut seed: u64, out: &mut Vec<u8>) -> Self {
        let mut c1 = [0; BLOCK_BYTES];
        fill_random(&mut seed, &mut c1[8..]);
        let scheme = match form {
            HandshakeForm::Simple => None,
            HandshakeForm::DigestScheme0 => Some(Scheme::Zero),
            HandshakeForm::DigestScheme1 => Some(Scheme::One),
        };
        if let Some(scheme) = scheme {
            c1[4..8].copy_from_slice(&CLIENT_VERSION);
            digest::sign(&mut c1, scheme, CLIENT_KEY);
        }
        out.reserve_exact(1 + BLOCK_BYTES);
        out.push(VERSION);
        out.extend_from_slice(&c1);
        Self { seed, form, received: Vec::new(), answered: false, s2_bytes_left: BLOCK_BYTES }
    }

    /// Takes handshake bytes from the front of `input` and appends C2 to `out` when it is time; true when
    /// S2 is complete and what follows is the chunk stream.
    pub fn handle_input(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, RtmpError> {
        if !self.answered {
            let Some(s1) = take_version_and_block(&mut self.received, input)? else { return Ok(false) };
            self.answer(&s1, out);
            self.answered = true;
        }
        Ok(skip_block(&mut self.s2_bytes_left, input))
    }

    /// Bytes held for it.
    pub fn buffered_bytes(&self) -> usize {
        self.received.capacity()
    }

    /// A server that did not sign S1 gets it back as in the simple form, like from ffmpeg and librtmp.
    fn answer(&mut self, s1: &Block, out: &mut Vec<u8>) {
        let mut c2 = *s1;
        if self.form != HandshakeForm::Simple
            && let Some((_, digest)) = digest::find(s1, SERVER_KEY)
        {
            fill_random(&mut self.seed, &mut c2);
            digest::sign_answer(&mut c2, &digest, CLIENT_KEY);
        }
        out.extend_from_slice(&c2);
    }
}

/// Any version that is not zero; this one is Flash Player 10's.
const CLIENT_VERSION: [u8; 4] = [10, 0, 45, 2];
