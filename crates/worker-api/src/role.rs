//! What a session does.

/// What a session does. The numbers are those of the statistics message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Handshake or request head not finished.
    Pending = 0,
    /// Sends media.
    Publisher = 1,
    /// Receives media, or waits for it.
    Player = 2,
}
