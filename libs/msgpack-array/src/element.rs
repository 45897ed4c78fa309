//! The types an array can consist of.

use crate::bulk::BulkElement;

/// A number that arrays can be made of: `i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 bool`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that arrays are made of",
    note = "there are i8, i16, i32, i64, u8, u16, u32, u64, f32, f64 and bool; instead of usize use u64, of isize i64"
)]
pub trait Element: BulkElement {
    /// Bytes one encoded element takes at most.
    const ENCODED_MAX: usize;
}

macro_rules! element {
    ($($type:ty: $max:literal),*) => { $(impl Element for $type { const ENCODED_MAX: usize = $max; })* };
}

element!(bool: 1, i8: 2, u8: 2, i16: 3, u16: 3, i32: 5, u32: 5, i64: 9, u64: 9, f32: 5, f64: 9);
