//! How datagrams leave: the back ends of `group_send` that a configured one stands for.

use group_send::{AfXdpConfig, BackendKind, Config, TcCloneConfig};

use worker_api::settings::UdpBackend;

/// What `udp_backend` stands for. What does not work here is followed by what works everywhere: two of them
/// need the interface that they send by.
pub(crate) fn config(
    backend: UdpBackend,
    af_xdp: Option<AfXdpConfig>,
    tc_clone: Option<TcCloneConfig>,
) -> Config {
    use BackendKind::{AfXdp, Gso, IoUring, Sendmmsg, Sendmsg, TcClone};
    let backends = match backend {
        UdpBackend::AfXdp if af_xdp.is_some() => vec![AfXdp, Gso, Sendmmsg, Sendmsg],
        UdpBackend::TcClone if tc_clone.is_some() => vec![TcClone, Gso, Sendmmsg, Sendmsg],
        UdpBackend::Auto | UdpBackend::Gso | UdpBackend::AfXdp | UdpBackend::TcClone => {
            vec![Gso, Sendmmsg, Sendmsg]
        }
        UdpBackend::Sendmsg => vec![Sendmsg],
        UdpBackend::Sendmmsg => vec![Sendmmsg, Sendmsg],
        UdpBackend::IoUring => vec![IoUring, Gso, Sendmmsg, Sendmsg],
    };
    Config { backends, twin: true, af_xdp, tc_clone, ..Config::default() }
}
