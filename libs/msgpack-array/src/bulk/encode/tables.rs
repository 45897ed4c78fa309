//! Tables of the shuffles, made by the compiler, shared by the instruction sets of one byte order.
//!
//! Numbers are little-endian in a register and big-endian in MessagePack, and between two of them
//! stands a header. A table says for each byte of the output which byte of the input it is; headers
//! are put in by other means.

/// For a line of 64 bytes that begins `offset` bytes into an array of `SIZE`-byte numbers, each
/// behind a marker byte: the input byte for each, counted from element `first`. A marker takes the
/// number's most significant byte, which has the sign.
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

/// Which byte of a register of 16 goes where, so that the elements in it take their shortest form:
/// an entry for each combination of their forms.
pub(super) type Compaction = [[u8; 16]; 256];

/// The table for `SIZE`-byte integers, of which a register holds `8 / SIZE`, each with its marker
/// somewhere behind it.
///
/// An index has `SIZE` bits for each element, as many as its form takes bytes more than one: the
/// first for the marker, the others for the bytes of the number except the lowest, which every form
/// has. So the set bits of the index, and one for each element, are the length of the result.
const fn compaction<const SIZE: usize>() -> Compaction {
    let mut table = [[0x80; 16]; 256];
    let mut index = 0;
    while index < 256 {
        let (mut length, mut element) = (0, 0);
        while element < 8 / SIZE {
            let form = index >> (element * SIZE);
            // Bytes lie side by side with the markers in the other half; longer numbers have places
            // twice their size.
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

/// For each marker the highest byte of its number, for the first 16 bytes.
pub(super) const fn highest<const SIZE: usize>() -> [u8; 16] {
    let mut table = [0x80; 16];
    let mut element = 0;
    while element * (SIZE + 1) < 16 {
        table[element * (SIZE + 1)] = (element * SIZE + SIZE - 1) as u8;
        element += 1;
    }
    table
}

/// The second of two numbers of eight bytes.
pub(super) const SECOND: [u8; 16] = {
    let mut table = [0x80; 16];
    let mut byte = 0;
    while byte < 8 {
        table[byte] = 15 - byte as u8;
        byte += 1;
    }
    table
};
