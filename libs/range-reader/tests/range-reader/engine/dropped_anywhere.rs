//! A read that is dropped, at whatever point it waits, leaves nothing open and loses no byte.

use std::future::Future;
use std::io::SeekFrom;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use range_reader::{AsyncRangeReader, ReaderConfig};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::engine::world::{Habits, Link, World, file_of};

const FILE_BYTES: usize = 300_000;

#[tokio::test(start_paused = true)]
async fn dropping_the_reader_at_any_point_leaves_nothing_open() {
    for http2 in [false, true] {
        let file = file_of(FILE_BYTES);
        let mut points = 0;
        loop {
            let world = World::new(file.clone(), Link::COUNTRY, Habits { http2, ..Habits::default() });
            let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
            let is_complete = poll_times(points, read_some(&mut reader)).await.is_some();
            drop(reader);
            assert_eq!(world.open(), (0, 0, 0), "dropped at point {points}");
            points += 1;
            if is_complete {
                break;
            }
        }
        assert!(points > 20, "only {points} points to drop it at");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_dropped_at_any_point_goes_on_where_it_was() {
    let file = file_of(FILE_BYTES);
    for points in 0..60 {
        let world = World::new(file.clone(), Link::COUNTRY, Habits::default());
        let mut reader = AsyncRangeReader::with_source(world.source(), ReaderConfig::default());
        reader.will_need([1000..90_000, 150_000..280_000]);
        reader.seek(SeekFrom::Start(1000)).await.unwrap();
        let mut first = [0; 4096];
        let before = poll_times(points, async { reader.read(&mut first).await.unwrap() }).await.unwrap_or(0);
        let mut rest = vec![0; 60_000];
        reader.read_exact(&mut rest).await.unwrap();
        assert!(first[..before] == file[1000..1000 + before], "dropped at point {points}");
        assert!(rest == file[1000 + before..][..rest.len()], "dropped at point {points}");
        drop(reader);
        assert_eq!(world.open(), (0, 0, 0), "dropped at point {points}");
    }
}

async fn read_some(reader: &mut AsyncRangeReader<crate::engine::world::SimSource>) {
    let mut piece = vec![0; 20_000];
    reader.read_exact(&mut piece).await.unwrap();
    reader.seek(SeekFrom::End(-50_000)).await.unwrap();
    reader.read_exact(&mut piece).await.unwrap();
    reader.will_need([100_000..120_000, 140_000..160_000]);
    for start in [100_000, 140_000] {
        reader.seek(SeekFrom::Start(start)).await.unwrap();
        reader.read_exact(&mut piece).await.unwrap();
    }
}

/// Polls `future` so many times, each time that it may have something new, and then drops it.
async fn poll_times<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        // One segment's time on the link.
        tokio::time::advance(std::time::Duration::from_millis(5)).await;
    }
    None
}
