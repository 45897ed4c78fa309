//! What a [`Sender`](crate::Sender) may use, and why a back end was not chosen.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;

/// How datagrams reach the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// One system call a datagram. Everywhere.
    Sendmsg,
    /// Many datagrams a system call (`sendmmsg(2)`). Linux.
    Sendmmsg,
    /// `sendmmsg` whose messages are runs of datagrams for one recipient, cut by the kernel or the
    /// device (`UDP_SEGMENT`, generic segmentation offload). Linux 4.18.
    Gso,
    /// `io_uring(7)` on a connected and registered socket for each recipient. Linux 5.19, feature
    /// `io-uring`, and `SO_REUSEPORT` on the caller's socket unless that is bound to one address.
    ///
    /// **Options are read when the sender is made** and when it opens a recipient's socket: type of
    /// service (with ECN), hop limit, path MTU discovery, mark, priority, size of the send buffer,
    /// `IP_RECVERR`, device. What is set later on the caller's socket holds for some recipients and
    /// not for others: make a new sender after a change. Options that are not named here are not
    /// taken over at all (`SO_MAX_PACING_RATE`, `SO_DONTROUTE`).
    ///
    /// A recipient whose own socket is full is blocked, and only that one, although the caller's
    /// socket may be writable.
    IoUring,
    /// Frames handed to the device without the kernel's UDP stack (`AF_XDP`). Linux 5.9, feature
    /// `af-xdp`, `CAP_NET_RAW`.
    ///
    /// **Options are read when the sender is made**: type of service (with ECN), hop limit, path
    /// MTU discovery, and what decides about routes (`SO_MARK`). What is set later holds for what
    /// goes through the socket only: make a new sender after a change. Options for queueing
    /// disciplines (`SO_PRIORITY`, `SO_MAX_PACING_RATE`) mean nothing to frames.
    AfXdp,
    /// One frame of a group's packet enters the kernel, and an eBPF program there copies it for all
    /// recipients. For payload that is the same for all. Experimental; Linux 6.6, feature
    /// `tc-clone`, `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_NET_RAW`.
    ///
    /// **Options are read when the sender is made**, as with [`BackendKind::AfXdp`]: make a new
    /// sender after a change.
    ///
    /// **Order** is not kept on interfaces with several transmit queues, where copies and datagrams
    /// that go through the socket (single recipients, differing lengths) may overtake each other.
    TcClone,
}

impl BackendKind {
    /// The name in reports, logs and configuration: `sendmsg`, `sendmmsg`, `gso`, `io_uring`,
    /// `af_xdp`, `tc_clone`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sendmsg => "sendmsg",
            Self::Sendmmsg => "sendmmsg",
            Self::Gso => "gso",
            Self::IoUring => "io_uring",
            Self::AfXdp => "af_xdp",
            Self::TcClone => "tc_clone",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A back end that was preferred to the one in use, and why it was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotChosen {
    /// The back end that is not used.
    pub backend: BackendKind,
    /// The reason, for a log: a missing privilege or kernel function, or a build without the
    /// feature.
    pub why: String,
}

impl fmt::Display for NotChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.why)
    }
}

/// What a [`Sender`](crate::Sender) may use.
#[derive(Clone, Debug)]
pub struct Config {
    /// Back ends, the preferred one first; the first that works here is used. Default: GSO,
    /// `sendmmsg`, `sendmsg`. Those that need a privilege or a feature are used only when they are
    /// named here.
    pub backends: Vec<BackendKind>,
    /// Send by a second socket at the same address, which receives nothing. Default: no. Linux; with
    /// [`BackendKind::Sendmsg`], [`BackendKind::Sendmmsg`] and [`BackendKind::Gso`]. None for a socket that
    /// has departure times or [reports refusals](crate::socket::report_refusals).
    ///
    /// It saves a message that leaves the wake-up of the `epoll` set that the caller's socket is in,
    /// and the identification of a datagram that is not fragmented. What the path does not carry in
    /// one piece goes through the caller's socket, which cuts it as before.
    ///
    /// **Make the sender before peers know the address**: what arrives while it is made may be lost.
    /// The caller's socket gets `SO_REUSEPORT`, and another socket of the same user that sets it may
    /// share the address; it receives nothing either. Options are read when the sender is made, the
    /// size of the send buffer and [`enable_gro`](crate::socket::enable_gro) among them. On a route whose
    /// MTU is locked (`ip-route(8)`), datagrams get DF.
    pub twin: bool,
    /// The socket shares its address with others (`SO_REUSEPORT`), and a program that is attached to
    /// them picks by number which of them gets what, never one that was bound after it was attached.
    /// Default: no, and then a twin has everything that comes to the address delivered to the first
    /// socket there.
    pub steered: bool,
    /// Settings of [`BackendKind::IoUring`]. No effect without the feature, like the next two.
    pub io_uring: IoUringConfig,
    /// Settings of [`BackendKind::AfXdp`]. Default: none, and then it is not used.
    pub af_xdp: Option<AfXdpConfig>,
    /// Settings of [`BackendKind::TcClone`]. Default: none, and then it is not used.
    pub tc_clone: Option<TcCloneConfig>,
}

