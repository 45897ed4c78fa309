//! Writing boxes (ISO/IEC 14496-12, 4.2): a header whose size is filled in when the body is known.

/// Appends a box to `out`; `body` appends what is in it.
pub(crate) fn write(out: &mut Vec<u8>, kind: &[u8; 4], body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(kind);
    body(out);
    let size = u32::try_from(out.len() - at).expect("boxes made here are limited to a few MiB");
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

/// The same for a box with version and flags.
pub(crate) fn write_full(
    out: &mut Vec<u8>,
    kind: &[u8; 4],
    (version, flags): (u8, u32),
    body: impl FnOnce(&mut Vec<u8>),
) {
    write(out, kind, |out| {
        put32(out, u32::from(version) << 24 | flags);
        body(out);
    });
}

pub(crate) fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, 0);
}
