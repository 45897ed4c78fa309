//! What `millstream record repair` does with complete files that are damaged.

use std::path::PathBuf;

use super::feed;
use super::memory::{Memory, Op};
use super::*;
use crate::catalogue::State;
use crate::names::RecordingName;
use crate::repair::{Repaired, Verdict, repair, verify};
use crate::scan::{Check, Scan, scan};

/// A complete recording that is longer than what a start looks at, and what was published.
fn recorded() -> (Memory, RecordingName, PathBuf, [Vec<Vec<u8>>; 2]) {
    let memory = Memory::default();
    let mut rig = Rig::new(Box::new(memory.clone()), settings(Format::Mp4));
    rig.publish(&feed::configurations());
    let frames = feed::frames(0, 150, 700);
    rig.publish(&frames);
    rig.finish();
    let name = rig.shared.catalogue().keys().next().expect("a recording").clone();
    let path = name.path();
    (memory, name, path, feed::published(&frames))
}

fn scanned(memory: &Memory, path: &Path, check: Check) -> Scan {
    let mut file = memory.clone().open(path, false).expect("it is there");
    scan(&mut *file, Format::Mp4, check).expect("readable")
}

#[test]
fn a_complete_file_is_cut_at_the_first_damaged_fragment() {
    let (memory, name, path, published) = recorded();
    let sound = memory.files()[&path].clone();
    let place = |what: &[u8], from: usize| {
        from + sound[from..].windows(what.len()).position(|window| window == what).expect("there is one")
    };
    // Bytes of media, and the head of a fragment; in the middle, and among the newest.
    for from in [sound.len() / 3, sound.len() / 100 * 95] {
        let begin = place(b"prft", from) - 4;
        let inside =
            [begin + 20, place(b"moof", begin) - 1, place(b"mdat", begin) + 1, place(b"mdat", begin) + 300];
        for at in inside {
            memory.state().files.insert(path.clone(), sound.clone());
            memory.state().files.get_mut(&path).expect("a file")[at] ^= 0x10;
            let mut storage = memory.clone();
            let before = verify(&mut storage, &name, State::Complete);
            assert!(matches!(before, Verdict::Damaged(_)), "{at}");
            let done = repair(&mut storage, &name, State::Complete);
            let now = memory.files()[&path].clone();
            let Repaired::Completed(of, lost) = done else { panic!("{at}: {done:?}") };
            assert_eq!((of, lost), (path.clone(), (sound.len() - now.len()) as u64), "{at}");
            let after = verify(&mut storage, &name, State::Complete);
            assert!(matches!(after, Verdict::Sound(_)), "{at}");
            assert_eq!(now[44..begin], sound[44..begin], "{at}: what is in front stays");
            let (found, error) = feed::read(now);
            assert_eq!(error, None, "{at}");
            missing(&found, &published, "cut");
            let whole = scanned(&memory, &path, Check::Everything);
            assert_eq!(
                whole.tables.iter().map(|table| table.samples()).sum::<usize>(),
                found[0].len() + found[1].len()
            );
            assert!(matches!(repair(&mut storage, &name, State::Complete), Repaired::Nothing), "{at}");
        }
    }
}

#[test]
fn a_repair_may_end_between_any_two_writes() {
    let (memory, name, path, published) = recorded();
    let at = memory.files()[&path].len() / 2;
    memory.state().files.get_mut(&path).expect("a file")[at] ^= 0x10;
    let damaged = memory.files()[&path].clone();
    memory.state().ops.clear();
    assert!(matches!(repair(&mut memory.clone(), &name, State::Complete), Repaired::Completed(..)));
    let done = memory.files()[&path].clone();
    let ops = memory.state().ops.clone();
    assert!(ops.len() >= 5, "{}", ops.len());
    for count in 1..=ops.len() {
        for cut in 0..=16 {
            let begun = [Op::Create(path.clone()), Op::Append(path.clone(), damaged.clone())];
            let ops: Vec<Op> = begun.into_iter().chain(ops[..count].iter().cloned()).collect();
            let torn = Memory::after(&ops, cut);
            // It opens, and plays what is in front of the damage.
            let now = scanned(&torn, &path, Check::Nothing);
            assert!(now.fragments > 0, "write {count}, {cut} bytes of it");
            repair(&mut torn.clone(), &name, State::Complete);
            assert_eq!(torn.files()[&path], done, "write {count}, {cut} bytes of it");
            missing(&feed::read(done.clone()).0, &published, "repaired");
        }
    }
}

#[test]
fn a_clock_that_is_damaged_hides_no_damage() {
    let (memory, _, path, _) = recorded();
    let complete = memory.files()[&path].clone();
    let index_at = complete.windows(4).rposition(|window| window == b"moov").expect("an index") - 4;
    let begins: Vec<usize> = complete[..index_at]
        .windows(8)
        .enumerate()
        .filter(|(_, window)| window == b"\0\0\0\x20prft")
        .map(|(at, _)| at)
        .collect();
    let [.., before, last] = begins[..] else { panic!("{begins:?}") };
    // The wall clock (ISO/IEC 14496-12 section 8.16.5) as it is before 1970, and far ahead.
    for (damaged, clock) in [(before, [0; 8]), (last, [0; 8]), (last, [0xff; 8])] {
        let mut growing = complete[..index_at].to_vec();
        growing[damaged + 16..damaged + 24].copy_from_slice(&clock);
        // And media in front of the last one, if that is what says that all else is old.
        growing[last - 20] ^= 0x10;
        memory.state().files.insert(path.clone(), growing);
        let found = scanned(&memory, &path, Check::Newest);
        assert_eq!(found.whole_bytes, before as u64, "{clock:?} at {damaged}");
    }
}
