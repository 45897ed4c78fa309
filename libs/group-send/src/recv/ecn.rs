//! The mark of congestion in the IP header of a datagram.

/// Explicit congestion notification, two bits of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// `00`: the sender does not take part.
    NotEct,
    /// `01`: takes part; the sender reacts as L4S asks for (RFC 9331).
    Ect1,
    /// `10`: takes part.
    Ect0,
    /// `11`: congestion was experienced on the path.
    Ce,
}

impl Ecn {
    /// From the byte of the IP header that was the type of service, or traffic class.
    pub fn from_traffic_class(byte: u8) -> Self {
        match byte & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_the_low_bits() {
        for byte in 0..=255 {
            assert_eq!(Ecn::from_traffic_class(byte).bits(), byte & 3);
        }
    }
}
