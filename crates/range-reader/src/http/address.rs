//! Which addresses may be connected to.

use std::net::IpAddr;

/// Addresses a reader may connect to. Checked after names are resolved, so that a name cannot smuggle one in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Public ones only: no loopback, private, link-local, shared, multicast, documentation or unspecified ones, nor
    /// IPv6 forms of them.
    #[default]
    Public,
    /// Any, for what a person started and for what the configuration allows.
    Any,
}

impl AddressPolicy {
    /// Whether `address` may be connected to.
    pub fn allows(self, _address: IpAddr) -> bool {
        self == Self::Any
    }
}
