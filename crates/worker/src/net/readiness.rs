//! An event of a socket: which one it is, and what it is ready for.

use crate::ids::{ConnId, IceTcpId, IdleId, PortId, TableId};

/// Bits of a token that are the index; the kind of socket is above.
const INDEX_BITS: u32 = 56;

/// What a socket is to the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A connection for frames.
    Connection(ConnId),
    /// An HTTP connection between two requests.
    Idle(IdleId),
    /// A listener for such connections.
    Listener(usize),
    /// A connection of ICE-TCP.
    IceTcp(IceTcpId),
    /// A listener of ICE-TCP.
    IceListener(usize),
    /// A UDP port.
    Port(PortId),
    /// The socket for other nodes.
    Relay,
    /// A socket for SRT.
    Srt(usize),
    /// A socket for RTP or RTCP of RTSP.
    Rtsp(usize),
}

/// What is to be reported of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Input.
    Read,
    /// Room for output.
    Write,
    /// Both.
    ReadWrite,
}

/// What a socket is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readiness {
    pub(crate) token: Token,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has closed its side, or the connection is broken: there is an end to be read.
    pub(crate) closed: bool,
}

impl Token {
    /// As a number that [`Token::from_number`] reads, never `usize::MAX`.
    pub(crate) fn to_number(self) -> usize {
        let (kind, index) = match self {
            Self::Connection(id) => (0, id.index()),
            Self::Idle(id) => (1, id.index()),
            Self::Listener(index) => (2, index),
            Self::IceTcp(id) => (3, id.index()),
            Self::IceListener(index) => (4, index),
            Self::Port(id) => (5, id.index()),
            Self::Relay => (6, 0),
            Self::Srt(index) => (7, index),
            Self::Rtsp(index) => (8, index),
        };
        kind << INDEX_BITS | index
    }

    /// The token of this number.
    pub(crate) fn from_number(token: usize) -> Self {
        let index = token & ((1 << INDEX_BITS) - 1);
        match token >> INDEX_BITS {
            0 => Self::Connection(ConnId::at(index)),
            1 => Self::Idle(IdleId::at(index)),
            2 => Self::Listener(index),
            3 => Self::IceTcp(IceTcpId::at(index)),
            4 => Self::IceListener(index),
            5 => Self::Port(PortId::at(index)),
            6 => Self::Relay,
            7 => Self::Srt(index),
            _ => Self::Rtsp(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        let last = u32::MAX as usize;
        for index in [0, 1, last] {
            for token in [
                Token::Connection(ConnId::at(index)),
                Token::Idle(IdleId::at(index)),
                Token::Listener(index),
                Token::IceTcp(IceTcpId::at(index)),
                Token::IceListener(index),
                Token::Port(PortId::at(index)),
                Token::Relay,
                Token::Srt(index),
                Token::Rtsp(index),
            ] {
                assert_eq!(Token::from_number(token.to_number()), token);
                assert_ne!(token.to_number(), usize::MAX);
            }
        }
    }
}
