//! What the fuzz targets of `rtp` check: whatever arrives, readers stay inside it, agree with a
//! second reader written without regard to speed, and read back what the writers wrote of it.
//!
//! `crates/rtp/tests/rtp/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::collections::BTreeSet;

use rtp::Packet;
use rtp::extension::{BlockWriter, Elements, Form};
use rtp::payload::{Codec, PayloadInfo, inspect, opus, vp8, vp9};
use rtp::rtcp::{
    Arrival, Bye, FeedbackHead, Fir, Nack, ReceiverReport, Remb, ReportBlock, Rtcp, RtcpError, SenderReport,
    TransportFeedback, packets,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("rtp", rtp),
    ("rtcp", rtcp),
    ("header_extensions", header_extensions),
    ("payload_h264", payload_h264),
    ("payload_h265", payload_h265),
    ("payload_vp8", payload_vp8),
    ("payload_vp9", payload_vp9),
    ("payload_av1", payload_av1),
    ("payload_opus", payload_opus),
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
}

/// A VP9 payload.
pub fn payload_vp9(data: &[u8]) {
    let info = video(Codec::Vp9, data);
    let descriptor = vp9::Descriptor::parse(data);
    assert_eq!(descriptor.is_some(), info.is_some());
    assert!(descriptor.is_none_or(|descriptor| descriptor.len < data.len()));
}

/// An AV1 payload.
pub fn payload_av1(data: &[u8]) {
    video(Codec::Av1, data);
}

/// What holds of every video payload.
fn video(codec: Codec, data: &[u8]) -> Option<PayloadInfo> {
    let info = inspect(codec, data, false);
    assert_eq!(inspect(codec, data, true), info.map(|info| PayloadInfo { ends_frame: true, ..info }));
    let info = info?;
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
