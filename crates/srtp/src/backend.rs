//! Which code does the arithmetic of the ciphers: vector kernels of our own, or the library.
//!
//! Chosen by CPU features when a `Config` is made, and kept by all keys made with it. All produce
//! the same bytes; the portable one is for other CPUs, for comparison, and for operators who do not
//! want hand-written kernels.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Code that encrypts and authenticates; a later one is faster and asks more of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Libraries for everything: AWS-LC for AES, RustCrypto for HMAC-SHA1. Runs on every CPU.
    Portable,
    /// AWS-LC for AES; SHA-1 by the SHA extensions, several packets at once. x86-64 with SHA, SSSE3
    /// and SSE4.1.
    ShaNi,
    /// AES by VAES on four blocks at once, GHASH by VPCLMULQDQ, SHA-1 on sixteen packets at once. x86-64 with
    /// AVX-512 F, BW, DQ and VL, VAES, VPCLMULQDQ, BMI2 and what [`Backend::ShaNi`] asks for.
    Avx512,
}

impl Backend {
    /// Environment variable that chooses the backend: `portable`, `sha-ni` or `avx512`, ignoring
    /// case. Read once, at first use. Empty counts as not set; any other word means `portable`,
    /// because whoever sets the variable wants less than the default; a backend that this CPU
    /// cannot run means the fastest it can run.
    pub const VARIABLE: &'static str = "SRTP_BACKEND";

    /// All backends, slowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::ShaNi, Self::Avx512];

    /// The fastest backend this CPU can run.
    pub fn detected() -> Self {
        Self::ALL.into_iter().rev().find(|backend| backend.is_supported()).unwrap_or(Self::Portable)
    }

    /// The backend of every [`Config`](crate::Config) made from now on by `Config::default()`:
    /// [`force`](Self::force)d, or named by the environment, or detected.
    pub fn current() -> Self {
        static DEFAULT: OnceLock<Backend> = OnceLock::new();
        Self::from_code(FORCED.load(Ordering::Relaxed)).unwrap_or_else(|| {
            *DEFAULT.get_or_init(|| {
                let named = std::env::var_os(Self::VARIABLE).filter(|name| !name.is_empty());
                let named = named.map(|name| {
                    let name = name.to_string_lossy().to_ascii_lowercase();
                    name.parse().unwrap_or(Self::Portable)
                });
                named.filter(|backend| backend.is_supported()).unwrap_or_else(Self::detected)
            })
        })
    }

    /// Makes `backend` the [`current`](Self::current) one of the whole process; `None` takes that back.
    ///
    /// A [`Config`](crate::Config) already made keeps what it has, and so do its contexts: call
    /// this before the first.
    ///
    /// # Errors
    /// [`Unsupported`] when this CPU cannot run it; nothing is changed then.
    pub fn force(backend: Option<Self>) -> Result<(), Unsupported> {
        if backend.is_some_and(|backend| !backend.is_supported()) {
            return Err(Unsupported);
        }
        FORCED.store(backend.map_or(0, Self::code), Ordering::Relaxed);
        Ok(())
    }

    /// Whether this CPU can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            Self::ShaNi => sha_ni(),
            Self::Avx512 => sha_ni() && avx512(),
        }
    }

    /// Its name, as the environment variable takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::ShaNi => "sha-ni",
            Self::Avx512 => "avx512",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Portable => 1,
            Self::ShaNi => 2,
            Self::Avx512 => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.code() == code)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = Unsupported;

    fn from_str(name: &str) -> Result<Self, Unsupported> {
        Self::ALL.into_iter().find(|backend| backend.name() == name).ok_or(Unsupported)
    }
}

/// The backend asked for is not one this CPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported;

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this CPU cannot run the SRTP backend asked for")
    }
}

impl std::error::Error for Unsupported {}

#[cfg(target_arch = "x86_64")]
fn sha_ni() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("ssse3") && is_x86_feature_detected!("sse4.1")
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(not(target_arch = "x86_64"))]
fn sha_ni() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512() -> bool {
    false
}

/// [`Backend::code`] of the forced backend, or 0.
static FORCED: AtomicU8 = AtomicU8::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for backend in Backend::ALL {
            assert_eq!(backend.name().parse(), Ok(backend));
            assert_eq!(Backend::from_code(backend.code()), Some(backend));
        }
        assert_eq!("turbo".parse::<Backend>(), Err(Unsupported));
    }

    #[test]
    fn the_portable_backend_runs_everywhere_and_the_detected_one_here() {
        assert!(Backend::Portable.is_supported());
        assert!(Backend::detected().is_supported());
    }
}
