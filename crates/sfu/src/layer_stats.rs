//! What a console shows of layers: which of them viewers get.

use super::layers::Layer;
use super::stream::PacketStream;
use super::track::TrackIndex;
use super::viewers::ViewerId;

impl PacketStream {
    /// What viewers without a target get of a track. `None` before there is any.
    pub fn main_layer(&self, track: TrackIndex) -> Option<Layer> {
        let encoding = self.tracks.get(track)?.main.source()?;
        Some(Layer::of(encoding.layer))
    }

    /// What a viewer has asked for ([`PacketStream::fix_layer`]), if it has.
    pub fn fixed_layer(&self, viewer: ViewerId, track: TrackIndex) -> Option<Layer> {
        let viewer = self.viewers.get(viewer)?;
        viewer.cold.tracks.iter().find(|cold| cold.track == track)?.layer_control.fixed
    }

    /// What each viewer of a track gets now.
    pub fn viewer_layers(&self, track: TrackIndex) -> impl Iterator<Item = Layer> + '_ {
        self.viewers.ids().filter_map(move |viewer| Some(self.layer_of(viewer, track)?.0))
    }
}
