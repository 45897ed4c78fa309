//! Viewers of one stream under different ciphers: what is sent to those in counter mode gets its
//! tags together, and everyone has every packet, with packets sent again and reports in between.

#![expect(clippy::disallowed_methods, reason = "clients in real time of a server in real time")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::common::TIMEOUT;
use crate::common::rtc::{AUDIO_SSRC, Client, OPUS, Options, VIDEO_SSRC, VP8_RTX, vp8_frame};
use crate::common::server::Server;
use rtc::sdp::Direction;
use rtp::payload::MediaKind;
use rtp::rtcp::{Nack, NtpTime, Rtcp, SenderInfo, SenderReport, packets};
use rtp::rtx;
use rtp::sequence::SequenceUnwrapper;
use srtp::Profile;

const STREAM: &str = "live/ciphers";
/// More than are hashed side by side, so that some wait with others of their length and some do not.
const IN_COUNTER_MODE: usize = 19;
const BURSTS: u32 = 64;
/// Frames that come at once, a packet each.
const PER_BURST: u32 = 10;

struct Viewer {
    client: Client,
    sequence: SequenceUnwrapper,
    /// Frames that came, by their sequence numbers.
    frames: BTreeMap<u64, u32>,
    audio: BTreeSet<u32>,
    repaired: BTreeSet<u32>,
    reports: u32,
}

impl Viewer {
    fn open(server: &Server, profile: Profile) -> Self {
        let path = format!("/whep/{STREAM}");
        let mut client = Client::open(server, &path, Direction::Receive, &Options::default());
        client.set_srtp_profiles(Instant::now(), &[profile]);
        client.connect();
        let (frames, audio, repaired) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { client, sequence: SequenceUnwrapper::new(), frames, audio, repaired, reports: 0 }
    }

    /// Runs until `check` holds.
    fn until(&mut self, what: &str, mut check: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.client.turn();
            self.take();
            if check(self) {
                return;
            }
            assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
            self.client.wait(deadline);
        }
    }

    /// Takes what came, every byte of which is known.
    fn take(&mut self) {
        for packet in std::mem::take(&mut self.client.media) {
            let packet = rtp::Packet::parse(&packet).expect("RTP");
            let is_repair = packet.payload_type() == VP8_RTX;
            let (sequence, payload) = match packet.payload() {
                resent if is_repair => rtx::unwrap(resent).expect("a retransmission"),
                payload => (packet.sequence_number(), payload),
            };
            if packet.payload_type() == OPUS {
                self.audio.insert(u32::from_be_bytes(*payload[4..].first_chunk().expect("a number")));
                continue;
            }
            let head = if payload[1] & 1 == 0 { 11 } else { 4 };
            let number = u32::from_be_bytes(*payload[head..].first_chunk().expect("a number"));
            assert!(payload == frame(number), "frame {number} as it was sent");
            if is_repair {
                self.repaired.insert(number);
            } else {
                self.frames.insert(self.sequence.unwrap(sequence), number);
            }
        }
        for compound in std::mem::take(&mut self.client.reports) {
            let is_report = |packet: &Rtcp<'_>| matches!(packet, Rtcp::SenderReport(_));
            self.reports += packets(&compound).flatten().filter(is_report).count() as u32;
        }
    }

    /// Asks for frames again, although they came.
    fn ask_again(&mut self, wanted: &[u32]) {
        let lost: Vec<u16> = self
            .frames
            .iter()
            .filter(|(_, frame)| wanted.contains(frame))
            .map(|(sequence, _)| *sequence as u16)
            .collect();
        let mut compound = Vec::new();
        Nack::write(&mut compound, 1, self.client.source(MediaKind::Video).ssrc, &lost);
        self.client.send_rtcp(&compound);
    }
}

fn is_key(number: u32) -> bool {
    number.is_multiple_of(100)
}

/// Frames of one length after each other, then of many.
fn len_of(number: u32) -> usize {
    if number % 20 < 10 { 1100 } else { 20 + number as usize * 37 % 1000 }
}

fn frame(number: u32) -> Vec<u8> {
    vp8_frame(number, is_key(number), len_of(number))
}

fn send_reports(publisher: &mut Client) {
    for (ssrc, rtp_timestamp) in [(AUDIO_SSRC, 960), (VIDEO_SSRC, 3000)] {
        let ntp = NtpTime(0x0123_4567_89ab_cdef);
        let info = SenderInfo { ntp, rtp_timestamp, packets: 1, payload_bytes: 1 };
        let mut compound = Vec::new();
        SenderReport::write(&mut compound, ssrc, &info, &[]);
        publisher.send_rtcp(&compound);
    }
}

#[test]
fn viewers_in_counter_mode_and_with_gcm_get_the_same() {
    let mut server = Server::start("");
    let mut publisher = Client::publish(&server, STREAM);
    let counter_mode = [Profile::AesCm128HmacSha1_80; IN_COUNTER_MODE];
    let profiles = [&[Profile::AeadAes128Gcm][..], &counter_mode, &[Profile::AeadAes256Gcm]].concat();
    let mut viewers: Vec<Viewer> =
        profiles.into_iter().map(|profile| Viewer::open(&server, profile)).collect();
    // Until all are viewers.
    let mut audio = 0;
    for viewer in &mut viewers {
        viewer.until("audio", |viewer| {
            publisher.turn();
            publisher.send_audio(audio);
            audio += 1;
            !viewer.audio.is_empty()
        });
    }
    let mut asked = BTreeSet::new();
    for burst in 0..BURSTS {
        publisher.turn();
        if burst % 16 == 0 {
            send_reports(&mut publisher);
        }
        let frames = burst * PER_BURST..(burst + 1) * PER_BURST;
        for number in frames.clone() {
            publisher.send_video(number, is_key(number), len_of(number));
        }
        publisher.send_audio(audio);
        for viewer in &mut viewers {
            viewer.until("all of the burst", |viewer| {
                viewer.frames.len() as u32 == frames.end && viewer.audio.contains(&audio)
            });
        }
        audio += 1;
        if burst % 8 == 7 {
            // Answered while the next burst is sent.
            let wanted = [frames.end - 1, frames.end - 7];
            asked.extend(wanted);
            viewers.iter_mut().for_each(|viewer| viewer.ask_again(&wanted));
        }
    }
    for viewer in &mut viewers {
        viewer.until("what it asked for, and a report", |viewer| {
            publisher.turn();
            viewer.repaired == asked && viewer.reports > 0
        });
        assert!(viewer.frames.values().copied().eq(0..BURSTS * PER_BURST), "each under the next number");
        assert_eq!(viewer.client.bad, 0, "every packet is authentic");
    }
    server.assert_healthy();
}
