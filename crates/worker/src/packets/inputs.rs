//! What was negotiated, in the words of `sfu`, which does not know of offers and answers.

use rtc::sdp::{Format, RedFormat, TrackDescription};
use rtp::extension::{Extension, Form};
use sfu::{
    LAYERS_MAX, PacerInput, PublisherInput, RelayedTrack, TrackIndex, TrackInput, TrackPayload, ViewerInput,
    ViewerPayload, ViewerTrackInput,
};
use worker_api::settings::RtcSettings;

/// SSRC of our reports to publishers. It need not differ between sessions: each has its own RTP session.
const FEEDBACK_SSRC: u32 = 1;
/// CNAME of the server (RFC 7022 section 4.2 wants it to say nothing of the host).
const CNAME: &str = "millstream";

/// A publisher, as negotiated.
pub(crate) fn publisher(tracks: &[TrackDescription]) -> PublisherInput {
    let tracks = tracks.iter().map(track).collect();
    PublisherInput { tracks, feedback_ssrc: FEEDBACK_SSRC, cname: CNAME.to_owned(), reduced_size: true }
}

fn track(track: &TrackDescription) -> TrackInput {
    let feedback = track.format().feedback;
    TrackInput {
        kind: track.kind,
        mid: track.mid.clone(),
        payloads: track.formats.iter().map(|format| publisher_payload(format, track.red)).collect(),
        extensions: track.extensions,
        ssrcs: track.sources.iter().map(|source| (source.ssrc, source.rtx_ssrc)).collect(),
        rids: track.rids.clone(),
        nack: feedback.nack,
        pli: feedback.pli,
        fir: feedback.fir,
        transport_cc: feedback.transport_cc,
        remb: feedback.remb,
    }
}

fn publisher_payload(format: &Format, red: Option<RedFormat>) -> TrackPayload {
    TrackPayload {
        payload_type: format.payload_type,
        codec: format.codec,
        clock_rate: format.clock_rate,
        rtx: format.rtx_payload_type,
        red: red_of(format, red),
    }
}

/// A publication as it crosses between nodes.
pub(crate) fn relayed(tracks: &[TrackDescription]) -> impl Iterator<Item = RelayedTrack> + '_ {
    let payload = |format: &Format| TrackPayload { rtx: None, ..publisher_payload(format, None) };
    tracks.iter().map(move |track| RelayedTrack {
        kind: track.kind,
        payloads: track.formats.iter().map(payload).collect(),
        // As many as the publisher's own node takes it to have.
        encodings: track.sources.len().max(track.rids.len()).min(LAYERS_MAX),
        rids: track.rids.clone(),
    })
}

/// A viewer as negotiated: each of `tracks` plays the one of its kind that `plays` says.
/// `published` is what the stream has now, which may lack what it had when the viewer was answered:
/// audio of a bridge, if there is no transcoder left for it.
pub(crate) fn viewer(
    token: u64,
    tracks: &[TrackDescription],
    plays: &[usize],
    published: &[TrackDescription],
) -> ViewerInput {
    let tracks = tracks.iter().zip(plays).filter_map(|(track, &nth)| {
        let mut of_kind = published.iter().filter(|other| other.kind == track.kind);
        viewer_track(nth, track, of_kind.nth(nth))
    });
    ViewerInput { token, cname: CNAME.to_owned(), tracks: tracks.collect() }
}

/// What is known of the path of a session that plays `tracks` and wants at most `bits_per_second_max`;
/// `None` without adaptation.
pub(crate) fn pacer<'a>(
    tracks: impl Iterator<Item = &'a TrackDescription>,
    bits_per_second_max: Option<u64>,
    settings: &RtcSettings,
) -> Option<PacerInput> {
    let (mut reports_packets, mut reports_streams) = (false, false);
    for track in tracks {
        let mut feedback = track.formats.iter().map(|format| format.feedback);
        reports_streams |= feedback.clone().any(|feedback| feedback.ccfb);
        let has_number = track.extensions.id_of(Extension::TransportCc).is_some();
        reports_packets |= has_number && feedback.any(|feedback| feedback.transport_cc);
    }
    let most = settings.player_bits_per_second_max;
    let most = bits_per_second_max.map_or(most, |wanted| most.min(wanted));
    settings.adaptation.then_some(PacerInput {
        reports_packets,
        reports_streams,
        start_bits_per_second: settings.start_bits_per_second.min(most),
        most_bits_per_second: most,
    })
}

