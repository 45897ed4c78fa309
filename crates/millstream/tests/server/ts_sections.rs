//! Cues of SCTE 35 that a publisher sends by MPEG-TS reach players and pushes by MPEG-TS, at the
//! pictures that they are for; players by other protocols do not notice.

use std::collections::HashMap;
use std::io::Read;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};
use mpegts::{DemuxSettings, Demuxer, Muxer, PACKET_BYTES};

use crate::common::origin::LOCAL;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{eventually, http, port_for_later, wait_for_udp_listener};

/// SPS and PPS of libx264, 640x360.
const AVCC: [u8; 40] = [
    0x01, 0x42, 0xc0, 0x1f, 0xff, 0xe1, 0x00, 0x19, 0x67, 0x42, 0xc0, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xfe,
    0xb0, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x3c, 0x0f, 0x18, 0x32, 0xa0, 0x01,
    0x00, 0x04, 0x68, 0xce, 0x0f, 0xc8,
];

/// A cue is for the picture so many behind it.
const AHEAD: u8 = 3;
const PICTURE_MS: i64 = 40;

/// Where the publisher's clock is: the times of 33 bits wrap soon.
const BEGIN_MS: i64 = 95_443_000;

fn time(number: u32) -> Timestamp {
    Timestamp::from_millis(BEGIN_MS + i64::from(number) * PICTURE_MS)
}

fn picture(number: u32) -> Frame {
    let (role, unit) =
        if number.is_multiple_of(10) { (FrameRole::Key, 0x65) } else { (FrameRole::Inter, 0x41) };
    let data = [&[0, 0, 0, 6, unit, 0xaa, 0xaa, 0xaa, 0x80][..], &[number as u8 | 1]].concat();
    Frame::new(TrackId::VIDEO, role, Codec::H264, (time(number), time(number)), data)
}

/// A cue at a picture. Its control word has the number of the picture, which nobody else looks at.
fn cue(number: u32) -> Frame {
    let pts = i64::from(AHEAD) * PICTURE_MS * 90;
    let mut data = vec![0, 0xfc, 0x30, 22, 0, 0, 0, 0, 0, 0, number as u8, 0xff, 0xf0, 5, 6, 0xfe];
    data.extend_from_slice(&(pts as u32).to_be_bytes());
    // No descriptors, and a CRC that the writer makes.
    data.extend_from_slice(&[0; 6]);
    let track = TrackId { kind: MediaKind::Data, index: 0 };
    Frame::new(track, FrameRole::Other, mpegts::CUE, (time(number), time(number)), data)
}

/// Sends pictures in real time, with a cue at every fifth, until `stop` is set. So many bytes are
/// ahead of and behind each packet.
fn send(port: u16, (ahead, behind): (usize, usize), stop: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (mut muxer, mut out) = (Muxer::default(), Vec::new());
    let times = (time(0), time(0));
    let config = Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, times, AVCC.to_vec());
    muxer.write(&mut out, &config, time(0), false).expect("it is carried");
    for number in 0u32.. {
        let cue = number.is_multiple_of(5).then(|| cue(number));
        for frame in [Some(picture(number)), cue].into_iter().flatten() {
            muxer.write(&mut out, &frame, frame.dts, frame.is_key()).expect("it is carried");
        }
        for packets in out.chunks(7 * PACKET_BYTES) {
            // What looks like the head of RTP.
            let stamp = [0x80, 33, 1, number as u8];
            let packets = packets.chunks(PACKET_BYTES);
            let longer = packets.flat_map(|packet| [&stamp[..ahead], packet, &[7; 16][..behind]].concat());
            let payload: Vec<u8> = longer.collect();
            socket.send_to(&payload, ("127.0.0.1", port)).expect("it is sent");
        }
        out.clear();
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // This is the publisher's pace, not a wait for something.
        thread::sleep(Duration::from_millis(PICTURE_MS.cast_unsigned()));
    }
}

/// Plays until three cues and the pictures that they are for have come.
fn assert_cues_are_in_time(server: &Server) {
    let mut player = http::open(server.http, "GET", "/live/mill.ts", &[]).expect("an answer");
    assert_eq!(player.status, 200);
    let mut demuxer = Demuxer::new(DemuxSettings::default());
    let (mut pictures, mut cues) = (HashMap::new(), HashMap::new());
    let is_shown = |pictures: &HashMap<i64, _>, at: &i64| pictures.contains_key(at);
    while cues.values().filter(|at| is_shown(&pictures, at)).count() < 3 {
        let mut packet = [0; PACKET_BYTES];
        player.read_exact(&mut packet).expect("packets");
        demuxer.push(&packet);
        while let Some(frame) = demuxer.next_frame() {
            let ticks = frame.pts.ticks(90_000);
            match (frame.codec, frame.role) {
                (mpegts::CUE, _) => {
                    let section = &frame.data()[1 + usize::from(frame.data()[0])..];
                    let field = |at: usize| {
                        section[at..at + 5].iter().fold(0, |all, byte| all << 8 | i64::from(*byte))
                    };
                    let splice = (field(4) + field(14) + ticks) & ((1 << 33) - 1);
                    cues.insert(section[9], splice);
                }
                (_, FrameRole::Key | FrameRole::Inter) => {
                    pictures.insert(ticks & ((1 << 33) - 1), *frame.data().last().expect("a picture"));
                }
                _ => {}
            }
        }
        assert!(pictures.len() < 500, "{cues:?}");
    }
    for (number, at) in cues {
        if let Some(shown) = pictures.get(&at) {
            assert_eq!(*shown, number.wrapping_add(AHEAD) | 1, "the picture at the splice of cue {number}");
        }
    }
}

#[test]
fn cues_reach_players_and_pushes_at_their_pictures() {
    cues_reach_all((0, 0));
}

#[test]
fn packets_with_time_stamps_and_with_parity_are_taken() {
    cues_reach_all((4, 0));
    cues_reach_all((0, 16));
}

fn cues_reach_all(between: (usize, usize)) {
    let port = port_for_later();
    let target = Server::start_workers(2, "");
    let srt = target.srt.expect("it listens");
    let server = Server::start_workers(
        2,
        &format!(
            "{LOCAL}[[pull]]\nstream = \"live/mill\"\nurl = \"udp://127.0.0.1:{port}\"\n\
             [[push]]\nstream = \"live/mill\"\nurl = \"srt://{srt}?streamid=publish:live/mill\"\n"
        ),
    );
    let mut rtmp = RtmpClient::play(server.rtmp, "live/mill");
    wait_for_udp_listener(port);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send(port, between, &stop));
        let _stops = StopAtEnd(&stop);
        target.wait_for_publisher("live/mill", true);
        assert_cues_are_in_time(&server);
        assert_cues_are_in_time(&target);
        for _ in 0..20 {
            let message = rtmp.next_media().expect("it goes on");
            assert!(
                message.kind == MediaKind::Video || message.payload.starts_with(b"\x02\x00\x0aonMetaData")
            );
        }
        for server in [&server, &target] {
            eventually("cues are counted", || {
                let sections = server.api("/api/v1/streams/live/mill")["sections"].clone();
                (sections["cues"].as_u64()? >= 3 && sections["private"] == 0).then_some(())
            });
        }
        let metrics = http::get(server.http, "/metrics").expect("metrics").text();
        let dropped = metrics.lines().filter(|line| line.starts_with("millstream_flv_dropped_frames_total"));
        assert!(dropped.clone().count() > 0 && dropped.clone().all(|line| line.ends_with(" 0")), "{metrics}");
    });
}

/// A test that fails does not wait for its sender for ever.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
