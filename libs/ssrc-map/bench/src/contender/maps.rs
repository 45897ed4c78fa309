//! The Rust maps, ours among them: they contain the streams, as their users write it.
//!
//! hashbrown comes with two hashes. foldhash is its own default; a multiplication by a constant is
//! the fastest that still fills the bits hashbrown looks at, and an attacker who knows the constant
//! can make it collide.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use ssrc_map::SsrcMap;

use super::{Contender, Heap, Stream};

macro_rules! map_contender {
    ($name:ident, $label:literal, $map:ty) => {
        pub(crate) struct $name($map);

        impl Contender for $name {
            const NAME: &'static str = $label;

            fn build(streams: &[Stream], _heap: &mut Heap) -> Self {
                let mut map = <$map>::default();
                for stream in streams {
                    assert!(map.insert(stream.ssrc, stream.clone()).is_none(), "SSRCs are distinct");
                }
                Self(map)
            }

            #[inline]
            fn find(&self, ssrc: u32) -> Option<&Stream> {
                self.0.get(&ssrc)
            }
        }
    };
}

map_contender!(BTree, "btree", BTreeMap<u32, Stream>);
map_contender!(StdHash, "std-hash", HashMap<u32, Stream>);
map_contender!(HashbrownFold, "hashbrown-fold", hashbrown::HashMap<u32, Stream>);
map_contender!(
    HashbrownMultiply,
    "hashbrown-multiply",
    hashbrown::HashMap<u32, Stream, BuildHasherDefault<MultiplyHasher>>
);

/// `ssrc * constant`, turned so that both the low bits (the bucket) and the top seven (the tag)
/// depend on all of it.
#[derive(Default)]
pub(crate) struct MultiplyHasher(u64);

impl Hasher for MultiplyHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u32");
    }

    #[inline]
    fn write_u32(&mut self, ssrc: u32) {
        // 2^64 divided by the golden ratio, made odd (Knuth, The Art of Computer Programming,
        // volume 3, section 6.4).
        self.0 = u64::from(ssrc).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) struct SsrcMapOurs(SsrcMap<Stream>);

impl Contender for SsrcMapOurs {
    const NAME: &'static str = "ssrc-map";

    fn build(streams: &[Stream], _heap: &mut Heap) -> Self {
        let mut map = SsrcMap::new(streams.len());
        for stream in streams {
            assert!(
                matches!(map.insert(stream.ssrc, stream.clone()), Ok(None)),
                "SSRCs are distinct and there is room"
            );
        }
        Self(map)
    }

    #[inline]
    fn find(&self, ssrc: u32) -> Option<&Stream> {
        self.0.get(ssrc)
    }
}
