//! RTCP that no viewer should send, under the keys of one: requests without end, and what makes no sense.

use netsim::Random;

/// Most bytes of a compound packet, so that it fits into a datagram.
const COMPOUND_MAX: usize = 1_200;

/// A compound packet about the server's track `media_ssrc`, of which `last` was the newest sequence number.
pub(super) fn compound(random: &mut Random, media_ssrc: u32, last: u16) -> Vec<u8> {
    // Keys are for one sender, so that each packet that may be the first begins with it.
    let (own, media) = (1_u32.to_be_bytes(), media_ssrc.to_be_bytes());
    let heads = [own, media].concat();
    // Most begin with the report that each has to begin with.
    let mut out = if random.chance(0.8) { packet(201, 0, &own) } else { Vec::new() };
    match random.below(10) {
        // Everything is missed that there was of late, and then anything at all.
        0 => {
            let words = (0..60_u16).flat_map(|at| [last.wrapping_sub(17 * at), 0xffff]);
            out.extend(packet(205, 1, &[heads, words.flat_map(u16::to_be_bytes).collect()].concat()));
        }
        1 => {
            let words = garbage(random, 4 * 250);
            out.extend(packet(205, 1, &[heads, words].concat()));
        }
        2 => (0..40).for_each(|_| out.extend(packet(206, 1, &heads))),
        3 => {
            let entries = (0..40_u8).flat_map(|at| [&media[..], &[at, 0, 0, 0]].concat()).collect();
            out.extend(packet(206, 4, &[heads, entries].concat()));
        }
        // An estimate of any rate for more tracks than it names, or none.
        4 => {
            let estimate = [&b"REMB"[..], &garbage(random, 40)].concat();
            out.extend(packet(206, 15, &[heads, estimate].concat()));
        }
        // Arrivals of packets that never were.
        5 => {
            let arrivals = garbage(random, 200);
            out.extend(packet(205, 15, &[heads, arrivals].concat()));
        }
        // Reports of losses and delays that cannot be.
        6 => {
            let blocks = (0..31).flat_map(|_| [&media[..], &garbage(random, 20)].concat()).collect();
            out.extend(packet(201, 31, &[own.to_vec(), blocks].concat()));
        }
        7 => out.extend(packet(203, 1, &own)),
        // Longer than it is.
        8 => out.extend([&[0x81, 205, 0xff, 0xff][..], &own].concat()),
        _ => {
            let kind = 192 + random.below(32) as u8;
            let (count, words) = (random.below(32) as u8, random.below(60) as usize);
            out.extend(packet(kind, count, &[own.to_vec(), garbage(random, 4 * words)].concat()));
        }
    }
    out.truncate(COMPOUND_MAX);
    out
}

/// One packet of a compound; the body is of whole words.
fn packet(kind: u8, count: u8, body: &[u8]) -> Vec<u8> {
    let words = (body.len() / 4) as u16;
    [&[0x80 | count, kind][..], &words.to_be_bytes(), body].concat()
}

fn garbage(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next_u64() as u8).collect()
}
