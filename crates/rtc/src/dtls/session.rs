//! One DTLS session: chooses the library for the handshake, enforces limits, reports the result.
//!
//! The libraries do not know of each other; each is wrapped in an [`Engine`]. A panic in one ends
//! its session only.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use srtp::{MasterKey, Profile};

use super::dimpl_engine::DimplEngine;
use super::rtc_dtls_engine::RtcDtlsEngine;
use super::{ClientHello, ClientHelloBuffer, Config, DtlsError, DtlsRole, DtlsVersion};

/// A DTLS session with one peer.
///
/// **Driving it:** give it each datagram and the time; after any call take all of
/// [`Dtls::poll_transmit`] and [`Dtls::poll_event`], and call [`Dtls::handle_timeout`] at
/// [`Dtls::next_timeout`] or later. Datagrams must come from a validated pair of addresses only. An
/// error is final: from then on nothing is sent, and there are no keys.
///
/// Keys are returned once, after the certificate was compared with the signalled fingerprints. The
/// session continues: it repeats its last flight if the peer has not received it, and sends and
/// receives `close_notify`.
pub struct Dtls {
    state: State,
    output: Output,
    keys: Option<Box<SrtpKeys>>,
    closed: bool,
    /// When there have to be keys.
    deadline: Option<Instant>,
    budget: Budget,
}

/// How many datagrams of a handshake are looked at: [`Config::HANDSHAKE_DATAGRAMS_MAX`] at once,
/// and half as many again each second.
struct Budget {
    left: u32,
    refilled: Option<Instant>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Config::HANDSHAKE_DATAGRAMS_MAX, refilled: None }
    }
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(*self.refilled.get_or_insert(now));
        let earned = (since.as_millis() as u32).saturating_mul(Config::HANDSHAKE_DATAGRAMS_MAX / 2) / 1000;
        if earned > 0 {
            self.left = self.left.saturating_add(earned).min(Config::HANDSHAKE_DATAGRAMS_MAX);
            self.refilled = Some(now);
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

/// What has happened.
#[derive(Debug)]
pub enum DtlsEvent {
    /// The handshake is done, and the peer's certificate is the signalled one.
    Keys(Box<SrtpKeys>),
    /// The peer has ended the session (`close_notify` or a fatal alert).
    Closed,
}

/// Keys of both directions.
#[derive(Clone, Debug)]
pub struct SrtpKeys {
    /// The profile both are for.
    pub profile: Profile,
    /// To unprotect what the peer sends.
    pub inbound: MasterKey,
    /// To protect what we send.
    pub outbound: MasterKey,
}

/// One library, for one session.
pub(super) trait Engine: Send {
    /// Takes a datagram. What is not for it is ignored.
    fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &[u8],
        output: &mut Output,
    ) -> Result<(), DtlsError>;
    /// Lets time pass, and sends again what is due.
    fn handle_timeout(&mut self, now: Instant, output: &mut Output) -> Result<(), DtlsError>;
    /// When it has something to do.
    fn next_timeout(&self) -> Option<Instant>;
    /// Says `close_notify`, if there are keys to say it with.
    fn close(&mut self, now: Instant, output: &mut Output);
    /// The version agreed upon.
    fn version(&self) -> Option<DtlsVersion>;
}

/// What an [`Engine`] gives back.
#[derive(Default)]
pub(super) struct Output {
    pub(super) datagrams: VecDeque<Vec<u8>>,
    pub(super) keys: Option<Box<SrtpKeys>>,
    pub(super) closed: bool,
}

enum State {
    /// A server that has not seen a whole ClientHello.
    Listening(Box<(Config, ClientHelloBuffer)>),
    Running(Box<dyn Engine>),
    Ended,
}

impl Dtls {
    /// A server, which waits for a ClientHello and then takes DTLS 1.3 or 1.2.
    ///
    /// It takes 1.3 when the client offers it, unless that would mean another SRTP profile than the
    /// best one that both have: the library for 1.3 takes the client's first, and the profile costs
    /// or saves CPU for every packet.
    pub fn server(config: Config) -> Self {
        Self::with_state(State::Listening(Box::new((config, ClientHelloBuffer::default()))))
    }

