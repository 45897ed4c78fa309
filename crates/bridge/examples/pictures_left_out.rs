//! Which pictures of an FLV file would WebRTC viewers get, and what would be told about it?
//!
//! ```text
//! cargo run -p bridge --example pictures_left_out -- stream.flv [sent.h264]
//! ```
//! Prints counts and the reason of a refusal. With a second name the pictures that would be sent are written there, in
//! Annex B form, to be decoded and compared with the whole.

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
        eprintln!("usage: pictures_left_out FILE.flv [SENT]");
        return Ok(ExitCode::FAILURE);
    };
    let mut sent = arguments.next().map(std::fs::File::create).transpose()?;
    let mut reader = FlvReader::new(TAG_BYTES_MAX);
    reader.push(&std::fs::read(name)?);
    let (mut filter, mut nals) = (None, Nals::default());
    let (mut record, mut kept, mut keys, mut dropped, mut at) = (Vec::new(), 0, 0, 0, 0);
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
                let Some(filter) = &mut filter else { continue };
                match filter.frame(data, key, &mut nals) {
                    Verdict::Keep { key } => {
                        kept += 1;
                        keys += u32::from(key);
                        if let Some(file) = &mut sent {
                            for nal in nals.iter() {
                                file.write_all(&[&[0, 0, 0, 1], nal].concat())?;
                            }
                        }
                    }
                    Verdict::Drop(_) => dropped += 1,
                    Verdict::Refuse(refusal) => {
                        println!("refused at picture {at}: {}", refusal.text());
                        break;
                    }
                }
                at += 1;
            }
        }
    }
    println!("kept={kept} key={keys} dropped={dropped}");
    Ok(ExitCode::SUCCESS)
}

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
