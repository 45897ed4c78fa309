//! Init segments: `ftyp`, and `moov` with one track and no samples (ISO/IEC 14496-12; CMAF, ISO/IEC
//! 23000-19, 7.3.1).
//!
//! There is no edit list: composition offsets are signed (`trun` version 1), so that times are what the
//! publisher said, and players need nothing to compensate.

use media::MediaKind;

use crate::boxes::{put16, put32, write, write_full, zeros};
use crate::{Format, sample_entry};

/// Ticks per second of durations of the movie as a whole.
pub(crate) const MOVIE_TIMESCALE: u32 = 1000;

/// The init segment of a track with this format, on a clock of so many ticks per second.
pub fn init_segment(format: &Format, track_id: u32, timescale: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write(&mut out, b"ftyp", |out| {
        out.extend_from_slice(b"iso6\0\0\0\0iso6cmfcmp41");
    });
    movie(&mut out, &[(track_id, format, timescale)], 0);
    out
}

/// `moov` of a file whose samples are in fragments. `created` is in seconds since 1904.
pub(crate) fn movie(out: &mut Vec<u8>, tracks: &[(u32, &Format, u32)], created: u32) {
    write(out, b"moov", |out| {
        write_full(out, b"mvhd", (0, 0), |out| {
            for value in [created, created, MOVIE_TIMESCALE, 0, 0x1_0000] {
                put32(out, value);
            }
            put16(out, 0x100);
            zeros(out, 10);
            matrix(out);
            zeros(out, 24);
            put32(out, tracks.iter().map(|(track_id, ..)| track_id.saturating_add(1)).max().unwrap_or(1));
        });
        for (track_id, format, timescale) in tracks {
            track(out, format, *track_id, *timescale);
        }
        write(out, b"mvex", |out| {
            for (track_id, ..) in tracks {
                write_full(out, b"trex", (0, 0), |out| {
                    for value in [*track_id, 1, 0, 0, 0] {
                        put32(out, value);
                    }
                });
            }
        });
    });
}

fn track(out: &mut Vec<u8>, format: &Format, track_id: u32, timescale: u32) {
    let is_video = format.kind() == MediaKind::Video;
    write(out, b"trak", |out| {
        // Enabled, and in the movie.
        write_full(out, b"tkhd", (0, 3), |out| {
            // Times of creation and change, the track, reserved, its duration; reserved.
            for value in [0, 0, track_id, 0, 0, 0, 0] {
                put32(out, value);
            }
            // Layer; alternate group, for all audio the same; volume; reserved.
            for value in [0, u16::from(!is_video), if is_video { 0 } else { 0x100 }, 0] {
                put16(out, value);
            }
            matrix(out);
            put32(out, format.width.min(0xffff) << 16);
            put32(out, format.height.min(0xffff) << 16);
        });
        write(out, b"mdia", |out| {
            write_full(out, b"mdhd", (0, 0), |out| {
                for value in [0, 0, timescale, 0] {
                    put32(out, value);
                }
                // "und".
                put16(out, 0x55c4);
                put16(out, 0);
            });
            write_full(out, b"hdlr", (0, 0), |out| {
                put32(out, 0);
                out.extend_from_slice(if is_video { b"vide" } else { b"soun" });
                zeros(out, 12);
                out.extend_from_slice(if is_video { b"video\0" } else { b"audio\0" });
            });
            write(out, b"minf", |out| {
                if is_video {
                    write_full(out, b"vmhd", (0, 1), |out| zeros(out, 8));
                } else {
                    write_full(out, b"smhd", (0, 0), |out| zeros(out, 4));
                }
                write(out, b"dinf", |out| {
                    write_full(out, b"dref", (0, 0), |out| {
                        put32(out, 1);
                        write_full(out, b"url ", (0, 1), |_| {});
                    });
                });
                write(out, b"stbl", |out| {
                    write_full(out, b"stsd", (0, 0), |out| {
                        put32(out, 1);
                        sample_entry::write(out, format);
                    });
                    write_full(out, b"stts", (0, 0), |out| put32(out, 0));
                    write_full(out, b"stsc", (0, 0), |out| put32(out, 0));
                    write_full(out, b"stsz", (0, 0), |out| zeros(out, 8));
                    write_full(out, b"stco", (0, 0), |out| put32(out, 0));
                });
            });
        });
    });
}

/// No rotation.
fn matrix(out: &mut Vec<u8>) {
    for value in [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000] {
        put32(out, value);
    }
}
