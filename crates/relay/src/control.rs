//! Control datagrams: what the two halves of a link tell each other beside media.
//!
//! ```text
//!  to a sender                                       to a receiver
//!  1 NACK       number of ranges (1), each first (4), more (2)
//!  2 KEY_FRAME  handle (2), SSRC (4)                 5 PONG  id (4)
//!  3 PING       id (4)                               6 SENT  next link number (8)
//!  4 REPORT     received, lost, repaired (8 each),   7 KEPT  oldest link number that can still be
//!               round trip in us (4)                        repaired (8)
//!  8 LEAVE_OUT  handle (2), number (2),
//!               number of SSRCs (1), each (4)
//! ```
//! Messages follow one another, a byte of type before each. A datagram with anything else in it is
//! malformed as a whole: who sends it has the keys and this version, so it is a mistake of ours.
//! `first` has the lower half of a link number, `more` how many follow it without a gap. LEAVE_OUT names all
//! SSRCs of a stream that its node does not want; of several, the one with the latest number holds.

use srtp::aead::TAG_BYTES;

use crate::error::DropReason;
use crate::keys::{Cipher, GCM_BYTES};
use crate::limits::{CONTROL_BYTES_MAX, CONTROL_WINDOW, LEFT_OUT_MAX};
use crate::window::Window;
use crate::wire::{CONTROL_HEADER_BYTES, COUNTER_MAX, Control, TO_SENDER, control_header};

/// What a receiver says of a link since its beginning, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Numbers that arrived, each once.
    pub received: u64,
    /// Numbers that were given up.
    pub lost: u64,
    /// Of those received: arrived after they had been asked for.
    pub repaired: u64,
    /// Smoothed round trip in microseconds; 0 while unknown.
    pub round_trip_us: u32,
}

/// One message. NACK has a range at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    Nack { first: u32, more: u16 },
    KeyFrame { handle: u16, ssrc: u32 },
    Ping { id: u32 },
    Report(Report),
    Pong { id: u32 },
    Sent { next: u64 },
    Kept { oldest: u64 },
    LeaveOut { handle: u16, number: u16, ssrcs: &'a [[u8; 4]] },
}

/// The messages of a datagram that parsed as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Messages<'a> {
    rest: &'a [u8],
    /// Ranges of a NACK that are still to come.
    ranges: u8,
}

impl<'a> Messages<'a> {
    /// `None` unless all of `text` is messages for `kind`.
    pub(crate) fn parse(text: &'a [u8], kind: u8) -> Option<Self> {
        let messages = Self { rest: text, ranges: 0 };
        let mut walk = messages;
        while !walk.rest.is_empty() {
            let is_to_sender = matches!(
                walk.read()?,
                Message::Nack { .. }
                    | Message::KeyFrame { .. }
                    | Message::Ping { .. }
                    | Message::Report(_)
                    | Message::LeaveOut { .. }
            );
            if is_to_sender != (kind == TO_SENDER) {
                return None;
            }
        }
        (walk.ranges == 0).then_some(messages)
    }

