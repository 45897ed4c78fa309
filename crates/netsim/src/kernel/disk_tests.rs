//! Each promise and each fault, over many seeds.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use super::disk::{DirEntry, Disk, DiskFaults, DiskFile, Open, Pending};
use super::with;
use crate::disk::{EBADF, EEXIST, EINVAL, EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY};
use crate::kernel::{self, Faults, Path, now};

const SEEDS: u64 = 400;
const SECTOR: usize = 512;

fn disk(seed: u64, faults: DiskFaults) -> Disk {
    kernel::begin(seed, Path::default(), Faults::default());
    Disk::new(faults)
}

/// What a call returns, when it returns.
fn wait<T>(pending: Pending<T>) -> io::Result<T> {
    kernel::advance_to(pending.at());
    pending.take()
}

fn ok<T>(pending: Pending<T>) -> T {
    wait(pending).expect("no error")
}

fn error<T>(pending: Pending<T>) -> Option<i32> {
    wait(pending).err().and_then(|error| error.raw_os_error())
}

fn content(disk: Disk, path: &str) -> Option<Vec<u8>> {
    let file = wait(disk.open(path, Open::Existing)).ok()?;
    Some(ok(file.read_at(0, usize::MAX >> 1)))
}

fn names(disk: Disk, path: &str) -> Vec<String> {
    ok(disk.list(path)).into_iter().map(|entry| entry.name).collect()
}

/// A file with these bytes that a power cut does not touch.
fn synced(disk: Disk, path: &str, bytes: &[u8]) -> DiskFile {
    let file = ok(disk.open(path, Open::Any));
    assert_eq!(ok(file.write_at(0, bytes)), bytes.len());
    ok(file.sync());
    ok(disk.sync_dir("/"));
    file
}

#[test]
fn files_and_directories_are_what_was_made_of_them() {
    let disk = disk(1, DiskFaults::default());
    ok(disk.create_dir("/live"));
    ok(disk.create_dir("/live/a"));
    let file = ok(disk.open("/live/a/1.ts", Open::New));
    assert_eq!(ok(file.append(b"hello")), 5);
    assert_eq!(ok(file.append(b" world")), 6);
    assert_eq!(ok(file.write_at(13, b"!")), 1);
    assert_eq!(ok(file.read_at(4, 100)), b"o world\0\0!");
    assert_eq!(ok(file.read_at(4, 2)), b"o ");
    assert_eq!(ok(file.read_at(99, 2)), b"");
    ok(file.set_len(3));
    ok(file.set_len(4));
    assert_eq!((file.len(), ok(file.read_at(0, 9))), (4, b"hel\0".to_vec()));
    ok(disk.rename("/live/a/1.ts", "/live/2.ts"));
    assert_eq!((names(disk, "/live"), names(disk, "/live/a")), (vec!["2.ts".into(), "a".into()], vec![]));
    let entry = DirEntry { name: "2.ts".into(), is_dir: false, bytes: 4 };
    assert_eq!(ok(disk.list("/live"))[0], entry);
    ok(disk.rename("/live", "/old"));
    assert_eq!(content(disk, "/old/2.ts"), Some(b"hel\0".to_vec()));
    assert!(ok(disk.open("/old/2.ts", Open::Empty)).is_empty());
    ok(disk.remove_dir("/old/a"));
    ok(disk.remove_file("/old/2.ts"));
    assert_eq!(names(disk, "/old"), [""; 0]);
}

#[test]
fn errors_are_those_of_linux() {
    let disk = disk(1, DiskFaults::default());
    ok(disk.create_dir("/d"));
    ok(disk.create_dir("/e"));
    drop(ok(disk.open("/d/f", Open::New)));
    let cases = [
        (error(disk.open("/d/g", Open::Existing)), ENOENT, "no such file"),
        (error(disk.open("/g/f", Open::Any)), ENOENT, "no such directory"),
        (error(disk.open("/d/f", Open::New)), EEXIST, "it is there"),
        (error(disk.open("/d/f/g", Open::Any)), ENOTDIR, "in a file"),
        (error(disk.open("/d", Open::Any)), EISDIR, "a directory"),
        (error(disk.open("/d/", Open::Any)), EINVAL, "no name"),
        (error(disk.create_dir("/d")), EEXIST, "it is there"),
        (error(disk.remove_dir("/d")), ENOTEMPTY, "it has a file"),
        (error(disk.remove_dir("/d/f")), ENOTDIR, "a file"),
        (error(disk.remove_file("/d")), EISDIR, "a directory"),
        (error(disk.rename("/g", "/h")), ENOENT, "nothing to rename"),
        (error(disk.rename("/d/f", "/e")), EISDIR, "over a directory"),
        (error(disk.rename("/e", "/d/f")), ENOTDIR, "over a file"),
        (error(disk.rename("/e", "/d")), ENOTEMPTY, "over what has a file"),
        (error(disk.rename("/d", "/d/g")), EINVAL, "into itself"),
        (error(disk.list("/g")), ENOENT, "no such directory"),
        (error(disk.sync_dir("/d/f")), ENOTDIR, "a file"),
    ];
    for (error, expected, remark) in cases {
        assert_eq!(error, Some(expected), "{remark}");
    }
}

