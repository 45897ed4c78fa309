//! DTLS 1.2 by `rtc-dtls`, which takes RSA certificates.
//!
//! Taken as it is published, with these things around it:
//! - Its timers stop when a part of a flight arrives, or a repeated message. So we keep the timers:
//!   the library resends a flight if it does so itself, otherwise the same datagrams are sent
//!   again, which a peer that lost them accepts. It has no clock; it only knows the times we pass.
//! - It takes the first SRTP profile of the client that it may; a server allows it one.
//! - It drops a ClientHello that is repeated to the byte, as `dimpl` does it; we answer that one.
//! - It keeps the whole handshake in memory. As soon as there are keys, only its exported state is
//!   kept, of some hundred bytes, and the last flight. It is made again from these to say or hear
//!   `close_notify`.
//! - It answers every alert with the same alert; only `close_notify` goes out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtc_dtls::cipher_suite::CipherSuiteId;
use rtc_dtls::config::{ClientAuthType, ConfigBuilder, ExtendedMasterSecretType, HandshakeConfig};
use rtc_dtls::endpoint::{Endpoint, EndpointEvent};
use rtc_dtls::extension::extension_use_srtp::SrtpProtectionProfile;
use rtc_shared::TransportProtocol;
use rtc_shared::error::Error;
use srtp::Profile;
use zeroize::Zeroizing;

use super::record::{self, Record, records};
use super::session::{Engine, Output, SrtpKeys};
use super::{Config, DtlsError, DtlsRole, DtlsVersion, Fingerprint};

/// A session in the hands of `rtc-dtls`.
pub(super) struct RtcDtlsEngine(Stage);

enum Stage {
    Handshake(Box<Handshake>),
    Resting(Box<Resting>),
    Ended,
}

/// Until there are keys.
struct Handshake {
    endpoint: Endpoint,
    config: Config,
    role: DtlsRole,
    /// What went out last, as datagrams.
    flight: Vec<Vec<u8>>,
    /// How often the library has sent the flight again.
    own_resends: u32,
    /// When the flight goes out again, and after which interval then.
    resend_at: Option<Instant>,
    resend_interval: Duration,
    /// Records that were given to the library.
    records: usize,
}

/// Once there are keys.
struct Resting {
    /// As exported by the library, but without the peer's certificates. Contains the master secret.
    state: Zeroizing<Vec<u8>>,
    config: Config,
    role: DtlsRole,
    /// A server's last flight, which a client may not have got.
    last_flight: Vec<Vec<u8>>,
    resends_left: u32,
    /// When the next alert is looked at.
    alert_at: Instant,
}

impl RtcDtlsEngine {
    /// A server, or a client whose first datagram is in `output`. `profiles` are offered or taken.
    pub(super) fn start(
        config: Config,
        role: DtlsRole,
        profiles: &[Profile],
        now: Instant,
        output: &mut Output,
    ) -> Result<Box<dyn Engine>, DtlsError> {
        let library_config = library_config(&config, role, profiles)?;
        let server_config = (role == DtlsRole::Server).then(|| library_config.clone());
        let mut handshake = Handshake {
            endpoint: Endpoint::new(HERE, TransportProtocol::UDP, server_config),
            config,
            role,
            flight: Vec::new(),
            own_resends: 0,
            resend_at: None,
            resend_interval: Config::RETRANSMIT_START,
            records: 0,
        };
        if role == DtlsRole::Client {
            handshake.endpoint.connect(now, THERE, library_config, None).map_err(|_| DtlsError::Internal)?;
            handshake.send_new_flight(now, output);
        }
        Ok(Box::new(Self(Stage::Handshake(Box::new(handshake)))))
    }
}

