//! Lists of reads: a line `offset,length` each, with or without a header line.

/// One read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
}

/// The reads of a trace, in its order.
pub(crate) fn parse(text: &str) -> Result<Vec<Read>, String> {
    let mut reads = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || number == 0 && line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            continue;
        }
        let fields = line.split_once(',').and_then(|(offset, length)| {
            Some(Read { offset: offset.trim().parse().ok()?, length: length.trim().parse().ok()? })
        });
        reads.push(fields.ok_or(format!("line {}: expected offset,length", number + 1))?);
    }
    Ok(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_no_read_and_a_word_is_an_error() {
        let reads = parse("offset,length\n0,48\n\n100, 7\n").expect("well formed");
        assert_eq!(reads, [Read { offset: 0, length: 48 }, Read { offset: 100, length: 7 }]);
        assert_eq!(parse("0,48\nx,1\n").expect_err("a word"), "line 2: expected offset,length");
    }
}
