//! The power goes: of what was not synced, any sectors are there, or none, or zeros.

use netsim::Random;
use netsim::kernel::disk::{Disk, DiskFaults};
use netsim::kernel::{self, Faults};

use super::simulated::Simulated;
use super::*;

const SEEDS: u64 = 400;

#[test]
fn a_power_cut_costs_what_was_not_synced_and_leaves_files_that_open() {
    let frames = feed::frames(0, 12, 700);
    let published = feed::published(&frames);
    let (mut cut_files, mut complete_files) = (0, 0);
    for seed in 0..SEEDS {
        kernel::begin(seed, kernel::Path::default(), Faults::default());
        let disk = Disk::new(DiskFaults::default());
        let mut random = Random::new(seed);
        let mut rig = Rig::new(Box::new(Simulated(disk)), settings(Format::Mp4));
        let cut_at = random.below(frames.len() as u64 + 20) as usize;
        // The clock of the disk is that of the writer.
        rig.at = kernel::now();
        rig.publish(&feed::configurations());
        for frame in frames.iter().take(cut_at) {
            rig.publish(std::slice::from_ref(frame));
            kernel::advance_to(rig.at.max(kernel::now()));
            rig.pass(Duration::ZERO);
        }
        if cut_at > frames.len() {
            rig.finish();
        }
        let time =
            frames.get(cut_at.min(frames.len()) - usize::from(cut_at > 0)).map_or(0, |f| f.dts.millis());
        drop(rig);
        disk.cut_power();

        let mut rig = Rig::new(Box::new(Simulated(disk)), settings(Format::Mp4));
        rig.at = kernel::now();
        rig.pass(Duration::from_secs(1));
        let mut storage = Simulated(disk);
        let entries = storage.list(stream_folder()).unwrap_or_default();
        let what = format!("seed {seed}, cut at {time} ms: {entries:?}");
        assert!(entries.iter().all(|entry| entry.name.ends_with(".mp4")), "{what}");
        // A second is gathered, two may be unsynced, and one goes by before that is seen.
        if time > 5_500 {
            assert_eq!(entries.len(), 1, "{what}");
        }
        let Some(entry) = entries.first() else { continue };
        let mut file = storage.open(&stream_folder().join(&entry.name), false).expect("there");
        let mut bytes = vec![0; entry.bytes as usize];
        assert_eq!(file.read_at(0, &mut bytes).expect("readable"), bytes.len());
        let (found, error) = feed::read(bytes);
        assert_eq!(error, None, "{what}");
        let lost = missing(&found, &published, &what);
        let there = found[0].len() as i64 * 40;
        assert!(there + 4_200 >= time, "{what}: {there} ms of {time} are left");
        if cut_at > frames.len() {
            assert_eq!(lost, [0, 0], "{what}: a complete file is whole");
            complete_files += 1;
        } else {
            cut_files += 1;
        }
    }
    assert!(cut_files > 150 && complete_files > 5, "{cut_files} {complete_files}");
}
