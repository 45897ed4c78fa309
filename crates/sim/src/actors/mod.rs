//! Who uses the servers: publishers and players of every protocol, and clients that mean no good.
//!
//! An actor is a program with an event queue of its own. It runs when a socket of it is ready or its time has
//! come, and says when it wants to run again.

pub mod cluster;
pub mod flv;
pub mod hostile;
pub mod internal;
pub mod line;
pub mod operator;
mod pictures;
pub mod rtc;
pub mod rtmp_play;
pub mod rtmp_publish;
mod storm;
pub mod stranger;

use std::time::{Duration, Instant};

use netsim::kernel::EventQueue;

use crate::ledger::Ledger;

/// When an actor runs again, unless a socket is ready before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Then.
    At(Instant),
    /// Never: it has left.
    Done,
}

/// A program of a client.
pub trait Actor {
    /// Runs once.
    fn turn(&mut self, ledger: &mut Ledger) -> Next;
    /// Its sockets.
    fn queue(&self) -> &EventQueue;
    /// Leaves soon, in order: the simulation ends.
    fn leave(&mut self);
}

/// What a client shows where a token is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// The token.
    Token,
    /// Another one.
    Wrong,
    /// None.
    Nothing,
}

impl Shows {
    /// The query of its URL.
    pub(crate) fn query(self, ledger: &Ledger, server: usize) -> String {
        match (self, &ledger.servers[server].token) {
            (Self::Token, Some(token)) => format!("?token={token}"),
            (Self::Wrong, Some(token)) => format!("?token={}", &token[1..]),
            _ => String::new(),
        }
    }

    /// Whether that lets it in.
    pub(crate) fn lets_in(self, ledger: &Ledger, server: usize) -> bool {
        self == Self::Token || ledger.servers[server].token.is_none()
    }
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// As the protocol says.
    Properly,
    /// The connection is closed.
    Closing,
    /// The connection is reset.
    Resetting,
    /// It says no more, and keeps the connection until the server closes it.
    Silently,
}

impl Leave {
    /// One of them.
    pub fn any(random: &mut netsim::Random) -> Self {
        [Self::Properly, Self::Closing, Self::Resetting, Self::Silently][random.below(4) as usize]
    }
}

/// Milliseconds.
pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
