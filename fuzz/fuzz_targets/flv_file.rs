//! FLV framing: no input panics, where the input is cut changes nothing, and tags survive being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::flv::{FlvError, FlvReader, Tag, write_file_header, write_tag};

fuzz_target!(|data: &[u8]| {
    let Some((&step, data)) = data.split_first() else { return };
    let (tags, error) = read(data, data.len().max(1));
    assert_eq!((tags.clone(), error), read(data, usize::from(step).max(1)));
    let mut file = Vec::new();
    write_file_header(&mut file, true, true);
    tags.iter().for_each(|tag| write_tag(&mut file, tag.kind, tag.timestamp, &tag.body));
    assert_eq!((tags, None), read(&file, file.len()));
});

/// Reads in pieces of `step` bytes.
fn read(data: &[u8], step: usize) -> (Vec<Tag>, Option<FlvError>) {
    let mut reader = FlvReader::new(1 << 20);
    let mut tags = Vec::new();
    for piece in data.chunks(step) {
        reader.push(piece);
        loop {
            match reader.next_tag() {
                Ok(Some(tag)) => tags.push(tag),
                Ok(None) => break,
                Err(error) => return (tags, Some(error)),
            }
        }
    }
    (tags, None)
}
