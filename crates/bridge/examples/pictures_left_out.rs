//! Which pictures of an FLV file would WebRTC viewers get, and what would be told about it?
//!
//! ```text
//! cargo run -p bridge --example pictures_left_out -- stream.flv [sent.h264 [FROM]]
//! ```
//! Prints the reason of a refusal, then counts and a digest (FNV-1a) of the units that would be sent. With a second name the pictures that would be sent are written there, in
//! Annex B form, to be decoded and compared with the whole. FROM pictures are skipped, as for a viewer who comes later.

use std::io::Write;
use std::process::ExitCode;

use bridge::BFrames;
use bridge::pictures::{Nals, PictureFilter, Verdict};
use live::flv::FlvReader;
use live::rtmp::MediaKind;
use rtp::payload::Codec;

/// Largest tag body read.
const TAG_BYTES_MAX: u32 = 16 << 20;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        eprintln!("usage: pictures_left_out FILE.flv [SENT [FROM]]");
        return Ok(ExitCode::FAILURE);
    };
    let mut sent = arguments.next().map(std::fs::File::create).transpose()?;
    let from: usize = arguments.next().map_or(Ok(0), |from| from.parse())?;
    let mut reader = FlvReader::new(TAG_BYTES_MAX);
    reader.push(&std::fs::read(name)?);
    let (mut filter, mut nals) = (None, Nals::default());
    let (mut record, mut kept, mut keys, mut dropped, mut at) = (Vec::new(), 0, 0, 0, 0);
    let mut digest = FNV_OFFSET;
    while let Some(tag) = reader.next_tag()? {
        let Some((codec, key, body)) = (tag.kind == MediaKind::Video).then(|| video(&tag.body)).flatten()
        else {
            continue;
        };
        match body {
            Body::Record(bytes) if bytes == record => {}
            Body::Record(bytes) => {
                record = bytes.to_vec();
                match PictureFilter::new(codec, bytes, BFrames::Drop) {
                    Ok(made) => {
                        println!("{}", made.fmtp());
                        filter = Some(made);
                    }
                    Err(error) => println!("configuration: {error:?}"),
                }
            }
            Body::Frame(data) => {
                at += 1;
                let Some(filter) = filter.as_mut().filter(|_| at > from) else { continue };
                match filter.frame(data, key, &mut nals) {
                    Verdict::Keep { key } => {
                        kept += 1;
                        keys += u32::from(key);
                        for nal in nals.iter() {
                            let unit = [&[0, 0, 0, 1], nal].concat();
                            digest = unit.iter().fold(digest, |digest, &byte| {
                                (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
                            });
                            if let Some(file) = &mut sent {
                                file.write_all(&unit)?;
                            }
                        }
                    }
                    Verdict::Drop(_) => dropped += 1,
                    Verdict::Refuse(refusal) => {
                        println!("refused at picture {}: {}", at - 1, refusal.text());
                        break;
                    }
                }
            }
        }
    }
    println!("kept={kept} key={keys} dropped={dropped} digest={digest:016x}");
    Ok(ExitCode::SUCCESS)
}

/// Constants of the FNV-1a hash of 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// What a video tag carries.
enum Body<'a> {
    Record(&'a [u8]),
    Frame(&'a [u8]),
}

/// Codec, key flag and content of a video tag (FLV E.4.3; Enhanced RTMP v2, extended video tag header).
fn video(body: &[u8]) -> Option<(Codec, bool, Body<'_>)> {
    let (&first, rest) = body.split_first()?;
    let key = first >> 4 & 7 == 1;
    if first & 0x80 == 0 {
        let (&packet, data) = rest.split_first()?;
        let data = data.get(3..)?;
        return match (first & 0xf, packet) {
            (7, 0) => Some((Codec::H264, key, Body::Record(data))),
            (7, 1) => Some((Codec::H264, key, Body::Frame(data))),
            (12, 0) => Some((Codec::H265, key, Body::Record(data))),
            (12, 1) => Some((Codec::H265, key, Body::Frame(data))),
            _ => None,
        };
    }
    let (four_cc, data) = rest.split_first_chunk::<4>()?;
    let codec = match four_cc {
        b"avc1" => Codec::H264,
        b"hvc1" => Codec::H265,
        _ => return None,
    };
    match first & 0xf {
        0 => Some((codec, key, Body::Record(data))),
        1 => Some((codec, key, Body::Frame(data.get(3..)?))),
        3 => Some((codec, key, Body::Frame(data))),
        _ => None,
    }
}
