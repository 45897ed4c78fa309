//! What is written is read back, for random packets: headers with extensions, every RTCP type,
//! retransmissions.

use std::time::Duration;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use rtp::extension::{BLOCK_LEN_MAX, BlockWriter, Elements, Form};
use rtp::rtcp::{
    Arrival, Bye, FEEDBACK_STATUSES_MAX, FeedbackHead, Fir, FirEntry, Nack, NtpMiddle, NtpTime, Pli,
    ReceiverReport, Remb, ReportBlock, Rtcp, SdesItem, SenderInfo, SenderReport, SourceDescription,
    TransportFeedback, packets,
};
use rtp::sequence::{SequenceUnwrapper, TimestampUnwrapper};
use rtp::{HeaderFields, Packet, rtx};

fn header_fields() -> impl Strategy<Value = HeaderFields> {
    (any::<bool>(), 0..128u8, any::<u16>(), any::<u32>(), any::<u32>()).prop_map(
        |(marker, payload_type, sequence_number, timestamp, ssrc)| HeaderFields {
            marker,
            payload_type,
            sequence_number,
            timestamp,
            ssrc,
        },
    )
}

fn report_block() -> impl Strategy<Value = ReportBlock> {
    (any::<u32>(), any::<u8>(), -(1 << 23)..(1 << 23), any::<[u32; 4]>()).prop_map(
        |(ssrc, fraction_lost, cumulative_lost, words)| ReportBlock {
            ssrc,
            fraction_lost,
            cumulative_lost,
            highest_sequence_number: words[0],
            jitter_rtp_units: words[1],
            last_report: NtpMiddle(words[2]),
            delay_since_last_report: NtpMiddle(words[3]),
        },
    )
}

/// The one packet of a compound.
fn only(compound: &[u8]) -> Rtcp<'_> {
    let mut all = packets(compound);
    let packet = all.next().expect("a packet").expect("a valid one");
    assert!(all.next().is_none());
    packet
}

macro_rules! expect {
    ($compound:expr, $variant:ident) => {{
        let Rtcp::$variant(packet) = only($compound) else { panic!("another type") };
        packet
    }};
}