#[test]
fn what_was_synced_with_its_name_survives() {
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        let file = synced(disk, "/f", &[7; 3_000]);
        ok(file.append(&[8; 3_000]));
        disk.cut_power();
        let content = content(disk, "/f").expect("the file");
        assert_eq!(content[..3_000], [7; 3_000], "seed {seed}");
        assert_eq!(error(file.append(b"x")), Some(EBADF));
        drop(file);
    }
}

#[test]
fn a_sync_that_has_not_returned_promises_nothing() {
    let lost = (0..SEEDS).filter(|&seed| {
        let disk = disk(seed, DiskFaults::default());
        let file = synced(disk, "/f", b"");
        ok(file.append(&[7; 100]));
        let sync = file.sync();
        kernel::advance_to(sync.at() - Duration::from_nanos(1));
        disk.cut_power();
        content(disk, "/f").expect("the file").is_empty()
    });
    assert!((1..SEEDS as usize).contains(&lost.count()));
}

#[test]
#[should_panic(expected = "has not returned yet")]
fn a_result_cannot_be_had_before_its_time() {
    let disk = disk(1, DiskFaults::default());
    let _ = disk.sync_dir("/").take();
}

/// Sectors of two writes over an old file, and their lengths, that a power cut leaves.
#[test]
fn later_writes_survive_in_any_sectors_and_no_sector_is_mixed() {
    let (mut lens, mut patterns) = (BTreeSet::new(), BTreeSet::new());
    let (mut has_hole, mut is_prefix) = (false, false);
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        let file = synced(disk, "/f", &[1; 3 * SECTOR]);
        ok(file.write_at(0, &[2; 6 * SECTOR]));
        // Within a sector that is not written yet.
        ok(file.write_at(100, &[3; 2 * SECTOR]));
        disk.cut_power();
        let content = content(disk, "/f").expect("the file");
        assert!(content.len() >= 3 * SECTOR && content.len().is_multiple_of(SECTOR));
        let pattern: Vec<u8> = content.chunks(SECTOR).map(|sector| sector[SECTOR - 1]).collect();
        for (index, sector) in content.chunks(SECTOR).enumerate() {
            let runs: Vec<u8> = sector.chunk_by(|a, b| a == b).map(|run| run[0]).collect();
            let allowed: &[&[u8]] = match index {
                0 => &[&[1], &[2], &[2, 3]],
                1 => &[&[1], &[2], &[3]],
                2 => &[&[1], &[2], &[3, 2]],
                _ => &[&[0], &[2]],
            };
            assert!(allowed.contains(&&runs[..]), "seed {seed}: sector {index} is {runs:?}");
        }
        has_hole |= pattern[3..].contains(&0);
        is_prefix |= pattern[..] == [2, 2, 2, 2];
        lens.insert(content.len() / SECTOR);
        patterns.insert(pattern);
    }
    assert_eq!(lens, BTreeSet::from([3, 4, 5, 6]));
    assert!(has_hole && is_prefix && patterns.len() > 30, "{} patterns", patterns.len());
}

#[test]
fn a_shorter_length_may_be_undone() {
    let lens = (0..SEEDS).map(|seed| {
        let disk = disk(seed, DiskFaults::default());
        let file = synced(disk, "/f", &[1; 1_000]);
        ok(file.set_len(10));
        disk.cut_power();
        content(disk, "/f").expect("the file").len()
    });
    assert_eq!(lens.collect::<BTreeSet<_>>(), BTreeSet::from([10, 1_000]));
}

#[test]
fn names_survive_in_their_order_and_each_as_a_whole() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        ok(disk.create_dir("/d"));
        synced(disk, "/a", b"old");
        drop(ok(disk.open("/b", Open::New)));
        ok(disk.rename("/b", "/a"));
        drop(ok(disk.open("/d/c", Open::New)));
        ok(disk.remove_file("/a"));
        disk.cut_power();
        let left = (names(disk, "/").join(" "), names(disk, "/d").join(" "));
        let old = content(disk, "/a").map(|content| content == b"old");
        seen.insert((left.0, left.1, old));
    }
    let expected = [("a d", "", true), ("a b d", "", true), ("a d", "", false), ("a d", "c", false)];
    let mut expected: BTreeSet<_> =
        expected.map(|(root, within, is_old)| (root.to_owned(), within.to_owned(), Some(is_old))).into();
    expected.insert(("d".to_owned(), "c".to_owned(), None));
    assert_eq!(seen, expected);
}

