//! Files of ffmpeg are read as ffprobe sees them: place, size, times and flags of every packet.
//! `scripts/make-mp4-samples` has made files and lists.

use std::io::Cursor;
use std::path::Path;

use media::config::{audio_format, video_format};
use media::{Codec, FrameRole, MediaKind};
use mp4::{Limits, Mp4};

fn samples() -> Vec<(String, Vec<u8>, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension != "csv") {
            let list = std::fs::read_to_string(path.with_extension("csv")).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, std::fs::read(&path).unwrap(), list));
        }
    }
    assert!(found.len() >= 16, "{} files", found.len());
    found
}

#[test]
fn every_packet_is_as_ffprobe_sees_it() {
    for (name, bytes, list) in samples() {
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        let timescales: Vec<_> = file.tracks().iter().map(|track| (track.id, track.timescale)).collect();
        let (mut pictures, mut heard) = (Vec::new(), Vec::new());
        while let Some(sample) = file.next_sample().unwrap() {
            let (_, scale) = timescales.iter().find(|(id, _)| *id == sample.track_id).unwrap();
            let frame = &sample.frame;
            let (list, kind) = match frame.track.kind {
                MediaKind::Video => (&mut pictures, 'v'),
                _ => (&mut heard, 'a'),
            };
            let key = if frame.role == FrameRole::Inter { '_' } else { 'K' };
            let hidden = if sample.is_hidden { 'D' } else { '_' };
            let times = format!("{},{}", frame.dts.ticks(*scale), frame.pts.ticks(*scale));
            list.push(format!("{kind},{},{},{times},{key}{hidden}", sample.offset, frame.data().len()));
        }
        pictures.append(&mut heard);
        let expected: Vec<_> = list.lines().collect();
        for (index, (read, expected)) in pictures.iter().zip(&expected).enumerate() {
            assert_eq!(read, expected, "{name}, packet {index}");
        }
        assert_eq!(pictures.len(), expected.len(), "{name}");
    }
}

#[test]
fn every_configuration_is_one_that_decoders_understand() {
    for (name, bytes, _) in samples() {
        let mut file = Mp4::open(Cursor::new(bytes), Limits::default()).unwrap();
        let mut tracks: Vec<_> =
            file.video().into_iter().chain(file.audio()).map(|track| (track.clone(), 0)).collect();
        while let Some(sample) = file.next_sample().unwrap() {
            assert!(!sample.frame.data().is_empty(), "{name}");
            let Some(config) = sample.config else { continue };
            let (track, configs) = tracks.iter_mut().find(|(track, _)| track.id == sample.track_id).unwrap();
            *configs += 1;
            match config.track.kind {
                MediaKind::Video => {
                    let format = video_format(track.codec, config.data()).expect("a configuration");
                    if track.codec != Codec::Vp9 {
                        assert_eq!((format.width, format.height), (48, 32), "{name}");
                    }
                }
                _ => {
                    let format = audio_format(track.codec, config.data()).expect("a configuration");
                    assert_eq!(u16::from(format.channels), 1, "{name}");
                    assert_eq!(format.sample_rate, track.sample_rate, "{name}");
                }
            }
        }
        assert!(tracks.iter().all(|(_, configs)| *configs == 1), "{name}: one configuration per track");
    }
}

#[test]
fn real_files_cut_anywhere_end_with_an_error_or_with_what_there_is() {
    for (name, bytes, list) in samples() {
        for length in (0..bytes.len()).step_by(13) {
            let Ok(mut file) = Mp4::open(Cursor::new(&bytes[..length]), Limits::default()) else { continue };
            let mut samples = 0;
            while let Ok(Some(_)) = file.next_sample() {
                samples += 1;
            }
            assert!(samples <= list.lines().count(), "{name}, {length} bytes");
        }
    }
}
