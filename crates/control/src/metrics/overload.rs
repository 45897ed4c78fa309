//! Metrics of players and publishers that are refused because there is too much to do.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Context, counters, gauges};
use worker_api::overload::OverloadCounters;
use worker_api::snapshot::{Role, WorkerSnapshot};

pub(super) fn encode(
    context: &Context,
    workers: &[WorkerSnapshot],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let refused = |from: String, of: OverloadCounters| {
        of.iter().map(move |(role, overload, count)| {
            let role = if role == Role::Publisher { "publisher" } else { "player" };
            let labels = [
                ("worker", from.clone()),
                ("role", role.to_owned()),
                ("reason", overload.label().to_owned()),
            ];
            (labels, count)
        })
    };
    let by_workers =
        workers.iter().flat_map(|worker| refused(worker.index.to_string(), worker.counters.overload));
    // WHIP, WHEP and HLS by HTTP/2, which are refused before they have a worker.
    let by_control = refused("control".to_owned(), context.rtc.overload_counters());
    let help = "Players and publishers refused because of load, turns, delay, egress or memory";
    counters(encoder, "millstream_overload_refused", help, by_workers.chain(by_control))?;
    let settings = context.current.settings();
    let exceeded = settings.usage.refused().map(|(of, count)| ([("reason", of.label())], count));
    let help = "Players and publishers refused because their token or their address uses as much as it may";
    counters(encoder, "millstream_usage_refused", help, exceeded)?;
    let takes = workers
        .iter()
        .map(|worker| ([("worker", worker.index.to_string())], f64::from(u8::from(!worker.is_full))));
    gauges(encoder, "millstream_worker_takes_players", "1 while a worker takes players", takes)?;
    let delays = workers
        .iter()
        .map(|worker| ([("worker", worker.index.to_string())], worker.send_delay.as_secs_f64()));
    let help = "How long media waited beyond its time before it was sent, the longest of the last second";
    gauges(encoder, "millstream_worker_send_delay_seconds", help, delays)
}