    /// A client; its ClientHello is ready to be sent.
    ///
    /// With both versions allowed, or 1.3 only, the server has to have an ECDSA certificate; RSA
    /// works with 1.2 only. 1.3 is offered only with all the default SRTP profiles, if 1.2 is allowed.
    ///
    /// # Errors
    /// [`DtlsError::NoFingerprint`], [`DtlsError::NoVersion`], [`DtlsError::NoSrtpProfile`] when
    /// the configuration has none; [`DtlsError::Internal`].
    pub fn client(config: Config, now: Instant) -> Result<Self, DtlsError> {
        if config.remote_fingerprints.is_empty() {
            return Err(DtlsError::NoFingerprint);
        }
        if config.srtp_profiles.is_empty() {
            return Err(DtlsError::NoSrtpProfile);
        }
        let deadline = now + config.handshake_timeout;
        let allows = |version| config.versions.contains(&version);
        let mut output = Output::default();
        // The library for 1.3 offers every profile that it knows, and a server would take one that
        // is not allowed.
        let allows_all = DimplEngine::PROFILES.iter().all(|known| config.srtp_profiles.contains(known));
        let engine: Box<dyn Engine> = match (allows(DtlsVersion::V1_2), allows(DtlsVersion::V1_3)) {
            (false, false) => return Err(DtlsError::NoVersion),
            (true, is_1_3) if !is_1_3 || !allows_all => {
                let profiles = config.srtp_profiles.clone();
                isolate(|| RtcDtlsEngine::start(config, DtlsRole::Client, &profiles, now, &mut output))?
            }
            _ => isolate(|| DimplEngine::start(config, DtlsRole::Client, now, &mut output))?,
        };
        let mut session = Self::with_state(State::Running(engine));
        session.output = output;
        session.deadline = Some(deadline);
        Ok(session)
    }

    fn with_state(state: State) -> Self {
        Self {
            state,
            output: Output::default(),
            keys: None,
            closed: false,
            deadline: None,
            budget: Budget::default(),
        }
    }

