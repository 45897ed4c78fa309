//! What the fuzz targets of `rtp` check: whatever arrives, readers stay inside it, agree with a
//! second reader written without regard to speed, and read back what the writers wrote of it.
//!
//! `crates/rtp/tests/rtp/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::collections::BTreeSet;

use rtp::Packet;
use rtp::extension::{
    BlockWriter, DESCRIPTOR_LEN_MAX, DependencyDescriptor, DependencyReader, Elements, Form, LAYERS_MAX,
    Layer, TargetSelector, shift_frame_number, write_active_decode_targets,
};
use rtp::payload::{Codec, Layers, PayloadInfo, inspect, layers, opus, vp8, vp9};
use rtp::red::{Red, Unwrapper, replace_payload_type};
use rtp::rtcp::{
    Arrival, Bye, CongestionFeedback, FeedbackHead, Fir, Nack, ReceiverReport, Remb, ReportBlock, Rtcp,
    RtcpError, SenderReport, TransportFeedback, packets,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("rtp", rtp),
    ("rtcp", rtcp),
    ("congestion_feedback", congestion_feedback),
    ("header_extensions", header_extensions),
    ("dependency_descriptor", dependency_descriptor),
    ("payload_h264", payload_h264),
    ("payload_h265", payload_h265),
    ("payload_vp8", payload_vp8),
    ("payload_vp9", payload_vp9),
    ("payload_av1", payload_av1),
    ("payload_opus", payload_opus),
    ("red", red),
];

/// An RTP packet.
pub fn rtp(data: &[u8]) {
    let Ok(packet) = Packet::parse(data) else {
        // Whatever is refused is refused for what RFC 3550 appendix A.1 says.
        assert!(!is_rtp(data), "refused a packet");
        return;
    };
    assert!(is_rtp(data), "took what is no packet");
    assert_eq!(packet.header_len() + packet.payload().len() + packet.padding_len(), data.len());
    assert_eq!(packet.bytes(), data);
    assert_eq!(packet.csrcs().len(), usize::from(data[0] & 0x0f));
    let mut header = vec![0; 12 + packet.extension_block().len()];
    let len = packet.fields().write(packet.extension_block(), &mut header);
    let rewritten = [&header[..len], packet.payload()].concat();
    let again = Packet::parse(&rewritten).expect("a packet that was written");
    assert_eq!(again.fields(), packet.fields());
    assert_eq!(again.payload(), packet.payload());
    assert!(again.extensions().eq(packet.extensions()));
    for codec in rtp::payload::CODECS {
        let _ = inspect(codec, packet.payload(), packet.marker());
    }
}

/// The rules once more, one after the other.
fn is_rtp(data: &[u8]) -> bool {
    if data.len() < 12 || data.len() > 65_535 || data[0] & 0xc0 != 0x80 {
        return false;
    }
    let mut header = 12 + 4 * (data[0] & 15) as usize;
    if data[0] & 0x10 != 0 {
        if data.len() < header + 4 {
            return false;
        }
        header += 4 + 4 * (data[header + 2] as usize * 256 + data[header + 3] as usize);
    }
    let padding = if data[0] & 0x20 != 0 { data[data.len() - 1] as usize } else { 0 };
    header + padding <= data.len() && (data[0] & 0x20 == 0 || padding > 0)
}

/// A compound RTCP packet.
pub fn rtcp(data: &[u8]) {
    let found: Vec<_> = packets(data).collect();
    assert!(found.len() <= data.len().div_ceil(4));
    for (at, packet) in found.iter().enumerate() {
        match packet {
            Ok(packet) => round_trip(packet),
            Err(RtcpError::BadBody) => {}
            Err(_) => assert_eq!(at, found.len() - 1, "the walk went on behind broken framing"),
        }
    }
}

