//! A publisher's packets: what the server has lost is sent again from a bounded history, and what
//! is not carried is said.
#![expect(clippy::disallowed_methods, reason = "a first instant, which only differences are taken of")]

use std::time::{Duration, Instant};

use media::{Codec, CodedAudio, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use rtc::sdp::{OfferMedia, TrackDescription};
use rtc_client::{Identity, NotSent, Outgoing, Receiver, Sender, formats, sent};
use rtp::rtcp::{Nack, NtpTime, Pli, Rtcp, packets};
use sfu::WallClock;

fn frame(track: TrackId, role: FrameRole, codec: Codec, ms: i64, data: &[u8]) -> Frame {
    let time = Timestamp::from_millis(ms);
    Frame::new(track, role, codec, (time, time), data.to_vec())
}

/// A key frame of VP8 of 320 by 240 (RFC 6386 section 9.1), of several packets.
fn picture(ms: i64) -> Frame {
    let mut data = vec![0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00];
    data.resize(3_000, 7);
    frame(TrackId::VIDEO, FrameRole::Key, Codec::Vp8, ms, &data)
}

fn sound(ms: i64) -> Frame {
    frame(TrackId::AUDIO, FrameRole::Audio, Codec::Opus, ms, &[0xf8, 1, 2, 3])
}

/// What a server agrees to that takes everything, or without RTX.
fn agreed(media: &[OfferMedia], with_rtx: bool) -> Vec<Option<TrackDescription>> {
    let agreed = |media: &OfferMedia| {
        let mut formats = media.formats.clone();
        formats.iter_mut().filter(|_| !with_rtx).for_each(|format| format.rtx_payload_type = None);
        Some(TrackDescription {
            mid: media.mid.clone(),
            kind: media.kind,
            formats,
            extensions: media.extensions,
            sources: media.sources.clone(),
            extmap_allow_mixed: true,
            rids: Vec::new(),
            red: None,
            fec: None,
        })
    };
    media.iter().map(agreed).collect()
}

/// A sender of a stream that begins with these frames.
fn sender(begin: &[Frame], with_rtx: bool) -> (Sender, Instant, u32) {
    let now = Instant::now();
    let identity = Identity::generate().expect("random bytes");
    let media = sent(&formats(begin), &identity);
    let clock = WallClock { at: now, ntp: NtpTime(1 << 60) };
    let tracks = agreed(&media, with_rtx);
    (Sender::new(now, clock, &identity, &media, &tracks), now, identity.ssrc(2))
}

fn taken(sender: &mut Sender) -> Vec<Outgoing> {
    std::iter::from_fn(|| sender.poll_packet()).collect()
}

fn nack(ssrc: u32, lost: &[u16]) -> Vec<u8> {
    let mut compound = Vec::new();
    Nack::write(&mut compound, 1, ssrc, lost);
    compound
}

#[test]
fn what_is_lost_is_sent_again_by_rtx_or_as_it_was() {
    for with_rtx in [true, false] {
        let (mut sender, now, ssrc) = sender(&[picture(0), sound(0)], with_rtx);
        assert_eq!(sender.remembered().collect::<Vec<_>>(), if with_rtx { vec![] } else { vec![ssrc] });
        sender.frame(now, &picture(0)).expect("it is sent");
        let first = taken(&mut sender);
        let packet = |outgoing: &Outgoing| outgoing.bytes().to_vec();
        let lost = packet(&first[1]);
        let parsed = rtp::Packet::parse(&lost).expect("RTP");
        assert_eq!((parsed.ssrc(), first.len()), (ssrc, 3));
        let number = parsed.sequence_number();
        // Too soon, or none of its packets.
        sender.rtcp(now, &nack(ssrc, &[number]));
        sender.rtcp(now, &nack(ssrc ^ 1, &[number]));
        sender.rtcp(now, &nack(ssrc, &[number.wrapping_add(9), number.wrapping_sub(9)]));
        assert!(taken(&mut sender).is_empty());
        let later = now + Duration::from_millis(100);
        sender.rtcp(later, &nack(ssrc, &[number, number]));
        let again = taken(&mut sender);
        assert_eq!((again.len(), sender.stats().sent_again), (1, 1));
        match &again[0] {
            Outgoing::Rtp(bytes) => {
                let repair = rtp::Packet::parse(bytes).expect("RTP");
                assert!(with_rtx && repair.ssrc() != ssrc && repair.timestamp() == parsed.timestamp());
                assert_eq!(rtp::rtx::unwrap(repair.payload()), Some((number, parsed.payload())));
            }
            Outgoing::Again(bytes) => assert!(!with_rtx && *bytes == lost),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_history_is_bounded_and_numbers_may_wrap() {
    let (mut sender, mut now, ssrc) = sender(&[picture(0)], true);
    let mut numbers = Vec::new();
    for at in 0..30_000i64 {
        now += Duration::from_millis(40);
        sender.frame(now, &picture(at * 40)).expect("it is sent");
        for packet in taken(&mut sender) {
            numbers.push(rtp::Packet::parse(packet.bytes()).expect("RTP").sequence_number());
        }
    }
    assert!(numbers.len() > 65_536, "they have wrapped");
    now += Duration::from_secs(1);
    let mut is_answered = |number: u16| {
        sender.rtcp(now, &nack(ssrc, &[number]));
        !taken(&mut sender).is_empty()
    };
    assert!(is_answered(numbers[numbers.len() - 1]) && is_answered(numbers[numbers.len() - 1_000]));
    assert!(!is_answered(numbers[numbers.len() - 5_000]), "it is forgotten");
}

#[test]
fn reports_and_requests_are_counted_and_nonsense_is_passed_over() {
    let (mut sender, now, ssrc) = sender(&[picture(0), sound(0)], true);
    for at in 0..50i64 {
        let now = now + Duration::from_millis(at as u64 * 20);
        sender.frame(now, &picture(at * 20)).expect("it is sent");
        sender.frame(now, &sound(at * 20)).expect("it is sent");
        sender.poll(now);
    }
    let reports: Vec<_> = taken(&mut sender)
        .into_iter()
        .filter_map(|packet| if let Outgoing::Rtcp(bytes) = packet { Some(bytes) } else { None })
        .collect();
    assert!(!reports.is_empty());
    let of_both = packets(&reports[reports.len() - 1])
        .filter(|packet| matches!(packet, Ok(Rtcp::SenderReport(_))))
        .count();
    assert_eq!(of_both, 2);
    let mut pli = Vec::new();
    Pli { sender_ssrc: 1, media_ssrc: ssrc }.write(&mut pli);
    sender.rtcp(now, &pli);
    sender.rtcp(now, &[0x80, 206, 0, 9]);
    assert_eq!(sender.stats().key_frames_asked, 1);
    sender.end();
    let last = taken(&mut sender).pop().expect("a goodbye");
    assert!(packets(last.bytes()).any(|packet| matches!(packet, Ok(Rtcp::Bye(_)))));
}

#[test]
fn what_is_not_carried_is_said_and_what_changes_ends_the_session() {
    let (mut sender, now, _) = sender(&[picture(0)], true);
    let flac = frame(TrackId::AUDIO, FrameRole::Audio, Codec::Flac, 0, &[1; 40]);
    assert!(matches!(sender.frame(now, &flac), Err(NotSent::Track(reason)) if reason.contains("FLAC")));
    let second = TrackId { index: 1, ..TrackId::VIDEO };
    let second = frame(second, FrameRole::Key, Codec::Vp8, 0, picture(0).data());
    assert!(matches!(sender.frame(now, &second), Err(NotSent::Track(_))));
    let (mut sender, now, _) = self::sender(&[picture(0)], true);
    assert!(matches!(sender.frame(now, &sound(0)), Err(NotSent::Changed(_))), "it was not offered");
    let offered = formats(std::slice::from_ref(&flac));
    assert!(offered.audio.is_none() && offered.refused.is_some_and(|refused| refused.audio.is_some()));
    let identity = Identity::generate().expect("random bytes");
    let media = sent(&formats(&[picture(0), sound(0)]), &identity);
    let clock = WallClock { at: now, ntp: NtpTime(1) };
    let mut only_video = agreed(&media, true);
    only_video.iter_mut().for_each(|track| {
        if track.as_ref().is_some_and(|track| track.kind == MediaKind::Audio) {
            *track = None;
        }
    });
    let mut sender = Sender::new(now, clock, &identity, &media, &only_video);
    let refused = sender.frame(now, &sound(0));
    assert!(matches!(refused, Err(NotSent::Track(reason)) if reason.contains("does not take")));
    assert!(taken(&mut sender).is_empty());
}

/// What a stream has when the connection stands comes at once, and a transcoder takes its time with it.
#[test]
fn audio_that_leaves_the_transcoder_late_is_with_its_picture_from_its_first_packet() {
    const BACKLOG_MS: i64 = 500;
    const TRANSCODER_MS: i64 = 400;
    // LC with two channels at 48 kHz.
    let config = frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, 0, &[0x11, 0x90]);
    let aac = |ms| frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, ms, &[1; 100]);
    let numbered = |ms: i64| {
        let mut data = picture(ms).data().to_vec();
        data.extend_from_slice(&ms.to_be_bytes());
        frame(TrackId::VIDEO, FrameRole::Key, Codec::Vp8, ms, &data)
    };
    let now = Instant::now();
    let identity = Identity::generate().expect("random bytes");
    let media = sent(&formats(&[picture(0), config.clone(), aac(0)]), &identity);
    let clock = WallClock { at: now, ntp: NtpTime(1 << 60) };
    let tracks = agreed(&media, true);
    let mut sender = Sender::new(now, clock, &identity, &media, &tracks);
    let mut receiver = Receiver::new(now, clock, 7, &tracks);
    sender.frame(now, &config).expect("it is read");
    let (mut offsets, mut next_ms, mut next_audio_ms) = (Vec::new(), 0, 0);
    let mut count = [0; 2];
    for at_ms in 0..6_000 {
        let now = now + Duration::from_millis(at_ms as u64);
        while next_ms <= at_ms + BACKLOG_MS {
            if next_ms % 40 == 0 {
                sender.frame(now, &numbered(next_ms)).expect("it is sent");
            }
            sender.frame(now, &aac(next_ms)).expect("it is sent");
            next_ms += 20;
        }
        sender.take_audio();
        sender.poll(now);
        while next_audio_ms < next_ms && at_ms >= TRANSCODER_MS {
            let data = [&[0xf8][..], &next_audio_ms.to_be_bytes()].concat();
            sender.audio(now, &CodedAudio { pts_us: next_audio_ms * 1_000, format: None, data });
            next_audio_ms += 20;
        }
        for packet in taken(&mut sender) {
            match packet {
                Outgoing::Rtcp(compound) => assert!(!receiver.rtcp(now, &compound)),
                rtp => receiver.rtp(now, rtp.bytes()),
            }
        }
        receiver.poll(now, &mut Vec::new());
        while let Some(frame) = receiver.next_frame() {
            if let (FrameRole::Key | FrameRole::Audio, Some(ms)) = (frame.role, frame.data().last_chunk()) {
                offsets.push((frame.track.kind, frame.pts.millis() - i64::from_be_bytes(*ms)));
                count[usize::from(frame.track.kind == MediaKind::Audio)] += 1;
            }
        }
    }
    assert!(count[0] > 100 && count[1] > 200, "{count:?}");
    let most = offsets.iter().map(|(_, offset)| offset).max();
    let least = offsets.iter().map(|(_, offset)| offset).min();
    let off_ms = most.zip(least).map_or(0, |(most, least)| most - least);
    println!("of each other: {off_ms} ms");
    assert!(off_ms <= 20, "{off_ms} ms: {:?}", &offsets[..80]);
}
