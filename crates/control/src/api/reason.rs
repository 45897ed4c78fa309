//! Why a player gets the layer that it gets, in words for people.

use worker_api::snapshot::{RtcLayer, RtcPathSnapshot, RtcShare};

/// The first of the reasons that apply: what keeps all media back, then what keeps video back, then the
/// choice of a layer.
pub(super) fn reason(path: &RtcPathSnapshot) -> String {
    let carried = carried(path);
    if path.is_stopped {
        return "the player reports nothing: nothing is sent until it does".to_owned();
    }
    if !path.is_published {
        return "nothing is published".to_owned();
    }
    let least = path.layer.as_ref().map_or(0, |layer| layer.least_bits_per_second);
    if path.share != RtcShare::All {
        let what = if path.share == RtcShare::KeyFrames { "key frames" } else { "audio" };
        return match least {
            0 => format!("{carried}, room for {what} only"),
            least => format!("{carried}, the least layer takes {}", rate(least)),
        };
    }
    let Some(layer) = &path.layer else { return "no layers to choose from on this worker".to_owned() };
    if layer.is_fixed {
        return match layer.current == layer.wanted {
            true => "asked for by the player".to_owned(),
            false => format!("the player has asked for {}: waits for a key frame", name(&layer.wanted)),
        };
    }
    if layer.current != layer.wanted {
        return format!("changes to {} at its next key frame", name(&layer.wanted));
    }
    match &layer.better {
        Some((better, _)) if layer.is_too_high => too_high(path, better),
        Some((better, takes)) => format!("{carried}, {} takes {}", name(better), rate(*takes)),
        None => "best layer".to_owned(),
    }
}

/// What there is room for, and whether the path or the player has set it.
fn carried(path: &RtcPathSnapshot) -> String {
    let estimate = path.estimate_bits_per_second;
    // The estimate is held at the limit, or a little below.
    match path.limit_bits_per_second {
        Some(limit) if estimate >= limit / 100 * 95 => {
            format!("the player has asked for at most {}", rate(limit))
        }
        _ => format!("its path carries {}", rate(estimate)),
    }
}

/// Also where all layers are too high, and it gets the least.
fn too_high(path: &RtcPathSnapshot, better: &RtcLayer) -> String {
    let most = path.height_max.map_or_else(String::new, |most| format!(" {most}"));
    format!("the player has asked for a height of at most{most}, {} is higher", name(better))
}

/// `h`, or `h S0 T1` with limits inside the encoding.
fn name(layer: &RtcLayer) -> String {
    let limit =
        |letter, limit: Option<u8>| limit.map(|limit| format!(" {letter}{limit}")).unwrap_or_default();
    format!("{}{}{}", layer.name, limit('S', layer.spatial), limit('T', layer.temporal))
}

/// Bits per second as people write them.
fn rate(bits_per_second: u64) -> String {
    match bits_per_second {
        0..1_000_000 => format!("{} kbit/s", bits_per_second / 1_000),
        _ => format!("{:.1} Mbit/s", bits_per_second as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use worker_api::snapshot::RtcPathLayer;

    use super::super::types::RtcPath;
    use super::*;

    fn layer(name: &str) -> RtcLayer {
        RtcLayer { name: name.to_owned(), spatial: None, temporal: None }
    }

    fn path(layer: Option<RtcPathLayer>) -> RtcPathSnapshot {
        RtcPathSnapshot {
            estimate_bits_per_second: 620_000,
            target_bits_per_second: 600_000,
            limit_bits_per_second: None,
            height_max: None,
            queue_ms: 0.0,
            probes: 0,
            padding_bytes: 0,
            times_behind: 0,
            share: RtcShare::All,
            is_stopped: false,
            is_published: true,
            layer,
        }
    }

    #[test]
    fn what_a_player_has_asked_for_stands_in_its_path() {
        let asked = RtcPathSnapshot {
            limit_bits_per_second: Some(800_000),
            height_max: Some(180),
            is_published: false,
            ..path(None)
        };
        let shown = serde_json::to_value(RtcPath::from(&asked)).expect("JSON");
        let members = ["limit_kbps", "max_height", "layer", "wanted_layer", "reason"];
        let expected = serde_json::json!([800, 180, null, null, "nothing is published"]);
        assert_eq!(serde_json::json!(members.map(|name| &shown[name])), expected);
    }

    #[test]
    fn each_reason_is_said_in_words() {
        let least = RtcPathLayer {
            current: layer("q"),
            wanted: layer("q"),
            is_fixed: false,
            better: Some((RtcLayer { temporal: Some(1), ..layer("h") }, 1_800_000)),
            is_too_high: false,
            least_bits_per_second: 150_000,
        };
        let narrow = path(Some(least.clone()));
        let limited = RtcPathSnapshot { limit_bits_per_second: Some(620_000), ..narrow.clone() };
        let low = RtcPathLayer { is_too_high: true, ..least.clone() };
        let low = RtcPathSnapshot { height_max: Some(180), ..path(Some(low)) };
        let wide = path(Some(RtcPathLayer { better: None, ..least.clone() }));
        let fixed = RtcPathLayer { is_fixed: true, ..least.clone() };
        let waiting = RtcPathLayer { wanted: layer("f"), ..fixed.clone() };
        let changing = RtcPathLayer { wanted: layer("h"), ..least };
        let few = RtcPathSnapshot { share: RtcShare::KeyFrames, ..narrow.clone() };
        let cases = [
            (&narrow, "its path carries 620 kbit/s, h T1 takes 1.8 Mbit/s"),
            (&limited, "the player has asked for at most 620 kbit/s, h T1 takes 1.8 Mbit/s"),
            (&low, "the player has asked for a height of at most 180, h T1 is higher"),
            (&wide, "best layer"),
            (&path(Some(fixed)), "asked for by the player"),
            (&path(Some(waiting)), "the player has asked for f: waits for a key frame"),
            (&path(Some(changing)), "changes to h at its next key frame"),
            (&few, "its path carries 620 kbit/s, the least layer takes 150 kbit/s"),
            (
                &RtcPathSnapshot { share: RtcShare::AudioOnly, ..path(None) },
                "its path carries 620 kbit/s, room for audio only",
            ),
            (
                &RtcPathSnapshot { is_stopped: true, ..few.clone() },
                "the player reports nothing: nothing is sent until it does",
            ),
            (&path(None), "no layers to choose from on this worker"),
            (&RtcPathSnapshot { is_published: false, ..path(None) }, "nothing is published"),
            (
                &RtcPathSnapshot { is_published: false, share: RtcShare::KeyFrames, ..path(None) },
                "nothing is published",
            ),
            (
                &RtcPathSnapshot { is_published: false, is_stopped: true, ..path(None) },
                "the player reports nothing: nothing is sent until it does",
            ),
        ];
        for (path, expected) in cases {
            assert_eq!(reason(path), expected);
        }
    }
}
