//! Files of a recording: all tracks in one `moov`, first for fragments, and with sample tables when it is
//! complete (ISO/IEC 14496-12, 8.6 and 8.7).
//!
//! The index of a complete file is made of what is in the file: its first `moov`, and its fragments
//! ([`SampleTable::push`]). So a file that was cut off gets the same one as a file that ended in order, and
//! nothing has to be remembered while it grows.

use std::time::Duration;

use media::TrackId;

use crate::Format;
use crate::boxes::{put32, put64, write, write_full};
use crate::fragment::{Fragment, boxes};
use crate::init::{self, MOVIE_TIMESCALE};
use crate::rendition::track_id;

/// Begin of a file that fragments follow: `ftyp`, a `free` of [`PLACEHOLDER_BYTES`] at
/// [`PLACEHOLDER_AT`], and `moov` with these tracks. `created` is the wall clock since 1970.
pub fn file_head<'a>(tracks: impl Iterator<Item = (TrackId, &'a Format)>, created: Duration) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    write(&mut out, b"ftyp", |out| out.extend_from_slice(b"iso6\0\0\0\0iso6isommp41"));
    write(&mut out, b"free", |out| put64(out, 0));
    let mut tracks: Vec<_> =
        tracks.map(|(track, format)| (track_id(track), format, format.timescale())).collect();
    tracks.sort_by_key(|(track_id, ..)| *track_id);
    let created = created.as_secs().saturating_add(SECONDS_1904_TO_1970);
    init::movie(&mut out, &tracks, u32::try_from(created).unwrap_or(0));
    out
}

/// Where a file has the box that becomes the header of one `mdat` over all that is there.
pub const PLACEHOLDER_AT: u64 = 28;
/// Size of that box.
pub const PLACEHOLDER_BYTES: u64 = 16;

/// A track of a first `moov`, as its index is made.
#[derive(Debug, Clone)]
pub struct SampleTable {
    /// Number of the track.
    pub track_id: u32,
    /// Ticks per second.
    pub timescale: u32,
    /// Decode time of the first sample.
    start: Option<u64>,
    /// Where the newest sample ends.
    end: u64,
    /// Runs of samples with the same duration, and with the same composition offset.
    durations: Vec<(u32, u32)>,
    compositions: Vec<(u32, i32)>,
    sizes: Vec<u32>,
    /// Numbers of the key samples, from 1; not used if all of them are.
    keys: Vec<u32>,
    /// Place in the file and samples of each fragment.
    chunks: Vec<(u64, u32)>,
}

impl SampleTable {
    /// Those of all tracks of a `moov` that [`file_head`] wrote, without samples; `None` if it is damaged.
    pub fn of_movie(moov: &[u8]) -> Option<Vec<Self>> {
        let (b"moov", body) = crate::fragment::first_box(moov)? else { return None };
        let tracks = boxes(body).filter(|(kind, _)| *kind == b"trak");
        tracks.map(|(_, trak)| Self::of_track(trak)).collect()
    }

    fn of_track(trak: &[u8]) -> Option<Self> {
        let tkhd = child(trak, b"tkhd")?;
        let mdhd = child(child(trak, b"mdia")?, b"mdhd")?;
        let word = |bytes: &[u8], at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (track_id, timescale) = (word(tkhd, 12)?, word(mdhd, 12)?);
        (timescale > 0).then_some(Self {
            track_id,
            timescale,
            start: None,
            end: 0,
            durations: Vec::new(),
            compositions: Vec::new(),
            sizes: Vec::new(),
            keys: Vec::new(),
            chunks: Vec::new(),
        })
    }

    /// Adds a fragment of this track whose data begins at `data_at` in the file.
    pub fn push(&mut self, fragment: &Fragment<'_>, data_at: u64) {
        self.start.get_or_insert(fragment.decode_time);
        if self.sizes.is_empty() {
            self.end = fragment.decode_time;
        }
        if let Some(hole) = fragment.decode_time.checked_sub(self.end).filter(|hole| *hole > 0) {
            self.lengthen_last(hole);
        }
        let mut count = 0;
        for sample in fragment.samples() {
            add_run(&mut self.durations, sample.duration);
            add_run(&mut self.compositions, sample.composition);
            self.sizes.push(sample.size);
            if sample.is_key {
                self.keys.push(self.sizes.len() as u32);
            }
            self.end += u64::from(sample.duration);
            count += 1;
        }
        self.chunks.push((data_at, count));
    }

    /// How many samples there are.
    pub fn samples(&self) -> usize {
        self.sizes.len()
    }

    /// From the begin of the file to the end of the newest sample; zero without samples.
    pub fn duration(&self) -> Duration {
        if self.sizes.is_empty() { Duration::ZERO } else { self.time(self.end) }
    }

    fn time(&self, ticks: u64) -> Duration {
        Duration::from_nanos(
            u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(self.timescale)).unwrap_or(u64::MAX),
        )
    }

    /// The newest sample lasts longer: the one behind it comes later.
    fn lengthen_last(&mut self, ticks: u64) {
        let Some((count, duration)) = self.durations.last_mut() else { return };
        let longer = u32::try_from(ticks.saturating_add(u64::from(*duration))).unwrap_or(u32::MAX);
        self.end += u64::from(longer - *duration);
        *count -= 1;
        if *count == 0 {
            self.durations.pop();
        }
        self.durations.push((1, longer));
    }

    /// What this track is in the movie as a whole, up to its end.
    fn movie_ticks(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * u128::from(MOVIE_TIMESCALE) / u128::from(self.timescale)) as u64
    }
}

