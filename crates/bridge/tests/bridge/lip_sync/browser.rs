//! A viewer that plays audio and video by its sender reports, as browsers do.

use rtp::rtcp::{Rtcp, packets};

use crate::lip_sync::world::{AUDIO_SSRC, VIDEO_SSRC};

/// What the viewer knows of one track.
#[derive(Default)]
pub(crate) struct Track {
    /// Newest report: NTP time in microseconds, and timestamp.
    report: Option<(i64, u32)>,
    /// Newest packet: sequence number and timestamp.
    newest: Option<(u16, u32)>,
    /// When the newest piece that counts was captured, and its timestamp.
    played: Option<(i64, u32)>,
    pub(crate) pieces: u64,
    pub(crate) reports: u64,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Browser {
    /// Audio and video.
    pub(crate) tracks: [Track; 2],
    /// Furthest apart since this was last asked, in microseconds.
    apart_us: i64,
    /// Largest step between timestamps of video since it was last asked, in units.
    step: u32,
}

impl Browser {
    /// A packet came that has the piece captured at `captured_us`, or none that counts.
    pub(crate) fn packet(&mut self, packet: &rtp::Packet<'_>, captured_us: Option<i64>) {
        let which = usize::from(packet.ssrc() == VIDEO_SSRC);
        let track = &mut self.tracks[which];
        let here = (packet.sequence_number(), packet.timestamp());
        if let Some((number, timestamp)) = track.newest.replace(here) {
            assert_eq!(here.0, number.wrapping_add(1), "a packet is missing");
            let step = here.1.wrapping_sub(timestamp);
            assert!((1..1 << 31).contains(&step), "timestamps rise, from {timestamp} to {}", here.1);
            if which == 1 {
                self.step = self.step.max(step);
            }
        }
        track.pieces += 1;
        track.played = captured_us.map(|captured_us| (captured_us, here.1)).or(track.played);
        if let [Some(audio_us), Some(video_us)] = [0, 1].map(|which| self.delay_us(which))
            && let [Some(audio), Some(video)] = self.tracks.each_ref().map(|track| track.played)
            && (audio.0 - video.0).abs() < 1_000_000
        {
            self.apart_us = self.apart_us.max((audio_us - video_us).abs());
        }
    }

    pub(crate) fn rtcp(&mut self, compound: &[u8]) {
        for packet in packets(compound) {
            if let Rtcp::SenderReport(report) = packet.expect("it can be read") {
                assert!([AUDIO_SSRC, VIDEO_SSRC].contains(&report.ssrc));
                let track = &mut self.tracks[usize::from(report.ssrc == VIDEO_SSRC)];
                let ntp_us = ((u128::from(report.info.ntp.0) * 1_000_000) >> 32) as i64;
                track.report = Some((ntp_us, report.info.rtp_timestamp));
                track.reports += 1;
            }
        }
    }

    /// Furthest audio and video were apart since the last call, in milliseconds, rounded up.
    pub(crate) fn apart_ms(&mut self) -> i64 {
        (std::mem::take(&mut self.apart_us) + 999) / 1_000
    }

    /// Largest step of video timestamps since the last call, in milliseconds.
    pub(crate) fn step_ms(&mut self) -> u32 {
        std::mem::take(&mut self.step) / 90
    }

    /// How much later than captured the newest piece of a kind is to be played, by the reports;
    /// microseconds of wall time.
    pub(crate) fn delay_us(&self, which: usize) -> Option<i64> {
        let track = &self.tracks[which];
        let ((captured_us, timestamp), (ntp_us, reported)) = (track.played?, track.report?);
        let units = i64::from(timestamp.wrapping_sub(reported).cast_signed());
        Some(ntp_us + units * 1_000_000 / RATES[which] - captured_us)
    }
}

/// Units of timestamps in a second, of audio and video.
const RATES: [i64; 2] = [48_000, 90_000];
