//! DTLS 1.3 by `dimpl`; as a client also 1.2, when a server knows no better.
//!
//! Used as published. Its limitations decide when it is used (`session.rs`): it chooses the first
//! SRTP profile of the client that it knows, and certificates have to be ECDSA. It has no clock;
//! every call sets the time first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dimpl::{ProtocolVersion, SrtpProfile};
use srtp::Profile;

use super::record::without_plaintext_alerts;
use super::session::{Engine, Output, SrtpKeys};
use super::{Config, DtlsError, DtlsRole, DtlsVersion, Fingerprint};

/// A session in the hands of `dimpl`.
pub(super) struct DimplEngine {
    dtls: dimpl::Dtls,
    role: DtlsRole,
    config: Config,
    next_timeout: Option<Instant>,
    certificate_checked: bool,
    connected: bool,
    has_keys: bool,
}

impl DimplEngine {
    /// The profiles it knows, and offers as a client, whatever is allowed.
    pub(super) const PROFILES: [Profile; 3] =
        [Profile::AeadAes128Gcm, Profile::AeadAes256Gcm, Profile::AesCm128HmacSha1_80];

    /// A server of 1.3, or a client of the versions allowed whose first datagrams are in `output`.
    pub(super) fn start(
        config: Config,
        role: DtlsRole,
        now: Instant,
        output: &mut Output,
    ) -> Result<Box<dyn Engine>, DtlsError> {
        let (library_config, certificate) = (library_config(&config)?, config.certificate.dimpl.clone());
        let dtls = if role == DtlsRole::Client && config.versions.contains(&DtlsVersion::V1_2) {
            dimpl::Dtls::new_auto(library_config, certificate, now)
        } else {
            dimpl::Dtls::new_13(library_config, certificate, now)
        };
        let mut engine = Box::new(Self {
            dtls,
            role,
            config,
            next_timeout: None,
            certificate_checked: false,
            connected: false,
            has_keys: false,
        });
        if role == DtlsRole::Client {
            engine.dtls.set_active(true);
        }
        engine.handle_timeout(now, output)?;
        Ok(engine)
    }

    /// The profile a server of 1.3 takes when the client offers these.
    pub(super) fn profile_for(offered: &[Profile]) -> Option<Profile> {
        offered.iter().copied().find(|profile| Self::PROFILES.contains(profile))
    }

    /// Collects the output of the library. Nothing is sent if the certificate turns out to be
    /// wrong.
    fn poll(&mut self, now: Instant, output: &mut Output) -> Result<(), DtlsError> {
        let mut buffer = vec![0; BUFFER_LEN];
        let mut datagrams = Vec::new();
        loop {
            match self.dtls.poll_output(&mut buffer) {
                dimpl::Output::Packet(datagram) => datagrams.push(datagram.to_vec()),
                dimpl::Output::BufferTooSmall { needed } => buffer.resize(needed, 0),
                dimpl::Output::Timeout(at) => {
                    // Ten years when there is nothing to do. And a timer for acknowledgements can
                    // stay due when there turns out to be nothing to acknowledge; a caller must not
                    // spin for that.
                    let at = if at <= now { now + TIMER_STEP } else { at };
                    self.next_timeout = Some(at).filter(|&at| at < now + IDLE);
                    break;
                }
                dimpl::Output::PeerCert(certificate) => {
                    if !Fingerprint::is_among(&self.config.remote_fingerprints, certificate) {
                        return Err(DtlsError::WrongFingerprint);
                    }
                    self.certificate_checked = true;
                }
                dimpl::Output::KeyingMaterial(exported, profile) => {
                    output.keys = Some(Box::new(self.keys(&exported, profile)?));
                    self.has_keys = true;
                }
                dimpl::Output::Connected => self.connected = true,
                dimpl::Output::CloseNotify => output.closed = true,
                // Data channels are not offered; what a peer sends nevertheless is dropped.
                _ => {}
            }
        }
        if self.connected && !self.has_keys {
            return Err(DtlsError::NoSrtpProfile);
        }
        output.datagrams.extend(datagrams);
        Ok(())
    }

