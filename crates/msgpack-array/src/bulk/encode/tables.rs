//! Tables of the shuffles, made by the compiler, shared by the instruction sets of one byte order.
//!
//! Numbers are little-endian in a register and big-endian in MessagePack, and between two of them stands a header. A table
//! says for each byte of the output which byte of the input it is; headers are put in by other means.

/// The integer marker before the shortest form of a number with `bits` significant bits (of its complement, if `negative`);
/// [`FIXINT`] when it is its own marker. `uint 8` to `uint 64` are 0xcc to 0xcf, `int 8` to `int 64` 0xd0 to 0xd3.
pub(super) const fn marker(bits: u32, negative: bool) -> u8 {
    let (uint, negative_bits) = if negative { (0xd0, bits + 1) } else { (0xcc, bits) };
    match (negative_bits, negative, bits) {
        (_, false, 0..=7) | (_, true, 0..=5) => FIXINT,
        (0..=8, ..) => uint,
        (0..=16, ..) => uint + 1,
        (0..=32, ..) => uint + 2,
        _ => uint + 3,
    }
}

/// Stands for the marker of a number that needs none. Neither bit 6, which every marker has, nor a width in the lowest two bits.
pub(super) const FIXINT: u8 = 0x20;

/// For a line of 64 bytes that begins `offset` bytes into an array of `SIZE`-byte numbers, each behind a marker byte: the input
/// byte for each, counted from element `first`. A marker takes the number's most significant byte, which has the sign.
pub(super) const fn slots<const SIZE: usize>(offset: usize, first: usize) -> [u8; 64] {
    let mut table = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (element, place) = ((offset + at) / (SIZE + 1), (offset + at) % (SIZE + 1));
        let byte = if place == 0 { SIZE - 1 } else { SIZE - place };
        // Behind the last element of a register anything may stand; it is overwritten.
        table[at] = ((element - first) * SIZE + byte) as u8;
        at += 1;
    }
    table
}

/// All bits of the bytes that are markers in such a line.
pub(super) const fn markers<const SIZE: usize>(offset: usize) -> [u8; 64] {
    let mut table = [0; 64];
    let mut at = 0;
    while at < 64 {
        if (offset + at).is_multiple_of(SIZE + 1) {
            table[at] = 0xff;
        }
        at += 1;
    }
    table
}

/// A bit for each byte of [`markers`].
pub(super) const fn marker_mask<const SIZE: usize>(offset: usize) -> u64 {
    let table = markers::<SIZE>(offset);
    let mut mask = 0;
    let mut at = 0;
    while at < 64 {
        mask |= ((table[at] & 1) as u64) << at;
        at += 1;
    }
    mask
}

/// Which byte of a register of 16 goes where, so that the elements in it take their shortest form: an entry for each combination
/// of their forms.
pub(super) type Compaction = [[u8; 16]; 256];

/// The table for `SIZE`-byte integers, of which a register holds `8 / SIZE`, each with its marker somewhere behind it.
///
/// An index has `SIZE` bits for each element, as many as its form takes bytes more than one: the first for the marker, the others for
/// the bytes of the number except the lowest, which every form has. So the set bits of the index, and one for each element,
/// are the length of the result.
const fn compaction<const SIZE: usize>() -> Compaction {
    let mut table = [[0x80; 16]; 256];
    let mut index = 0;
    while index < 256 {
        let (mut length, mut element) = (0, 0);
        while element < 8 / SIZE {
            let form = index >> (element * SIZE);
            // Bytes lie side by side with the markers in the other half; longer numbers have places twice their size.
            let (number, marker) =
                if SIZE == 1 { (element, 8) } else { (element * 2 * SIZE, element * 2 * SIZE + SIZE) };
            if form & 1 != 0 {
                table[index][length] = marker as u8;
                length += 1;
            }
            let mut byte = SIZE;
            while byte > 0 {
                byte -= 1;
                if byte == 0 || form >> byte & 1 != 0 {
                    table[index][length] = (number + byte) as u8;
                    length += 1;
                }
            }
            element += 1;
        }
        index += 1;
    }
    table
}

pub(super) static BYTES: Compaction = compaction::<1>();
pub(super) static WORDS: Compaction = compaction::<2>();
pub(super) static DWORDS: Compaction = compaction::<4>();
pub(super) static QWORDS: Compaction = compaction::<8>();

/// The first 16 bytes of [`slots`], zeros where it has markers.
pub(super) const fn short_slots<const SIZE: usize>(offset: usize, first: usize) -> [u8; 16] {
    let (bytes, fixed) = (slots::<SIZE>(offset, first), markers::<SIZE>(offset));
    let mut table = [0; 16];
    let mut at = 0;
    while at < 16 {
        // With the highest bit set, the shuffles of 16 bytes give zero.
        table[at] = bytes[at] | fixed[at] & 0x80;
        at += 1;
    }
    table
}

/// `marker` in the first 16 bytes that are markers.
pub(super) const fn short_markers<const SIZE: usize>(offset: usize, marker: u8) -> [u8; 16] {
    let fixed = markers::<SIZE>(offset);
    let mut table = [0; 16];
    let mut at = 0;
    while at < 16 {
        table[at] = fixed[at] & marker;
        at += 1;
    }
    table
}
