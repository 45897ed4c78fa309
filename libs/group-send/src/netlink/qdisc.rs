//! Which queueing disciplines an interface has, for pacing by departure time (`SO_TXTIME`).

use super::message as nl;
use super::request::{Request, link_fixed};
use super::socket::NetlinkSocket;
use std::io;

/// The kinds of an interface's queueing disciplines (`fq`, `etf`, `mq`, `noqueue` ...), the root
/// first.
///
/// Departure times ([`socket`](crate::socket)) mean something to `etf` and `fq` (tc-etf(8),
/// tc-fq(8)), which may hang below `mq` or `mqprio`; to others a datagram is due when it comes.
/// Looks in the network namespace of the calling thread and needs no privilege. For an interface
/// with many queues, the first 256 kinds.
///
/// # Errors
///
/// `ENODEV` if there is no such interface.
pub fn qdiscs(interface: &str) -> io::Result<Vec<String>> {
    let mut socket = NetlinkSocket::open()?;
    let mut request = Request::default();
    let index = super::index_of(&mut socket, &mut request, interface)?;
    let (mut root, mut others) = (Vec::new(), Vec::new());
    let mut fixed = [0; nl::QDISC_FIXED];
    fixed[..8].copy_from_slice(&link_fixed(index)[..8]);
    socket.all(request.all(nl::RTM_GETQDISC, &fixed), |message| {
        let Some(message) = message else {
            root.clear();
            return others.clear();
        };
        let qdisc = nl::Qdisc::parse(message.body).filter(|_| message.kind == nl::RTM_NEWQDISC);
        let Some(qdisc) = qdisc.filter(|qdisc| qdisc.interface == index) else { return };
        let kinds = if qdisc.parent == nl::TC_H_ROOT { &mut root } else { &mut others };
        if kinds.len() < QDISCS_MAX {
            kinds.push(qdisc.kind.to_owned());
        }
    })?;
    root.append(&mut others);
    Ok(root)
}

/// Queueing disciplines looked at.
const QDISCS_MAX: usize = 256;