impl Engine for RtcDtlsEngine {
    fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
        output: &mut Output,
    ) -> Result<(), DtlsError> {
        match &mut self.0 {
            Stage::Handshake(handshake) => {
                if let Some(resting) = handshake.handle_datagram(now, datagram, output)? {
                    self.0 = Stage::Resting(Box::new(resting));
                }
            }
            Stage::Resting(resting) => {
                resting.handle_datagram(now, datagram, output);
                if output.closed {
                    self.0 = Stage::Ended;
                }
            }
            Stage::Ended => {}
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant, output: &mut Output) -> Result<(), DtlsError> {
        match &mut self.0 {
            Stage::Handshake(handshake) => handshake.handle_timeout(now, output),
            Stage::Resting(_) | Stage::Ended => Ok(()),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match &self.0 {
            Stage::Handshake(handshake) => handshake.resend_at,
            Stage::Resting(_) | Stage::Ended => None,
        }
    }

    fn close(&mut self, now: Instant, output: &mut Output) {
        if let Stage::Resting(resting) = &self.0
            && let Some(mut endpoint) = resting.wake(now)
            && endpoint.close(now).is_ok()
        {
            output.datagrams.extend(sent_by(&mut endpoint));
        }
        self.0 = Stage::Ended;
    }

    fn version(&self) -> Option<DtlsVersion> {
        Some(DtlsVersion::V1_2)
    }
}

impl Handshake {
    fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
        output: &mut Output,
    ) -> Result<Option<Resting>, DtlsError> {
        if self.has_lost_our_hello_verify_request(datagram) {
            output.datagrams.extend(self.flight.iter().cloned());
            return Ok(None);
        }
        let mut useful = Vec::with_capacity(datagram.len());
        for record in records(datagram) {
            if record.is_useful() && !self.is_repeated(&record) {
                useful.extend_from_slice(record.bytes);
                self.records += 1;
            }
        }
        if useful.is_empty() {
            return Ok(None);
        }
        if self.records > RECORDS_MAX {
            return Err(DtlsError::TooMuch);
        }
        let result = self.endpoint.read(now, THERE, None, useful[..].into());
        let is_complete = result
            .as_ref()
            .is_ok_and(|events| events.iter().any(|event| matches!(event, EndpointEvent::HandshakeComplete)));
        if is_complete {
            // Before anything is sent: a peer that is not the right one never gets our Finished.
            return self.finish(now, output).map(Some);
        }
        self.send_new_flight(now, output);
        result.map(|_| None).map_err(|_| DtlsError::Handshake)
    }

    /// Whether a client repeats its first ClientHello. `dimpl` repeats it to the byte, and the
    /// library would drop it.
    fn has_lost_our_hello_verify_request(&self, datagram: &[u8]) -> bool {
        let Some(ours) = self.flight.first().and_then(|datagram| records(datagram).next()) else {
            return false;
        };
        let is_first = |record: Record<'_>| {
            record.handshake_type() == Some(record::CLIENT_HELLO) && record.body[4..6] == [0, 0]
        };
        ours.handshake_type() == Some(record::HELLO_VERIFY_REQUEST) && records(datagram).any(is_first)
    }

    /// Whether it is of a flight that has been answered. The library would stop its timer for it.
    fn is_repeated(&self, record: &Record<'_>) -> bool {
        let Some(first) = self.flight.first().and_then(|datagram| records(datagram).next()) else {
            return false;
        };
        match self.role {
            DtlsRole::Server => {
                record.handshake_type() == Some(record::CLIENT_HELLO)
                    && first.handshake_type().is_some_and(|kind| kind != record::HELLO_VERIFY_REQUEST)
            }
            // Its Finished has been sent; from the server only Finished is missing, which is
            // encrypted.
            DtlsRole::Client => record.handshake_type().is_some() && self.flight_has_finished(),
        }
    }

    fn flight_has_finished(&self) -> bool {
        let mut all = self.flight.iter().flat_map(|datagram| records(datagram));
        all.any(|record| record.content_type == record::CHANGE_CIPHER_SPEC)
    }

    fn send_new_flight(&mut self, now: Instant, output: &mut Output) {
        if self.send_what_the_library_sends(output) {
            self.own_resends = 0;
            self.resend_interval = Config::RETRANSMIT_START;
            // A server does not repeat a HelloVerifyRequest (RFC 6347 section 4.2.1).
            let first = self.flight.first().and_then(|datagram| records(datagram).next());
            let is_repeated =
                first.and_then(|first| first.handshake_type()) != Some(record::HELLO_VERIFY_REQUEST);
            self.resend_at = is_repeated.then_some(now + self.resend_interval);
        }
    }

    fn send_what_the_library_sends(&mut self, output: &mut Output) -> bool {
        let flight = sent_by(&mut self.endpoint);
        if flight.is_empty() {
            return false;
        }
        output.datagrams.extend(flight.iter().cloned());
        self.flight = flight;
        true
    }

    fn handle_timeout(&mut self, now: Instant, output: &mut Output) -> Result<(), DtlsError> {
        if self.resend_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.resend_interval = (self.resend_interval * 2).min(RESEND_INTERVAL_MAX);
        self.resend_at = Some(now + self.resend_interval);
        match self.endpoint.poll_timeout(&THERE) {
            Some(at) if self.own_resends < OWN_RESENDS_MAX => {
                self.own_resends += 1;
                self.endpoint.handle_timeout(THERE, now.max(at)).map_err(|_| DtlsError::Handshake)?;
                self.send_what_the_library_sends(output);
            }
            _ => output.datagrams.extend(self.flight.iter().cloned()),
        }
        Ok(())
    }

    /// Checks the peer's certificate, exports keys, and lets go of the handshake.
    fn finish(&mut self, now: Instant, output: &mut Output) -> Result<Resting, DtlsError> {
        let state = self.endpoint.get_connection_state(THERE).ok_or(DtlsError::Internal)?;
        let certificate = state.peer_certificates.first().ok_or(DtlsError::NoCertificate)?;
        if !Fingerprint::is_among(&self.config.remote_fingerprints, certificate) {
            return Err(DtlsError::WrongFingerprint);
        }
        let profile = of_library(state.srtp_protection_profile())
            .filter(|profile| self.config.srtp_profiles.contains(profile))
            .ok_or(DtlsError::NoSrtpProfile)?;
        let exported = state
            .export_keying_material(EXPORTER_LABEL, &[], 2 * (profile.key_len() + profile.salt_len()))
            .map_err(|_| DtlsError::Internal)?;
        let keys = SrtpKeys::from_exported(profile, exported.as_ref(), self.role)?;

        let mut slim = self.config.endpoint_state(self.role);
        slim.unmarshal_binary(&export(state)?).map_err(|_| DtlsError::Internal)?;
        slim.peer_certificates = Vec::new();
        let state = export(&slim)?;
        let last_flight = if self.role == DtlsRole::Server && self.send_what_the_library_sends(output) {
            std::mem::take(&mut self.flight)
        } else {
            Vec::new()
        };
        output.keys = Some(Box::new(keys));
        Ok(Resting {
            state,
            config: self.config.clone(),
            role: self.role,
            last_flight,
            resends_left: LAST_FLIGHT_RESENDS_MAX,
            alert_at: now,
        })
    }
}