fn viewer_track(
    nth: usize,
    track: &TrackDescription,
    published: Option<&TrackDescription>,
) -> Option<ViewerTrackInput> {
    let source = track.sources.first()?;
    // Of several payload types for one codec the one whose parameters fit comes first.
    let sent = published.into_iter().flat_map(|published| &published.formats);
    let formats = sent.filter_map(|format| track.format_for(format)).chain(&track.formats);
    Some(ViewerTrackInput {
        track: TrackIndex::new(track.kind, nth)?,
        ssrc: source.ssrc,
        rtx_ssrc: source.rtx_ssrc,
        mid: track.mid.clone(),
        payloads: formats.map(|format| viewer_payload(format, track.red)).collect(),
        extensions: track.extensions,
        form: if track.extmap_allow_mixed { Form::Either } else { Form::OneByte },
        fec: track.fec.map(|fec| (fec.payload_type, fec.ssrc)),
        nack: track.formats.iter().any(|format| format.feedback.nack),
    })
}

fn viewer_payload(format: &Format, red: Option<RedFormat>) -> ViewerPayload {
    // What NACK was not agreed on for is not sent again, whatever other formats of the m-line have.
    let rtx = format.rtx_payload_type.filter(|_| format.feedback.nack);
    ViewerPayload { codec: format.codec, payload_type: format.payload_type, rtx, red: red_of(format, red) }
}

/// The payload type of redundant audio of this format.
fn red_of(format: &Format, red: Option<RedFormat>) -> Option<u8> {
    red.filter(|red| red.media_payload_type == format.payload_type).map(|red| red.payload_type)
}

#[cfg(test)]
mod tests {
    use rtc::sdp::{Feedback, Source};
    use rtp::extension::ExtensionMap;
    use rtp::payload::{Codec, MediaKind};

    use super::*;

    fn described(kind: MediaKind, codec: Codec) -> TrackDescription {
        let format = Format {
            payload_type: 96,
            codec,
            clock_rate: rtp::payload::clock_rate(codec),
            channels: 1,
            fmtp: String::new(),
            rtx_payload_type: None,
            feedback: Feedback::default(),
        };
        TrackDescription {
            mid: String::new(),
            kind,
            formats: vec![format],
            extensions: ExtensionMap::default(),
            sources: vec![Source { ssrc: 1, rtx_ssrc: None }],
            extmap_allow_mixed: false,
            rids: Vec::new(),
            red: None,
            fec: None,
        }
    }

    #[test]
    fn a_viewer_plays_the_first_video_track_whatever_became_of_the_audio() {
        let (audio, video) =
            (described(MediaKind::Audio, Codec::Opus), described(MediaKind::Video, Codec::Vp8));
        let taken = [audio.clone(), video.clone()];
        let swapped = [video.clone(), audio.clone()];
        for published in [&taken[..], &[video], &swapped, &[]] {
            let input = viewer(0, &taken, &[0, 0], published);
            let tracks: Vec<_> = input.tracks.iter().map(|track| track.track).collect();
            let wanted = [MediaKind::Audio, MediaKind::Video].map(|kind| TrackIndex::new(kind, 0));
            assert_eq!(tracks.into_iter().map(Some).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn a_path_begins_and_ends_at_the_most_that_its_viewer_wants() {
        let settings = RtcSettings::default();
        let video = described(MediaKind::Video, Codec::Vp8);
        let input = |most| pacer(std::iter::once(&video), most, &settings).expect("congestion control");
        let rates = |most| (input(most).start_bits_per_second, input(most).most_bits_per_second);
        let (start, all) = (settings.start_bits_per_second, settings.player_bits_per_second_max);
        assert_eq!(rates(None), (start, all));
        assert_eq!(rates(Some(start / 2)), (start / 2, start / 2));
        assert_eq!(rates(Some(2 * start)), (start, 2 * start));
        assert_eq!(rates(Some(all + 1)), (start, all), "not more than the server allows");
        let off = RtcSettings { adaptation: false, ..settings };
        assert!(pacer(std::iter::once(&video), None, &off).is_none());
    }
}