    fn read(&mut self) -> Option<Message<'a>> {
        if self.ranges == 0 {
            let (&[kind], rest) = self.rest.split_first_chunk()?;
            self.rest = rest;
            match kind {
                NACK => {
                    self.ranges = self.array::<1>()?[0];
                    if self.ranges == 0 {
                        return None;
                    }
                }
                KEY_FRAME => {
                    let handle = u16::from_be_bytes(self.array()?);
                    return Some(Message::KeyFrame { handle, ssrc: u32::from_be_bytes(self.array()?) });
                }
                PING => return Some(Message::Ping { id: u32::from_be_bytes(self.array()?) }),
                REPORT => {
                    let mut count = || Some(u64::from_be_bytes(self.array()?));
                    let (received, lost, repaired) = (count()?, count()?, count()?);
                    let round_trip_us = u32::from_be_bytes(self.array()?);
                    return Some(Message::Report(Report { received, lost, repaired, round_trip_us }));
                }
                PONG => return Some(Message::Pong { id: u32::from_be_bytes(self.array()?) }),
                SENT => return Some(Message::Sent { next: u64::from_be_bytes(self.array()?) }),
                KEPT => return Some(Message::Kept { oldest: u64::from_be_bytes(self.array()?) }),
                LEAVE_OUT => {
                    let handle = u16::from_be_bytes(self.array()?);
                    let number = u16::from_be_bytes(self.array()?);
                    let count = usize::from(self.array::<1>()?[0]);
                    let (ssrcs, rest) = self.rest.split_at_checked(4 * count)?;
                    self.rest = rest;
                    let (ssrcs, _) = ssrcs.as_chunks();
                    return (count <= LEFT_OUT_MAX).then_some(Message::LeaveOut { handle, number, ssrcs });
                }
                _ => return None,
            }
        }
        self.ranges -= 1;
        let first = u32::from_be_bytes(self.array()?);
        Some(Message::Nack { first, more: u16::from_be_bytes(self.array()?) })
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        if self.rest.is_empty() { None } else { self.read() }
    }
}

const NACK: u8 = 1;
const KEY_FRAME: u8 = 2;
const PING: u8 = 3;
const REPORT: u8 = 4;
const PONG: u8 = 5;
const SENT: u8 = 6;
const KEPT: u8 = 7;
const LEAVE_OUT: u8 = 8;

/// Writes messages into datagrams, seals and hands them over. Each is sent as full as it gets.
pub(crate) struct Writer<'a, F: FnMut(&[u8])> {
    sealer: &'a mut ControlSealer,
    send: F,
    datagram: [u8; CONTROL_BYTES_MAX],
    len: usize,
    /// Where the number of ranges is of the NACK that is being written.
    ranges_at: Option<usize>,
}

impl<'a, F: FnMut(&[u8])> Writer<'a, F> {
    pub(crate) fn new(sealer: &'a mut ControlSealer, send: F) -> Self {
        Self { sealer, send, datagram: [0; CONTROL_BYTES_MAX], len: CONTROL_HEADER_BYTES, ranges_at: None }
    }

    pub(crate) fn push(&mut self, message: Message<'_>) {
        match message {
            Message::Nack { first, more } => {
                // With a head of its own in any case: flushing, and a NACK that is full, begin another.
                self.room(NACK_HEAD_BYTES + RANGE_BYTES);
                let at = match self.ranges_at.filter(|at| self.datagram[*at] < u8::MAX) {
                    Some(at) => at,
                    None => {
                        self.put(&[NACK, 0]);
                        self.len - 1
                    }
                };
                self.ranges_at = Some(at);
                self.put(&first.to_be_bytes());
                self.put(&more.to_be_bytes());
                self.datagram[at] += 1;
            }
            Message::KeyFrame { handle, ssrc } => {
                self.whole(KEY_FRAME, &[&handle.to_be_bytes(), &ssrc.to_be_bytes()]);
            }
            Message::Ping { id } => self.whole(PING, &[&id.to_be_bytes()]),
            Message::Report(Report { received, lost, repaired, round_trip_us }) => {
                let counts = [received, lost, repaired].map(u64::to_be_bytes);
                self.whole(REPORT, &[&counts[0], &counts[1], &counts[2], &round_trip_us.to_be_bytes()]);
            }
            Message::Pong { id } => self.whole(PONG, &[&id.to_be_bytes()]),
            Message::Sent { next } => self.whole(SENT, &[&next.to_be_bytes()]),
            Message::Kept { oldest } => self.whole(KEPT, &[&oldest.to_be_bytes()]),
            Message::LeaveOut { handle, number, ssrcs } => {
                let ssrcs = &ssrcs[..ssrcs.len().min(LEFT_OUT_MAX)];
                let (handle, number) = (handle.to_be_bytes(), number.to_be_bytes());
                let count = [ssrcs.len() as u8];
                self.whole(LEAVE_OUT, &[&handle, &number, &count, ssrcs.as_flattened()]);
            }
        }
    }

