//! Replays reads, one after the other, from anything that implements `Read` and `Seek`.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

use super::trace::Wanted;

/// Bytes requested from the reader at a time.
const PIECE_BYTES: usize = 256 << 10;

/// What the reads gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// SHA-256 of all bytes in the order of the reads, in hexadecimal digits.
    pub sha256: String,
    /// How many bytes these are.
    pub bytes: u64,
}

/// Why they could not all be made.
#[derive(Debug)]
pub(crate) enum ReplayError {
    /// The read of this line of the trace.
    Read(Wanted, io::Error),
    /// The file ends before this read does; its length, if known.
    End(Wanted, Option<u64>),
    /// The output could not be written.
    Write(io::Error),
}

/// Makes all `reads`, in order, and writes what they give to `output`.
pub(crate) fn replay(
    reader: &mut (impl Read + Seek),
    reads: &[Wanted],
    output: &mut dyn Write,
) -> Result<Replayed, ReplayError> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut sum, mut bytes) = (Sha256::new(), 0);
    for wanted in reads {
        let failed = |error| ReplayError::Read(*wanted, error);
        reader.seek(SeekFrom::Start(wanted.offset)).map_err(failed)?;
        let mut left = wanted.length;
        while left > 0 {
            let room = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            match reader.read(&mut piece[..room]) {
                Ok(0) => return Err(ReplayError::End(*wanted, end_of(reader, wanted, left))),
                Ok(got) => {
                    sum.update(&piece[..got]);
                    output.write_all(&piece[..got]).map_err(ReplayError::Write)?;
                    left -= got as u64;
                    bytes += got as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    output.flush().map_err(ReplayError::Write)?;
    let sha256 = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Replayed { sha256, bytes })
}

/// Where the file ends, after a read of which `left` bytes are missing.
fn end_of(reader: &mut impl Seek, wanted: &Wanted, left: u64) -> Option<u64> {
    let is_within = left < wanted.length;
    if is_within { Some(wanted.offset + wanted.length - left) } else { reader.seek(SeekFrom::End(0)).ok() }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn wanted(offset: u64, length: u64) -> Wanted {
        Wanted { offset, length, line: 1 }
    }

    #[test]
    fn reads_are_concatenated_in_their_order_and_summed() {
        let mut output = Vec::new();
        let reads = [wanted(3, 2), wanted(0, 1), wanted(1, 0), wanted(0, 3)];
        let replayed = replay(&mut Cursor::new(b"abcde"), &reads, &mut output).expect("within the file");
        assert_eq!((output.as_slice(), replayed.bytes), (&b"deaabc"[..], 6));
        // By sha256sum.
        assert_eq!(replayed.sha256, "3eed4f5a825655dbd0df8d3ff92e93fb43a7ef1063e99b5c2caa23cd27f3e3aa");
    }

    #[test]
    fn a_read_longer_than_a_piece_is_whole() {
        let file: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        let mut output = Vec::new();
        let all = [wanted(0, file.len() as u64)];
        replay(&mut Cursor::new(&file), &all, &mut output).expect("within the file");
        assert_eq!(output, file);
    }

    #[test]
    fn a_read_beyond_the_end_says_where_the_file_ends() {
        for read in [wanted(3, 4), wanted(5, 1), wanted(400_000, 5), wanted(u64::MAX - 1, 1)] {
            let error = replay(&mut Cursor::new(b"abcde"), &[read], &mut io::sink()).expect_err("too long");
            assert!(matches!(error, ReplayError::End(at, Some(5)) if at == read), "{error:?}");
        }
    }

    #[test]
    fn output_that_cannot_be_written_is_no_fault_of_the_reader() {
        let error =
            replay(&mut Cursor::new(b"abcde"), &[wanted(0, 5)], &mut &mut [0u8; 3][..]).expect_err("full");
        assert!(matches!(error, ReplayError::Write(_)), "{error:?}");
    }
}
