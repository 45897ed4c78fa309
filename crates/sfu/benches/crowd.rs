//! Does each of 200 viewers of one stream get what its path carries, and does a bad one change anything?
//!
//! Paths of 0.2 to 5 Mbit/s and three encodings of 150, 500 and 1700 kbit/s, in virtual time
//! (`tests/sfu/paths/crowd.rs`). Run: `scripts/bench adapt --case crowd`.

#![allow(dead_code, reason = "worlds of the tests, of which not all is needed here")]

/// What the worlds need of it.
#[path = "../tests/sfu/packets"]
mod packets {
    pub(crate) mod common;
}
#[path = "../tests/sfu/paths/crowd.rs"]
mod crowd;
#[path = "../tests/sfu/paths/world.rs"]
mod world;

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let seconds = if is_quick { 20 } else { 50 };
    let mut lines = Vec::new();
    for has_bad in [false, true] {
        let crowd = crowd::play(200, seconds, has_bad);
        let with = if has_bad { "bad_viewer" } else { "none" };
        for (kind, figures) in ["below_600k", "below_2000k", "above_2000k"].into_iter().zip(crowd.kinds) {
            let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            lines.push(format!(
                "case=crowd kind=sim contender=ours caps={kind} beside={with} viewers={} \
                 utilisation={:.3} least={:.3} queue_ms_p95={:.1} audio_ms_p99={:.1} \
                 loss_percent={:.3} freeze_ms={:.0}",
                figures.viewers,
                figures.utilisation,
                figures.least,
                ms(figures.waits_p95),
                ms(figures.audio_late_p99),
                figures.lost_percent,
                ms(figures.frozen),
            ));
        }
        lines.push(format!(
            "case=crowd_key_frames kind=sim contender=ours beside={with} requests={} most_in_3_s={}",
            crowd.key_frames, crowd.key_frames_in_3_s,
        ));
    }
    for line in lines {
        println!("RESULT adapt {line}");
    }
}