    /// Sends what has been written.
    pub(crate) fn flush(&mut self) {
        if self.len > CONTROL_HEADER_BYTES
            && let Some(len) = self.sealer.seal(&mut self.datagram, self.len)
        {
            (self.send)(&self.datagram[..len]);
        }
        (self.len, self.ranges_at) = (CONTROL_HEADER_BYTES, None);
    }

    fn whole(&mut self, kind: u8, fields: &[&[u8]]) {
        self.room(1 + fields.iter().map(|field| field.len()).sum::<usize>());
        self.ranges_at = None;
        self.put(&[kind]);
        fields.iter().for_each(|field| self.put(field));
    }

    fn room(&mut self, bytes: usize) {
        if self.len + bytes + TAG_BYTES > CONTROL_BYTES_MAX {
            self.flush();
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.datagram[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

const NACK_HEAD_BYTES: usize = 2;
const RANGE_BYTES: usize = 6;

/// Seals control datagrams of one direction.
pub(crate) struct ControlSealer {
    cipher: Cipher,
    kind: u8,
    counter: u64,
}

impl ControlSealer {
    pub(crate) fn new(kind: u8, key: &[u8; GCM_BYTES]) -> Self {
        Self { cipher: Cipher::new(key), kind, counter: 0 }
    }

    #[cfg(feature = "internals")]
    pub(crate) fn seal_text(&mut self, text: &[u8]) -> Vec<u8> {
        let mut datagram = [0; CONTROL_BYTES_MAX];
        let len = text.len().min(CONTROL_BYTES_MAX - CONTROL_HEADER_BYTES - TAG_BYTES);
        datagram[CONTROL_HEADER_BYTES..][..len].copy_from_slice(&text[..len]);
        let len = self.seal(&mut datagram, CONTROL_HEADER_BYTES + len).unwrap_or(0);
        datagram[..len].to_vec()
    }

    /// Completes a datagram of which `len` bytes are written, room for the header included. `None`
    /// when the counter is used up, which takes longer than nodes live.
    fn seal(&mut self, datagram: &mut [u8; CONTROL_BYTES_MAX], len: usize) -> Option<usize> {
        if self.counter > COUNTER_MAX {
            return None;
        }
        let header = control_header(self.kind, self.counter);
        let (head, text) = datagram[..len].split_first_chunk_mut::<CONTROL_HEADER_BYTES>()?;
        *head = header;
        let tag = self.cipher.seal(self.counter, &header, text);
        self.counter += 1;
        datagram[len..len + TAG_BYTES].copy_from_slice(&tag);
        Some(len + TAG_BYTES)
    }
}

/// Opens control datagrams of one direction, each once.
pub(crate) struct ControlOpener {
    cipher: Cipher,
    kind: u8,
    window: Window,
}

impl ControlOpener {
    pub(crate) fn new(kind: u8, key: &[u8; GCM_BYTES]) -> Self {
        Self { cipher: Cipher::new(key), kind, window: Window::new(CONTROL_WINDOW) }
    }

    /// The messages of a datagram. On an error, nothing has changed.
    pub(crate) fn open<'d>(&mut self, datagram: &'d mut [u8]) -> Result<Messages<'d>, DropReason> {
        let Control { header, counter, text, tag } =
            Control::parse(datagram, self.kind).ok_or(DropReason::Malformed)?;
        if !self.window.is_new(counter) {
            return Err(DropReason::Replayed);
        }
        if !self.cipher.open(counter, &header, text, &tag) {
            return Err(DropReason::Forged);
        }
        let messages = Messages::parse(text, self.kind).ok_or(DropReason::Malformed)?;
        self.window.accept(counter);
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::TO_RECEIVER;

    fn pair(kind: u8) -> (ControlSealer, ControlOpener) {
        (ControlSealer::new(kind, &[5; GCM_BYTES]), ControlOpener::new(kind, &[5; GCM_BYTES]))
    }

    fn write(sealer: &mut ControlSealer, messages: &[Message<'_>]) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        let mut writer = Writer::new(sealer, |datagram: &[u8]| datagrams.push(datagram.to_vec()));
        messages.iter().for_each(|message| writer.push(*message));
        writer.flush();
        datagrams
    }

    #[test]
    fn messages_come_out_as_they_went_in_over_as_many_datagrams_as_it_takes() {
        let nacks = (0..700).map(|first| Message::Nack { first, more: first as u16 });
        let report = Report { received: 1 << 40, lost: 2, repaired: 3, round_trip_us: 4 };
        let ssrcs: Vec<[u8; 4]> = (0..LEFT_OUT_MAX as u32).map(u32::to_be_bytes).collect();
        let messages: Vec<Message<'_>> = [Message::Ping { id: 7 }, Message::Report(report)]
            .into_iter()
            .chain(nacks)
            .chain([Message::KeyFrame { handle: 9, ssrc: 10 }, Message::Nack { first: 1, more: 0 }])
            .chain([
                Message::LeaveOut { handle: 3, number: u16::MAX, ssrcs: &ssrcs },
                Message::LeaveOut { handle: 3, number: 0, ssrcs: &[] },
            ])
            .collect();
        let (mut sealer, mut opener) = pair(TO_SENDER);
        let mut datagrams = write(&mut sealer, &messages);
        assert!(datagrams.iter().all(|datagram| datagram.len() <= CONTROL_BYTES_MAX));
        let opened = datagrams.iter_mut().flat_map(|datagram| opener.open(datagram).unwrap());
        assert_eq!(opened.collect::<Vec<_>>(), messages);
        let (mut sealer, mut opener) = pair(TO_RECEIVER);
        let messages =
            [Message::Pong { id: 1 }, Message::Sent { next: u64::MAX }, Message::Kept { oldest: 9 }];
        let mut datagrams = write(&mut sealer, &messages);
        assert_eq!(opener.open(&mut datagrams[0]).unwrap().collect::<Vec<_>>(), messages);
        assert!(write(&mut sealer, &[]).is_empty());
    }

    #[test]
    fn what_is_not_all_messages_for_this_half_is_malformed_and_may_come_again_corrected() {
        for (text, kind) in [
            (&[0][..], TO_SENDER),
            (&[NACK][..], TO_SENDER),
            (&[NACK, 0][..], TO_SENDER),
            (&[NACK, 2, 0, 0, 0, 1, 0, 0][..], TO_SENDER),
            (&[PING, 0, 0, 0][..], TO_SENDER),
            (&[PING, 0, 0, 0, 1, 9][..], TO_SENDER),
            (&[PONG, 0, 0, 0, 1][..], TO_SENDER),
            (&[PING, 0, 0, 0, 1][..], TO_RECEIVER),
            (&[LEAVE_OUT, 0, 1, 0, 1][..], TO_SENDER),
            (&[LEAVE_OUT, 0, 1, 0, 1, 1, 0, 0, 0][..], TO_SENDER),
            (&[LEAVE_OUT, 0, 1, 0, 1, 0][..], TO_RECEIVER),
        ] {
            assert!(Messages::parse(text, kind).is_none(), "{text:?}");
        }
    }

    #[test]
    fn a_datagram_opens_once_and_unchanged_only() {
        let (mut sealer, mut opener) = pair(TO_SENDER);
        let datagrams = write(&mut sealer, &[Message::Ping { id: 7 }]);
        for at in 0..datagrams[0].len() {
            let mut changed = datagrams[0].clone();
            changed[at] ^= 1;
            assert!(opener.open(&mut changed).is_err(), "byte {at}");
            assert!(opener.open(&mut datagrams[0][..at].to_vec()).is_err(), "{at} bytes");
        }
        assert!(opener.open(&mut datagrams[0].clone()).is_ok());
        assert_eq!(opener.open(&mut datagrams[0].clone()).unwrap_err(), DropReason::Replayed);
    }
}
