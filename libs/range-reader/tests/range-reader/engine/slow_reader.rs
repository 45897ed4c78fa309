//! A reader slower than its link gets each byte once.

use std::ops::Range;
use std::time::Duration;

use range_reader::{AsyncRangeReader, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::engine::world::{Habits, Link, World, file_of};

#[tokio::test(start_paused = true)]
async fn a_slow_reader_with_hints_fetches_nothing_twice() {
    let file = file_of(16 << 20);
    let world = World::new(file.clone(), Link::NEAR, Habits::default());
    let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
    let runs: Vec<Range<u64>> = (0..16).map(|run| run * 1_000_000..run * 1_000_000 + 640_000).collect();
    reader.will_need(runs.clone());
    let mut piece = vec![0; 64_000];
    for range in runs {
        reader.seek(std::io::SeekFrom::Start(range.start)).await.unwrap();
        for start in range.step_by(piece.len()) {
            reader.read_exact(&mut piece).await.unwrap();
            assert!(piece == file[start as usize..start as usize + piece.len()]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let counters = reader.counters();
    assert_eq!(counters.bytes_wasted, 0, "{counters:?}");
    assert!(counters.bytes_received < 16 * 640_000 * 103 / 100, "{counters:?}");
    assert!(world.requests() <= 2, "{:?}", world.log());
    assert_eq!(world.connections(), 1);
}
