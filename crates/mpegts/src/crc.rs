//! CRC-32 of sections (ISO/IEC 13818-1 annex A): polynomial 0x04c11db7, not reflected, begun with
//! ones and not inverted at the end. Over a section with its own CRC it is 0.

/// The CRC of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, &byte| crc << 8 ^ TABLE[usize::from((crc >> 24) as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 << 31 != 0 { crc << 1 ^ 0x04c1_1db7 } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        // "CRC-32/MPEG-2" in the catalogue of parametrised CRC algorithms.
        assert_eq!(crc32(b"123456789"), 0x0376_e6e7);
        let with_crc = [&b"123456789"[..], &0x0376_e6e7u32.to_be_bytes()].concat();
        assert_eq!(crc32(&with_crc), 0);
    }
}