    /// Takes a datagram that begins like a DTLS record (RFC 7983 section 7).
    ///
    /// # Errors
    /// Any [`DtlsError`]; the session has then ended. Garbage, late and repeated datagrams are not
    /// errors.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) -> Result<(), DtlsError> {
        self.run(|session| {
            if session.deadline.is_some() || matches!(session.state, State::Listening(_)) {
                // An attacker who forges the peer's address must neither end its handshake nor cost
                // much: datagrams above the limit are dropped, and the time limit of the handshake
                // applies in any case.
                if !session.budget.take(now) {
                    return Ok(());
                }
            }
            match &mut session.state {
                State::Listening(listening) => {
                    let timeout = listening.0.handshake_timeout;
                    session.deadline.get_or_insert(now + timeout);
                    // A ClientHello that makes no sense is as good as none: a better one may come.
                    match listening.1.receive(datagram) {
                        Ok(Some(hello)) => session.answer(now, &hello),
                        Ok(None) | Err(_) => Ok(()),
                    }
                }
                State::Running(engine) => engine.handle_datagram(now, datagram, &mut session.output),
                State::Ended => Err(DtlsError::Ended),
            }
        })
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// As of [`Dtls::handle_datagram`], and [`DtlsError::Timeout`].
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), DtlsError> {
        self.run(|session| {
            if session.deadline.is_some_and(|deadline| deadline <= now) {
                return Err(DtlsError::Timeout);
            }
            match &mut session.state {
                State::Listening(_) => Ok(()),
                State::Running(engine) => engine.handle_timeout(now, &mut session.output),
                State::Ended => Err(DtlsError::Ended),
            }
        })
    }

    /// When to call [`Dtls::handle_timeout`], at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let engine = match &self.state {
            State::Running(engine) => engine.next_timeout(),
            State::Listening(_) => None,
            State::Ended => return None,
        };
        [self.deadline, engine].into_iter().flatten().min()
    }

    /// The next datagram to send, of at most about 1200 bytes.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        let datagram = self.output.datagrams.pop_front();
        if self.output.datagrams.is_empty() {
            // Nothing more is to be sent until the session ends.
            self.output.datagrams = VecDeque::new();
        }
        datagram
    }

    /// What has happened, each once.
    pub fn poll_event(&mut self) -> Option<DtlsEvent> {
        if let Some(keys) = self.keys.take() {
            return Some(DtlsEvent::Keys(keys));
        }
        std::mem::take(&mut self.closed).then_some(DtlsEvent::Closed)
    }

    /// Ends the session: says `close_notify` if there are keys to say it with.
    pub fn close(&mut self, now: Instant) {
        if let State::Running(engine) = &mut self.state {
            let output = &mut self.output;
            // Whatever goes wrong: the session ends here.
            let _ = isolate(|| {
                engine.close(now, output);
                Ok(())
            });
        }
        self.state = State::Ended;
        self.deadline = None;
    }

    /// The version agreed upon, once it is.
    pub fn version(&self) -> Option<DtlsVersion> {
        match &self.state {
            State::Running(engine) => engine.version(),
            State::Listening(_) | State::Ended => None,
        }
    }

    /// Does something that may end the session, and then takes what came of it.
    fn run(&mut self, action: impl FnOnce(&mut Self) -> Result<(), DtlsError>) -> Result<(), DtlsError> {
        if let Err(error) = isolate(|| action(self)) {
            self.state = State::Ended;
            self.deadline = None;
            self.keys = None;
            self.output.keys = None;
            return Err(error);
        }
        if let Some(keys) = self.output.keys.take() {
            self.keys = Some(keys);
            self.deadline = None;
        }
        if self.output.closed {
            self.closed = true;
            self.state = State::Ended;
            self.deadline = None;
        }
        Ok(())
    }

    /// Chooses the library for a ClientHello and hands over what came so far.
    fn answer(&mut self, now: Instant, hello: &ClientHello) -> Result<(), DtlsError> {
        let State::Listening(listening) = std::mem::replace(&mut self.state, State::Ended) else {
            return Ok(());
        };
        let (config, buffer) = *listening;
        if config.remote_fingerprints.is_empty() {
            return Err(DtlsError::NoFingerprint);
        }
        let (version, profile) = choose(&config, hello)?;
        let mut engine: Box<dyn Engine> = match version {
            DtlsVersion::V1_2 => {
                RtcDtlsEngine::start(config, DtlsRole::Server, &[profile], now, &mut self.output)?
            }
            DtlsVersion::V1_3 => DimplEngine::start(config, DtlsRole::Server, now, &mut self.output)?,
        };
        for datagram in buffer.into_datagrams() {
            engine.handle_datagram(now, &datagram, &mut self.output)?;
        }
        self.state = State::Running(engine);
        Ok(())
    }
}

impl SrtpKeys {
    /// From what `role` has exported (RFC 5764 section 4.2).
    pub(super) fn from_exported(
        profile: Profile,
        exported: &[u8],
        role: DtlsRole,
    ) -> Result<Self, DtlsError> {
        let (client, server) = MasterKey::from_dtls(profile, exported).map_err(|_| DtlsError::Internal)?;
        Ok(match role {
            DtlsRole::Client => Self { profile, inbound: server, outbound: client },
            DtlsRole::Server => Self { profile, inbound: client, outbound: server },
        })
    }
}

/// Version and SRTP profile for a client that offers this.
fn choose(config: &Config, hello: &ClientHello) -> Result<(DtlsVersion, Profile), DtlsError> {
    let common = |version| config.versions.contains(&version) && hello.offers(version);
    let (common_1_2, common_1_3) = (common(DtlsVersion::V1_2), common(DtlsVersion::V1_3));
    if !common_1_2 && !common_1_3 {
        return Err(DtlsError::NoVersion);
    }
    let best = hello.choose_profile(&config.srtp_profiles).ok_or(DtlsError::NoSrtpProfile)?;
    let of_1_3 = DimplEngine::profile_for(&hello.srtp_profiles);
    if common_1_3 && (of_1_3 == Some(best) || !common_1_2) {
        let profile = of_1_3.filter(|profile| config.srtp_profiles.contains(profile));
        return Ok((DtlsVersion::V1_3, profile.ok_or(DtlsError::NoSrtpProfile)?));
    }
    Ok((DtlsVersion::V1_2, best))
}

