//! What a real decoder makes of the changes: encodings by ffmpeg go in, and each picture that ffmpeg decodes
//! of what a viewer got has to be that of one of the encodings, bit for bit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rtp::depacketize::Depacketizer;
use rtp::packetize::{FrameWriter, PacketSlab, Sender, av1, h264, h265, vp8, vp9};

use super::*;

/// Sizes of the encodings, and pictures from one key frame to the next of each.
const SIZES: [(&str, u32); 3] = [("160x96", 20), ("320x192", 25), ("640x384", 30)];
const PICTURES: usize = 300;
/// Payload type of the codec under test, of the publisher and of the viewer.
const PAYLOAD_TYPE: u8 = 101;

/// A codec and how ffmpeg encodes it as a live encoder does.
struct Encoder {
    codec: Codec,
    name: &'static str,
    arguments: &'static [&'static str],
    /// What the coded pictures are written to and read from.
    format: &'static str,
}

const VPX: &[&str] =
    &["-deadline", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-auto-alt-ref", "0", "-b:v", "300k"];
const X265: &[&str] = &[
    "-preset",
    "ultrafast",
    "-tune",
    "zerolatency",
    "-x265-params",
    "aud=1:repeat-headers=1:open-gop=0:log-level=error",
];

fn encoder(codec: Codec) -> Encoder {
    let (name, arguments, format): (_, &[&str], _) = match codec {
        Codec::H264 => {
            ("libx264", &["-preset", "ultrafast", "-tune", "zerolatency", "-x264-params", "aud=1"], "h264")
        }
        Codec::H265 => ("libx265", X265, "hevc"),
        Codec::Vp8 => ("libvpx", VPX, "ivf"),
        Codec::Vp9 => ("libvpx-vp9", VPX, "ivf"),
        _ => (
            "libaom-av1",
            &["-usage", "realtime", "-cpu-used", "8", "-lag-in-frames", "0", "-b:v", "300k"],
            "ivf",
        ),
    };
    Encoder { codec, name, arguments, format }
}

fn ffmpeg() -> Command {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-nostdin", "-y"]).stdin(Stdio::null());
    ffmpeg
}

/// Runs it to its end; what it printed.
fn run(mut command: Command) -> String {
    let output = command.output().expect("ffmpeg runs: scripts/setup installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// A hash of each decoded picture of a file.
fn decode(file: &Path, format: &str) -> Vec<String> {
    let mut command = ffmpeg();
    command.args(["-f", format, "-i"]).arg(file);
    // Pictures as they are, one for each that was coded.
    command.args(["-autoscale", "0", "-fps_mode", "passthrough", "-f", "framemd5", "-"]);
    let lines = run(command);
    let of_pictures = lines.lines().filter(|line| !line.starts_with('#'));
    of_pictures.map(|line| line.rsplit(", ").next().expect("a hash").to_owned()).collect()
}

/// The coded pictures of one encoding, and the hash of each when it is decoded.
struct Encoding {
    pictures: Vec<Vec<u8>>,
    decoded: Vec<String>,
}

fn encode(encoder: &Encoder, folder: &Path, (size, key_distance): (&str, u32)) -> Encoding {
    let file = folder.join(size);
    let mut command = ffmpeg();
    let seconds = PICTURES / 25;
    command.args(["-f", "lavfi", "-i", &format!("testsrc2=size={size}:rate=25:duration={seconds}")]);
    command.args(["-pix_fmt", "yuv420p", "-c:v", encoder.name, "-bf", "0", "-threads", "1"]);
    command.args(["-g", &key_distance.to_string(), "-keyint_min", &key_distance.to_string()]);
    command.args(encoder.arguments).args(["-f", encoder.format]).arg(&file);
    run(command);
    let bytes = fs::read(&file).expect("the encoding");
    let pictures =
        if encoder.format == "ivf" { ivf_pictures(&bytes) } else { access_units(&bytes, encoder.codec) };
    let decoded = decode(&file, encoder.format);
    assert_eq!((pictures.len(), decoded.len()), (PICTURES, PICTURES));
    Encoding { pictures, decoded }
}

/// An IVF file is a header of 32 bytes and, for each picture, its size in four bytes, its time in eight,
/// and it.
fn ivf_pictures(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pictures = Vec::new();
    bytes = &bytes[32..];
    while let Some((size, rest)) = bytes.split_first_chunk() {
        let size = u32::from_le_bytes(*size) as usize;
        pictures.push(rest[8..8 + size].to_vec());
        bytes = &rest[8 + size..];
    }
    pictures
}

fn ivf_file(codec: Codec, pictures: &[Vec<u8>]) -> Vec<u8> {
    let name = match codec {
        Codec::Vp8 => b"VP80",
        Codec::Vp9 => b"VP90",
        _ => b"AV01",
    };
    let mut file = [&b"DKIF\0\0\x20\0"[..], name].concat();
    for number in [160 | 96 << 16, 25, 1, 0, 0] {
        file.extend(u32::to_le_bytes(number));
    }
    for (at, picture) in pictures.iter().enumerate() {
        file.extend((picture.len() as u32).to_le_bytes());
        file.extend((at as u64).to_le_bytes());
        file.extend(picture);
    }
    file
}

/// NAL units of a byte stream (H.264 annex B).
fn units(bytes: &[u8]) -> Vec<&[u8]> {
    let starts: Vec<usize> = (0..bytes.len() - 2).filter(|at| bytes[*at..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    let unit = |(start, end): (&usize, usize)| {
        let unit = &bytes[start + 3..end];
        let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
        &unit[..unit.len() - zeros]
    };
    starts.iter().zip(ends).map(unit).collect()
}

/// Access units, each as a byte stream without its delimiter.
fn access_units(bytes: &[u8], codec: Codec) -> Vec<Vec<u8>> {
    let is_delimiter = |unit: &[u8]| match codec {
        Codec::H264 => unit[0] & 0x1f == 9,
        _ => unit[0] >> 1 & 0x3f == 35,
    };
    let mut found: Vec<Vec<u8>> = Vec::new();
    for unit in units(bytes) {
        if is_delimiter(unit) {
            found.push(Vec::new());
        } else if let Some(last) = found.last_mut() {
            last.extend([&[0, 0, 0, 1], unit].concat());
        }
    }
    found
}

fn packetize(codec: Codec, picture: &[u8], number: u16, writer: &mut FrameWriter<'_>) {
    const LIMIT: usize = 1_000;
    match codec {
        Codec::H264 => h264::packetize(units(picture).into_iter(), LIMIT, writer),
        Codec::H265 => h265::packetize(units(picture).into_iter(), LIMIT, writer),
        Codec::Vp8 => vp8::packetize(picture, number, LIMIT, writer),
        Codec::Vp9 => {
            let is_key = vp9::is_key_frame(picture).expect("a picture");
            vp9::packetize(picture, number, is_key, LIMIT, writer);
        }
        _ => {
            let begins = av1::has_sequence_header(picture);
            assert!(av1::packetize(&[], picture, begins, LIMIT, writer), "OBUs of ffmpeg");
        }
    }
}

/// The file of what came out of a depacketizer.
fn file_of(codec: Codec, pictures: &[Vec<u8>]) -> Vec<u8> {
    match codec {
        Codec::H264 | Codec::H265 => pictures.iter().flat_map(|picture| with_start_codes(picture)).collect(),
        Codec::Av1 => {
            // Temporal delimiters are not sent in RTP.
            let with_delimiter = |picture: &Vec<u8>| [&[0x12, 0][..], picture].concat();
            ivf_file(codec, &pictures.iter().map(with_delimiter).collect::<Vec<_>>())
        }
        _ => ivf_file(codec, pictures),
    }
}

/// NAL units with their sizes ahead, as a byte stream.
fn with_start_codes(mut picture: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let Some((size, rest)) = picture.split_first_chunk() {
        let (unit, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
        stream.extend([&[0, 0, 0, 1], unit].concat());
        picture = rest;
    }
    stream
}

/// A folder of its own, which is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Plays three encodings to a viewer that changes among them, and decodes what it got.
fn every_picture_is_that_of_an_encoding(codec: Codec) {
    let folder = Folder(std::env::temp_dir().join(format!("sfu-decoded-{}-{codec:?}", std::process::id())));
    fs::create_dir_all(&folder.0).expect("a folder");
    let encoder = encoder(codec);
    let encodings = SIZES.map(|size| encode(&encoder, &folder.0, size));

    let mut world = World::new(Limits::default());
    let mut track = simulcast_input();
    let payload =
        TrackPayload { payload_type: PAYLOAD_TYPE, codec, clock_rate: 90_000, rtx: None, red: None };
    track.payloads = vec![payload];
    world.publish(vec![audio_input(), track]);
    let mut input = viewer(1);
    input.tracks[1].payloads =
        vec![ViewerPayload { codec, payload_type: PAYLOAD_TYPE, rtx: None, red: None }];
    let id = world.join_as(&input);
    let mut senders = [0, 1, 2].map(|at| Sender::new(SSRCS[at], 0xff00 + 97 * at as u16));
    let mut random = Random::new(5);
    for at in 0..PICTURES {
        if at % 23 == 22 {
            let layer = [Layer::of(0), Layer::of(1), Layer::of(2), Layer::BEST][random.below(4) as usize];
            world.stream.set_layer(world.now, id, video(), layer);
        }
        for (encoding, sender) in encodings.iter().zip(&mut senders) {
            let mut slab = PacketSlab::default();
            let timestamp = sender.ssrc.wrapping_mul(0x9e37_79b9).wrapping_add(at as u32 * 3_600);
            let mut writer = sender.frame(PAYLOAD_TYPE, timestamp, &mut slab);
            packetize(codec, &encoding.pictures[at], at as u16, &mut writer);
            writer.end_frame(true);
            for (fields, payload) in slab.iter() {
                let packet =
                    Rtp { fields: *fields, extensions: Vec::new(), payload: payload.to_vec(), padding: 0 };
                world.receive(&packet).unwrap();
            }
        }
        world.wait(FRAME);
    }

    let mut depacketizer = Depacketizer::new(codec);
    let mut pictures = Vec::new();
    let packets = world.video(1);
    for frame in packets.chunk_by(|one, other| one.timestamp() == other.timestamp()) {
        for got in frame {
            depacketizer.push(got.packet().payload()).expect("a payload");
        }
        pictures.push(depacketizer.finish().expect("a whole picture").to_vec());
    }
    let file = folder.0.join("viewer");
    fs::write(&file, file_of(codec, &pictures)).expect("written");
    let decoded = decode(&file, encoder.format);
    assert_eq!(decoded.len(), pictures.len(), "each picture is decoded");
    let mut layers: Vec<usize> = Vec::new();
    let mut next = 0;
    for hash in &decoded {
        let is_it = |at: &usize| encodings.iter().any(|encoding| encoding.decoded[*at] == *hash);
        let at = (next..PICTURES).find(is_it).unwrap_or_else(|| panic!("no encoding has picture {next} so"));
        // The first key frame may be that of each encoding, until the best has come.
        next = at;
        let layer = encodings.iter().position(|encoding| encoding.decoded[at] == *hash).expect("found");
        if layers.last() != Some(&layer) {
            layers.push(layer);
        }
    }
    assert!(decoded.len() >= PICTURES - 20, "{} pictures", decoded.len());
    assert!(layers.len() >= 6, "changes: {layers:?}");
}

#[test]
fn ffmpeg_decodes_every_change_of_h264() {
    every_picture_is_that_of_an_encoding(Codec::H264);
}

#[test]
fn ffmpeg_decodes_every_change_of_h265() {
    every_picture_is_that_of_an_encoding(Codec::H265);
}

#[test]
fn ffmpeg_decodes_every_change_of_vp8() {
    every_picture_is_that_of_an_encoding(Codec::Vp8);
}

#[test]
fn ffmpeg_decodes_every_change_of_vp9() {
    every_picture_is_that_of_an_encoding(Codec::Vp9);
}

#[test]
fn ffmpeg_decodes_every_change_of_av1() {
    every_picture_is_that_of_an_encoding(Codec::Av1);
}
