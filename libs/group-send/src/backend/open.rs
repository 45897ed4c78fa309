//! Opens the back end of a kind, if this build and this machine have it.

#[cfg(all(target_os = "linux", feature = "af-xdp"))]
use super::af_xdp;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
use super::io_uring;
#[cfg(target_os = "linux")]
use super::mmsg as plain;
#[cfg(not(target_os = "linux"))]
use super::portable as plain;
#[cfg(all(target_os = "linux", feature = "tc-clone"))]
use super::tc_clone;
use crate::backend::Backend;
use crate::config::{BackendKind, Config, SetupError};
use socket2::SockRef;

/// A back end over the socket, or the reason why it does not work here.
///
/// # Errors
/// The socket itself is unusable.
pub(crate) fn open(
    kind: BackendKind,
    socket: &SockRef<'_>,
    config: &Config,
) -> Result<Result<Box<dyn Backend>, String>, SetupError> {
    let _ = config;
    Ok(match kind {
        BackendKind::Sendmsg | BackendKind::Sendmmsg | BackendKind::Gso => {
            plain::open(kind, socket)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "af-xdp"))]
        BackendKind::AfXdp => {
            af_xdp::open(socket, config)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "io-uring"))]
        BackendKind::IoUring => {
            io_uring::open(socket, &config.io_uring)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "tc-clone"))]
        BackendKind::TcClone => {
            tc_clone::open(socket, config)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[allow(unreachable_patterns, reason = "a build may have them all")]
        _ => Err("this build is without it".to_owned()),
    })
}