impl Resting {
    fn handle_datagram(&mut self, now: Instant, datagram: &[u8], output: &mut Output) {
        // The client repeats its last flight: ours has been lost (RFC 6347 section 4.2.4). Its
        // datagrams are sent as they were; a client that has got one of them drops it as a replay.
        if records(datagram).any(|record| record.content_type == record::HANDSHAKE) && self.resends_left > 0 {
            self.resends_left -= 1;
            output.datagrams.extend(self.last_flight.iter().cloned());
        }
        for record in records(datagram) {
            if record.content_type == record::ALERT && record.epoch == 1 && self.alert_at <= now {
                self.alert_at = now + ALERT_INTERVAL;
                self.handle_alert(now, &record, output);
            }
        }
    }

    /// Anybody may have written it; only if it was the peer does it end the session.
    fn handle_alert(&self, now: Instant, record: &Record<'_>, output: &mut Output) {
        let Some(mut endpoint) = self.wake(now) else { return };
        match endpoint.read(now, THERE, None, record.bytes.into()) {
            Ok(events) if events.iter().any(|event| matches!(event, EndpointEvent::PeerClosed)) => {
                output.datagrams.extend(sent_by(&mut endpoint));
                output.closed = true;
            }
            Err(Error::ErrAlertFatalOrClose) => output.closed = true,
            // Not authentic, or a warning.
            _ => {}
        }
    }