/// `moov` of a complete file: its first one, with the samples of `tables`. Tracks without any are left out.
/// `None` if that one is damaged, or no track has samples.
pub fn complete_movie(moov: &[u8], tables: &[SampleTable]) -> Option<Vec<u8>> {
    let (b"moov", body) = crate::fragment::first_box(moov)? else { return None };
    let used: Vec<_> = tables.iter().filter(|table| !table.sizes.is_empty()).collect();
    let duration = used.iter().map(|table| table.movie_ticks(table.end)).max()?;
    let mut out =
        Vec::with_capacity(moov.len() + used.iter().map(|table| 8 * table.sizes.len()).sum::<usize>());
    let mut is_whole = true;
    write(&mut out, b"moov", |out| {
        for (kind, body) in boxes(body) {
            match kind {
                b"mvhd" => write(out, kind, |out| with_word(out, body, 16, duration)),
                b"trak" => {
                    let id = SampleTable::of_track(body).map(|table| table.track_id);
                    if let Some(table) = used.iter().find(|table| Some(table.track_id) == id) {
                        is_whole &= write_track(out, body, table).is_some();
                    }
                }
                // It announces fragments.
                b"mvex" => {}
                _ => write(out, kind, |out| out.extend_from_slice(body)),
            }
        }
    });
    is_whole.then_some(out)
}

fn write_track(out: &mut Vec<u8>, trak: &[u8], table: &SampleTable) -> Option<()> {
    let mdia = child(trak, b"mdia")?;
    let minf = child(mdia, b"minf")?;
    let stsd = child(child(minf, b"stbl")?, b"stsd")?;
    let start = table.start?;
    let media_ticks = table.end - start;
    write(out, b"trak", |out| {
        let tkhd = child(trak, b"tkhd").unwrap_or_default();
        write(out, b"tkhd", |out| with_word(out, tkhd, 20, table.movie_ticks(table.end)));
        if table.movie_ticks(start) > 0 {
            // It begins later than the file: nothing, then the media from its begin on.
            write(out, b"edts", |out| {
                write_full(out, b"elst", (1, 0), |out| {
                    put32(out, 2);
                    for (ticks, media_time) in [(start, -1_i64), (media_ticks, 0)] {
                        put64(out, table.movie_ticks(ticks));
                        put64(out, media_time.cast_unsigned());
                        put32(out, 0x1_0000);
                    }
                });
            });
        }
        write(out, b"mdia", |out| {
            for (kind, body) in boxes(mdia) {
                match kind {
                    // Version 1: 32 bits of 90 kHz are 13 hours.
                    b"mdhd" => write_full(out, kind, (1, 0), |out| {
                        put64(out, 0);
                        put64(out, 0);
                        put32(out, table.timescale);
                        put64(out, media_ticks);
                        out.extend_from_slice(body.get(20..).unwrap_or_default());
                    }),
                    b"minf" => write(out, kind, |out| {
                        for (kind, body) in boxes(minf).filter(|(kind, _)| *kind != b"stbl") {
                            write(out, kind, |out| out.extend_from_slice(body));
                        }
                        write(out, b"stbl", |out| {
                            write(out, b"stsd", |out| out.extend_from_slice(stsd));
                            write_tables(out, table);
                        });
                    }),
                    _ => write(out, kind, |out| out.extend_from_slice(body)),
                }
            }
        });
    });
    Some(())
}

fn write_tables(out: &mut Vec<u8>, table: &SampleTable) {
    write_full(out, b"stts", (0, 0), |out| {
        put32(out, table.durations.len() as u32);
        for (count, duration) in &table.durations {
            put32(out, *count);
            put32(out, *duration);
        }
    });
    if table.compositions.iter().any(|(_, offset)| *offset != 0) {
        // Version 1: offsets are signed.
        write_full(out, b"ctts", (1, 0), |out| {
            put32(out, table.compositions.len() as u32);
            for (count, offset) in &table.compositions {
                put32(out, *count);
                put32(out, offset.cast_unsigned());
            }
        });
    }
    if table.keys.len() < table.sizes.len() {
        write_full(out, b"stss", (0, 0), |out| {
            put32(out, table.keys.len() as u32);
            table.keys.iter().for_each(|number| put32(out, *number));
        });
    }
    // First chunk, samples in each from there on, sample entry.
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for (index, (_, samples)) in table.chunks.iter().enumerate() {
        if runs.last().is_none_or(|(_, last)| last != samples) {
            runs.push((index as u32 + 1, *samples));
        }
    }
    write_full(out, b"stsc", (0, 0), |out| {
        put32(out, runs.len() as u32);
        for (first, samples) in &runs {
            for value in [*first, *samples, 1] {
                put32(out, value);
            }
        }
    });
    write_full(out, b"stsz", (0, 0), |out| {
        put32(out, 0);
        put32(out, table.sizes.len() as u32);
        table.sizes.iter().for_each(|size| put32(out, *size));
    });
    write_full(out, b"co64", (0, 0), |out| {
        put32(out, table.chunks.len() as u32);
        table.chunks.iter().for_each(|(at, _)| put64(out, *at));
    });
}

/// `body` with the word at `at`, of 32 bits, replaced.
fn with_word(out: &mut Vec<u8>, body: &[u8], at: usize, value: u64) {
    let begin = out.len();
    out.extend_from_slice(body);
    if let Some(word) = out.get_mut(begin + at..begin + at + 4) {
        word.copy_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes());
    }
}

fn child<'a>(body: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(body).find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
}

fn add_run<T: PartialEq>(runs: &mut Vec<(u32, T)>, value: T) {
    match runs.last_mut() {
        Some((count, last)) if *last == value => *count += 1,
        _ => runs.push((1, value)),
    }
}

const SECONDS_1904_TO_1970: u64 = 2_082_844_800;