#[test]
fn names_of_a_synced_directory_survive_and_all_before_them() {
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        ok(disk.create_dir("/d"));
        drop(ok(disk.open("/d/f", Open::New)));
        ok(disk.rename("/d/f", "/d/g"));
        ok(disk.sync_dir("/d"));
        ok(disk.rename("/d/g", "/d/h"));
        disk.cut_power();
        let left = names(disk, "/d").join(" ");
        assert!(left == "g" || left == "h", "seed {seed}: {left}");
    }
}

#[test]
fn a_synced_file_may_lose_its_name_and_a_name_may_be_of_a_torn_file() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        let synced = ok(disk.open("/synced", Open::New));
        ok(synced.append(&[1; 700]));
        ok(synced.sync());
        let torn = ok(disk.open("/torn", Open::New));
        ok(torn.append(&[1; 700]));
        disk.cut_power();
        let [synced, torn] = ["/synced", "/torn"].map(|path| content(disk, path).map(|bytes| bytes.len()));
        seen.insert((synced, torn));
    }
    let expected = [
        (None, None),
        (Some(700), None),
        (Some(700), Some(0)),
        (Some(700), Some(512)),
        (Some(700), Some(700)),
    ];
    assert!(expected.iter().all(|case| seen.contains(case)), "{seen:?}");
    assert!(seen.iter().all(|(synced, _)| synced.is_none_or(|len| len == 700)));
}

#[test]
fn replacing_a_file_the_right_way_leaves_the_old_or_the_new_one() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        synced(disk, "/list", &[1; 2_000]);
        let new = ok(disk.open("/new", Open::Empty));
        ok(new.append(&[2; 2_000]));
        ok(new.sync());
        ok(disk.rename("/new", "/list"));
        disk.cut_power();
        let content = content(disk, "/list").expect("one of them");
        assert!(content == [1; 2_000] || content == [2; 2_000], "seed {seed}");
        seen.insert(content[0]);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn what_a_failed_sync_was_for_may_be_lost_although_a_later_one_succeeds() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        let file = synced(disk, "/f", &[0; 2 * SECTOR]);
        ok(file.write_at(0, &[1; SECTOR]));
        disk.set_faults(DiskFaults { sync_error: 1.0, ..DiskFaults::default() });
        assert_eq!(error(file.sync()), Some(EIO));
        disk.set_faults(DiskFaults::default());
        ok(file.write_at(SECTOR as u64, &[2; SECTOR]));
        ok(file.sync());
        assert_eq!(ok(file.read_at(0, 1)), [1], "programs see it");
        disk.cut_power();
        let content = content(disk, "/f").expect("the file");
        assert_eq!(content[SECTOR..], [2; SECTOR]);
        lost += usize::from(content[0] == 0);
    }
    assert!((1..SEEDS as usize).contains(&lost));
}

#[test]
fn a_disk_has_its_capacity_and_writes_are_short_at_its_end() {
    let disk = disk(1, DiskFaults { capacity_bytes: Some(1_000), ..DiskFaults::default() });
    let file = ok(disk.open("/f", Open::New));
    assert_eq!(ok(file.append(&[1; 600])), 600);
    assert_eq!(ok(file.append(&[2; 600])), 400, "short");
    assert_eq!(error(file.append(&[3; 1])), Some(ENOSPC));
    assert_eq!(error(disk.open("/g", Open::New)), Some(ENOSPC));
    assert_eq!(error(disk.create_dir("/d")), Some(ENOSPC));
    assert_eq!(ok(file.write_at(500, &[4; 500])), 500, "over what is there");
    assert_eq!(ok(file.append(b"")), 0);
    ok(disk.remove_file("/f"));
    assert_eq!(disk.used_bytes(), 1_000, "it is still open");
    assert_eq!(error(disk.open("/g", Open::New)), Some(ENOSPC));
    drop(file);
    assert_eq!(disk.used_bytes(), 0);
    assert!(wait(disk.open("/g", Open::New)).is_ok());
}

