//! Files that are cut off, lie about their sizes or are made to hurt: an error that says why, or
//! what there is, and never more memory or time than the limits allow.

use std::io::Cursor;
use std::time::Duration;

use crate::muxer::{Layout, Track, audio, boxed, frames, full, pictures, video, words, write};
use mp4::{Limits, Mp4, Mp4Error, Sample};

fn tracks() -> [Track; 2] {
    [video(pictures(12, 4, 30)), audio(frames(20, 10))]
}

fn layouts() -> [Layout; 4] {
    [
        Layout { chunk: 3, ..Layout::default() },
        Layout { chunk: 3, moov_first: false, wide_versions: true, co64: true, stz2: 8, ..Layout::default() },
        Layout { fragment: 5, sidx: true, ..Layout::default() },
        Layout { fragment: 5, mfra: true, hybrid: true, separate: true, ..Layout::default() },
    ]
}

/// Everything that can be asked of a file; gives the samples that come before an error.
fn exercise(bytes: &[u8], limits: Limits) -> (Vec<Sample>, Option<Mp4Error>) {
    let mut file = match Mp4::open(Cursor::new(bytes), limits) {
        Ok(file) => file,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let _ = file.find_duration();
    let _ = file.seek_to(Duration::from_millis(200));
    let _ = file.next_sample();
    let _ = file.upcoming(10_000);
    if let Err(error) = file.seek_to(Duration::ZERO) {
        return (Vec::new(), Some(error));
    }
    let mut samples = Vec::new();
    while samples.len() < 10_000 {
        match file.next_sample() {
            Ok(Some(sample)) => samples.push(sample),
            Ok(None) => return (samples, None),
            Err(error) => return (samples, Some(error)),
        }
    }
    (samples, None)
}

#[test]
fn a_file_cut_anywhere_gives_what_there_is_or_says_why_not() {
    for layout in layouts() {
        let (bytes, _) = write(&tracks(), &layout);
        let whole = exercise(&bytes, Limits::default());
        assert!(whole.1.is_none() && whole.0.len() == 32, "{layout:?}: {:?}", whole.1);
        for length in 0..bytes.len() {
            let (samples, error) = exercise(&bytes[..length], Limits::default());
            // By track: where one is missing in the end, the other need not wait for it.
            for id in [1, 2] {
                let mut of_whole = whole.0.iter().filter(|sample| sample.track_id == id);
                let mut of_cut = samples.iter().filter(|sample| sample.track_id == id);
                assert!(of_cut.all(|sample| of_whole.next() == Some(sample)), "{layout:?}, {length} bytes");
            }
            // What is left of a recording in fragments is in order, if it ends between two.
            let is_told = error.is_some() || layout.fragment > 0;
            assert!(samples.len() == 32 || is_told, "{layout:?}, {length} bytes");
            match error {
                Some(Mp4Error::Truncated { at }) => assert!(at <= bytes.len() as u64),
                Some(Mp4Error::NotMp4) => assert!(length < 8),
                Some(Mp4Error::NoIndex) => assert!(samples.is_empty()),
                Some(other) => panic!("{layout:?}, {length} bytes: {other}"),
                None => {}
            }
        }
    }
}

#[test]
fn any_byte_may_be_wrong() {
    for layout in layouts() {
        let tracks = [video(pictures(6, 3, 5)), audio(frames(7, 4))];
        let (bytes, _) = write(&tracks, &Layout { fragment: layout.fragment.min(3), ..layout });
        let mut broken = bytes.clone();
        for at in 0..bytes.len() {
            for value in [0, 0x7f, 0xff, bytes[at] ^ 1] {
                broken[at] = value;
                // No panic; sizes of samples are bounded, so that memory is.
                let (samples, _) = exercise(&broken, Limits { sample_bytes: 1 << 20, ..Limits::default() });
                assert!(samples.iter().all(|sample| sample.frame.pts >= sample.frame.dts));
            }
            broken[at] = bytes[at];
        }
    }
}

/// A file whose first box of this kind begins with another body.
fn with_box(bytes: &[u8], kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = bytes.windows(4).position(|window| window == kind).unwrap();
    let size = u32::from_be_bytes(bytes[at - 4..at].try_into().unwrap()) as usize;
    assert!(body.len() <= size - 8, "the body fits");
    bytes[at + 4..at + 4 + body.len()].copy_from_slice(body);
    bytes
}

fn fault(bytes: &[u8]) -> String {
    let (_, error) = exercise(bytes, Limits::default());
    error.map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn faults_are_named() {
    let (plain, _) = write(&tracks(), &Layout::default());
    let (fragmented, _) = write(&tracks(), &Layout { fragment: 5, ..Layout::default() });
    let count = |count: u32| words(&[0, count]);
    for (bytes, expected, remark) in [
        (b"GIF89a, not a film".to_vec(), "not an MP4 file", "another format"),
        (vec![], "not an MP4 file", "nothing"),
        (boxed(b"ftyp", b"isom"), "no index", "no index"),
        (
            [boxed(b"ftyp", b""), b"\0\0\0\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()].concat(),
            "no index",
            "a size beyond any file",
        ),
        (
            [boxed(b"ftyp", b""), b"\0\0\0\x03free".to_vec()].concat(),
            "broken box free",
            "smaller than its header",
        ),
        (
            [boxed(b"ftyp", b""), boxed(b"moov", b"")].concat(),
            "broken box mvhd: it is missing",
            "an empty index",
        ),
        (
            with_box(&plain, b"stsz", &words(&[0, 0, u32::MAX])),
            "broken box stsz",
            "more sizes than there are",
        ),
        (
            with_box(&plain, b"stsz", &words(&[0, 5, u32::MAX])),
            "samples of a track: 4294967295",
            "samples without end",
        ),
        (with_box(&plain, b"stsz", &words(&[0, u32::MAX, 1])), "bytes of a sample", "a sample of 4 GiB"),
        (with_box(&plain, b"stts", &count(u32::MAX)), "broken box stts", "more runs than there are"),
        (with_box(&plain, b"stss", &count(0x4000_0001)), "broken box stss", "a count that overflows"),
        (with_box(&plain, b"stco", &count(0)), "broken box stsc: the chunks hold fewer", "no chunks"),
        (
            with_box(&plain, b"stsc", &words(&[0, 1, 2])),
            "broken box stsc: its runs",
            "chunks from the second on",
        ),
        (with_box(&plain, b"stsc", &words(&[0, 1, 1, 0])), "broken box stsc: its runs", "chunks of nothing"),
        (
            with_box(&plain, b"stco", &words(&[0, 3, u32::MAX])),
            "the file ends before",
            "a chunk behind the end",
        ),
        (
            with_box(&plain, b"mdhd", &words(&[0, 0, 0, 0])),
            "broken box mdhd: its time scale is 0",
            "no time scale",
        ),
        (with_box(&plain, b"mvhd", &words(&[0x0500_0000])), "broken box mvhd", "an unknown version"),
        (with_box(&plain, b"stsd", &count(1)[..4]), "", "as it was"),
        (
            with_box(&fragmented, b"trun", &words(&[0xf01, u32::MAX])),
            "samples of a fragment: 4294967295",
            "samples without end",
        ),
        (
            with_box(&fragmented, b"trun", &words(&[0xf01, 1_000_000])),
            "broken box trun: cut short",
            "more rows than there are",
        ),
        (with_box(&fragmented, b"tfhd", &words(&[0x2_0000, 99])), "", "a track that is not there"),
    ] {
        let found = fault(&bytes);
        assert!(found.contains(expected), "{remark}: {found}");
        assert!(!expected.is_empty() || found.is_empty(), "{remark}: {found}");
    }
}

#[test]
fn what_is_beyond_a_limit_is_refused_before_it_is_read() {
    let (bytes, _) = write(&tracks(), &Layout::default());
    for (limits, expected) in [
        (Limits { index_bytes: 1000, ..Limits::default() }, "bytes of the index"),
        (Limits { samples: 11, ..Limits::default() }, "samples of a track: 12, the limit is 11"),
        (Limits { sample_bytes: 35, ..Limits::default() }, "bytes of a sample: 36, the limit is 35"),
        (Limits { tracks: 1, ..Limits::default() }, "tracks: 2, the limit is 1"),
    ] {
        let (_, error) = exercise(&bytes, limits);
        let error = error.expect("beyond the limit").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let [mut video, _] = tracks();
    video.edits = vec![(1, 0, 1); 3];
    let (bytes, _) = write(&[video], &Layout::default());
    let (_, error) = exercise(&bytes, Limits { edits: 2, ..Limits::default() });
    assert!(error.unwrap().to_string().contains("edit"));
}

/// A reader that has a file of any length, and counts.
struct Endless {
    head: Vec<u8>,
    period: Vec<u8>,
    position: u64,
    reads: u64,
}

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.reads += 1;
        for byte in &mut *buffer {
            let at = self.position as usize;
            *byte = match self.head.get(at) {
                Some(byte) => *byte,
                None => self.period[(at - self.head.len()) % self.period.len()],
            };
            self.position += 1;
        }
        Ok(buffer.len())
    }
}

impl std::io::Seek for Endless {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.position = match to {
            std::io::SeekFrom::Start(at) => at,
            _ => u64::MAX / 2,
        };
        Ok(self.position)
    }
}

#[test]
fn boxes_without_end_are_given_up() {
    let period = boxed(b"free", b"");
    let reader = Endless { head: boxed(b"ftyp", b""), period: period.clone(), position: 0, reads: 0 };
    assert!(matches!(Mp4::open(reader, Limits::default()), Err(Mp4Error::NoIndex)));

    let (head, _) = write(&tracks(), &Layout { fragment: 20, ..Layout::default() });
    let reader = Endless { head, period, position: 0, reads: 0 };
    let mut file = Mp4::open(reader, Limits::default()).unwrap();
    let mut samples = 0;
    let error = loop {
        match file.next_sample() {
            Ok(Some(_)) => samples += 1,
            Ok(None) => panic!("the file has no end"),
            Err(error) => break error,
        }
    };
    // The last of them wait for what the next fragment has before them.
    assert!(samples >= 30, "{samples}");
    assert!(matches!(error, Mp4Error::Malformed { .. }), "{error}");
    assert!(file.get_ref().reads < 20_000);
}

#[test]
fn an_index_within_an_index_ends_nowhere_deep() {
    // Boxes are walked level by level as they are known, so that nesting costs nothing.
    let mut moov = full(b"mvhd", 0, 0, &[0; 96]);
    let mut nested = Vec::new();
    for _ in 0..5_000 {
        nested = boxed(b"trak", &nested);
    }
    moov.extend(nested);
    let bytes = [boxed(b"ftyp", b""), boxed(b"moov", &moov)].concat();
    assert!(fault(&bytes).contains("broken box tkhd: it is missing"));
}

#[test]
fn few_bytes_that_declare_many_samples_cost_little() {
    // Fragments of 100 bytes, each with 600,000 samples of no size and no duration.
    let run = full(b"trun", 0, 0, &words(&[600_000]));
    let head = full(b"tfhd", 0, 0x2_0018, &words(&[1, 0, 0]));
    let moof = boxed(b"moof", &boxed(b"traf", &[head, run].concat()));
    let (mut bytes, _) = write(&tracks(), &Layout { fragment: 20, ..Layout::default() });
    (0..1000).for_each(|_| bytes.extend(&moof));
    let limits = Limits { samples: 1_000_000, ..Limits::default() };
    let mut file = Mp4::open(Cursor::new(&bytes[..]), limits).unwrap();
    let error = file.find_duration().unwrap_err().to_string();
    assert!(error.contains("samples of all fragments"), "{error}");
    let error = file.seek_to(Duration::from_secs(100)).unwrap_err().to_string();
    assert!(error.contains("samples of all fragments"), "{error}");
    file.seek_to(Duration::ZERO).unwrap();
    let error = std::iter::from_fn(|| file.next_sample().transpose()).find_map(Result::err);
    assert!(error.unwrap().to_string().contains("too many samples in a row"));
    // And in the index: two million samples of no size, in half a byte each.
    let sizes = full(b"stz2", 0, 0, &[words(&[4, 2_000_000]), vec![0; 1_000_000]].concat());
    let (plain, _) = write(&tracks()[..1], &Layout { gap: 0, ..Layout::default() });
    let at = plain.windows(4).position(|window| window == b"stsz").unwrap() - 4;
    let mut bytes = plain.clone();
    bytes[at + 4..at + 8].copy_from_slice(b"none");
    for (kind, body) in [(b"stsc", words(&[0, 1, 1, 2_000_000, 1])), (b"stco", words(&[0, 1, 8]))] {
        bytes = with_box(&bytes, kind, &body);
    }
    // Every box around it grows.
    for kind in [b"moov", b"trak", b"mdia", b"minf", b"stbl"] {
        let at = bytes.windows(4).position(|window| window == kind).unwrap() - 4;
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) + sizes.len() as u32;
        bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    bytes.splice(at..at, sizes);
    assert!(fault(&bytes).contains("too many samples in a row"), "{}", fault(&bytes));
}

#[test]
fn fragments_and_their_empty_samples_are_counted_while_they_are_read() {
    let read = |bytes: &[u8], limits: Limits| {
        let mut file = Mp4::open(Cursor::new(bytes), limits).unwrap();
        let mut samples = 0;
        loop {
            match file.next_sample() {
                Ok(Some(_)) => samples += 1,
                Ok(None) => return (samples, String::new()),
                Err(error) => return (samples, error.to_string()),
            }
        }
    };
    let (whole, _) = write(&tracks(), &Layout { fragment: 5, ..Layout::default() });
    let of_whole = Limits { fragments_read: 4, fragment_samples_read: 32, ..Limits::default() };
    assert_eq!(read(&whole, of_whole), (32, String::new()), "no more than there are");
    let fewer = Limits { fragment_samples_read: 31, ..of_whole };
    assert_eq!(read(&whole, fewer).1, "samples of all fragments: 32, the limit is 31");

    let head = full(b"tfhd", 0, 0x2_0018, &words(&[1, 0, 0]));
    let moof = |run: u32| {
        let run = full(b"trun", 0, 0, &words(&[run]));
        boxed(b"moof", &boxed(b"traf", &[&head[..], &run.repeat(10)].concat()))
    };
    for (moof, limits, why) in [
        (moof(60), Limits { fragment_samples_read: 1_000, ..of_whole }, "samples of all fragments: 1232"),
        // Runs of nothing.
        (moof(0), Limits { fragment_samples_read: 100, ..of_whole }, "samples of all fragments: 102"),
        (boxed(b"moof", b""), of_whole, "fragments: 101"),
    ] {
        let bytes = [&whole[..], &moof.repeat(200)].concat();
        let limits = Limits { fragments_read: 100, ..limits };
        let (samples, error) = read(&bytes, limits);
        assert!(error.starts_with(why), "{error}");
        assert!(samples <= 32);
        assert_eq!(read(&bytes, Limits::default()), (32, String::new()), "they are no fault by themselves");
    }
}
