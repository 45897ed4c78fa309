//! A strict reader of init segments and chunks (ISO/IEC 14496-12), written apart from the writer: what is
//! not exactly as it should be panics.

/// A track as an init segment describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InitSegment {
    pub(crate) track_id: u32,
    pub(crate) timescale: u32,
    pub(crate) handler: [u8; 4],
    /// Kind of the sample entry, and its bytes.
    pub(crate) entry: [u8; 4],
    pub(crate) entry_body: Vec<u8>,
}

/// A sample as a chunk says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) duration: u32,
    pub(crate) is_sync: bool,
    pub(crate) data: Vec<u8>,
}

/// A chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) track_id: u32,
    pub(crate) sequence: u32,
    /// NTP time and media time of a `prft`.
    pub(crate) reference: Option<(u64, u64)>,
    pub(crate) samples: Vec<Sample>,
}

impl Chunk {
    pub(crate) fn ticks(&self) -> u64 {
        self.samples.iter().map(|sample| u64::from(sample.duration)).sum()
    }
}

/// Bytes with a position.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        assert!(count <= self.0.len(), "{count} bytes of {}", self.0.len());
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    /// A box of this kind comes next; gives its body.
    fn open(&mut self, kind: &[u8; 4]) -> Cursor<'a> {
        let (found, body) = self.next_box();
        assert_eq!(found, *kind, "{} in place of {}", found.escape_ascii(), kind.escape_ascii());
        body
    }

    fn next_box(&mut self) -> ([u8; 4], Cursor<'a>) {
        let size = self.u32() as usize;
        assert!(size >= 8, "the size of a box");
        let kind = self.take(4).try_into().unwrap();
        (kind, Cursor(self.take(size - 8)))
    }

    fn peek(&self) -> [u8; 4] {
        self.0[4..8].try_into().unwrap()
    }

    /// Version and flags.
    fn full(&mut self) -> (u8, u32) {
        let word = self.u32();
        ((word >> 24) as u8, word & 0xff_ffff)
    }

    fn end(&self) {
        assert!(self.0.is_empty(), "{} bytes left over", self.0.len());
    }
}

/// Reads an init segment.
pub(crate) fn read_init(bytes: &[u8]) -> InitSegment {
    let mut file = Cursor(bytes);
    let ftyp = file.open(b"ftyp");
    assert!(ftyp.0.len() >= 12 && ftyp.0.len().is_multiple_of(4));
    let brands: Vec<&[u8]> = ftyp.0[8..].chunks(4).collect();
    assert!(brands.contains(&&b"cmfc"[..]) && brands.contains(&&b"iso6"[..]), "brands");
    let mut moov = file.open(b"moov");
    file.end();
    let mut mvhd = moov.open(b"mvhd");
    assert_eq!(mvhd.full(), (0, 0));
    mvhd.take(8);
    assert!(mvhd.u32() > 0, "timescale of the movie");
    assert_eq!(mvhd.u32(), 0, "a duration that is not known is 0");
    assert_eq!((mvhd.u32(), mvhd.u16()), (0x1_0000, 0x100));
    mvhd.take(10 + 36 + 24);
    let next_track = mvhd.u32();
    mvhd.end();
    let mut trak = moov.open(b"trak");
    let mut tkhd = trak.open(b"tkhd");
    let (version, flags) = tkhd.full();
    assert_eq!((version, flags & 1), (0, 1), "the track is enabled");
    tkhd.take(8);
    let track_id = tkhd.u32();
    assert!(track_id > 0 && next_track > track_id);
    assert_eq!((tkhd.u32(), tkhd.u32()), (0, 0));
    tkhd.take(8 + 2 + 2);
    let volume = tkhd.u16();
    assert_eq!(tkhd.u16(), 0);
    assert_eq!(tkhd.take(36), IDENTITY.iter().flat_map(|word: &u32| word.to_be_bytes()).collect::<Vec<_>>());
    let size = (tkhd.u32(), tkhd.u32());
    tkhd.end();
    let mut mdia = trak.open(b"mdia");
    trak.end();
    let mut mdhd = mdia.open(b"mdhd");
    assert_eq!(mdhd.full(), (0, 0));
    mdhd.take(8);
    let timescale = mdhd.u32();
    assert!(timescale > 0 && mdhd.u32() == 0);
    assert_eq!(mdhd.u16(), 0x55c4);
    assert_eq!(mdhd.u16(), 0);
    mdhd.end();
    let mut hdlr = mdia.open(b"hdlr");
    assert_eq!((hdlr.full(), hdlr.u32()), ((0, 0), 0));
    let handler: [u8; 4] = hdlr.take(4).try_into().unwrap();
    assert_eq!(hdlr.take(12), [0; 12]);
    assert_eq!(hdlr.0.last(), Some(&0), "the name ends with a zero");
    let mut minf = mdia.open(b"minf");
    mdia.end();
    match &handler {
        b"vide" => {
            let mut vmhd = minf.open(b"vmhd");
            assert_eq!((vmhd.full(), vmhd.u64()), ((0, 1), 0));
            vmhd.end();
            assert_eq!(volume, 0);
        }
        b"soun" => {
            let mut smhd = minf.open(b"smhd");
            assert_eq!((smhd.full(), smhd.u32()), ((0, 0), 0));
            smhd.end();
            assert_eq!((volume, size), (0x100, (0, 0)));
        }
        other => panic!("handler {}", other.escape_ascii()),
    }
    let mut dref = minf.open(b"dinf").open(b"dref");
    assert_eq!((dref.full(), dref.u32()), ((0, 0), 1));
    assert_eq!(dref.open(b"url ").full(), (0, 1), "the media is in the file");
    let mut stbl = minf.open(b"stbl");
    minf.end();
    let mut stsd = stbl.open(b"stsd");
    assert_eq!((stsd.full(), stsd.u32()), ((0, 0), 1));
    let (entry, mut body) = stsd.next_box();
    stsd.end();
    let entry_body = body.0.to_vec();
    assert_eq!((body.take(6), body.u16()), (&[0; 6][..], 1), "the data reference");
    for kind in [b"stts", b"stsc"] {
        let mut table = stbl.open(kind);
        assert_eq!((table.full(), table.u32()), ((0, 0), 0));
        table.end();
    }
    let mut stsz = stbl.open(b"stsz");
    assert_eq!((stsz.full(), stsz.u32(), stsz.u32()), ((0, 0), 0, 0));
    stsz.end();
    let mut stco = stbl.open(b"stco");
    assert_eq!((stco.full(), stco.u32()), ((0, 0), 0));
    stco.end();
    stbl.end();
    let mut mvex = moov.open(b"mvex");
    moov.end();
    let mut trex = mvex.open(b"trex");
    assert_eq!((trex.full(), trex.u32(), trex.u32()), ((0, 0), track_id, 1));
    trex.take(12);
    trex.end();
    mvex.end();
    InitSegment { track_id, timescale, handler, entry, entry_body }
}

