//! What every part of a worker uses: clock, settings, registry, mailboxes, counters.
//!
//! A worker is made of subsystems (frames, packets, bridges), each a struct with tables of its own. Their
//! methods take `&mut self` and `&mut Context` and know nothing of each other. Where another subsystem has to
//! act, they return a value that says so, and the worker, which owns all of them, passes it on:
//!
//! ```text
//! self.packets.input(&mut self.ctx, &mut self.received);
//! self.carry_out_actions(); // of `packets.take_actions()`: a bridge gets a batch, a publication ends
//! ```
//!
//! Whatever needs several subsystems at once (a publication that begins or ends, a snapshot) is a method of
//! the worker.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::caches::Caches;
use crate::ids::{TableId, WorkerIndex};
use crate::mailbox::{Mailboxes, MessageBody, WorkerMessage};
use crate::net::{Clock, EventQueue};
use crate::registry::{Directory, Epoch, Lane, StreamId};
use crate::stats::load::LoadMeter;
use worker_api::auth::Policy;
use worker_api::live::{Current, Live};
use worker_api::rate::RateLimit;
use worker_api::settings::{AddressLimits, ApplicationSettings, WorkerSettings, settings_for};
use worker_api::snapshot::{SessionId, WorkerCounters};
use worker_api::{AddressSlot, AddressSlots};

/// Bytes read per call; also the most one connection may bring in before the others have their turn.
pub(crate) const READ_BYTES: usize = 256 << 10;
/// Ciphertext read per call; less than [`READ_BYTES`], so that the plaintext of it always fits there.
const CIPHER_BYTES: usize = 64 << 10;

/// Slots that the workers share.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    /// See [`Context::kept_connections`].
    pub(crate) kept_connections: AddressSlots,
    /// See [`Context::rtsp_pending`].
    pub(crate) rtsp_pending: AddressSlots,
    /// See [`Context::place_of`].
    pub(crate) of_address: OfAddress,
}

/// What one client address may have at a time, and open in a second.
#[derive(Debug, Clone)]
pub(crate) struct OfAddress {
    places: AddressSlots,
    rate: Arc<RateLimit>,
}

impl OfAddress {
    /// As these settings say.
    pub(crate) fn new(limits: AddressLimits) -> Self {
        let rate = Arc::new(RateLimit::new(limits.connects_per_second));
        Self { places: AddressSlots::new(usize::MAX, limits.places()), rate }
    }

    fn apply(&self, limits: AddressLimits) {
        self.places.set_limits(usize::MAX, limits.places());
        self.rate.set(limits.connects_per_second);
    }
}

/// An address has, or opens, as many connections as it may.
#[derive(Debug)]
pub(crate) struct TooManyOfAddress;

/// What every subsystem of a worker uses.
#[derive(Debug)]
pub(crate) struct Context {
    /// This worker.
    pub(crate) worker: WorkerIndex,
    pub(crate) settings: Arc<WorkerSettings>,
    pub(crate) policy: Arc<Policy>,
    /// Where newer ones of both come from.
    live: Arc<Live<Current>>,
    /// Of which version they are.
    version: u64,
    /// Slots of HTTP connections that stay open after an answer; shared with the control side.
    pub(crate) kept_connections: AddressSlots,
    /// Slots of connections by RTSP that neither play nor publish yet.
    pub(crate) rtsp_pending: AddressSlots,
    of_address: OfAddress,
    /// Who publishes which stream where; shared by all workers.
    pub(crate) directory: Arc<Directory>,
    /// Queues to and from the other workers.
    pub(crate) mailboxes: Mailboxes,
    /// Sockets of this worker.
    pub(crate) events: EventQueue,
    pub(crate) counters: WorkerCounters,
    pub(crate) load: LoadMeter,
    /// The time as of the beginning of this turn.
    pub(crate) now: Instant,
    /// The same in milliseconds since the worker began.
    pub(crate) now_ms: u64,
    /// When the worker stops at the latest. Set while it is draining: it accepts no new sessions then.
    pub(crate) draining_until: Option<u64>,
    /// What caches of key frames may be at present.
    pub(crate) caches: Caches,
    /// Scratch buffer for the input of one connection; its content is not needed after the call.
    pub(crate) read_buffer: Vec<u8>,
    /// The same for ciphertext.
    pub(crate) cipher_buffer: Vec<u8>,
    began: Instant,
    last_serial: u64,
}

