//! Tables that say what a transport stream has (ISO/IEC 13818-1 section 2.4.4).
//!
//! ```text
//!  section: | table id 8 | syntax 1, .. 3, length 12 | number 16 | .. 2, version 5, current 1
//!           | section 8 | last section 8 | content | CRC 32 |
//!  PAT content: { program 16 | 111, PID 13 }
//!  PMT content: 111, PCR PID 13 | .. 4, length 12 | descriptors | { row }
//!  row: type 8 | 111, PID 13 | .. 4, length 12 | descriptors
//! ```

use crate::crc::crc32;

/// The PID of the program association table.
pub(crate) const PAT_PID: u16 = 0;
pub(crate) const PAT_TABLE: u8 = 0x00;
pub(crate) const PMT_TABLE: u8 = 0x02;

/// Bytes of a section of these tables, its header and CRC among them.
pub(crate) const SECTION_BYTES_MAX: usize = 1024;

/// Rows of a PMT that are looked at.
pub(crate) const ROWS_MAX: usize = 64;

/// A section of PAT or PMT whose CRC is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section<'a> {
    pub(crate) table: u8,
    /// Of the transport stream in a PAT, of the program in a PMT.
    pub(crate) number: u16,
    /// It holds now, not later.
    pub(crate) is_current: bool,
    pub(crate) section: u8,
    pub(crate) last_section: u8,
    pub(crate) content: &'a [u8],
}

impl<'a> Section<'a> {
    /// Reads a whole section; `None` if its CRC is wrong or it is too short.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < 12 || bytes[1] & 0x80 == 0 || crc32(bytes) != 0 {
            return None;
        }
        Some(Self {
            table: bytes[0],
            number: u16::from_be_bytes([bytes[3], bytes[4]]),
            is_current: bytes[5] & 1 != 0,
            section: bytes[6],
            last_section: bytes[7],
            content: &bytes[8..bytes.len() - 4],
        })
    }
}

/// Programs in a PAT: number and PID of the PMT.
pub(crate) fn programs(content: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    let rows = content.as_chunks::<4>().0.iter();
    let numbers = rows.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), pid([c, d])));
    // Program 0 names the network information table.
    numbers.filter(|(number, _)| *number != 0)
}

/// A row of a PMT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) stream_type: u8,
    pub(crate) pid: u16,
    /// Its descriptors.
    pub(crate) info: &'a [u8],
}

/// Elementary streams in a PMT. Ends where a length reaches too far.
pub(crate) fn rows(content: &[u8]) -> impl Iterator<Item = Row<'_>> {
    let info_bytes = content.get(2..4).map_or(0, length);
    let mut rest = content.get(4 + info_bytes..).unwrap_or_default();
    let next = move || {
        let head = rest.first_chunk::<5>()?;
        let length = length(&head[3..]);
        let info = rest.get(5..5 + length)?;
        let row = Row { stream_type: head[0], pid: pid([head[1], head[2]]), info };
        rest = &rest[5 + length..];
        Some(row)
    };
    std::iter::from_fn(next).take(ROWS_MAX)
}

/// Tag and body of each descriptor.
pub(crate) fn descriptors(mut info: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let &[tag, length, ref behind @ ..] = info else { return None };
        let (body, rest) = behind.split_at_checked(usize::from(length))?;
        info = rest;
        Some((tag, body))
    })
}

fn pid([high, low]: [u8; 2]) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

fn length(field: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([field[0] & 0x0f, field[1]]))
}

/// Writes a section as the payload of a packet: behind a pointer, with its CRC.
pub(crate) fn section_payload(table: u8, number: u16, version: u8, content: &[u8]) -> Vec<u8> {
    let behind_length = 5 + content.len() + 4;
    let mut out = vec![0, table, 0xb0 | (behind_length >> 8) as u8, behind_length as u8];
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[0xc1 | version << 1, 0, 0]);
    out.extend_from_slice(content);
    let crc = crc32(&out[1..]);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

/// Content of a PAT with one program.
pub(crate) fn pat_content(program: u16, pmt_pid: u16) -> Vec<u8> {
    [program.to_be_bytes(), (0xe000 | pmt_pid).to_be_bytes()].concat()
}

/// Content of a PMT; `info` are the descriptors of the program.
pub(crate) fn pmt_content<'a>(pcr_pid: u16, info: &[u8], rows: impl Iterator<Item = Row<'a>>) -> Vec<u8> {
    let length = 0xf000 | info.len() as u16;
    let mut content = [&(0xe000 | pcr_pid).to_be_bytes(), &length.to_be_bytes(), info].concat();
    for Row { stream_type, pid, info } in rows {
        content.push(stream_type);
        content.extend_from_slice(&(0xe000 | pid).to_be_bytes());
        content.extend_from_slice(&(0xf000 | info.len() as u16).to_be_bytes());
        content.extend_from_slice(info);
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back() {
        let rows_in = [
            Row { stream_type: 0x1b, pid: 0x100, info: &[] },
            Row { stream_type: 6, pid: 0x1ffe, info: &[5, 4, 1, 2, 3, 4, 0x7f, 0] },
        ];
        let payload = section_payload(PMT_TABLE, 7, 3, &pmt_content(0x100, &[9, 1, 7], rows_in.into_iter()));
        let section = Section::read(&payload[1..]).expect("a section");
        assert_eq!((section.table, section.number, section.is_current), (PMT_TABLE, 7, true));
        assert_eq!(rows(section.content).collect::<Vec<_>>(), rows_in);
        let info: Vec<_> = descriptors(rows_in[1].info).collect();
        assert_eq!(info, [(5, &[1, 2, 3, 4][..]), (0x7f, &[])]);
        let payload = section_payload(PAT_TABLE, 1, 0, &pat_content(7, 0x1000));
        let section = Section::read(&payload[1..]).expect("a section");
        assert_eq!(programs(section.content).collect::<Vec<_>>(), [(7, 0x1000)]);
    }

    #[test]
    fn a_section_with_any_wrong_bit_is_not_taken() {
        let payload = section_payload(PAT_TABLE, 1, 0, &pat_content(7, 0x1000));
        for bit in 0..payload.len() * 8 - 8 {
            let mut wrong = payload[1..].to_vec();
            wrong[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(Section::read(&wrong), None, "bit {bit}");
        }
    }

    #[test]
    fn lengths_that_reach_too_far_end_the_rows() {
        for cut in 0..20 {
            let rows_in = [Row { stream_type: 6, pid: 1, info: &[1; 9] }];
            let content = pmt_content(0x100, &[], rows_in.into_iter());
            assert!(rows(&content[..cut.min(content.len())]).count() <= 1);
        }
        assert_eq!(rows(&[0xe1, 0, 0xff, 0xff, 1, 2]).count(), 0);
        assert_eq!(descriptors(&[5, 200, 1]).count(), 0);
    }
}