    fn keys(&self, exported: &[u8], profile: SrtpProfile) -> Result<SrtpKeys, DtlsError> {
        if !self.certificate_checked {
            return Err(DtlsError::NoCertificate);
        }
        let profile = match profile {
            SrtpProfile::AEAD_AES_128_GCM => Profile::AeadAes128Gcm,
            SrtpProfile::AEAD_AES_256_GCM => Profile::AeadAes256Gcm,
            SrtpProfile::AES128_CM_SHA1_80 => Profile::AesCm128HmacSha1_80,
            _ => return Err(DtlsError::NoSrtpProfile),
        };
        if !self.config.srtp_profiles.contains(&profile) {
            return Err(DtlsError::NoSrtpProfile);
        }
        SrtpKeys::from_exported(profile, exported, self.role)
    }
}

/// The library's configuration for ours.
///
/// To build one is to have the cryptography tried, with an exchange of keys in every group and a
/// signature of every kind: 1.3 ms of CPU. So those that were built are kept; a
/// server has one.
fn library_config(config: &Config) -> Result<Arc<dimpl::Config>, DtlsError> {
    const KEPT_MAX: usize = 32;
    type Key = (Duration, Option<u64>);
    static KEPT: Mutex<Vec<(Key, Arc<dimpl::Config>)>> = Mutex::new(Vec::new());

    let key = (config.handshake_timeout, config.seed);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, library_config)) = kept.iter().find(|(other, _)| *other == key) {
        return Ok(library_config.clone());
    }
    let mut builder = dimpl::Config::builder()
        .mtu(DATAGRAM_MAX)
        .use_server_cookie(false)
        .require_client_certificate(true)
        .flight_start_rto(Config::RETRANSMIT_START)
        .flight_retries(RETRIES_MAX)
        .handshake_timeout(config.handshake_timeout);
    if let Some(seed) = config.seed {
        builder = builder.dangerously_set_rng_seed(seed);
    }
    let library_config = Arc::new(builder.build().map_err(|_| DtlsError::Internal)?);
    if kept.len() < KEPT_MAX {
        kept.push((key, library_config.clone()));
    }
    Ok(library_config)
}

impl Engine for DimplEngine {
    fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
        output: &mut Output,
    ) -> Result<(), DtlsError> {
        self.dtls.handle_timeout(now).map_err(refused)?;
        self.dtls.handle_packet(&without_plaintext_alerts(datagram)).map_err(refused)?;
        self.poll(now, output)
    }

    fn handle_timeout(&mut self, now: Instant, output: &mut Output) -> Result<(), DtlsError> {
        self.dtls.handle_timeout(now).map_err(refused)?;
        self.poll(now, output)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    fn close(&mut self, now: Instant, output: &mut Output) {
        if self.dtls.handle_timeout(now).is_ok() && self.dtls.close().is_ok() {
            // A wrong certificate would have ended the session before.
            let _ = self.poll(now, output);
        }
    }

    fn version(&self) -> Option<DtlsVersion> {
        match self.dtls.protocol_version()? {
            ProtocolVersion::DTLS1_2 => Some(DtlsVersion::V1_2),
            ProtocolVersion::DTLS1_3 => Some(DtlsVersion::V1_3),
            _ => None,
        }
    }
}

fn refused(error: dimpl::Error) -> DtlsError {
    match error {
        dimpl::Error::Timeout(_) => DtlsError::Timeout,
        _ => DtlsError::Handshake,
    }
}

/// Datagrams are no longer: below what any path carries (RFC 8445 and browsers assume 1200).
const DATAGRAM_MAX: usize = 1200;

/// Maximum size of one output, except application data.
const BUFFER_LEN: usize = 2048;

/// With the interval above, some 19 s: more than a handshake may take. A client of 1.3 has its keys
/// before it knows that its last flight has arrived; it repeats that, and gives up when nothing
/// confirms it.
const RETRIES_MAX: usize = 6;

/// A timer later than this is none.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// A timer that stays due is looked at again after this.
const TIMER_STEP: Duration = Duration::from_millis(20);
