//! One encoding of a publisher: an SSRC of media and that of its retransmissions, that is, one
//! layer of a track.

use std::time::{Duration, Instant};

use rtp::extension::{Extension, FrameDependencies, Indication};
use rtp::payload::PictureSizes;

use super::clock::NtpRtpMapping;
use super::demand::Answers;
use super::dependencies::Dependencies;
use super::feedback::KeyFrameRequests;
use super::nack::NackList;
use super::reception::{Rate, Reception};

/// State of one encoding.
#[derive(Debug)]
pub(crate) struct Encoding {
    /// SSRC of the media, once known.
    pub(crate) ssrc: Option<u32>,
    /// SSRC of the retransmissions, once known.
    pub(crate) repair_ssrc: Option<u32>,
    /// By its name: the larger, the more bits per second, as far as names say.
    pub(crate) rank: u8,
    /// Counts up when its numbering restarts.
    pub(crate) generation: u32,
    pub(crate) reception: Reception,
    pub(crate) nacks: NackList,
    pub(crate) key_frames: KeyFrameRequests,
    pub(crate) answers: Answers,
    /// The newest sender report, with its NTP time by our clock.
    pub(crate) sender_report: Option<NtpRtpMapping>,
    pub(crate) first_arrival: Option<Instant>,
    pub(crate) last_arrival: Option<Instant>,
    pub(crate) rate: Rate,
    /// Another node says how many bits per second it has, and its layers: not what arrives here.
    pub(crate) is_reported: bool,
    /// Of its pictures, by the newest key frame that has them.
    pub(crate) sizes: PictureSizes,
    /// Of an encoding that has layers inside.
    pub(crate) layers: Option<Box<LayerRates>>,
    /// Of an encoding with dependency descriptors.
    pub(crate) dependencies: Option<Box<Dependencies>>,
}

/// What arrives of each layer inside an encoding.
#[derive(Debug, Clone, Default)]
pub(crate) struct LayerRates {
    /// By spatial and temporal layer; with decode targets, all that one of these layers takes.
    rates: [[Rate; INNER_LAYERS_MAX]; INNER_LAYERS_MAX],
    /// The highest spatial and temporal layer there has been.
    pub(crate) highest: (u8, u8),
    has_targets: bool,
}

impl LayerRates {
    /// As another node says them: with these as the highest.
    pub(crate) fn reported(highest: (u8, u8)) -> Self {
        Self { highest, has_targets: true, ..Self::default() }
    }

    /// Bits per second of this layer and all below.
    pub(crate) fn set_up_to(&mut self, (spatial, temporal): (u8, u8), bits_per_second: u64) {
        self.rates[usize::from(spatial)][usize::from(temporal)].bits_per_second = bits_per_second;
    }

    /// Bits per second of these layers and all below.
    pub(crate) fn up_to(&self, spatial: u8, temporal: u8) -> u64 {
        if self.has_targets {
            let highest = INNER_LAYERS_MAX as u8 - 1;
            let (spatial, temporal) = (spatial.min(highest), temporal.min(highest));
            return self.rates[usize::from(spatial)][usize::from(temporal)].bits_per_second;
        }
        let rows = self.rates.iter().take(usize::from(spatial) + 1);
        rows.flat_map(|row| row.iter().take(usize::from(temporal) + 1)).map(|rate| rate.bits_per_second).sum()
    }
}

impl Encoding {
    pub(crate) fn new(ssrc: Option<u32>, repair_ssrc: Option<u32>, rank: u8) -> Self {
        Self {
            ssrc,
            repair_ssrc,
            rank,
            generation: 0,
            reception: Reception::new(),
            nacks: NackList::default(),
            key_frames: KeyFrameRequests::default(),
            answers: Answers::default(),
            sender_report: None,
            first_arrival: None,
            last_arrival: None,
            rate: Rate::default(),
            is_reported: false,
            sizes: PictureSizes::default(),
            layers: None,
            dependencies: None,
        }
    }

    /// Another SSRC replaces this one: what was received before does not apply to it.
    pub(crate) fn replace(&mut self, ssrc: u32) {
        let key_frames = std::mem::take(&mut self.key_frames);
        *self =
            Self { key_frames, generation: self.generation + 1, ..Self::new(Some(ssrc), None, self.rank) };
    }

