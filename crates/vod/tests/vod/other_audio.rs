//! MP3, AC-3, E-AC-3 and FLAC in MP4 files.
//!
//! The files are ffmpeg's: 0.6 s of `testsrc2=size=64x64:rate=10` by libx264 with B-frames, and of
//! `sine=frequency=440:sample_rate=48000` in stereo, `-strict -2 -fflags +bitexact`.

use std::io::Cursor;
use std::path::Path;

use media::{Codec, MediaKind, TrackId};
use mp4::{Limits, SampleIndex};
use vod::{Film, FilmInput};

const A0: TrackId = TrackId { kind: MediaKind::Audio, index: 0 };

/// Times and bytes of all samples of the first track of audio.
fn audio(file: &[u8]) -> (Codec, Vec<(i64, Vec<u8>)>) {
    let index = SampleIndex::read(Cursor::new(file), Limits::default()).expect("an index");
    let track = index.tracks().iter().find(|track| track.track.kind == MediaKind::Audio).expect("audio");
    let mut walk = index.walk_track(track.id);
    let mut samples = Vec::new();
    while let Some((_, sample)) = walk.next(&index, Cursor::new(file), file.len() as u64).expect("samples") {
        let at = sample.offset as usize;
        samples.push((sample.dts.micros(), file[at..at + sample.size as usize].to_vec()));
    }
    (track.codec, samples)
}

#[test]
fn mp3_ac3_and_flac_are_cut_as_they_are() {
    for (name, codec, codecs, box_kind) in [
        ("mp3.mp4", Codec::Mp3, "mp4a.6B", b"esds"),
        ("ac3.mp4", Codec::Ac3, "ac-3", b"dac3"),
        ("eac3.mp4", Codec::Eac3, "ec-3", b"dec3"),
        ("flac.mp4", Codec::Flac, "fLaC", b"dfLa"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
        let file = std::fs::read(path).expect("a file");
        let input = FilmInput {
            length: file.len() as u64,
            grows: false,
            is_recording: false,
            limits: Limits::default(),
            takes_fragments: true,
        };
        let film = Film::read(Cursor::new(&file), input).expect("a film");
        assert!(film.codecs()[0].starts_with("avc1.") && film.codecs()[1] == codecs, "{:?}", film.codecs());
        let init = film.init(A0).expect("audio");
        // The box that decoders are set up by is that of the file.
        let of = |bytes: &[u8]| {
            let at = bytes.windows(4).position(|kind| kind == box_kind).expect(name);
            let size = u32::from_be_bytes(bytes[at - 4..at].try_into().expect("four bytes")) as usize;
            bytes[at..at - 4 + size].to_vec()
        };
        if *box_kind != *b"esds" {
            assert_eq!(of(&init), of(&file), "{name}");
        }
        let mut out = init.to_vec();
        out.extend(film.read_segment(A0, 0, Cursor::new(&file)).expect("a segment").expect("there is one"));
        let (expected, got) = (audio(&file), audio(&out));
        assert_eq!((got.0, got.1.len()), (codec, expected.1.len()), "{name}");
        assert!(expected.1.len() > 5);
        let shift = got.1[0].0 - expected.1[0].0;
        for (got, expected) in got.1.iter().zip(&expected.1) {
            assert!((got.0 - expected.0 - shift).abs() <= 1 && got.1 == expected.1, "{name}");
        }
    }
}
