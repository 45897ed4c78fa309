//! Configuration of the streams that are sent on to other servers: `[pushes]`, `[[push]]`.

use super::Config;
use super::resolve::{Errors, ms, to_usize};
use ::pushes::{PushSettings, PushSpec, QueueLimits};
use ::sources::settings::{AddedBy, SourceSettings};

/// `[pushes]`.
pub(super) fn settings(config: &Config) -> PushSettings {
    let limits = &config.pushes;
    PushSettings {
        rules_max: to_usize(limits.rules_max),
        active_max: to_usize(limits.active_max),
        queue: QueueLimits { bytes: to_usize(limits.queue_max_bytes), time: ms(limits.queue_max_ms) },
        stall_timeout: ms(limits.stall_timeout_ms),
        ..PushSettings::default()
    }
}

/// `[[push]]` entries, each stream and target once.
pub(super) fn pushes(config: &Config, settings: &SourceSettings, errors: &mut Errors) -> Vec<PushSpec> {
    let mut pushes: Vec<PushSpec> = Vec::new();
    for entry in &config.pushed {
        let token = Some(entry.push.token.as_str()).filter(|token| !token.is_empty());
        let spec = PushSpec::new(&entry.push.stream, &entry.push.url);
        let spec = match spec.and_then(|spec| spec.with_token(token)) {
            Ok(spec) => spec,
            Err(reason) => {
                errors.add(&entry.origin, format!("[[push]] {reason}"));
                continue;
            }
        };
        if let Err(reason) = spec.check(AddedBy::Configuration, settings) {
            errors.add(&entry.origin, format!("[[push]] `url`: {reason}"));
        }
        if pushes.contains(&spec) {
            let stream = &entry.push.stream;
            errors.add(&entry.origin, format!("[[push]] has two entries for `{stream}` with the same `url`"));
        }
        pushes.push(spec);
    }
    let max = config.pushes.rules_max;
    if pushes.len() > to_usize(max) {
        let origin = config.origin("pushes.rules_max");
        errors.add(&origin, format!("`pushes.rules_max` is {max}, and there are {} [[push]]", pushes.len()));
    }
    pushes
}