/// Reads one chunk.
pub(crate) fn read_chunk(bytes: &[u8]) -> Chunk {
    let mut file = Cursor(bytes);
    let chunk = next_chunk(&mut file);
    file.end();
    chunk
}

fn next_chunk(file: &mut Cursor<'_>) -> Chunk {
    let mut reference = None;
    if file.peek() == *b"prft" {
        let mut prft = file.open(b"prft");
        assert_eq!(prft.full(), (1, 8));
        prft.u32();
        reference = Some((prft.u64(), prft.u64()));
        prft.end();
    }
    let moof_bytes = u32::from_be_bytes(file.0[..4].try_into().unwrap());
    let mut moof = file.open(b"moof");
    let mut mfhd = moof.open(b"mfhd");
    assert_eq!(mfhd.full(), (0, 0));
    let sequence = mfhd.u32();
    mfhd.end();
    let mut traf = moof.open(b"traf");
    moof.end();
    let mut tfhd = traf.open(b"tfhd");
    // CMAF: offsets from the moof, no data offset of its own.
    assert_eq!(tfhd.full(), (0, 0x02_0020));
    let (track_id, default_flags) = (tfhd.u32(), tfhd.u32());
    tfhd.end();
    let mut tfdt = traf.open(b"tfdt");
    assert_eq!(tfdt.full(), (1, 0));
    let mut dts = i64::try_from(tfdt.u64()).unwrap();
    tfdt.end();
    let mut trun = traf.open(b"trun");
    traf.end();
    let (version, flags) = trun.full();
    assert_eq!((version, flags & 0x0301), (1, 0x0301), "offset, durations, sizes");
    assert_eq!(flags & !0x0f01, 0);
    let count = trun.u32();
    assert_eq!(trun.u32(), moof_bytes + 8, "media begins right behind the header of mdat");
    let mut sizes = Vec::new();
    for _ in 0..count {
        let (duration, size) = (trun.u32(), trun.u32());
        let flags_of = if flags & 0x400 != 0 { trun.u32() } else { default_flags };
        let offset = if flags & 0x800 != 0 { trun.u32().cast_signed() } else { 0 };
        let is_sync = match flags_of {
            0x0200_0000 => true,
            0x0101_0000 => false,
            other => panic!("sample flags {other:#x}"),
        };
        sizes.push((size as usize, dts, dts + i64::from(offset), duration, is_sync));
        assert!(duration > 0, "a sample lasts");
        dts += i64::from(duration);
    }
    trun.end();
    let mut mdat = file.open(b"mdat");
    let samples = sizes
        .into_iter()
        .map(|(size, dts, pts, duration, is_sync)| {
            let data = mdat.take(size).to_vec();
            assert!(!data.is_empty(), "a sample has data");
            Sample { dts, pts, duration, is_sync, data }
        })
        .collect::<Vec<_>>();
    mdat.end();
    assert!(!samples.is_empty(), "a chunk has samples");
    Chunk { track_id, sequence, reference, samples }
}

const IDENTITY: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
