//! The payload and recipients of a case: random bytes, and recipients behind one router as clients
//! on the Internet are.

use std::fmt;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use group_send::Recipient;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use socket2::SockAddr;

use crate::contender::NaiveMember;

/// Sizes of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// Recipients.
    pub(crate) n: usize,
    /// Packets to each, handed over together.
    pub(crate) k: usize,
    /// Length of the shared payload.
    pub(crate) bytes: usize,
    /// Length of the private bytes before and after the payload.
    pub(crate) before: usize,
    pub(crate) after: usize,
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("case {text}: not N,K,BYTES,BEFORE,AFTER");
        let numbers: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        match numbers.map_err(|_| wrong())?[..] {
            [n @ 1..=RECIPIENTS_MAX, k, bytes, before, after] if k > 0 => {
                Ok(Self { n, k, bytes, before, after })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n, k, bytes, before, after } = self;
        write!(f, "{n} {k} {bytes} {before} {after}")
    }
}

/// 250 in each /24 of 10.77.0.0/16.
const RECIPIENTS_MAX: usize = 250 * 256;

/// The bytes of a case.
pub(crate) struct Traffic {
    case: Case,
    payloads: Vec<Vec<u8>>,
    people: Vec<Person>,
}

struct Person {
    destination: SocketAddr,
    /// One for each packet, as an RTP header with a sequence number is.
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
}

impl Traffic {
    pub(crate) fn new(case: &Case, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut bytes = |len: usize| {
            let mut bytes = vec![0; len];
            random.fill_bytes(&mut bytes);
            bytes
        };
        let payloads = (0..case.k).map(|_| bytes(case.bytes)).collect();
        let people = (0..case.n).map(|index| Person {
            destination: address(index),
            before: private(case.k, case.before, &mut bytes),
            after: private(case.k, case.after, &mut bytes),
        });
        Self { case: *case, payloads, people: people.collect() }
    }

    pub(crate) fn datagrams(&self) -> usize {
        self.case.n * self.case.k
    }

    /// Bytes of UDP payload in one group.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.datagrams() * (self.case.before + self.case.bytes + self.case.after)
    }

    /// Everything as slices; see [`Slices::group`].
    pub(crate) fn slices(&self) -> Slices<'_> {
        let members = self.people.iter().map(|person| {
            let (before, after) = (slices(&person.before), slices(&person.after));
            let (before_parts, after_parts) = (parts(&person.before), parts(&person.after));
            let address = SockAddr::from(person.destination);
            Member { destination: person.destination, address, before, after, before_parts, after_parts }
        });
        Slices {
            payloads: slices(&self.payloads),
            payload_parts: parts(&self.payloads),
            members: members.collect(),
        }
    }
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(|part| &part[..]).collect()
}

fn parts(parts: &[Vec<u8>]) -> Vec<IoSlice<'_>> {
    parts.iter().map(|part| IoSlice::new(part)).collect()
}

/// `k` private parts of `len` bytes; none if they are empty.
fn private(k: usize, len: usize, bytes: &mut impl FnMut(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    if len == 0 { Vec::new() } else { (0..k).map(|_| bytes(len)).collect() }
}

fn address(index: usize) -> SocketAddr {
    let ip = Ipv4Addr::new(10, 77, (index / 250) as u8, (index % 250 + 1) as u8);
    SocketAddr::from((ip, 20_000 + (index % 40_000) as u16))
}

/// The bytes of a case as slices.
pub(crate) struct Slices<'a> {
    payloads: Vec<&'a [u8]>,
    payload_parts: Vec<IoSlice<'a>>,
    members: Vec<Member<'a>>,
}

/// A recipient, also in the forms that spare the loop and the C program a conversion.
pub(crate) struct Member<'a> {
    destination: SocketAddr,
    pub(crate) address: SockAddr,
    before: Vec<&'a [u8]>,
    after: Vec<&'a [u8]>,
    pub(crate) before_parts: Vec<IoSlice<'a>>,
    pub(crate) after_parts: Vec<IoSlice<'a>>,
}

impl Slices<'_> {
    pub(crate) fn group(&self) -> Group<'_> {
        let k = self.payloads.len();
        let recipients = self.members.iter().map(|member| Recipient {
            destination: member.destination,
            prepend: &member.before,
            append: &member.after,
        });
        let naive_members = self
            .members
            .iter()
            .map(|member| NaiveMember::new(k, &member.address, &member.before_parts, &member.after_parts));
        Group {
            payloads: &self.payloads,
            payload_parts: &self.payload_parts,
            members: &self.members,
            recipients: recipients.collect(),
            naive_members: naive_members.collect(),
        }
    }
}

/// A group in the form each contender needs, ready to be sent repeatedly.
pub(crate) struct Group<'a> {
    pub(crate) payloads: &'a [&'a [u8]],
    pub(crate) payload_parts: &'a [IoSlice<'a>],
    pub(crate) members: &'a [Member<'a>],
    pub(crate) recipients: Vec<Recipient<'a>>,
    pub(crate) naive_members: Vec<NaiveMember<'a>>,
}