    /// The library again, as it was when the handshake was done.
    fn wake(&self, now: Instant) -> Option<Endpoint> {
        let mut state = self.config.endpoint_state(self.role);
        state.unmarshal_binary(&self.state).ok()?;
        let config = library_config(&self.config, self.role, &self.config.srtp_profiles).ok()?;
        let mut endpoint = Endpoint::new(HERE, TransportProtocol::UDP, None);
        // The way in for a finished session, of a server too; what role it had is in its state.
        endpoint.connect(now, THERE, config, Some(state)).ok()?;
        Some(endpoint)
    }
}

impl Config {
    fn endpoint_state(&self, role: DtlsRole) -> rtc_dtls::state::State {
        rtc_dtls::state::State::new(self.certificate.provider.clone(), role == DtlsRole::Client)
    }
}

fn export(state: &rtc_dtls::state::State) -> Result<Zeroizing<Vec<u8>>, DtlsError> {
    let mut bytes = state.marshal_binary().map_err(|_| DtlsError::Internal)?;
    bytes.shrink_to_fit();
    Ok(Zeroizing::new(bytes))
}

fn sent_by(endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| endpoint.poll_transmit()).map(|transmit| transmit.message.to_vec()).collect()
}

fn library_config(
    config: &Config,
    role: DtlsRole,
    profiles: &[Profile],
) -> Result<Arc<HandshakeConfig>, DtlsError> {
    let builder = ConfigBuilder::default()
        .with_crypto_provider(config.certificate.provider.clone())
        .with_certificates(vec![config.certificate.rtc_dtls.clone()])
        .with_cipher_suites(CIPHER_SUITES.to_vec())
        .with_srtp_protection_profiles(profiles.iter().copied().filter_map(to_library).collect())
        .with_extended_master_secret(ExtendedMasterSecretType::Require)
        .with_client_auth(ClientAuthType::RequireAnyClientCert)
        // No authority signs these certificates: `Handshake::finish` compares fingerprints.
        .with_insecure_skip_verify(true)
        .with_server_name("millstream".to_owned());
    builder.build(role == DtlsRole::Client, None).map(Arc::new).map_err(|_| DtlsError::Internal)
}

fn to_library(profile: Profile) -> Option<SrtpProtectionProfile> {
    profile.dtls_id().map(SrtpProtectionProfile::from)
}

fn of_library(profile: SrtpProtectionProfile) -> Option<Profile> {
    Profile::ALL.into_iter().find(|&known| to_library(known) == Some(profile))
}

/// RFC 5764 section 4.2.
const EXPORTER_LABEL: &str = "EXTRACTOR-dtls_srtp";

/// Authenticated encryption and forward secrecy only. RSA is for servers, when we are the client.
const CIPHER_SUITES: [CipherSuiteId; 4] = [
    CipherSuiteId::Tls_Ecdhe_Ecdsa_With_Aes_128_Gcm_Sha256,
    CipherSuiteId::Tls_Ecdhe_Ecdsa_With_ChaCha20_Poly1305_Sha256,
    CipherSuiteId::Tls_Ecdhe_Rsa_With_Aes_128_Gcm_Sha256,
    CipherSuiteId::Tls_Ecdhe_Rsa_With_ChaCha20_Poly1305_Sha256,
];

/// The library files its sessions by address; here each session has a library of its own.
const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const THERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// Records the library is given during a handshake. A handshake has about 10. It puts fragments
/// together by recursion and in quadratic time: of this many, that is a millisecond and some
/// kilobytes of stack.
const RECORDS_MAX: usize = 400;

/// The library gives up when it has sent a flight more often than this.
const OWN_RESENDS_MAX: u32 = 7;

const RESEND_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// How often a client is believed to have lost our last flight.
const LAST_FLIGHT_RESENDS_MAX: u32 = 12;

/// Looking at an alert takes some 10 us; anybody can forge one, so it is done this often at most.
const ALERT_INTERVAL: Duration = Duration::from_millis(10);