    /// Its numbers are unrelated to those before, or too many between them are missing: a decoder
    /// needs a key frame.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.generation += 1;
        self.nacks.clear();
        self.dependencies = None;
        self.key_frames.want(now);
    }

    /// Reads the dependency descriptor among the extensions of a packet, if there is one.
    pub(crate) fn read_descriptor<'a>(
        &mut self,
        mut extensions: impl Iterator<Item = (Extension, &'a [u8])>,
    ) -> Option<FrameDependencies> {
        let (_, data) = extensions.find(|(extension, _)| *extension == Extension::DependencyDescriptor)?;
        self.dependencies.get_or_insert_with(|| Box::new(Dependencies::new())).read(data)
    }

    /// Counts a packet of an encoding that has decode targets, for each that has its frame.
    #[cold]
    pub(crate) fn arrived_in_targets(&mut self, now: Instant, frame: &FrameDependencies, bytes: usize) {
        let Some(dependencies) = self.dependencies.as_ref().filter(|_| !self.is_reported) else { return };
        let layers = self.layers.get_or_insert_default();
        if !layers.has_targets {
            **layers = LayerRates { has_targets: true, ..LayerRates::default() };
        }
        let top = INNER_LAYERS_MAX as u8 - 1;
        let mut highest = (0, 0);
        for (target, layer) in dependencies.active_layers() {
            let (spatial, temporal) = (layer.spatial.min(top), layer.temporal.min(top));
            highest = (highest.0.max(spatial), highest.1.max(temporal));
            if frame.indication(target) != Indication::NotPresent {
                layers.rates[usize::from(spatial)][usize::from(temporal)].add(now, bytes);
            }
        }
        layers.highest = highest;
    }

    /// Counts a packet of media or padding.
    pub(crate) fn arrived(&mut self, now: Instant, bytes: usize) {
        self.first_arrival.get_or_insert(now);
        self.last_arrival = Some(now);
        if !self.is_reported {
            self.rate.add(now, bytes);
        }
    }

    /// Counts a packet of one of the layers inside. For encodings that have more than one.
    #[cold]
    pub(crate) fn arrived_in_layer(&mut self, now: Instant, (spatial, temporal): (u8, u8), bytes: usize) {
        if self.is_reported {
            return;
        }
        let layers = self.layers.get_or_insert_default();
        let highest = INNER_LAYERS_MAX as u8 - 1;
        let (spatial, temporal) = (spatial.min(highest), temporal.min(highest));
        layers.highest = (layers.highest.0.max(spatial), layers.highest.1.max(temporal));
        layers.rates[usize::from(spatial)][usize::from(temporal)].add(now, bytes);
    }

    /// The highest spatial and temporal layer inside.
    pub(crate) fn highest_layers(&self) -> (u8, u8) {
        self.layers.as_ref().map_or((0, 0), |layers| layers.highest)
    }

    /// When the newest report says that `timestamp` was captured.
    pub(crate) fn reported_instant(&self, timestamp: u32, clock_rate: u32) -> Option<Instant> {
        let NtpRtpMapping { at, timestamp: reported } = self.sender_report?;
        let units = timestamp.wrapping_sub(reported).cast_signed();
        let nanos = u64::from(units.unsigned_abs()) * 1_000_000_000 / u64::from(clock_rate.max(1));
        let distance = Duration::from_nanos(nanos);
        if units < 0 { at.checked_sub(distance) } else { at.checked_add(distance) }
    }

    /// Whether something has arrived lately.
    pub(crate) fn is_live(&self, now: Instant) -> bool {
        self.last_arrival.is_some_and(|last| now.saturating_duration_since(last) < SILENT_AFTER)
    }

    /// Payload bits per second over the last whole second; a guess from its beginning in the first.
    pub(crate) fn bits_per_second(&self) -> u64 {
        self.rate.bits_per_second
    }
}

/// Spatial, and temporal, layers inside an encoding that are distinguished. Those above count as the highest.
pub(crate) const INNER_LAYERS_MAX: usize = 4;

/// A layer of which nothing arrives for this long has been switched off by its sender. Encoders at
/// five frames a second are slower than anything used for simulcast.
pub(crate) const SILENT_AFTER: Duration = Duration::from_millis(700);
