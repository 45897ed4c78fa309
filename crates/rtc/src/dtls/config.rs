//! Configuration of one DTLS session: our certificate, the peer's fingerprints, what is allowed.

use std::sync::Arc;
use std::time::Duration;

use srtp::Profile;

use super::{Certificate, Fingerprint};

/// Which side starts the handshake (RFC 5763 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DtlsRole {
    /// `a=setup:active`: sends the ClientHello.
    Client,
    /// `a=setup:passive`: waits for it.
    Server,
}

/// A version of DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DtlsVersion {
    /// RFC 6347.
    V1_2,
    /// RFC 9147.
    V1_3,
}

/// Configuration of one session. Cheap to clone.
#[derive(Clone)]
pub struct Config {
    /// Ours, shown to the peer.
    pub certificate: Arc<Certificate>,
    /// Those signalled for the peer's certificate. With none, no peer is let in.
    pub remote_fingerprints: Vec<Fingerprint>,
    /// SRTP profiles allowed, the best first. A server takes the first of these that the client
    /// offers.
    ///
    /// Default: AES-128-GCM, AES-256-GCM, AES-128 in counter mode with HMAC-SHA1-80.
    pub srtp_profiles: Vec<Profile>,
    /// Versions allowed. Default: both.
    pub versions: Vec<DtlsVersion>,
    /// From the first datagram of the handshake to the keys, at most. Default 15 s.
    pub handshake_timeout: Duration,
    /// Where the numbers come from that spread retransmissions and that go into the hellos; keys are random
    /// anyway. Default: the system. **For simulations only**, which are to be the same in every run.
    pub seed: Option<u64>,
}

impl Config {
    /// Datagrams looked at, at once, before a handshake is finished; half as many more each second,
    /// and others are left out. A handshake takes 3 to 8; the rest is for what gets lost and
    /// repeated.
    pub const HANDSHAKE_DATAGRAMS_MAX: u32 = 200;

    /// Interval before the first retransmission; doubles each time.
    ///
    /// A flight that is repeated for nothing costs a kilobyte; one that is lost costs the viewer
    /// this long. libwebrtc begins at 50 ms; RFC 9147 section 5.8.2 allows less than a second where
    /// the RTT is known to be short.
    pub const RETRANSMIT_START: Duration = Duration::from_millis(150);

    /// With the defaults above, for a peer with these fingerprints.
    pub fn new(certificate: Arc<Certificate>, remote_fingerprints: Vec<Fingerprint>) -> Self {
        Self {
            certificate,
            remote_fingerprints,
            srtp_profiles: vec![Profile::AeadAes128Gcm, Profile::AeadAes256Gcm, Profile::AesCm128HmacSha1_80],
            versions: vec![DtlsVersion::V1_2, DtlsVersion::V1_3],
            handshake_timeout: Duration::from_secs(15),
            seed: None,
        }
    }
}
