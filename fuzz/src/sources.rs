//! What the fuzz target of datagrams that are pulled checks: whatever comes, little waits, nothing comes
//! out twice, and what is in order stays so.
//!
//! `crates/sources/tests/sources/fuzz_corpus.rs` includes this file and replays the kept corpus.

use sources::pull::TsDatagrams;

/// `| length (2) | datagram |...`: datagrams of one sender, as they are, and then each in RTP, numbered by
/// its first bytes.
pub fn ts_datagrams(data: &[u8]) {
    let (mut bare, mut numbered) = (TsDatagrams::default(), TsDatagrams::default());
    let (mut rest, mut came_in, mut came_out) = (data, 0, 0);
    let mut handed_on = Vec::new();
    let mut count = 0u32;
    while let Some(([high, low], behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        rest = behind;
        came_in += datagram.len();
        bare.push(datagram, |payload| came_out += payload.len());
        assert!(came_out <= came_in && bare.waiting() <= WAITING_MAX);
        let Some((number, _)) = datagram.split_first_chunk::<2>() else { continue };
        // RFC 3550 section 5.1, of payload type 33.
        let header = [&[0x80, 33][..], number, &[0; 8]].concat();
        let sent = [&header[..], &count.to_be_bytes()].concat();
        count += 1;
        numbered.push(&sent, |payload| handed_on.push((payload.to_vec(), count)));
        assert!(numbered.waiting() <= WAITING_MAX);
    }
    // Each at most once; and one that waits is followed by none that came before it was given up.
    let mut seen: Vec<&[u8]> = handed_on.iter().map(|(payload, _)| &payload[..]).collect();
    assert!(seen.len() + numbered.waiting() <= count as usize);
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "a payload came out twice");
}

/// Datagrams that may wait.
const WAITING_MAX: usize = 16;
