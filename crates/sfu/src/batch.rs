//! The packets of one turn of the worker's loop, and their headers.
//!
//! What arrived in one receive batch leaves together: for each viewer all of its packets in a row, so that the sender
//! can make runs of them.

use std::sync::Arc;

use rtp::payload::MediaKind;

use super::header_profile::{HeaderProfile, HeaderTemplate, ViewerFields};
use super::header_profiles::HeaderProfiles;
use super::inputs::TrackIndex;
use super::packet::Packet;
use super::packet_cache::CachedPacket;
use super::stream::PacketStream;
use super::viewers::Viewers;

/// A packet that goes to the viewers in this turn.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    pub(crate) track: TrackIndex,
    pub(crate) number: u64,
    pub(crate) timestamp: u32,
    pub(crate) packet: Arc<Packet>,
}

/// What goes to whom in this turn. **For every viewer: for every packet, ask [`Viewer::header_for`], then end the turn.**
///
/// [`Viewer::header_for`]: super::Viewer::header_for
#[derive(Debug)]
pub struct Batch<'a> {
    /// The packets, with headers made.
    pub packets: BatchPackets<'a>,
    /// Who may get them.
    pub viewers: &'a mut Viewers,
}

/// The packets of a turn.
#[derive(Debug, Clone, Copy)]
pub struct BatchPackets<'a> {
    pub(crate) forwards: &'a [Forward],
    pub(crate) templates: &'a [HeaderTemplate],
    pub(crate) profiles: &'a HeaderProfiles,
}

impl<'a> BatchPackets<'a> {
    /// The header of packet `index` for viewers of a profile. `None` if there is none ready: it has to be written.
    #[inline]
    pub(crate) fn template(&self, index: usize, profile: u16) -> Option<&'a HeaderTemplate> {
        let (slot, width) = (self.profiles.slot(profile), self.profiles.templates());
        if slot < width { self.templates.get(index * width + slot) } else { None }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.forwards.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.forwards.is_empty()
    }

    /// The packet at `index`, to be handed to other workers. `None` from [`BatchPackets::len`] on.
    pub fn packet(&self, index: usize) -> Option<&'a Arc<Packet>> {
        self.forwards.get(index).map(|forward| &forward.packet)
    }

    /// What follows the header of packet `index`; empty from [`BatchPackets::len`] on.
    #[inline]
    pub fn payload(&self, index: usize) -> &'a [u8] {
        self.forwards.get(index).map_or(&[], |forward| forward.packet.payload())
    }
}

/// What a turn is made of; kept, so that its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct BatchBuffers {
    /// Track and number of what has arrived and was not in a turn yet.
    pub(crate) arrived: Vec<(TrackIndex, u64)>,
    forwards: Vec<Forward>,
    /// For each packet one for each profile that has templates, as far as there is room.
    templates: Vec<HeaderTemplate>,
}

