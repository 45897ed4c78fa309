//! Decoded audio with timestamps to blocks of a fixed number of samples at 48 kHz, each with its exact time.
//!
//! Blocks follow one another without a gap as long as the input's timestamps do, whatever these are
//! rounded to: the resampler's ratio follows them (see `lock.rs`), holes of up to a second are
//! filled with silence and overlaps left out, and a larger jump starts over. Knows nothing of
//! codecs.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Adjustable as _, Async, FixedAsync, Resampler as _, SincInterpolationParameters, WindowFunction,
};

use crate::lock::{Correction, Lock};

/// Samples per second of the blocks: the clock rate of Opus (RFC 7587 §4.1).
pub(crate) const RATE_OUT: u32 = 48_000;
/// Input samples on which an output sample depends: half of them are delay, 0.7 ms at 44.1 kHz.
/// With this window the edge is at 0.92 of half the rate, 20 kHz at 44.1 kHz; twice the length made
/// the whole transcoding a quarter dearer.
const SINC_LENGTH: usize = 64;
/// Phases of the filter that are computed beforehand, between which is interpolated: 16 kB, which
/// stay in the first cache.
const SINC_PHASES: usize = 64;
/// How many samples of input after the one that the next output sample shows the resampler has had.
const DELAY_SAMPLES: f64 = SINC_LENGTH as f64 / 2.0 + 0.5;
/// Over how much audio a seam is faded.
const FADE_SECONDS: f64 = 0.002;

/// Audio at the output rate, kept in step with the timestamps of the input.
pub(crate) struct Aligned {
    rate: u32,
    channels: usize,
    block: usize,
    resampler: Async<f32>,
    lock: Lock,
    /// Samples that wait for the resampler, interleaved.
    waiting: Vec<f32>,
    /// Samples (of each channel) still to be left out.
    skip: usize,
    /// What comes next does not continue what came before.
    seam: bool,
    /// The last sample of each channel.
    last: [f32; 2],
    timeline: Option<Timeline>,
    out: Vec<f32>,
}

/// Times of the blocks since the last beginning.
struct Timeline {
    origin_us: i64,
    /// Blocks handed out.
    blocks: i64,
    /// Timestamp of the piece before.
    last_pts_us: i64,
}