proptest! {
    #[test]
    fn packets_with_extensions(
        fields in header_fields(),
        elements in btree_map(1..=255u8, vec(any::<u8>(), 0..24), 0..8),
        payload in vec(any::<u8>(), 0..1300),
        padding in 0..=255u8,
    ) {
        let mut block = [0; BLOCK_LEN_MAX];
        let mut writer = BlockWriter::new(&mut block, Form::Either);
        for (id, data) in &elements {
            writer.push(*id, data).unwrap();
        }
        let len = writer.finish();
        let mut bytes = vec![0; 12 + len];
        fields.write(&block[..len], &mut bytes);
        bytes.extend(&payload);
        if padding > 0 {
            rtp::set_padding(bytes.first_chunk_mut().unwrap(), true);
            bytes.resize(bytes.len() + usize::from(padding) - 1, 0);
            bytes.push(padding);
        }
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.fields(), fields);
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert_eq!(packet.padding_len(), usize::from(padding));
        let read: Vec<_> = packet.extensions().map(|(id, data)| (id, data.to_vec())).collect();
        prop_assert_eq!(read, elements.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn blocks_are_in_the_one_byte_form_whenever_that_can_be(
        elements in btree_map(1..=14u8, vec(any::<u8>(), 1..=16), 1..8),
    ) {
        let mut block = [0; BLOCK_LEN_MAX];
        let mut writer = BlockWriter::new(&mut block, Form::OneByte);
        for (id, data) in &elements {
            writer.push(*id, data).unwrap();
        }
        let len = writer.finish();
        prop_assert_eq!(&block[..2], &[0xbe, 0xde]);
        let bytes: usize = elements.values().map(|data| 1 + data.len()).sum();
        prop_assert_eq!(len, 4 + bytes.next_multiple_of(4));
        prop_assert_eq!(Elements::new(&block[..len]).count(), elements.len());
    }

    #[test]
    fn reports(ssrc: u32, words: [u32; 3], ntp: u64, blocks in vec(report_block(), 0..40)) {
        let info =
            SenderInfo { ntp: NtpTime(ntp), rtp_timestamp: words[0], packets: words[1], payload_bytes: words[2] };
        let mut out = Vec::new();
        SenderReport::write(&mut out, ssrc, &info, &blocks);
        let read = expect!(&out, SenderReport);
        let fitting = &blocks[..blocks.len().min(31)];
        prop_assert_eq!((read.ssrc, read.info), (ssrc, info));
        prop_assert_eq!(read.blocks.len(), fitting.len());
        prop_assert!(read.blocks.iter().eq(fitting.iter().copied()));

        out.clear();
        ReceiverReport::write(&mut out, ssrc, &blocks);
        let read = expect!(&out, ReceiverReport);
        prop_assert_eq!(read.ssrc, ssrc);
        prop_assert_eq!(read.blocks.is_empty(), fitting.is_empty());
        prop_assert!(read.blocks.iter().eq(fitting.iter().copied()));
    }

    #[test]
    fn descriptions_and_goodbyes(ssrcs in vec(any::<u32>(), 0..40), text in "[a-zA-Z0-9+/]{0,300}") {
        let fitting = &text[..text.len().min(255)];
        let mut out = Vec::new();
        SourceDescription::write_cname(&mut out, 7, &text);
        let read: Vec<_> = expect!(&out, SourceDescription).items().collect();
        prop_assert_eq!(read, [SdesItem { ssrc: 7, kind: SdesItem::CNAME, text: fitting.as_bytes() }]);

        out.clear();
        Bye::write(&mut out, &ssrcs, &text);
        let read = expect!(&out, Bye);
        prop_assert!(read.ssrcs().eq(ssrcs.iter().copied().take(31)));
        prop_assert_eq!(read.reason(), fitting.as_bytes());
    }

    #[test]
    fn requests(sender_ssrc: u32, media_ssrc: u32, sequence_number: u8, rate: u64, ssrcs in vec(any::<u32>(), 0..300)) {
        let mut out = Vec::new();
        let pli = Pli { sender_ssrc, media_ssrc };
        pli.write(&mut out);
        prop_assert_eq!(expect!(&out, Pli), pli);

        out.clear();
        let entry = FirEntry { ssrc: media_ssrc, sequence_number };
        Fir::write(&mut out, sender_ssrc, entry);
        let read = expect!(&out, Fir);
        prop_assert_eq!(read.sender_ssrc, sender_ssrc);
        prop_assert!(read.entries().eq([entry]));

        out.clear();
        Remb::write(&mut out, sender_ssrc, rate, &ssrcs);
        let read = expect!(&out, Remb);
        prop_assert!(read.bits_per_second <= rate && read.bits_per_second >= rate - rate / 65_536);
        prop_assert!(read.ssrcs().eq(ssrcs.iter().copied().take(255)));
    }

    #[test]
    fn nacks(start: u16, offsets in btree_set(0..4000u16, 1..400)) {
        let lost: Vec<u16> = offsets.into_iter().map(|offset| start.wrapping_add(offset)).collect();
        let mut rest = &lost[..];
        let mut read = Vec::new();
        while !rest.is_empty() {
            let mut out = Vec::new();
            let written = Nack::write(&mut out, 1, 2, rest);
            prop_assert!(written > 0);
            rest = &rest[written..];
            read.extend(expect!(&out, Nack).lost());
        }
        prop_assert_eq!(read, lost);
    }

    #[test]
    fn transport_feedback(
        base in 0..=u64::from(u32::MAX),
        gaps in vec((prop_oneof![9 => 0..3u64, 1 => 0..2000u64], -40_000..40_000i64), 1..600),
        count: u8,
        start in 0..1_000_000i64,
    ) {
        let mut arrivals: Vec<Arrival> = Vec::new();
        for (gap, step) in gaps {
            let (before, ticks) = arrivals.last().map_or((base, start), |a| (a.sequence_number + 1, a.ticks));
            // Most deltas are small, some are negative, some do not fit a packet.
            let step = if step % 10 == 0 { step } else { step.abs() % 400 };
            arrivals.push(Arrival { sequence_number: before + gap, ticks: ticks + step });
        }
        let mut head = FeedbackHead { sender_ssrc: 1, media_ssrc: 2, count, base };
        let (mut rest, mut read) = (&arrivals[..], Vec::new());
        while !rest.is_empty() {
            let mut out = Vec::new();
            let written = TransportFeedback::write(&mut out, &head, rest);
            prop_assert!(written.arrivals > 0 && written.next_base > head.base);
            let feedback = expect!(&out, TransportFeedback);
            prop_assert_eq!(feedback.count, head.count);
            prop_assert!(usize::from(feedback.statuses) <= FEEDBACK_STATUSES_MAX);
            // Nothing between one feedback and the next is left out, but for gaps that are too long.
            let left_out = u64::from(feedback.base.wrapping_sub(head.base as u16));
            prop_assert!(left_out == 0 || left_out >= FEEDBACK_STATUSES_MAX as u64);
            let numbers = (head.base + left_out..).zip(feedback.packets());
            for (number, status) in numbers {
                prop_assert_eq!(status.sequence_number, number as u16);
                let modulo = |ticks: i64| ticks.rem_euclid(256 << 24);
                read.extend(status.arrival_ticks.map(|ticks| (number, modulo(ticks))));
            }
            rest = &rest[written.arrivals..];
            head.base = written.next_base;
            head.count = head.count.wrapping_add(1);
        }
        let expected: Vec<_> =
            arrivals.iter().map(|a| (a.sequence_number, a.ticks.rem_euclid(256 << 24))).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn retransmissions(fields in header_fields(), payload in vec(any::<u8>(), 0..1300), ssrc: u32, sequence: u16) {
        let resent = HeaderFields { payload_type: 97, sequence_number: sequence, ssrc, ..fields };
        let mut packet = vec![0; 12];
        resent.write(&[], &mut packet);
        packet.extend(rtx::osn(fields.sequence_number));
        packet.extend(&payload);
        let packet = Packet::parse(&packet).unwrap();
        prop_assert_eq!((packet.marker(), packet.timestamp()), (fields.marker, fields.timestamp));
        prop_assert_eq!(rtx::unwrap(packet.payload()), Some((fields.sequence_number, &payload[..])));
    }

    #[test]
    fn unwrapped_numbers_are_those_that_were_wrapped(
        start in 0x1_0000..=u64::from(u32::MAX),
        steps in vec(-0x7fff..0x8000i64, 0..200),
    ) {
        let mut sequence = SequenceUnwrapper::new();
        let mut timestamp = TimestampUnwrapper::new();
        let (first_sequence, first_timestamp) =
            (sequence.unwrap(start as u16), timestamp.unwrap(start as u32));
        let mut highest = start;
        for step in steps {
            let number = highest.wrapping_add_signed(step);
            prop_assert_eq!(sequence.unwrap(number as u16).wrapping_sub(first_sequence), number.wrapping_sub(start));
            prop_assert_eq!(timestamp.unwrap(number as u32).wrapping_sub(first_timestamp), number.wrapping_sub(start));
            highest = highest.max(number);
        }
    }

    #[test]
    fn times(seconds in 0..10_000_000_000u64, nanos in 0..1_000_000_000u32, later in 0..4_000_000_000u64) {
        let (earlier, by) = (Duration::new(seconds, nanos), Duration::from_nanos(later));
        let since = NtpTime::from_unix(earlier + by).since(NtpTime::from_unix(earlier));
        // Two roundings to 2^-32 s, and one back.
        prop_assert!(since.abs_diff(by) <= Duration::from_nanos(2), "{since:?} {by:?}");
        let middle = NtpMiddle::from_duration(by);
        prop_assert!(by - middle.duration() < Duration::from_micros(16));
    }
}
