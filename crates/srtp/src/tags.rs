//! Tags computed later, many side by side.
//!
//! A server writes datagrams one by one, each under another viewer's key, and sends them together.
//! In counter mode most of what a packet costs is its tag, and SHA-1 is a chain: sixteen packets of
//! one length hashed side by side cost a third of sixteen hashes one after the other. So a packet gets
//! its index and is encrypted when it is written
//! ([`OutboundContext::protect_rtp_later`](crate::OutboundContext::protect_rtp_later)), and its tag
//! when [`TagQueue::finish`] is called, in whatever company it then has: packets of one viewer or of
//! many, of one stream or of several. They are hashed in the order of their lengths, because
//! packets side by side cost as much as the longest of them.
//!
//! What the hash needs of a key is copied, so a context may be dropped while packets of it wait.

use arrayvec::ArrayVec;

use crate::cipher::cm::{self, Kernel, LANES, Message, Midstates};

/// Packets that are encrypted, each at a place in memory of the caller's, and wait for their tags.
///
/// **Call [`finish`](Self::finish) before any of them is sent or moved.**
pub struct TagQueue<P> {
    waiting: Vec<Waiting<P>>,
    order: Vec<Turn>,
    packets_max: usize,
}

/// The memory in which the packets of a [`TagQueue`] are.
pub trait TagPlaces<P> {
    /// The packet at a place, with the room for its tag.
    fn packet(&self, place: P) -> &[u8];
    /// The same, to be written.
    fn packet_mut(&mut self, place: P) -> &mut [u8];
}

/// A packet without its tag.
pub(crate) struct Waiting<P> {
    pub(crate) mac: Midstates,
    pub(crate) kernel: Kernel,
    /// Authenticated after the packet: its ROC.
    pub(crate) suffix: [u8; 4],
    /// Bytes of header and payload.
    pub(crate) len: u32,
    /// Where its tag begins: behind the MKI.
    pub(crate) tag_at: u32,
    pub(crate) tag_len: u32,
    pub(crate) place: P,
}

/// When a packet is hashed: together with others of its kernel and of about its length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    kernel: Kernel,
    blocks: u32,
    index: u32,
}

impl<P: Copy> TagQueue<P> {
    /// A queue of up to `packets_max` packets, whose memory is taken now. With 0 every packet is finished at
    /// once.
    pub fn new(packets_max: usize) -> Self {
        Self { waiting: Vec::with_capacity(packets_max), order: Vec::with_capacity(packets_max), packets_max }
    }

    /// Number of packets that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the next packet would be finished at once.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.packets_max
    }

    /// Writes the tag of every packet that waits.
    ///
    /// # Panics
    /// When a packet is shorter than it was.
    pub fn finish(&mut self, places: &mut impl TagPlaces<P>) {
        // The longest first, so that those left over for less than all lanes are the cheapest.
        self.order.sort_unstable_by(|one, other| other.cmp(one));
        for alike in self.order.chunk_by(|one, other| one.kernel == other.kernel) {
            for turns in alike.chunks(LANES) {
                let tags = {
                    let message = |turn: &Turn| {
                        let waiting = &self.waiting[turn.index as usize];
                        let bytes = &places.packet(waiting.place)[..waiting.len as usize];
                        Message { mac: &waiting.mac, bytes, suffix: waiting.suffix }
                    };
                    let messages: ArrayVec<Message<'_>, LANES> = turns.iter().map(message).collect();
                    cm::hmac(turns[0].kernel, &messages)
                };
                for (turn, tag) in turns.iter().zip(&tags) {
                    let Waiting { tag_at, tag_len, place, .. } = self.waiting[turn.index as usize];
                    let room = &mut places.packet_mut(place)[tag_at as usize..][..tag_len as usize];
                    room.copy_from_slice(&tag[..tag_len as usize]);
                }
            }
        }
        self.order.clear();
        self.waiting.clear();
    }

    /// Adds a packet; the caller knows that there is room.
    #[inline]
    pub(crate) fn push(&mut self, packet: Waiting<P>) {
        let blocks = cm::hashed_blocks(packet.len as usize) as u32;
        self.order.push(Turn { kernel: packet.kernel, blocks, index: self.waiting.len() as u32 });
        self.waiting.push(packet);
    }
}

impl<P> std::fmt::Debug for TagQueue<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TagQueue").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
