//! Which queueing disciplines an interface has, for pacing by departure time (`SO_TXTIME`).

use super::message as nl;
use super::request::{Request, link_fixed};
use super::socket::NetlinkSocket;
use std::io;

/// The kinds of an interface's queueing disciplines (`fq`, `etf`, `mq`, `noqueue` ...), the root first.
///
/// Departure times mean something to `etf` and `fq`, which may hang below `mq` or `mqprio`. Looks in the network
/// namespace of the calling thread and needs no privilege. At most [`QDISCS_MAX`], for an interface with more queues.
pub(crate) fn qdiscs(interface: &str) -> io::Result<Vec<String>> {
    let mut socket = NetlinkSocket::open()?;
    let mut request = Request::default();
    let index = super::link_by_name(&mut socket, &mut request, interface)?.index;
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