impl PacketStream {
    /// Packets that arrived since the last turn, with headers made, and the viewers. End it with
    /// [`PacketStream::finish_batch`].
    pub fn prepare_batch(&mut self) -> Batch<'_> {
        self.prepare();
        let packets = BatchPackets {
            forwards: &self.batch.forwards,
            templates: &self.batch.templates,
            profiles: &self.profiles,
        };
        Batch { packets, viewers: &mut self.viewers }
    }

    fn prepare(&mut self) {
        if self.limits.equalise_runs {
            self.equalise();
        }
        for (track, number) in self.batch.arrived.drain(..) {
            let kept = self.tracks.get(track.position()).and_then(|track| track.cache.get(number));
            // A burst larger than the cache has already lost its beginning.
            let Some(CachedPacket { packet, timestamp }) = kept else { continue };
            let forward = Forward { track, number, timestamp: *timestamp, packet: Arc::clone(packet) };
            if self.batch.templates.len() + self.profiles.templates() <= TEMPLATES_MAX {
                let made = self.profiles.templated().map(|profile| template(profile, &forward));
                self.batch.templates.extend(made);
            }
            self.batch.forwards.push(forward);
        }
    }

    /// Pads packets that are one byte shorter than the longest of their frame. Packetisers cut frames into parts that
    /// differ by a byte, and only equal datagrams leave in one run.
    fn equalise(&mut self) {
        let mut rest = &self.batch.arrived[..];
        while let Some((index, first)) = rest.first() {
            let Some(track) = self.tracks.get_mut(index.position()) else { return };
            let timestamp = track.cache.get(*first).map(|kept| kept.timestamp);
            let shown = |(of, number): &&(TrackIndex, u64)| {
                of == index && track.cache.get(*number).map(|kept| kept.timestamp) == timestamp
            };
            let (frame, others) = rest.split_at(rest.iter().take_while(shown).count().max(1));
            rest = others;
            if index.kind() == MediaKind::Video {
                let len_of = |number| track.cache.get(number).map_or(0, |kept| kept.packet.sent_len());
                let longest = frame.iter().map(|(_, number)| len_of(*number)).max().unwrap_or(0);
                for (_, number) in frame {
                    if track.cache.get(*number).is_some_and(|kept| kept.packet.sent_len() + 1 == longest) {
                        track.cache.pad(*number);
                    }
                }
            }
        }
    }

    /// Ends the turn: what it held has been sent.
    pub fn finish_batch(&mut self) {
        self.batch.arrived.clear();
        self.batch.forwards.clear();
        self.batch.templates.clear();
        // Until the next large one: a burst, or a crowd of viewers, is no reason to keep its memory.
        shrink(&mut self.batch.arrived);
        shrink(&mut self.batch.forwards);
        shrink(&mut self.batch.templates);
    }

    /// Whether packets have arrived that no turn has handed out.
    pub fn has_arrivals(&self) -> bool {
        !self.batch.arrived.is_empty() || !self.batch.forwards.is_empty()
    }
}

fn template(profile: Option<&HeaderProfile>, forward: &Forward) -> HeaderTemplate {
    let (sequence_number, timestamp) = (forward.number as u16, forward.timestamp);
    let to = ViewerFields { ssrc: 0, sequence_number, timestamp, is_catch_up: false };
    let mut template = HeaderTemplate::EMPTY;
    let len = profile.and_then(|profile| profile.header(&forward.packet, to, &mut template.bytes));
    template.len = len.unwrap_or(0) as u16;
    template
}

/// Gives back what an empty buffer has beyond [`RETAINED_BYTES`].
fn shrink<T>(buffer: &mut Vec<T>) {
    buffer.shrink_to(RETAINED_BYTES / size_of::<T>());
}

