//! A group as a test describes it: lengths of the packets, forms of the private bytes, and what
//! each member must get.
//!
//! The content of every packet and private part follows from its place, so that a byte from a wrong
//! packet, member or offset is a wrong byte. `datagram` is the naive twin of the back ends: it
//! copies three parts after one another.

use group_send::{Progress, Recipient, Sender, Slot};
use std::net::SocketAddr;

/// k packets and the members that get them.
pub(crate) struct Group {
    pub(crate) packets: Vec<Vec<u8>>,
    pub(crate) members: Vec<Member>,
    /// What distinguishes this group, for messages of failing tests.
    pub(crate) remark: String,
}

/// One recipient with its private bytes, in the forms of [`Recipient`].
pub(crate) struct Member {
    pub(crate) destination: SocketAddr,
    pub(crate) prepend: Vec<Vec<u8>>,
    pub(crate) append: Vec<Vec<u8>>,
}

/// How long the packets of a group are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    /// All the same.
    Equal(usize),
    /// The same, and a last one of another length.
    Last(usize, usize),
    /// These, repeatedly.
    Cycle(&'static [usize]),
    /// No two the same, most of them odd.
    Distinct,
}

impl Sizes {
    fn length(self, packet: usize, packets: usize) -> usize {
        match self {
            Self::Equal(length) => length,
            Self::Last(_, last) if packet + 1 == packets => last,
            Self::Last(length, _) => length,
            Self::Cycle(lengths) => lengths[packet % lengths.len()],
            Self::Distinct => 1 + packet * 22 % 1459,
        }
    }
}

/// Lengths at and around every border: nothing, one byte, odd ones, the last that fits an MTU of
/// 1500 over IPv4.
pub(crate) const BORDERS: Sizes = Sizes::Cycle(&[0, 1, 7, 159, 1200, 1471, 1472, 1452, 1451]);

/// Lengths that IP has to cut into fragments, and one that it has not.
pub(crate) const FRAGMENTED: Sizes = Sizes::Cycle(&[1473, 4001, 1200, 9000, 2961]);

/// Which private bytes the members have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Private {
    None,
    /// One part for all packets, before and after; lengths as usual (12 before, 10 after).
    Same,
    /// One part for each packet, of the same odd length.
    Each,
    /// One part for each packet, every one of another length, some of them empty.
    Uneven,
    /// Only before.
    Before,
    /// Only after.
    After,
    /// Another form for each member.
    Mixed,
}

impl Private {
    fn parts(self, packets: usize, member: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let one = |place, length| vec![bytes(place, member, 0, length)];
        let each = |place, length: fn(usize) -> usize| -> Vec<Vec<u8>> {
            (0..packets).map(|packet| bytes(place, member, packet, length(packet))).collect()
        };
        match self {
            Self::None => (Vec::new(), Vec::new()),
            Self::Same => (one(Part::Prepend, 12), one(Part::Append, 10)),
            Self::Each => (each(Part::Prepend, |_| 13), each(Part::Append, |_| 3)),
            Self::Uneven => (each(Part::Prepend, |k| k * 5 % 17), each(Part::Append, |k| k * 3 % 8)),
            Self::Before => (one(Part::Prepend, 63), Vec::new()),
            Self::After => (Vec::new(), each(Part::Append, |_| 11)),
            Self::Mixed => {
                const FORMS: [Private; 6] = [
                    Private::Each,
                    Private::None,
                    Private::Same,
                    Private::Uneven,
                    Private::After,
                    Private::Before,
                ];
                FORMS[member % FORMS.len()].parts(packets, member)
            }
        }
    }
}

impl Group {
    pub(crate) fn new(destinations: &[SocketAddr], packets: usize, sizes: Sizes, private: Private) -> Self {
        let remark = format!("{} members, {packets} packets, {sizes:?}, {private:?}", destinations.len());
        let members = destinations.iter().enumerate().map(|(member, &destination)| {
            let (prepend, append) = private.parts(packets, member);
            Member { destination, prepend, append }
        });
        Self {
            members: members.collect(),
            packets: (0..packets).map(|p| bytes(Part::Shared, 0, p, sizes.length(p, packets))).collect(),
            remark,
        }
    }

    /// Calls `send_group` once.
    pub(crate) fn send(&self, sender: &mut Sender, slots: &mut [Slot]) -> Progress {
        self.send_by(|packets, recipients| sender.send_group(packets, recipients, slots))
    }

    /// Calls `send` with packets and recipients.
    pub(crate) fn send_by<T>(&self, send: impl FnOnce(&[&[u8]], &[Recipient<'_>]) -> T) -> T {
        let packets: Vec<&[u8]> = self.packets.iter().map(Vec::as_slice).collect();
        let private: Vec<[Vec<&[u8]>; 2]> = self
            .members
            .iter()
            .map(|member| {
                [&member.prepend, &member.append].map(|parts| parts.iter().map(Vec::as_slice).collect())
            })
            .collect();
        let recipients: Vec<Recipient<'_>> = self
            .members
            .iter()
            .zip(&private)
            .map(|(member, [prepend, append])| Recipient { destination: member.destination, prepend, append })
            .collect();
        send(&packets, &recipients)
    }

    /// What `member` must receive as datagram `packet`.
    pub(crate) fn datagram(&self, member: usize, packet: usize) -> Vec<u8> {
        fn part(parts: &[Vec<u8>], packet: usize) -> &[u8] {
            match parts {
                [] => &[],
                [one] => one,
                each => &each[packet],
            }
        }
        let Member { prepend, append, .. } = &self.members[member];
        [part(prepend, packet), &self.packets[packet], part(append, packet)].concat()
    }

    /// What `member` must receive, in order.
    pub(crate) fn datagrams(&self, member: usize) -> impl Iterator<Item = Vec<u8>> {
        (0..self.packets.len()).map(move |packet| self.datagram(member, packet))
    }
}

/// Which part of a datagram.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Prepend = 1,
    Shared = 2,
    Append = 3,
}

/// `length` bytes that nothing else has at the same offset.
pub(crate) fn bytes(place: Part, member: usize, packet: usize, length: usize) -> Vec<u8> {
    let mut random = Random((place as u64) << 60 | (member as u64) << 32 | packet as u64);
    let mut filled = Vec::with_capacity(length + 8);
    while filled.len() < length {
        filled.extend(random.next().to_le_bytes());
    }
    filled.truncate(length);
    filled
}

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, nearly as often as any other.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
