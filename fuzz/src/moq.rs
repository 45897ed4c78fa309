//! What the fuzz targets of `moq` check: whatever a publisher sends, nothing panics, a catalogue
//! that is read says the same again, and frames are in order and no larger than what came.
//!
//! `crates/moq/tests/moq/fuzz_corpus.rs` includes this file and replays the kept corpus.

use media::{FrameRole, Timestamp};
use moq::catalog::{Audio, CatalogReader, Container, Video};
use moq::incoming::{Incoming, Selection};
use moq::outgoing::{Outgoing, read_payload};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("moq_catalog", moq_catalog), ("moq_incoming", moq_incoming)];

/// Bytes of configuration that a frame may be preceded by.
const CONFIG_BYTES_MAX: usize = 1 << 20;

/// A catalogue and changes of it, a line each; an empty line begins another group.
pub fn moq_catalog(data: &[u8]) {
    let mut reader = CatalogReader::default();
    for line in data.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            reader.begin_group();
            continue;
        }
        let Some(catalog) = reader.frame(line) else { continue };
        let again = CatalogReader::default().frame(&catalog.to_json()).expect("it was read before");
        assert!(again == catalog, "it says the same again");
        let selection = Selection::of(catalog);
        assert!(selection.video.is_none_or(|(_, entry)| Incoming::video(&entry).is_some()));
        assert!(selection.audio.is_none_or(|(_, entry)| Incoming::audio(&entry).is_some()));
    }
}

/// Codec, then units: flags, length in two bytes, payload.
pub fn moq_incoming(data: &[u8]) {
    let Some((&kind, mut rest)) = data.split_first() else { return };
    let incoming = match kind & 7 {
        0..=4 => {
            let codec = ["avc1.64001f", "hvc1.1.6.L93.90", "av01.0.05M.08", "vp8", "vp09.00.21.08"];
            Incoming::video(&Video {
                codec: codec[usize::from(kind & 7)].to_owned(),
                container: Container::default(),
                description: None,
                coded_width: None,
                coded_height: None,
            })
        }
        kind => Incoming::audio(&Audio {
            codec: ["mp4a.40.2", "opus", "mp3"][usize::from(kind - 5)].to_owned(),
            container: Container::default(),
            sample_rate: 48_000,
            number_of_channels: 2,
            description: None,
        }),
    };
    let Some(mut incoming) = incoming else { return };
    let mut outgoing = Outgoing::default();
    let mut last = None::<Timestamp>;
    while let Some((head, behind)) = rest.split_at_checked(3) {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        rest = behind;
        let begins_group = head[0] & 1 != 0;
        if head[0] & 2 != 0 {
            incoming.interrupt();
        }
        let Some(frames) = incoming.frames(payload, begins_group) else { continue };
        let (time_us, _) = read_payload(payload).expect("a frame has a time");
        for frame in frames {
            assert!(!frame.data().is_empty());
            assert!(last.is_none_or(|last| frame.track.kind == media::MediaKind::Audio || last <= frame.dts));
            last = Some(frame.dts);
            match frame.role {
                FrameRole::Config => assert!(frame.data().len() <= CONFIG_BYTES_MAX),
                role => {
                    // A start code of three bytes becomes a length of four.
                    assert!(frame.data().len() <= payload.len() * 2);
                    assert!(role != FrameRole::Key || begins_group);
                    assert!(frame.pts == Timestamp::from_micros(time_us.cast_signed()));
                }
            }
            let _ = outgoing.frame(&frame);
        }
        let _ = outgoing.changed_catalog();
    }
}