impl Context {
    /// A context of a worker that begins now.
    pub(crate) fn new(
        worker: WorkerIndex,
        live: Arc<Live<Current>>,
        slots: Slots,
        directory: Arc<Directory>,
        mailboxes: Mailboxes,
        events: EventQueue,
    ) -> Self {
        // In this order, see `take_up_settings`.
        let version = live.version();
        let Current { settings, policy } = live.load();
        let cores = &settings.cores;
        let core = (!cores.is_empty()).then(|| cores[worker.index() % cores.len()]);
        let now = Clock::now();
        Self {
            worker,
            settings,
            policy,
            live,
            version,
            kept_connections: slots.kept_connections,
            rtsp_pending: slots.rtsp_pending,
            of_address: slots.of_address,
            directory,
            mailboxes,
            events,
            counters: WorkerCounters::default(),
            load: LoadMeter::new(core),
            now,
            now_ms: 0,
            draining_until: None,
            caches: Caches::default(),
            read_buffer: vec![0; READ_BYTES],
            cipher_buffer: vec![0; CIPHER_BYTES],
            began: now,
            last_serial: 0,
        }
    }

    /// Reads the clock: a turn begins or ends.
    pub(crate) fn read_clock(&mut self) {
        self.now = Clock::now();
        self.now_ms = self.now.duration_since(self.began).as_millis() as u64;
    }

    /// Whether settings and rules have been replaced since they were taken up.
    pub(crate) fn has_new_settings(&self) -> bool {
        self.live.version() != self.version
    }

    /// Takes them up.
    pub(crate) fn take_up_settings(&mut self) {
        // In this order: what is replaced in between is taken up again at the next turn.
        self.version = self.live.version();
        Current { settings: self.settings, policy: self.policy } = self.live.load();
        self.of_address.apply(self.settings.of_address);
    }

    /// A place among those of a client address, for one connection more. The workers share them.
    pub(crate) fn place_of(&self, address: IpAddr) -> Result<AddressSlot, TooManyOfAddress> {
        self.of_address.rate.take(address, self.now).map_err(|_| TooManyOfAddress)?;
        self.of_address.places.take(address).ok_or(TooManyOfAddress)
    }

    /// The same for one that another process has let in: however many come at once.
    pub(crate) fn place_of_resumed(&self, address: IpAddr) -> Result<AddressSlot, TooManyOfAddress> {
        self.of_address.places.take(address).ok_or(TooManyOfAddress)
    }

    /// When a session is to end that may last until this time since 1970.
    pub(crate) fn ends_at_ms(&self, until: Option<Duration>) -> Option<u64> {
        let left = until?.saturating_sub(Clock::since_1970());
        Some(self.now_ms.saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Settings of an application.
    pub(crate) fn settings_for(&self, app: &str) -> Arc<ApplicationSettings> {
        settings_for(&self.settings.applications, app)
    }

    /// Sessions of another process have ids up to this one.
    pub(crate) fn number_sessions_after(&mut self, serial: u64) {
        self.last_serial = self.last_serial.max(serial);
    }

    /// An id for a new session.
    pub(crate) fn next_session_id(&mut self) -> SessionId {
        self.last_serial += 1;
        SessionId::new(self.worker.index(), self.last_serial)
    }

    /// Sends another worker something about a publication that must arrive.
    pub(crate) fn send(
        &mut self,
        to: WorkerIndex,
        (stream, epoch, lane): (StreamId, Epoch, Lane),
        body: MessageBody,
    ) {
        self.mailboxes.send(to, WorkerMessage { stream, epoch, lane, body });
    }
}