#[test]
fn others_fill_the_disk_in_the_middle_of_a_write_and_leave_later() {
    let mut short = BTreeSet::new();
    for seed in 0..SEEDS {
        let disk = disk(seed, DiskFaults::default());
        let file = ok(disk.open("/f", Open::New));
        ok(file.append(&[1; 300]));
        let full_max = Duration::from_secs(3);
        disk.set_faults(DiskFaults { full: 1.0, full_max, ..DiskFaults::default() });
        let pending = file.append(&[2; 4]);
        disk.set_faults(DiskFaults::default());
        let count = match wait(pending) {
            Ok(count) => count,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                0
            }
        };
        assert_eq!(file.len(), 300 + count as u64);
        short.insert(count);
        kernel::advance_to(now() + full_max);
        assert_eq!(ok(file.append(&[3; 4])), 4);
    }
    assert_eq!(short, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn errors_of_the_disk_change_nothing() {
    let broken = DiskFaults { read_error: 1.0, write_error: 1.0, ..DiskFaults::default() };
    let disk = disk(1, DiskFaults::default());
    let file = ok(disk.open("/f", Open::New));
    ok(file.append(b"abc"));
    disk.set_faults(broken);
    let errors = [
        error(file.append(b"d")),
        error(file.write_at(0, b"d")),
        error(file.set_len(0)),
        error(file.read_at(0, 1)),
        error(disk.open("/g", Open::New)),
        error(disk.create_dir("/d")),
        error(disk.rename("/f", "/g")),
        error(disk.remove_file("/f")),
        error(disk.list("/")),
    ];
    assert_eq!(errors, [Some(EIO); 9]);
    disk.set_faults(DiskFaults::default());
    assert_eq!((content(disk, "/f"), names(disk, "/")), (Some(b"abc".to_vec()), vec!["f".to_owned()]));
}

#[test]
fn calls_take_the_time_of_the_disk_one_after_the_other() {
    let ms = Duration::from_millis;
    let faults = DiskFaults {
        latency: ms(10),
        bytes_per_second: Some(1_000_000),
        dirty_bytes_max: 50_000,
        ..DiskFaults::default()
    };
    let disk = disk(1, faults.clone());
    let file = ok(disk.open("/f", Open::New));
    let began = now();
    let took = |at: Instant| (at - began).as_millis();
    assert_eq!(took(file.append(&[0; 50_000]).at()), 0, "in memory");
    assert_eq!(took(file.append(&[0; 20_000]).at()), 30, "waits for what is too much");
    assert_eq!(took(file.sync().at()), 30 + 10 + 50, "everything that is dirty");
    assert_eq!(took(file.sync().at()), 30 + 60 + 10, "nothing is");
    assert_eq!(took(file.read_at(0, 5_000).at()), 100 + 15);
    let other = ok(disk.open("/g", Open::New));
    ok(other.append(&[0; 50_000]));
    kernel::advance_to(began + ms(1_000));
    assert_eq!(took(file.sync().at()), 1_000 + 10 + 50, "of other files, too");
    kernel::advance_to(began + ms(2_000));
    disk.set_faults(DiskFaults { stall: 1.0, stall_max: ms(5_000), ..faults });
    let stalls: BTreeSet<u128> = (0..100).map(|_| (file.append(b"x").at() - now()).as_millis()).collect();
    assert!(stalls.len() > 50 && stalls.iter().any(|stall| *stall > 4_000), "{stalls:?}");
}

#[test]
fn a_seed_is_the_same_disk_every_time_and_disks_leave_the_network_alone() {
    let run = |seed: u64| {
        let faults = DiskFaults {
            jitter: Duration::from_millis(3),
            stall: 0.1,
            full: 0.1,
            read_error: 0.1,
            write_error: 0.1,
            sync_error: 0.1,
            ..DiskFaults::default()
        };
        let disk = disk(seed, faults);
        for number in 0..50_usize {
            let path = format!("/{}", number % 7);
            if let Ok(file) = wait(disk.open(&path, Open::Any)) {
                let _ = wait(file.append(&[number as u8; 900]));
                let _ = wait(file.sync());
            }
            let _ = wait(disk.rename(&path, &format!("/{}", number % 5)));
            if number % 10 == 9 {
                disk.cut_power();
            }
        }
        disk.set_faults(DiskFaults::default());
        let contents: Vec<_> =
            names(disk, "/").iter().map(|name| content(disk, &format!("/{name}"))).collect();
        (kernel::digest(), kernel::elapsed(), contents)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
    let network = |uses_disk: bool| {
        kernel::begin(9, Path::default(), Faults::default());
        if uses_disk {
            Disk::new(DiskFaults::default()).cut_power();
        }
        with(|kernel| kernel.random.next_u64())
    };
    assert_eq!(network(false), network(true));
}
