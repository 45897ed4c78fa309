//! Metrics of hooks.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use worker_api::hooks::{HookEvent, Hooks};

use super::{Context, counter, counters, gauge};

pub(super) fn encode(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let status = context.hooks.clone().unwrap_or_default();
    let policy = context.policy();
    let hooks = policy.hooks.as_ref();
    let is_wanted = |event: &HookEvent| hooks.is_some_and(|hooks| hooks.wants(*event));
    let wanted = || HookEvent::ALL.into_iter().filter(is_wanted);
    let calls = status.calls().filter(|(event, ..)| is_wanted(event));
    let calls =
        calls.map(|(event, result, count)| ([("event", event.name()), ("result", result.name())], count));
    // `_total` is added.
    counters(encoder, "millstream_hook_calls", "Questions and events sent, by what came of them", calls)?;
    let times = wanted().map(|event| ([("event", event.name())], status.time(event).as_secs_f64()));
    let help = "Time that they took; of questions, from when they were asked";
    counters(encoder, "millstream_hook_seconds", help, times)?;
    let dropped = wanted().map(|event| ([("event", event.name())], status.dropped(event)));
    counters(encoder, "millstream_hook_dropped_events", "Events that were never taken", dropped)?;
    let (questions, news) = hooks.map(Hooks::overflows).unwrap_or_default();
    let help = "Questions and events on their way to hooks for which there was no room";
    counter(encoder, "millstream_hook_overflows", help, questions + news)?;
    for (name, help, value) in [
        ("millstream_hook_open_questions", "Questions to hooks without an answer", status.open()),
        ("millstream_hook_queued_events", "Events that wait for hooks to take them", status.queued()),
        ("millstream_hook_segment_viewers", "Viewers by HLS and DASH that hooks let in", status.viewers()),
    ] {
        gauge(encoder, name, help, value as f64)?;
    }
    Ok(())
}
