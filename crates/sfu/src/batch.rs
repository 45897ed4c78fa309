//! The packets of one batch, and their headers.
//!
//! What arrived in one receive batch leaves together: for each viewer all of its packets in a row,
//! so that the sender can make runs of equal datagrams.

use std::sync::Arc;

use rtp::payload::MediaKind;
use tracing::trace;

use super::header_profile::{HeaderProfiles, HeaderTemplate, ProfileId, ViewerFields};
use super::packet_cache::Packet;
use super::stream::PacketStream;
use super::track::TrackIndex;
use super::viewers::Viewers;

/// A packet that goes to the viewers in this batch.
#[derive(Debug, Clone)]
pub(crate) struct Forward {
    pub(crate) track: TrackIndex,
    pub(crate) number: u64,
    pub(crate) timestamp: u32,
    pub(crate) packet: Arc<Packet>,
}

/// A batch ready to be sent. **Ask [`Viewer::header_for`] for every packet of every viewer, then
/// finish the batch.**
///
/// [`Viewer::header_for`]: super::Viewer::header_for
#[derive(Debug)]
pub struct Batch<'a> {
    /// The packets, with headers made.
    pub packets: BatchPackets<'a>,
    /// All viewers of the stream.
    pub viewers: &'a mut Viewers,
}

/// The packets of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchPackets<'a> {
    pub(crate) forwards: &'a [Forward],
    pub(crate) templates: &'a [HeaderTemplate],
    pub(crate) profiles: &'a HeaderProfiles,
}

impl<'a> BatchPackets<'a> {
    /// The header of packet `index` for viewers of a profile. `None` if there is no template: the
    /// header has to be written.
    #[inline]
    pub(crate) fn template(&self, index: usize, profile: ProfileId) -> Option<&'a HeaderTemplate> {
        let (slot, width) = (self.profiles.slot(profile), self.profiles.templates());
        if slot < width { self.templates.get(index * width + slot) } else { None }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.forwards.len()
    }

    /// Whether there are no packets.
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

/// Memory of a batch, reused by the next.
#[derive(Debug, Default)]
pub(crate) struct BatchBuffers {
    /// Packets that arrived since the last batch was finished.
    forwards: Vec<Forward>,
    /// How many of them have been prepared.
    prepared: usize,
    /// One for each packet and profile that has templates, as far as there is room.
    templates: Vec<HeaderTemplate>,
}

impl PacketStream {
    /// Adds a packet to the next batch.
    pub(crate) fn add_to_batch(&mut self, forward: Forward) {
        let batch = &mut self.batch.forwards;
        if batch.len() >= BATCH_PACKETS_MAX {
            trace!(packets = batch.len(), "dropped a batch that nobody took");
            self.finish_batch();
        }
        // A key frame is what waiting viewers begin with; and the first packet of a track shows
        // that there is a publisher that can be asked for one.
        let track = self.tracks.get(forward.track);
        if forward.packet.is_key_frame() || track.is_some_and(|track| track.cache.first() == forward.number) {
            self.joining.append(&mut self.waiting_for_key_frame);
        }
        self.batch.forwards.push(forward);
    }

    /// Makes the headers of the packets that arrived since the last batch, and pads those that
    /// [`Limits::equalise_runs`](super::Limits::equalise_runs) wants padded. Finish the batch with
    /// [`PacketStream::finish_batch`].
    pub fn prepare_batch(&mut self) -> Batch<'_> {
        // Packetisers cut frames into parts that differ by a byte, and only equal datagrams leave in
        // one run: pad packets that are one byte shorter than the longest of their frame.
        let arrived = &mut self.batch.forwards[self.batch.prepared..];
        for frame in arrived.chunk_by_mut(|a, b| (a.track, a.timestamp) == (b.track, b.timestamp)) {
            let track = frame[0].track;
            if !self.limits.equalise_runs || track.kind() != MediaKind::Video {
                continue;
            }
            let Some(track) = self.tracks.get_mut(track) else { continue };
            let packets = frame.iter().map(|forward| &forward.packet);
            let Some(longest) = packets.max_by_key(|packet| packet.sent_len()).map(Arc::clone) else {
                continue;
            };
            for forward in frame.iter_mut().filter(|one| one.packet.sent_len() + 1 == longest.sent_len()) {
                // Only a sole holder may change a packet, so the batch gives its reference away and
                // holds another packet meanwhile.
                let packet = std::mem::replace(&mut forward.packet, Arc::clone(&longest));
                forward.packet = track.cache.pad(forward.number, packet);
            }
        }
        for forward in &self.batch.forwards[self.batch.prepared..] {
            if self.batch.templates.len() + self.profiles.templates() > TEMPLATES_MAX {
                break;
            }
            // SSRC and sequence number are the viewer's, and written over for each.
            let sequence_number = forward.number as u16;
            let fields =
                ViewerFields { ssrc: 0, sequence_number, timestamp: forward.timestamp, is_catch_up: false };
            self.batch.templates.extend(self.profiles.templated().map(|profile| {
                let mut template = HeaderTemplate::EMPTY;
                let len =
                    profile.and_then(|profile| profile.header(&forward.packet, fields, &mut template.bytes));
                template.len = len.unwrap_or(0) as u16;
                template
            }));
        }
        self.batch.prepared = self.batch.forwards.len();
        let packets = BatchPackets {
            forwards: &self.batch.forwards,
            templates: &self.batch.templates,
            profiles: &self.profiles,
        };
        Batch { packets, viewers: &mut self.viewers }
    }

    /// Ends the batch: it has been sent.
    pub fn finish_batch(&mut self) {
        self.batch.forwards.clear();
        self.batch.templates.clear();
        self.batch.prepared = 0;
        // A burst, or a crowd of viewers, is no reason to keep its memory until the next large
        // batch.
        self.batch.forwards.shrink_to(RETAINED_BYTES / size_of::<Forward>());
        self.batch.templates.shrink_to(RETAINED_BYTES / size_of::<HeaderTemplate>());
    }

    /// Whether packets have arrived that no finished batch has sent.
    pub fn has_arrivals(&self) -> bool {
        !self.batch.forwards.is_empty()
    }
}

/// Packets of one batch. More than a receive batch holds; a caller that sends no batches loses
/// them, and nothing grows.
const BATCH_PACKETS_MAX: usize = 8_192;
/// Templates of one batch, 4 MB: those of 16,384 packets while viewers have one profile, of 512
/// with as many profiles as have templates. Headers of later packets are written for each viewer.
const TEMPLATES_MAX: usize = 16_384;
/// Memory each buffer of a batch keeps for the next.
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

    fn audio() -> TrackInput {
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
        let input = PublisherInput { tracks: vec![audio()], ..PublisherInput::default() };
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

    /// Receives a batch and checks each header of each viewer; returns the bytes of templates there
    /// were.
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
            let BatchBuffers { forwards, templates, .. } = &stream.batch;
            for kept in [bytes(forwards), bytes(templates)] {
                assert!(kept <= RETAINED_BYTES, "{kept}");
            }
            assert!(stream.viewers.iter_mut().all(|viewer| viewer.stats().packets > u64::from(PACKETS)));
        }
    }
}
