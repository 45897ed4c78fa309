//! Why nothing can be made of what comes: for logs, the API and the ends of publishers.
//!
//! A stream that is broken in part is no error. One of which no frame comes at all is, for whoever
//! sends it: it looks connected, and nobody sees anything.

/// Why no frame has come of what was pushed since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// No packets were found.
    NotTransportStream,
    /// No table of programs (PAT) has come.
    NoPat,
    /// The table of programs does not have the one that is wanted, or has none.
    NoProgram,
    /// The table of the program's tracks (PMT) has not come.
    NoPmt,
    /// That table has no track of a codec that is carried.
    NoTrack,
    /// Packets are scrambled.
    Scrambled,
    /// Of the tracks there is no access unit that can be read.
    NoFrame,
}

impl Unreadable {
    /// One sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotTransportStream => "what comes is no MPEG-TS",
            Self::NoPat => "what comes has no table of programs (PAT)",
            Self::NoProgram => "what comes has no program",
            Self::NoPmt => "what comes has no table of its program's tracks (PMT)",
            Self::NoTrack => "what comes has no track of a codec that is carried",
            Self::Scrambled => "what comes is scrambled",
            Self::NoFrame => "no frame of what comes can be read",
        }
    }
}