impl Aligned {
    /// For input of `rate` samples per second (7,350 to 96,000) in `channels` (1 or 2), handed out
    /// in blocks of `block` samples. `None` if there is no resampler for this.
    pub(crate) fn new(rate: u32, channels: usize, block: usize) -> Option<Self> {
        let parameters = SincInterpolationParameters::new(SINC_LENGTH, WindowFunction::Hann2)
            .oversampling_factor(SINC_PHASES);
        let ratio = f64::from(RATE_OUT) / f64::from(rate);
        let resampler =
            Async::new_sinc(ratio, 1.01, &parameters, block, channels, FixedAsync::Output).ok()?;
        Some(Self {
            rate,
            channels,
            block,
            resampler,
            lock: Lock::default(),
            waiting: Vec::new(),
            skip: 0,
            seam: true,
            last: [0.0; 2],
            timeline: None,
            out: vec![0.0; block * channels],
        })
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Takes interleaved samples, the first of which is due at `pts_us`, and gives finished blocks
    /// with the time of their first sample in microseconds.
    pub(crate) fn push(&mut self, pts_us: i64, samples: &[f32], mut block: impl FnMut(i64, &[f32])) {
        self.correct(pts_us);
        let skipped = (self.skip * self.channels).min(samples.len());
        self.skip -= skipped / self.channels;
        self.append(&samples[skipped..]);
        while self.waiting.len() >= self.resampler.input_frames_next() * self.channels {
            let Some(time_us) = self.next_block() else { return };
            block(time_us, &self.out);
        }
    }

    /// A piece of this many samples is known to be lost: silence is put in its place.
    pub(crate) fn lost(&mut self, samples: usize) {
        if self.timeline.is_some() {
            self.append_silence(samples.min(self.rate as usize));
        }
    }

    /// Compares `pts_us` with the time that samples appended now would be due at, and does what the
    /// lock says.
    fn correct(&mut self, pts_us: i64) {
        let Some(timeline) = &mut self.timeline else { return self.begin(pts_us) };
        let elapsed = pts_us.saturating_sub(timeline.last_pts_us).clamp(0, 1_000_000) as f64 / 1e6;
        timeline.last_pts_us = pts_us;
        let next_us = timeline.time_us(self.block);
        let ahead = (self.waiting.len() / self.channels) as f64 + DELAY_SAMPLES - self.skip as f64;
        let error = pts_us.saturating_sub(next_us) as f64 / 1e6 - ahead / f64::from(self.rate);
        match self.lock.update(error, elapsed) {
            Correction::Speed(relative) => {
                // Refused only outside 1 % of the nominal ratio, which the lock never asks for.
                let _ = self.resampler.set_resample_ratio_relative(relative, true);
            }
            Correction::Step(seconds) => {
                let samples = (seconds.abs() * f64::from(self.rate)) as usize;
                if seconds > 0.0 {
                    self.append_silence(samples);
                } else {
                    self.skip += samples;
                    self.seam = true;
                }
            }
            Correction::Restart => self.begin(pts_us),
        }
    }

    /// Forgets what is waiting; the next sample is due at `pts_us`.
    fn begin(&mut self, pts_us: i64) {
        self.resampler.reset();
        self.lock = Lock::default();
        self.waiting.clear();
        self.skip = 0;
        // What follows rises from the silence in the resampler.
        (self.last, self.seam) = ([0.0; 2], true);
        let delay_us = (DELAY_SAMPLES * 1e6 / f64::from(self.rate)) as i64;
        self.timeline =
            Some(Timeline { origin_us: pts_us.saturating_sub(delay_us), blocks: 0, last_pts_us: pts_us });
    }

    fn append_silence(&mut self, samples: usize) {
        self.seam = true;
        let silence = vec![0.0; samples * self.channels];
        self.append(&silence);
        self.seam = true;
    }

    /// Appends samples. At a seam, the difference between the sides is faded out, so that there is no click.
    fn append(&mut self, samples: &[f32]) {
        let start = self.waiting.len();
        self.waiting.extend_from_slice(samples);
        if self.seam && !samples.is_empty() {
            let fade = (f64::from(self.rate) * FADE_SECONDS) as usize;
            for (channel, first) in samples[..self.channels].iter().enumerate() {
                let difference = self.last[channel] - first;
                let after = self.waiting[start + channel..].iter_mut().step_by(self.channels);
                for (index, sample) in after.take(fade).enumerate() {
                    *sample += difference * (1.0 - index as f32 / fade as f32);
                }
            }
            self.seam = false;
        }
        if self.waiting.len() > start {
            let last = self.waiting.len() - self.channels;
            self.last[..self.channels].copy_from_slice(&self.waiting[last..]);
        }
    }

    /// Resamples into `out` and tells the time of its first sample.
    fn next_block(&mut self) -> Option<i64> {
        let timeline = self.timeline.as_mut()?;
        let time_us = timeline.time_us(self.block);
        let input =
            InterleavedSlice::new(&self.waiting, self.channels, self.waiting.len() / self.channels).ok()?;
        let mut output = InterleavedSlice::new_mut(&mut self.out, self.channels, self.block).ok()?;
        let (taken, _) = self.resampler.process_into_buffer(&input, &mut output, None).ok()?;
        self.waiting.drain(..taken * self.channels);
        timeline.blocks += 1;
        Some(time_us)
    }
}

impl Timeline {
    /// When the next block is due.
    fn time_us(&self, block: usize) -> i64 {
        let samples = self.blocks.saturating_mul(block as i64);
        // Exact over any length: whole seconds first.
        let rate = i64::from(RATE_OUT);
        self.origin_us.saturating_add(samples / rate * 1_000_000 + samples % rate * 1_000_000 / rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 16_000;
    const PIECE: usize = 1_024;

    /// Mono blocks of 20 ms, put where their times say.
    struct Output {
        aligned: Aligned,
        blocks: Vec<(i64, Vec<f32>)>,
    }

    impl Output {
        fn new() -> Self {
            Self { aligned: Aligned::new(RATE, 1, 960).unwrap(), blocks: Vec::new() }
        }

        fn push(&mut self, pts_us: i64, samples: &[f32]) {
            self.aligned.push(pts_us, samples, |time_us, block| self.blocks.push((time_us, block.to_vec())));
        }

        /// Times of samples above a half that are louder than their neighbours.
        fn clicks_us(&self) -> Vec<i64> {
            let mut clicks = Vec::new();
            for (time_us, block) in &self.blocks {
                for (index, around) in block.windows(3).enumerate() {
                    if around[1] > 0.4 && around[1] >= around[0] && around[1] > around[2] {
                        clicks.push(time_us + (index as i64 + 1) * 1_000_000 / 48_000);
                    }
                }
            }
            clicks
        }

        fn gaps_us(&self) -> Vec<i64> {
            self.blocks.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
        }
    }

    /// Piece `index` of silence with a click in every tenth.
    fn piece(index: usize) -> Vec<f32> {
        let mut samples = vec![0.0; PIECE];
        if index % 10 == 5 {
            samples[PIECE / 2 - 1..=PIECE / 2 + 1].copy_from_slice(&[0.5, 1.0, 0.5]);
        }
        samples
    }

    fn pts_us(index: usize, drift: f64) -> i64 {
        (index as f64 * PIECE as f64 / f64::from(RATE) * (1.0 + drift) * 1e3).round() as i64 * 1_000
    }

    fn click_us(index: usize, drift: f64) -> f64 {
        (index as f64 + 0.5) * PIECE as f64 / f64::from(RATE) * (1.0 + drift) * 1e6
    }

    #[test]
    fn a_drifting_clock_moves_no_click_and_leaves_no_gap() {
        for drift in [300e-6, -300e-6] {
            let mut output = Output::new();
            (0..250).for_each(|index| output.push(pts_us(index, drift), &piece(index)));
            assert!(output.gaps_us().iter().all(|gap| *gap == 20_000));
            let clicks = output.clicks_us();
            assert!(clicks.len() >= 22, "{}", clicks.len());
            // Found clicks are a subset, since one at the edge of a block is not looked for.
            for click in clicks {
                let nearest = (0..25).map(|tenth| (click as f64 - click_us(tenth * 10 + 5, drift)).abs());
                let error = nearest.fold(f64::MAX, f64::min);
                // 300 ppm, three times what clocks may be off, on the way: `drift / (e * LOOP_RATE)`.
                assert!(error < 2_800.0, "{error} us at {click}");
            }
        }
    }

    #[test]
    fn a_hole_is_filled_with_silence_and_an_overlap_left_out() {
        for shift_us in [250_000, -250_000] {
            let mut output = Output::new();
            (0..20).for_each(|index| output.push(pts_us(index, 0.0), &piece(index)));
            (20..60).for_each(|index| output.push(pts_us(index, 0.0) + shift_us, &piece(index)));
            assert!(output.gaps_us().iter().all(|gap| *gap == 20_000));
            let clicks = output.clicks_us();
            for tenth in [3, 4, 5] {
                let expected = click_us(tenth * 10 + 5, 0.0) as i64 + shift_us;
                let error = clicks.iter().map(|click| (click - expected).abs()).min().unwrap();
                assert!(error < 1_500, "{error} us");
            }
        }
    }

    #[test]
    fn a_jump_begins_anew_at_its_time() {
        for shift_us in [3_600_000_000, -500_000_000] {
            let begin_us = 1_000_000_000;
            let mut output = Output::new();
            (0..20).for_each(|index| output.push(begin_us + pts_us(index, 0.0), &piece(index)));
            let before = output.blocks.len();
            (20..40).for_each(|index| output.push(begin_us + pts_us(index, 0.0) + shift_us, &piece(index)));
            let first_us = output.blocks[before].0;
            let expected_us = begin_us + pts_us(20, 0.0) + shift_us;
            assert!((first_us - expected_us).abs() < 10_000, "{first_us} for {expected_us}");
            let jumps = output.gaps_us().iter().filter(|gap| **gap != 20_000).count();
            assert_eq!(jumps, 1);
        }
    }

    #[test]
    fn a_lost_piece_leaves_the_next_where_it_belongs() {
        let mut output = Output::new();
        for index in 0..30 {
            if index == 12 {
                output.aligned.lost(PIECE);
            } else {
                output.push(pts_us(index, 0.0), &piece(index));
            }
        }
        let error = output
            .clicks_us()
            .iter()
            .map(|click| (*click as f64 - click_us(15, 0.0)).abs())
            .fold(f64::MAX, f64::min);
        assert!(error < 1_500.0, "{error}");
    }

    #[test]
    fn a_seam_makes_no_click() {
        let mut output = Output::new();
        // A tone, cut at its loudest, and on after a hole.
        let tone = |from: usize| -> Vec<f32> {
            (from..from + PIECE).map(|index| 0.8 * (index as f32 * 0.05).cos()).collect()
        };
        for index in 0..20 {
            let hole_us = if index < 10 { 0 } else { 250_000 };
            output.push(pts_us(index, 0.0) + hole_us, &tone(index * PIECE));
        }
        let samples: Vec<f32> = output.blocks.iter().flat_map(|(_, block)| block.clone()).collect();
        // The tone itself moves by less than 0.8 * 0.05 / 3 a sample, a seam in 2 ms by less than
        // the same again.
        let steepest = samples.windows(2).skip(200).map(|pair| (pair[1] - pair[0]).abs()).fold(0.0, f32::max);
        assert!(steepest < 0.03, "{steepest}");
    }
}