/// Templates of one turn, 4 MB: those of 16,384 packets while viewers have one profile, of 512 with all that have any.
/// Headers of later packets are written for each viewer.
const TEMPLATES_MAX: usize = 16_384;
/// Memory each buffer of a turn keeps for the next.
const RETAINED_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use rtp::HeaderFields;
    use rtp::extension::{Extension, ExtensionMap, Form};
    use rtp::payload::Codec;

    use super::super::clock::WallClock;
    use super::super::header_profile::HEADER_LEN_MAX;
    use super::super::inputs::{
        PublisherInput, TrackInput, TrackPayload, ViewerInput, ViewerPayload, ViewerTrackInput,
    };
    use super::super::limits::Limits;
    use super::*;

    const VIEWERS: u64 = 1_000;
    /// With 32 profiles more templates than there is room for.
    const PACKETS: u16 = 520;
    const MID_ID: u8 = 3;

    fn sound() -> TrackInput {
        let format = TrackPayload { payload_type: 111, codec: Codec::Opus, clock_rate: 48_000, rtx: None };
        TrackInput {
            kind: MediaKind::Audio,
            mid: String::new(),
            payloads: vec![format],
            extensions: ExtensionMap::new(),
            ssrcs: vec![(7, None)],
            rids: Vec::new(),
            nack: false,
            pli: false,
            fir: false,
            transport_cc: false,
            remb: false,
        }
    }

    fn viewer(token: u64, mid: &str) -> ViewerInput {
        let track = ViewerTrackInput {
            track: TrackIndex::new(MediaKind::Audio, 0).expect("the first"),
            ssrc: 1_000 + token as u32,
            rtx_ssrc: None,
            mid: mid.to_owned(),
            payloads: vec![ViewerPayload { codec: Codec::Opus, payload_type: 50, rtx: None }],
            extensions: [(MID_ID, Extension::Mid)].into_iter().collect(),
            form: Form::OneByte,
            nack: false,
        };
        ViewerInput { token, cname: String::new(), tracks: vec![track] }
    }

    fn receive(stream: &mut PacketStream, now: Instant, sequence_number: u16) {
        let timestamp = u32::from(sequence_number) * 960;
        let fields = HeaderFields { marker: false, payload_type: 111, sequence_number, timestamp, ssrc: 7 };
        let mut packet = [0x78; 20];
        fields.write(&[], &mut packet);
        stream.receive(now, &packet).expect("taken in");
    }

    fn bytes<T>(buffer: &Vec<T>) -> usize {
        buffer.capacity() * size_of::<T>()
    }

    /// A stream whose viewers are live: `mid_of` names their MIDs.
    fn stream(now: Instant, mid_of: impl Fn(u64) -> String) -> PacketStream {
        let mut stream =
            PacketStream::new(Limits::default(), WallClock { at: now, ntp: rtp::rtcp::NtpTime(1) });
        let input = PublisherInput { tracks: vec![sound()], ..PublisherInput::default() };
        stream.publisher_started(now, 1, input);
        for token in 0..VIEWERS {
            stream.join(now, &viewer(token, &mid_of(token))).expect("room");
        }
        receive(&mut stream, now, 0);
        stream.prepare_batch();
        stream.finish_batch();
        stream.send_backlog(now, |_, _, _| {});
        stream
    }

    /// Receives a batch and checks each header of each viewer; returns the bytes of templates there were.
    fn check_turn(
        stream: &mut PacketStream,
        now: Instant,
        mid_of: impl Fn(u64) -> String,
        from: u16,
    ) -> usize {
        (0..PACKETS).for_each(|at| receive(stream, now, from + at));
        let templates = {
            let Batch { packets, viewers } = stream.prepare_batch();
            assert_eq!((packets.len(), viewers.len()), (usize::from(PACKETS), VIEWERS as usize));
            for viewer in viewers.iter_mut() {
                let mut last = None;
                for at in 0..packets.len() {
                    let mut header = [0xee; HEADER_LEN_MAX];
                    let len = viewer.header_for(&packets, at, &mut header).expect("it is live");
                    let packet = rtp::Packet::parse(&header[..len]).expect("a packet");
                    let token = viewer.token();
                    assert_eq!((packet.ssrc(), packet.payload_type()), (1_000 + token as u32, 50));
                    let mid = packet.extensions().map(|(id, data)| (id, data.to_vec())).collect::<Vec<_>>();
                    assert_eq!(mid, [(MID_ID, mid_of(token).into_bytes())]);
                    let number = packet.sequence_number();
                    assert!(last.is_none_or(|last: u16| last.wrapping_add(1) == number));
                    last = Some(number);
                }
            }
            size_of_val(packets.templates)
        };
        stream.finish_batch();
        templates
    }

    #[test]
    fn a_thousand_viewers_with_mids_of_their_own_cost_no_more_memory_than_any_and_get_right_headers() {
        #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
        let now = Instant::now();
        // All different; all but a few hundred different; and all the same.
        let different: [fn(u64) -> String; 3] =
            [|token| token.to_string(), |token| (token % 400).to_string(), |_| "a".to_owned()];
        for (mid_of, templates_max) in different.into_iter().zip([0, TEMPLATES_MAX, usize::from(PACKETS)]) {
            let mut stream = stream(now, mid_of);
            for from in [1, 1 + PACKETS] {
                let templates = check_turn(&mut stream, now, mid_of, from);
                assert!(templates <= templates_max * size_of::<HeaderTemplate>(), "{templates}");
            }
            let BatchBuffers { arrived, forwards, templates } = &stream.batch;
            for kept in [bytes(arrived), bytes(forwards), bytes(templates)] {
                assert!(kept <= RETAINED_BYTES, "{kept}");
            }
            assert!(stream.viewers.iter_mut().all(|viewer| viewer.stats().packets > u64::from(PACKETS)));
        }
    }
}