impl Config {
    /// Prefers `tc_clone` and `af_xdp`, where this build, the process's rights and the device allow them,
    /// to the default.
    ///
    /// For [`Traffic::Groups`] `tc_clone` if it works, else `af_xdp`; for [`Traffic::Datagrams`]
    /// `af_xdp`; and else the default. Both are used on the interface that the socket is bound to, by
    /// its address or by name, or else on the only Ethernet interface that is up; where there are
    /// several, name one in [`Config::af_xdp`] and [`Config::tc_clone`].
    ///
    /// **What it asks for:** frames pass netfilter and IPsec by, `af_xdp` also queueing disciplines,
    /// and it takes transmit queue 0 for itself. **When it does not pay:** frames of four packets and
    /// more through a device that cuts them (`ethtool -k`: `tx-udp-segmentation: on`), for which the
    /// default is faster, and groups of fewer than four.
    pub fn auto(traffic: Traffic) -> Self {
        let mut backends = Self::default().backends;
        backends.insert(0, BackendKind::AfXdp);
        if traffic == Traffic::Groups {
            backends.insert(0, BackendKind::TcClone);
        }
        let (af_xdp, tc_clone) = (Some(AfXdpConfig::new("")), Some(TcCloneConfig::new("")));
        Self { backends, af_xdp, tc_clone, ..Self::default() }
    }
}

/// What is sent most, for [`Config::auto`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// One payload for many recipients, with private bytes around it
    /// ([`Sender::send_group`](crate::Sender::send_group)).
    Groups,
    /// Datagrams each of which has a payload of its own, encrypted for one recipient for example
    /// ([`Sender::flush`](crate::Sender::flush)).
    Datagrams,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backends: vec![BackendKind::Gso, BackendKind::Sendmmsg, BackendKind::Sendmsg],
            twin: false,
            steered: false,
            io_uring: IoUringConfig::default(),
            af_xdp: None,
            tc_clone: None,
        }
    }
}

/// Settings of [`BackendKind::AfXdp`]: it sends by one queue of one Ethernet interface.
///
/// Each [`Sender`](crate::Sender) needs a queue of its own. It only sends: no XDP program is loaded
/// and receiving stays as it is. Frames bypass netfilter, queueing disciplines and IPsec.
/// `CAP_NET_RAW`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AfXdpConfig {
    /// The interface's name in the calling thread's network namespace. Recipients routed through
    /// another interface are reached through the socket.
    ///
    /// "" is the one that the socket is bound to, by its address or by name, or else the only Ethernet
    /// interface that is up.
    pub interface: String,
    /// The interface's transmit queue, from 0. Default 0.
    pub queue: u32,
    /// Frames that may be in flight at once, a power of two within [`AfXdpConfig::FRAMES`]. Default
    /// 2048.
    ///
    /// Each locks 2048 bytes of memory (`RLIMIT_MEMLOCK` without `CAP_IPC_LOCK`). More absorb
    /// longer bursts on devices that are slower than the sender. In copy mode the kernel needs as
    /// much again in socket buffers, of which `net.core.wmem_max` allows about 180 frames where it
    /// has its default and `CAP_NET_ADMIN` is missing.
    pub frames: u32,
}

impl AfXdpConfig {
    /// Least and most frames.
    pub const FRAMES: RangeInclusive<u32> = 64..=65_536;

    /// Queue 0 of this interface, with the defaults.
    pub fn new(interface: impl Into<String>) -> Self {
        Self { interface: interface.into(), queue: 0, frames: 2048 }
    }
}

/// Settings of [`BackendKind::TcClone`]: it sends groups by one Ethernet interface. Experimental.
///
/// Needs Linux 6.6, the loopback device up, and `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_NET_RAW`.
/// Copies pass the interface's own programs and queueing disciplines, but neither netfilter nor
/// IPsec. While there is a [`Sender`](crate::Sender), each packet of the loopback device costs some
/// nanoseconds more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcCloneConfig {
    /// The interface's name, or "", as in [`AfXdpConfig::interface`].
    pub interface: String,
    /// A group (or its members of one address family) smaller than this goes through the socket.
    /// Default 4.
    ///
    /// A packet costs a fixed 0.5 us here, and 0.3 us more for each recipient. Through the socket
    /// it is about 1 us for each; but 0.4 us, or half of that where the device cuts segments, for
    /// each of 8 packets of equal length in a call.
    pub recipients_min: usize,
}

impl TcCloneConfig {
    /// This interface, with the defaults.
    pub fn new(interface: impl Into<String>) -> Self {
        Self { interface: interface.into(), recipients_min: 4 }
    }
}

/// Settings of [`BackendKind::IoUring`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoUringConfig {
    /// Recipients with a socket of their own. Default 256; half of the descriptors that the process
    /// may have (`RLIMIT_NOFILE`) if that is less.
    ///
    /// While there are more recipients than that, all go through the caller's socket: with more
    /// than about 300 the sockets leave the processor's second-level cache, and `sendmmsg` on one
    /// socket is faster. Each costs a descriptor and about 2.5 kB in the kernel. All are closed and
    /// reopened, eight per call, when a route or an address of the host changes.
    pub sockets_max: u32,
}

impl Default for IoUringConfig {
    fn default() -> Self {
        Self { sockets_max: 256 }
    }
}

/// Why there is no sender.
#[derive(Debug)]
pub enum SetupError {
    /// The socket is not a UDP socket of IPv4 or IPv6, or whose options cannot be read.
    Socket(io::Error),
    /// None of the requested back ends works here.
    NoBackend(Vec<NotChosen>),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => write!(f, "not a UDP socket that can be used: {error}"),
            Self::NoBackend(reasons) if reasons.is_empty() => f.write_str("no back end was requested"),
            Self::NoBackend(reasons) => {
                f.write_str("no back end works here")?;
                reasons.iter().try_for_each(|reason| write!(f, "; {reason}"))
            }
        }
    }
}

impl std::error::Error for SetupError {}
