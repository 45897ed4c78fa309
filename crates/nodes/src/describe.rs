//! What a stream has, in the directory and on links: as bytes, which are those of
//! [`Published`](worker_api::streams::Published).

use std::sync::Arc;

use cluster::{CODECS_MAX, Description, Lane};
use media::Codec;
use worker_api::streams::{DESCRIPTION_BYTES_MAX, Published, PublishedTracks, WebrtcAvailability};

// What is written is taken by both.
const _: () = assert!(DESCRIPTION_BYTES_MAX <= cluster::TRACKS_BYTES_MAX);
const _: () = assert!(DESCRIPTION_BYTES_MAX <= node_link::TRACKS_BYTES_MAX);

/// Describes a publication of this node, from which another one answers WHEP before it has fetched the
/// stream. What needs more bytes than there may be is left out: only the lane is known of it elsewhere. Named
/// are the codecs that it was published with.
pub(crate) fn describe(published: &Published, codecs: &[Codec]) -> Description {
    let lane = match published {
        Published::Packets(_) => Lane::Packets,
        Published::Frames(_) | Published::Nobody => Lane::Frames,
    };
    let tracks = published.to_bytes().unwrap_or_default();
    let codecs = match codecs {
        [] => published.codecs(),
        codecs => codecs.iter().take(CODECS_MAX).map(Codec::to_string).collect(),
    };
    Description { lane, codecs, tracks }
}

/// What a description of another node says. Of one that makes no sense, or to a later version only, the lane
/// is taken.
pub(crate) fn published(description: &Description) -> Published {
    match (description.lane, Published::from_bytes(&description.tracks)) {
        (Lane::Packets, Ok(published @ Published::Packets(_)))
        | (Lane::Frames, Ok(published @ Published::Frames(_))) => published,
        (Lane::Packets, _) => Published::Packets(PublishedTracks::from([])),
        (Lane::Frames, _) => Published::Frames(WebrtcAvailability::Unknown),
    }
}

/// Tracks of packets, as a link says them; `None` if they need more bytes than there may be.
pub(crate) fn tracks(tracks: &PublishedTracks) -> Option<Vec<u8>> {
    Published::Packets(Arc::clone(tracks)).to_bytes()
}

/// Tracks of packets as a link said them; `None` if they make no sense.
pub(crate) fn read_tracks(bytes: &[u8]) -> Option<PublishedTracks> {
    match Published::from_bytes(bytes) {
        Ok(Published::Packets(tracks)) => Some(tracks),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rtc::sdp::{Feedback, Format, TrackDescription};
    use rtp::extension::ExtensionMap;
    use rtp::payload::{Codec, MediaKind};
    use worker_api::streams::NotBridged;

    use super::*;

    fn tracks(fmtp: &str) -> PublishedTracks {
        let format = Format {
            payload_type: 111,
            codec: Codec::Opus,
            clock_rate: 48_000,
            channels: 2,
            fmtp: fmtp.to_owned(),
            rtx_payload_type: None,
            feedback: Feedback::default(),
        };
        Arc::from([TrackDescription {
            mid: "0".to_owned(),
            kind: MediaKind::Audio,
            formats: vec![format],
            extensions: ExtensionMap::new(),
            sources: Vec::new(),
            extmap_allow_mixed: false,
            rids: Vec::new(),
            red: None,
            fec: None,
        }])
    }

    #[test]
    fn another_node_reads_what_this_one_described() {
        let tracks = tracks("useinbandfec=1");
        for known in [
            Published::Packets(Arc::clone(&tracks)),
            Published::Frames(WebrtcAvailability::Tracks(Arc::clone(&tracks), None)),
            Published::Frames(WebrtcAvailability::Unknown),
            Published::Frames(WebrtcAvailability::Impossible(NotBridged::ToPacketsOff)),
        ] {
            let description = describe(&known, &[]);
            assert!(description.fits());
            assert_eq!(published(&description), known);
        }
        assert_eq!(describe(&Published::Packets(Arc::clone(&tracks)), &[]).codecs, ["Opus"]);
        let frames = Published::Frames(WebrtcAvailability::Tracks(Arc::clone(&tracks), None));
        assert_eq!(describe(&frames, &[media::Codec::H264, media::Codec::Aac]).codecs, ["H.264", "AAC"]);
        let on_a_link = super::tracks(&tracks).expect("they fit");
        assert_eq!(read_tracks(&on_a_link), Some(tracks));
    }

    #[test]
    fn of_what_makes_no_sense_the_lane_is_known() {
        let good = describe(&Published::Packets(tracks("")), &[]);
        let frames = Description { lane: Lane::Frames, ..good.clone() };
        assert_eq!(published(&frames), Published::Frames(WebrtcAvailability::Unknown), "tracks of packets");
        let cut = Description { tracks: good.tracks[..good.tracks.len() - 1].to_vec(), ..good };
        assert_eq!(published(&cut), Published::Packets(Arc::from([])));
        assert_eq!(read_tracks(&cut.tracks), None);
        let frames = describe(&Published::Frames(WebrtcAvailability::Tracks(tracks(""), None)), &[]);
        assert_eq!(read_tracks(&frames.tracks), None, "frames, where packets were said to come");
    }

    #[test]
    fn tracks_that_do_not_fit_are_left_out() {
        let long = tracks(&"x".repeat(DESCRIPTION_BYTES_MAX));
        let description = describe(&Published::Packets(Arc::clone(&long)), &[]);
        assert!(description.fits());
        assert_eq!(published(&description), Published::Packets(Arc::from([])));
        assert_eq!(super::tracks(&long), None);
    }
}
