//! Lists the samples of an MP4 file as `Mp4` gives them, a line each, and how the file was read.
//!
//! usage: `mp4_samples FILE [SEEK_MS]`
//!
//! Output: `kind,track,offset,size,dts_ns,pts_ns,duration_ns,flags`, flags being `K` for a key
//! frame and `D` for a hidden picture; behind a `#`, tracks, configurations, and bytes read
//! backward. For comparison with `ffprobe -show_packets`.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::time::Duration;

use media::{FrameRole, MediaKind};
use mp4::{Limits, Mp4};

/// A file that tells how it was read.
struct Watched {
    file: BufReader<File>,
    position: u64,
    backward_seeks: u64,
    backward_bytes: u64,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Watched {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let position = self.file.seek(to)?;
        if position < self.position {
            self.backward_seeks += 1;
            self.backward_bytes += self.position - position;
        }
        self.position = position;
        Ok(position)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: mp4_samples FILE [SEEK_MS]")?;
    let reader = Watched {
        file: BufReader::new(File::open(path)?),
        position: 0,
        backward_seeks: 0,
        backward_bytes: 0,
    };
    let mut file = Mp4::open(reader, Limits::default())?;
    for track in file.tracks() {
        println!(
            "# track {} {:?} {} timescale={} {}x{} {} Hz {} channels end={:?} frames_end={:?}",
            track.id,
            track.track.kind,
            track.codec,
            track.timescale,
            track.width,
            track.height,
            track.sample_rate,
            track.channels,
            track.end,
            track.frames_end
        );
    }
    println!("# duration {:?}", file.find_duration()?);
    if let Some(at) = arguments.next() {
        println!("# at {:?}", file.seek_to(Duration::from_millis(at.parse()?))?);
    }
    let after_open = (file.get_ref().backward_seeks, file.get_ref().backward_bytes);
    while let Some(sample) = file.next_sample()? {
        if let Some(config) = sample.config {
            println!("# config {} {}", sample.track_id, config.data().escape_ascii());
        }
        let frame = &sample.frame;
        let [dts, pts, duration] =
            [frame.dts, frame.pts, sample.duration].map(|time| time.ticks(1_000_000_000));
        println!(
            "{},{},{},{},{dts},{pts},{duration},{}{}",
            if frame.track.kind == MediaKind::Video { "video" } else { "audio" },
            sample.track_id,
            sample.offset,
            frame.data().len(),
            if frame.role == FrameRole::Inter { "_" } else { "K" },
            if sample.is_hidden { "D" } else { "_" }
        );
    }
    println!(
        "# backward seeks={} bytes={}",
        file.get_ref().backward_seeks - after_open.0,
        file.get_ref().backward_bytes - after_open.1
    );
    Ok(())
}
