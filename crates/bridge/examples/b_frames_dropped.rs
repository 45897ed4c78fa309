//! Which pictures of an FLV file would WebRTC viewers get, and what would they and the operator
//! read about it?
//!
//! ```text
//! cargo run -p bridge --example b_frames_dropped -- stream.flv [sent.h264 [FROM]]
//! ```
//! Prints the reason of a refusal, then counts and a digest (FNV-1a) of the units that would be sent. With a
//! second name these are written there, in Annex B form, to be decoded and compared with the whole. FROM
//! pictures are skipped, as for a viewer who comes later.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use bridge::BFrames;
use bridge::b_frames::{PictureFilter, Verdict};
use media::FrameRole;
use media::bitstream::Nals;
use media::config::RecordError;
use rtmp::MediaKind;
use rtmp::flv::{FlvReader, read_frames};
use rtp::payload::Codec;

/// Largest tag body read.
const TAG_BYTES_MAX: u32 = 16 << 20;
/// Constants of the FNV-1a hash of 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        eprintln!("usage: b_frames_dropped FILE.flv [SENT [FROM]]");
        return Ok(ExitCode::FAILURE);
    };
    let file = arguments.next().map(File::create).transpose()?;
    let from: usize = arguments.next().map_or(Ok(0), |from| from.parse())?;
    let mut reader = FlvReader::new(TAG_BYTES_MAX);
    reader.push(&std::fs::read(name)?);
    let (mut filter, mut record, mut at) = (None, Vec::new(), 0);
    let mut counts = Counts { kept: 0, keys: 0, dropped: 0, digest: FNV_OFFSET, file };
    while let Some(tag) = reader.next_tag()? {
        if tag.kind != MediaKind::Video {
            continue;
        }
        let (frame, _) = read_frames(tag.into())?;
        match frame.role {
            FrameRole::Config if frame.data() != record => {
                record = frame.data().to_vec();
                filter = Some(configure(frame.codec, &record).map_err(|error| format!("record: {error:?}"))?);
            }
            FrameRole::Key | FrameRole::Inter => {
                at += 1;
                let Some(filter) = filter.as_mut().filter(|_| at > from) else { continue };
                if !counts.take(filter, frame.data(), frame.is_key())? {
                    println!("at picture {}", at - 1);
                    break;
                }
            }
            _ => {}
        }
    }
    println!(
        "kept={} key={} dropped={} digest={:016x}",
        counts.kept, counts.keys, counts.dropped, counts.digest
    );
    Ok(ExitCode::SUCCESS)
}

fn configure(codec: Codec, record: &[u8]) -> Result<PictureFilter, RecordError> {
    let filter = PictureFilter::new(codec, record, BFrames::Drop)?;
    println!("{}", filter.fmtp());
    Ok(filter)
}

struct Counts {
    kept: u32,
    keys: u32,
    dropped: u32,
    digest: u64,
    file: Option<File>,
}

impl Counts {
    /// Takes a frame. Whether the stream goes on.
    fn take(&mut self, filter: &mut PictureFilter, frame: &[u8], key: bool) -> std::io::Result<bool> {
        let mut nals = Nals::default();
        match filter.frame(frame, key, &mut nals) {
            Verdict::Keep { key } => {
                self.kept += 1;
                self.keys += u32::from(key);
            }
            Verdict::Drop(_) => self.dropped += 1,
            Verdict::Refuse(refusal) => {
                println!("refused: {}", refusal.text());
                return Ok(false);
            }
        }
        for nal in nals.iter() {
            let unit = [&[0, 0, 0, 1], nal].concat();
            for &byte in &unit {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
            if let Some(file) = &mut self.file {
                file.write_all(&unit)?;
            }
        }
        Ok(true)
    }
}
