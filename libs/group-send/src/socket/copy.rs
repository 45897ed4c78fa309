//! Gives a new socket the options of another one.

use crate::linux::{option, recv};
use std::io;
use std::os::fd::BorrowedFd;

/// Copies the options that change what leaves: type of service, lifetime, path MTU discovery, mark,
/// priority, the size of the send buffer, and whether a full queue is reported (`IP_RECVERR`).
///
/// # Errors
/// The new socket refuses a value for lack of a privilege (mark, priority above 6).
pub(crate) fn copy_options(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    for &(level, name) in COPIED {
        // What neither knows (of IPv6, on an IPv4 socket) is no difference.
        let (Ok(wanted), Ok(present)) = (option(from, level, name), option(to, level, name)) else {
            continue;
        };
        if wanted != present {
            if (level, name) == (libc::SOL_SOCKET, libc::SO_SNDBUF) {
                // The kernel reports the double of what it is asked for (`socket(7)`), and cuts
                // what exceeds `net.core.wmem_max` in silence unless it is forced.
                recv::set_option(to, level, libc::SO_SNDBUFFORCE, wanted / 2)
                    .or_else(|_| recv::set_option(to, level, name, wanted / 2))?;
            } else {
                recv::set_option(to, level, name, wanted)?;
            }
        }
    }
    Ok(())
}

/// In this order: the type of service sets the priority as well.
const COPIED: &[(i32, i32)] = &[
    (libc::SOL_IP, libc::IP_TOS),
    (libc::SOL_IP, libc::IP_TTL),
    (libc::SOL_IP, libc::IP_MTU_DISCOVER),
    (libc::SOL_IP, libc::IP_RECVERR),
    (libc::SOL_IP, libc::IP_FREEBIND),
    (libc::SOL_IP, libc::IP_TRANSPARENT),
    (libc::SOL_IPV6, libc::IPV6_TCLASS),
    (libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER),
    (libc::SOL_IPV6, libc::IPV6_RECVERR),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
];