/// Runs code of a library: a panic becomes an error, and the session is given up with what it may
/// have left behind.
///
/// The libraries are fuzzed and no panic is known, but a panic would end thousands of other
/// sessions on the worker.
fn isolate<T>(action: impl FnOnce() -> Result<T, DtlsError>) -> Result<T, DtlsError> {
    catch_unwind(AssertUnwindSafe(action)).unwrap_or(Err(DtlsError::Internal))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dtls::{Certificate, Fingerprint, FingerprintHash};

    const GCM: Profile = Profile::AeadAes128Gcm;
    const CM: Profile = Profile::AesCm128HmacSha1_80;

    fn config() -> Config {
        let certificate = Arc::new(Certificate::generate().unwrap());
        Config::new(certificate, vec![Fingerprint::of(FingerprintHash::Sha256, b"")])
    }

    fn hello(offers_1_2: bool, offers_1_3: bool, srtp_profiles: &[Profile]) -> ClientHello {
        ClientHello { offers_1_2, offers_1_3, srtp_profiles: srtp_profiles.to_vec() }
    }

    #[test]
    fn the_server_chooses_the_profile_and_then_the_version() {
        use DtlsVersion::{V1_2, V1_3};
        let both = config();
        let cases = [
            (hello(true, true, &[GCM, CM]), Ok((V1_3, GCM))),
            (hello(true, true, &[CM, GCM]), Ok((V1_2, GCM))), // 1.3 would take the client's first
            (hello(false, true, &[CM, GCM]), Ok((V1_3, CM))), // nothing else is to be had
            (hello(true, true, &[Profile::AesCm128HmacSha1_32, GCM]), Ok((V1_3, GCM))),
            (hello(true, false, &[CM]), Ok((V1_2, CM))),
            (hello(true, true, &[]), Err(DtlsError::NoSrtpProfile)),
            (hello(true, false, &[Profile::AesCm128HmacSha1_32]), Err(DtlsError::NoSrtpProfile)),
            (hello(false, false, &[GCM]), Err(DtlsError::NoVersion)),
        ];
        for (hello, expected) in cases {
            assert_eq!(choose(&both, &hello), expected, "{hello:?}");
        }
        let only_1_2 = Config { versions: vec![V1_2], ..config() };
        assert_eq!(choose(&only_1_2, &hello(true, true, &[GCM])), Ok((V1_2, GCM)));
        assert_eq!(choose(&only_1_2, &hello(false, true, &[GCM])), Err(DtlsError::NoVersion));
        let only_gcm = Config { srtp_profiles: vec![GCM], ..config() };
        assert_eq!(choose(&only_gcm, &hello(false, true, &[CM, GCM])), Err(DtlsError::NoSrtpProfile));
    }

    #[test]
    fn a_client_without_anything_to_trust_or_offer_is_not_made() {
        // The only reading of a clock: a starting point for virtual time.
        #[expect(clippy::disallowed_methods, reason = "start of virtual time")]
        let now = Instant::now();
        let refused = |config| Dtls::client(config, now).err();
        assert_eq!(
            refused(Config { remote_fingerprints: vec![], ..config() }),
            Some(DtlsError::NoFingerprint)
        );
        assert_eq!(refused(Config { srtp_profiles: vec![], ..config() }), Some(DtlsError::NoSrtpProfile));
        assert_eq!(refused(Config { versions: vec![], ..config() }), Some(DtlsError::NoVersion));
        assert_eq!(refused(config()), None);
    }

    #[test]
    fn a_panic_inside_is_an_error_outside() {
        assert_eq!(isolate::<()>(|| panic!("on purpose, in a test")), Err(DtlsError::Internal));
    }
}
