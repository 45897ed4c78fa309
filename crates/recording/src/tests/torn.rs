//! A process can end between any two writes, and in the middle of one.

use std::path::PathBuf;
use std::time::Duration;

use super::feed;
use super::memory::{Memory, Op};
use super::*;
use crate::scan::{Check, scan};

/// Where a write of so many bytes is cut off: all of a small one.
fn cuts(op: &Op) -> Vec<usize> {
    let (Op::Append(_, bytes) | Op::WriteAt(_, _, bytes)) = op else { return vec![usize::MAX] };
    match bytes.len() {
        count @ 0..=64 => (0..=count).collect(),
        count => vec![0, 1, 7, 8, 9, 31, 32, 40, count / 2, count - 17, count - 16, count - 1, count],
    }
}

#[test]
fn a_file_opens_and_lacks_one_fragment_at_most_wherever_its_writes_end() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 7, 700);
    rig.publish(&frames);
    rig.finish();
    let published = feed::published(&frames);
    let ops = memory.state().ops.clone();
    assert!(ops.iter().filter(|op| matches!(op, Op::Append(..))).count() >= 15, "{}", ops.len());
    let mut readable = 0;
    for count in 1..=ops.len() {
        for cut in cuts(&ops[count - 1]) {
            let what = format!("write {count} of {}, {cut} bytes of it", ops.len());
            let torn = Memory::after(&ops[..count], cut);
            let (path, bytes) = torn.files().into_iter().next().expect("one file");
            // As it is, to a reader of our own and to everyone's.
            let mut file = torn.clone().open(&path, false).expect("it is there");
            let whole = scan(&mut *file, Format::Mp4, Check::Everything).expect("readable");
            let samples: Vec<_> = whole.tables.iter().map(|table| table.samples()).collect();
            // ffmpeg opens no file with a torn one.
            let moofs = bytes.windows(4).filter(|kind| kind == b"moof").count() as u64;
            assert!(moofs <= whole.fragments, "{what}: {moofs} of {}", whole.fragments);
            if whole.fragments > 0 {
                // Ours reads ahead, and says so where the rest is torn; ffmpeg is asked in `tests/`.
                missing(&feed::read(bytes.clone()).0, &published, &what);
                let (found, error) = feed::read(bytes[..whole.whole_bytes as usize].to_vec());
                assert_eq!(error, None, "{what}");
                missing(&found, &published, &what);
                assert_eq!([found[0].len(), found[1].len()], samples[..], "{what}");
                readable += 1;
            }
            // After the next start: complete, with all whole fragments.
            let rig = Rig::new(Box::new(torn.clone()), settings(Format::Mp4));
            check_repaired(rig, &torn, &samples, &published, &what);
        }
    }
    assert!(readable > 100, "{readable}");
}

fn check_repaired(mut rig: Rig, torn: &Memory, samples: &[usize], published: &[Vec<Vec<u8>>; 2], what: &str) {
    rig.pass(Duration::from_secs(1));
    let files: Vec<(PathBuf, Vec<u8>)> = torn.files().into_iter().collect();
    if samples.iter().sum::<usize>() == 0 {
        assert!(files.is_empty(), "{what}: nothing is left of nothing");
        return;
    }
    let [(path, bytes)] = &files[..] else { panic!("{what}: {files:?}") };
    assert_eq!(path.extension().unwrap(), "mp4", "{what}");
    assert_eq!(&bytes[32..36], b"mdat", "{what}: an ordinary file");
    let (found, error) = feed::read(bytes.clone());
    assert_eq!(error, None, "{what}");
    missing(&found, published, what);
    assert_eq!([found[0].len(), found[1].len()], samples, "{what}: all that was whole");
}

#[test]
fn a_complete_file_is_never_touched() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 3, 700));
    rig.finish();
    let before = memory.files();
    let count = memory.state().ops.len();
    // Even if what is in it is damaged, and although its name is taken by a new recording.
    let path = before.keys().next().unwrap().clone();
    memory.state().files.get_mut(&path).unwrap()[2000] ^= 1;
    let damaged = memory.files();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.pass(Duration::from_secs(100));
    assert_eq!((memory.files(), memory.state().ops.len()), (damaged.clone(), count));
    rig.wall = BEGIN;
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 3, 700));
    rig.finish();
    let names: Vec<_> = memory.files().into_keys().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(memory.files()[&path], damaged[&path]);
    assert!(names.iter().any(|name| name.to_str().unwrap().ends_with("Z-2.mp4")), "{names:?}");
}

#[test]
fn a_torn_flv_file_keeps_its_whole_tags() {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Flv));
    rig.publish(&feed::configurations());
    rig.publish(&feed::frames(0, 3, 700));
    rig.finish();
    let ops = memory.state().ops.clone();
    let mut tags = 0;
    for count in 1..=ops.len() {
        for cut in cuts(&ops[count - 1]) {
            let torn = Memory::after(&ops[..count], cut);
            let mut rig = Rig::new(Box::new(torn.clone()), settings(Format::Flv));
            rig.pass(Duration::from_secs(1));
            for (path, bytes) in torn.files() {
                assert_eq!(path.extension().unwrap(), "flv");
                let mut reader = rtmp::flv::FlvReader::new(1 << 20);
                let length = bytes.len();
                reader.push(&bytes);
                let mut end = 13;
                while let Some(tag) = reader.next_tag().expect("FLV") {
                    end += tag.body.len() + 15;
                    tags += 1;
                }
                assert_eq!(end, length, "whole tags, and nothing else");
            }
        }
    }
    assert!(tags > 1000, "{tags}");
}