/// Serializes a packet again and parses it.
fn round_trip(packet: &Rtcp<'_>) {
    let mut out = Vec::new();
    match packet {
        Rtcp::SenderReport(report) => {
            let blocks: Vec<ReportBlock> = report.blocks.iter().collect();
            SenderReport::write(&mut out, report.ssrc, &report.info, &blocks);
            let Some(Ok(Rtcp::SenderReport(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert_eq!((again.ssrc, again.info), (report.ssrc, report.info));
            assert!(again.blocks.iter().eq(blocks));
        }
        Rtcp::ReceiverReport(report) => {
            let blocks: Vec<ReportBlock> = report.blocks.iter().collect();
            ReceiverReport::write(&mut out, report.ssrc, &blocks);
            let Some(Ok(Rtcp::ReceiverReport(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert_eq!(again.ssrc, report.ssrc);
            assert!(again.blocks.iter().eq(blocks));
        }
        Rtcp::SourceDescription(description) => {
            // Items may not be longer than what holds them.
            assert!(description.items().all(|item| item.text.len() <= 255));
        }
        Rtcp::Bye(bye) => {
            let ssrcs: Vec<u32> = bye.ssrcs().collect();
            Bye::write(&mut out, &ssrcs, "");
            let Some(Ok(Rtcp::Bye(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert!(again.ssrcs().eq(ssrcs));
        }
        Rtcp::Nack(nack) => {
            let lost: Vec<u16> = nack.lost().collect();
            let written = Nack::write(&mut out, nack.sender_ssrc, nack.media_ssrc, &lost);
            let again = packets(&out).next();
            match again {
                // What is out of order or named twice comes back in order and once.
                Some(Ok(Rtcp::Nack(again))) => {
                    let numbers = |lost: &mut dyn Iterator<Item = u16>| lost.collect::<BTreeSet<u16>>();
                    assert_eq!(numbers(&mut again.lost()), numbers(&mut lost[..written].iter().copied()));
                }
                None => assert!(lost.is_empty()),
                _ => panic!("{out:x?}"),
            }
        }
        Rtcp::TransportFeedback(feedback) => feedback_round_trip(feedback),
        Rtcp::CongestionFeedback(feedback) => {
            let streams: Vec<(u32, Vec<_>)> =
                feedback.streams().map(|stream| (stream.ssrc, stream.packets().collect())).collect();
            let written = streams.iter().map(|(ssrc, packets)| (*ssrc, packets.as_slice()));
            CongestionFeedback::write(&mut out, feedback.sender_ssrc, feedback.report_time, written);
            let Some(Ok(Rtcp::CongestionFeedback(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert_eq!((again.sender_ssrc, again.report_time), (feedback.sender_ssrc, feedback.report_time));
            let again = again.streams().map(|stream| (stream.ssrc, stream.packets().collect()));
            // A time that is too long ago and one that is not known are the same to a reader.
            assert_eq!(again.collect::<Vec<(u32, Vec<_>)>>(), streams);
            for stream in feedback.streams() {
                for (packet, offset) in stream.packets().zip(0..) {
                    assert_eq!(packet.sequence_number, stream.begin.wrapping_add(offset));
                    assert!(
                        packet.ecn <= 3
                            && packet.offset.is_none_or(|offset| packet.received && offset <= 8189)
                    );
                }
            }
        }
        Rtcp::Pli(pli) => {
            pli.write(&mut out);
            let Some(Ok(Rtcp::Pli(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert_eq!(again, *pli);
        }
        Rtcp::Fir(fir) => {
            for entry in fir.entries() {
                out.clear();
                Fir::write(&mut out, fir.sender_ssrc, entry);
                let Some(Ok(Rtcp::Fir(again))) = packets(&out).next() else { panic!("{out:x?}") };
                assert!(again.entries().eq([entry]));
            }
        }
        Rtcp::Remb(remb) => {
            let ssrcs: Vec<u32> = remb.ssrcs().collect();
            Remb::write(&mut out, remb.sender_ssrc, remb.bits_per_second, &ssrcs);
            let Some(Ok(Rtcp::Remb(again))) = packets(&out).next() else { panic!("{out:x?}") };
            assert!(again.bits_per_second <= remb.bits_per_second);
            assert!(again.bits_per_second >= remb.bits_per_second - remb.bits_per_second / 65_536);
            assert!(again.ssrcs().eq(ssrcs));
        }
        _ => {}
    }
}

/// The body of a congestion control feedback (RFC 8888), behind its head.
pub fn congestion_feedback(data: &[u8]) {
    let body = &data[..data.len().min(4 * 65_535) / 4 * 4];
    let packet = [&[0x8b, 205][..], &((body.len() / 4) as u16).to_be_bytes(), body].concat();
    let mut found = packets(&packet);
    let expected = streams_of(body);
    match found.next() {
        Some(Ok(packet @ Rtcp::CongestionFeedback(feedback))) => {
            let expected = expected.expect("took what is no feedback");
            let word = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
            assert_eq!(feedback.sender_ssrc, word(0));
            assert_eq!(feedback.report_time.0, word(body.len() - 4));
            let streams = feedback.streams().map(|stream| {
                assert_eq!(stream.len(), stream.packets().count());
                let packets = stream
                    .packets()
                    .map(|packet| (packet.sequence_number, packet.received, packet.ecn, packet.offset));
                (stream.ssrc, packets.collect())
            });
            assert_eq!(streams.collect::<Streams>(), expected);
            round_trip(&packet);
        }
        Some(Err(RtcpError::BadBody)) => assert!(expected.is_none(), "refused a feedback"),
        other => panic!("{other:?}"),
    }
    assert!(found.next().is_none(), "something behind it");
}

/// Of each stream its SSRC, and of each packet number, arrival, marks and offset.
type Streams = Vec<(u32, Vec<(u16, bool, u8, Option<u16>)>)>;

/// The same read a byte at a time.
fn streams_of(body: &[u8]) -> Option<Streams> {
    let end = body.len().checked_sub(4).filter(|end| *end >= 4)?;
    let (mut at, mut streams) = (4, Vec::new());
    while at < end {
        if at + 8 > end {
            return None;
        }
        let number = |at: usize| usize::from(body[at]) << 8 | usize::from(body[at + 1]);
        let ssrc = (number(at) << 16 | number(at + 2)) as u32;
        let (begin, count) = (number(at + 4), number(at + 6));
        at += 8;
        if count > 16_384 || at + 2 * count > end {
            return None;
        }
        let packets = (0..count).map(|place| {
            let report = number(at + 2 * place);
            let received = report >= 0x8000;
            let offset = (report & 0x1fff) as u16;
            let is_known = received && offset < 0x1ffe;
            let ecn = if received { (report >> 13 & 3) as u8 } else { 0 };
            ((begin + place) as u16, received, ecn, is_known.then_some(offset))
        });
        streams.push((ssrc, packets.collect()));
        at += 2 * count + if count % 2 == 1 { 2 } else { 0 };
    }
    (at == end).then_some(streams)
}

fn feedback_round_trip(feedback: &TransportFeedback<'_>) {
    let statuses: Vec<_> = feedback.packets().collect();
    assert_eq!(statuses.len(), usize::from(feedback.statuses));
    // Arrivals in full: numbers that do not wrap, times as they are.
    let base = 0x1_0000 + u64::from(feedback.base);
    let arrivals: Vec<Arrival> = statuses
        .iter()
        .zip(base..)
        .inspect(|(status, number)| assert_eq!(status.sequence_number, *number as u16))
        .filter_map(|(status, sequence_number)| {
            Some(Arrival { sequence_number, ticks: status.arrival_ticks? })
        })
        .collect();
    let (mut rest, mut read) = (&arrivals[..], Vec::new());
    let mut head = FeedbackHead {
        sender_ssrc: feedback.sender_ssrc,
        media_ssrc: feedback.media_ssrc,
        count: feedback.count,
        base,
    };
    while !rest.is_empty() {
        let mut out = Vec::new();
        let written = TransportFeedback::write(&mut out, &head, rest);
        assert!(written.arrivals > 0, "no progress");
        assert!(written.next_base > head.base, "no progress");
        rest = &rest[written.arrivals..];
        let Some(Ok(Rtcp::TransportFeedback(again))) = packets(&out).next() else { panic!("{out:x?}") };
        assert_eq!((again.sender_ssrc, again.count), (head.sender_ssrc, head.count));
        read.extend(
            again.packets().filter_map(|status| Some((status.sequence_number, status.arrival_ticks?))),
        );
        head.base = written.next_base;
        head.count = head.count.wrapping_add(1);
    }
    // The reference time has 24 bits: what overflows them in reading comes out modulo them.
    let modulo = |ticks: i64| ticks.rem_euclid(256 << 24);
    let expected = arrivals.iter().map(|arrival| (arrival.sequence_number as u16, modulo(arrival.ticks)));
    assert!(read.iter().map(|(number, ticks)| (*number, modulo(*ticks))).eq(expected));
}

/// A block of header extensions with its head, after two bytes that choose the form and the room.
pub fn header_extensions(data: &[u8]) {
    let Some(([choice, room], block)) = data.split_first_chunk() else { return };
    let elements: Vec<_> = Elements::new(block).collect();
    for (id, element) in &elements {
        assert!(*id != 0 && element.len() <= 255);
    }
    // Serialized again, everything that fits and nothing else is restored.
    let mut out = vec![0xee; usize::from(*room) * 2];
    let mut writer = BlockWriter::new(&mut out, if choice & 1 == 0 { Form::Either } else { Form::OneByte });
    let taken: Vec<_> =
        elements.iter().copied().filter(|(id, element)| writer.push(*id, element).is_ok()).collect();
    let len = writer.finish();
    assert!(len <= out.len() && len.is_multiple_of(4));
    assert_eq!(Elements::new(&out[..len]).collect::<Vec<_>>(), taken);
    assert!(out[len..].iter().all(|byte| *byte == 0xee) || taken.len() < elements.len());
}

/// Dependency descriptors of one encoding, each behind a byte that is its length.
pub fn dependency_descriptor(data: &[u8]) {
    let mut reader = DependencyReader::new();
    let mut rewriting_reader = DependencyReader::new();
    let mut selector = TargetSelector::new();
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first() {
        let (descriptor, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        let active = reader.active_decode_targets();
        let targets = reader.structure().all_decode_targets();
        let Ok(frame) = reader.read(descriptor) else {
            let after = (reader.active_decode_targets(), reader.structure().all_decode_targets());
            assert_eq!(after, (active, targets), "kept something of a malformed one");
            continue;
        };
        assert_eq!(Some(frame.head), DependencyDescriptor::parse(descriptor));
        let structure = reader.structure();
        let count = structure.decode_targets().len();
        assert!((1..=32).contains(&count) && usize::from(frame.decode_target_count) == count);
        assert!(usize::from(frame.layer.spatial.max(frame.layer.temporal)) < LAYERS_MAX);
        assert!(frame.referred_frames().all(|number| number != frame.head.frame_number));
        assert_eq!(frame.previous_in_chains().len(), structure.chain_count());
        assert!(reader.active_decode_targets() & !structure.all_decode_targets() == 0);

        // With another mask, and numbers that are shifted there and back, all else is the same.
        let mask = 0x5a5a_a5a5 & structure.all_decode_targets();
        let mut out = [0; DESCRIPTOR_LEN_MAX + 8];
        let written = write_active_decode_targets(descriptor, count as u8, mask, &mut out);
        let Ok(len) = written else {
            assert!(descriptor.len() + 5 > DESCRIPTOR_LEN_MAX);
            return;
        };
        shift_frame_number(&mut out[..len], 700);
        shift_frame_number(&mut out[..len], 700u16.wrapping_neg());
        let again = rewriting_reader.read(&out[..len]).expect("a descriptor that was written");
        assert_eq!(again.active_decode_targets, Some(mask));
        let mut expected = frame;
        expected.active_decode_targets = Some(mask);
        assert_eq!(again, expected);
        assert_eq!(rewriting_reader.structure(), structure);

        // All packets of a frame get one answer, and only what is part of the target is sent.
        let max = Layer { spatial: frame.head.frame_number as u8 & 3, temporal: 7 };
        let Some(wanted) = structure.best_within(max, reader.active_decode_targets()) else { continue };
        let layer = structure.layer_of(wanted).expect("a target of the structure");
        assert!(layer.spatial <= max.spatial && wanted.bit() & reader.active_decode_targets() != 0);
        assert!(structure.contained_in(wanted) & wanted.bit() != 0);
        let is_sent = selector.forwards(structure, &frame, wanted);
        assert_eq!(selector.forwards(structure, &frame, wanted), is_sent);
    }
}

/// An H.264 payload.
pub fn payload_h264(data: &[u8]) {
    video(Codec::H264, data);
}

/// An H.265 payload.
pub fn payload_h265(data: &[u8]) {
    video(Codec::H265, data);
}

/// A VP8 payload.
pub fn payload_vp8(data: &[u8]) {
    let info = video(Codec::Vp8, data);
    let descriptor = vp8::Descriptor::parse(data);
    assert!(descriptor.is_some() || info.is_none());
    assert!(descriptor.is_none_or(|descriptor| descriptor.len < data.len() && descriptor.len <= 6));
    assert!(info.is_none_or(|info| info.starts_frame || !info.key_frame));
    shifted(data, vp8::shift, descriptor, vp8::Descriptor::parse, |descriptor| vp8::Descriptor {
        picture_id: descriptor.picture_id.map(later),
        tl0_picture_index: descriptor.tl0_picture_index.map(|index| index.wrapping_add(TL0)),
        ..descriptor
    });
}

/// By what numbers of pictures are shifted.
const PICTURES: u16 = 0x7a5b;
const TL0: u8 = 0xc9;

fn later(id: vp8::PictureId) -> vp8::PictureId {
    match id {
        vp8::PictureId::Short(id) => vp8::PictureId::Short((u16::from(id) + PICTURES) as u8 % 128),
        vp8::PictureId::Long(id) => {
            vp8::PictureId::Long(((u32::from(id) + u32::from(PICTURES)) % 32_768) as u16)
        }
    }
}

/// Shifted numbers change the descriptor as expected, nothing behind it, and come back.
fn shifted<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    shift: fn(&mut [u8], u16, u8),
    descriptor: Option<T>,
    parse: fn(&[u8]) -> Option<T>,
    expected: impl FnOnce(T) -> T,
) {
    let mut payload = data.to_vec();
    shift(&mut payload, PICTURES, TL0);
    assert!(descriptor.is_some() || payload == data);
    assert_eq!(parse(&payload), descriptor.map(expected));
    shift(&mut payload, PICTURES.wrapping_neg(), TL0.wrapping_neg());
    assert_eq!(payload, data);
}

/// A VP9 payload.
pub fn payload_vp9(data: &[u8]) {
    let info = video(Codec::Vp9, data);
    let descriptor = vp9::Descriptor::parse(data);
    assert_eq!(descriptor.is_some(), info.is_some());
    assert!(descriptor.is_none_or(|descriptor| descriptor.len < data.len()));
    shifted(data, vp9::shift, descriptor, vp9::Descriptor::parse, |descriptor| vp9::Descriptor {
        picture_id: descriptor.picture_id.map(later),
        layer: descriptor.layer.map(|layer| vp9::Layer {
            tl0_picture_index: layer.tl0_picture_index.map(|index| index.wrapping_add(TL0)),
            ..layer
        }),
        ..descriptor
    });
}

/// An AV1 payload.
pub fn payload_av1(data: &[u8]) {
    video(Codec::Av1, data);
}

/// What holds of every video payload.
fn video(codec: Codec, data: &[u8]) -> Option<PayloadInfo> {
    let info = inspect(codec, data, false);
    assert_eq!(inspect(codec, data, true), info.map(|info| PayloadInfo { ends_frame: true, ..info }));
    let found = layers(codec, data);
    let Some(info) = info else {
        // A start code of VP8 that is wrong is not looked at for layers.
        assert!(codec == Codec::Vp8 || found == Layers::default());
        return None;
    };
    assert!(found.temporal < 8 && found.spatial < 64);
    assert!(found.temporal_reach(3) >= 3 && found.temporal_reach(u8::MAX) == u8::MAX);
    if matches!(codec, Codec::Vp8 | Codec::Vp9) {
        assert_eq!(
            (found.temporal, found.spatial),
            (info.temporal_layer.unwrap_or(0), info.spatial_layer.unwrap_or(0))
        );
    }
    assert!(!info.key_frame || found.is_spatial_switching_point);
    assert!(!data.is_empty() && !info.ends_frame);
    assert!(info.temporal_layer.is_none_or(|layer| layer < 8));
    assert!(info.spatial_layer.is_none_or(|layer| layer < 64));
    Some(info)
}

/// An Opus payload.
pub fn payload_opus(data: &[u8]) {
    let toc = opus::Toc::parse(data);
    assert_eq!(inspect(Codec::Opus, data, false).is_some(), toc.is_some());
    assert!(toc.is_none_or(|toc| toc.samples >= 120 && toc.samples <= 5760));
}

/// The payload of a RED packet, behind two bytes: how many packets and how much time are ahead of
/// it.
pub fn red(data: &[u8]) {
    let Some(([lost, time], payload)) = data.split_first_chunk() else { return };
    let red = Red::parse(payload);
    assert_eq!(red.is_some(), is_red(payload));
    let mut unwrapper = Unwrapper::new();
    assert!(unwrapper.unwrap(65_500, u32::MAX, &[111, 1]).is_some());
    let number = 65_501u16.wrapping_add(u16::from(*lost));
    let timestamp = u32::MAX.wrapping_add(100 * u32::from(*time));
    let unwrapped = unwrapper.unwrap(number, timestamp, payload);
    let (Some(red), Some(unwrapped)) = (red, unwrapped) else {
        assert!(red.is_none() && unwrapped.is_none());
        return;
    };
    let bytes: usize = red.redundant().map(|block| 4 + block.payload.len()).sum();
    assert_eq!(bytes + 1 + red.primary.len(), payload.len());
    assert!(red.redundant().all(|block| block.timestamp_offset < 1 << 14 && block.payload_type < 128));
    assert_eq!((unwrapped.primary, unwrapped.payload_type), (red.primary, red.payload_type));
    let recovered: Vec<_> = unwrapped.recovered.collect();
    assert!(recovered.len() <= usize::from(*lost).min(red.redundant().len()));
    assert!(
        recovered.is_sorted_by(
            |a, b| number.wrapping_sub(a.sequence_number) > number.wrapping_sub(b.sequence_number)
        )
    );
    for packet in &recovered {
        assert!(!packet.payload.is_empty());
        assert!((1..=u16::from(*lost)).contains(&number.wrapping_sub(packet.sequence_number)));
        assert!((1..100 * u32::from(*time)).contains(&timestamp.wrapping_sub(packet.timestamp)));
    }
    // Another payload type and back; 0x55 may have been there before.
    let mut replaced = payload.to_vec();
    replace_payload_type(&mut replaced, red.payload_type, 0x55);
    let again = Red::parse(&replaced).expect("a packet with another payload type");
    assert_eq!((again.payload_type, again.primary), (0x55, red.primary));
    for (before, after) in red.redundant().zip(again.redundant()) {
        let expected = if before.payload_type == red.payload_type { 0x55 } else { before.payload_type };
        assert_eq!(after, rtp::red::Block { payload_type: expected, ..before });
    }
}

/// Whether there are heads up to one without F, and behind them more bytes than they announce.
fn is_red(payload: &[u8]) -> bool {
    let heads = payload.iter().step_by(4).take_while(|first| **first & 0x80 != 0).count();
    if heads > 32 || payload.len() <= 4 * heads {
        return false;
    }
    let announced: usize =
        payload.chunks(4).take(heads).map(|head| usize::from(head[2] & 3) * 256 + usize::from(head[3])).sum();
    payload.len() > 4 * heads + 1 + announced
}
