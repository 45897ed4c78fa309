//! The side of the configuration that is about what this server publishes itself: `[sources]`, `[[pull]]`.

use std::path::PathBuf;

use range_reader::http::address::AddressPolicy;

use super::Config;
use super::resolve::{Errors, ms, to_u32, to_usize};
use crate::ingest::settings::SourceSettings;
use crate::pull::PullSpec;

/// `[sources]`, checked.
pub(super) fn settings(config: &Config, errors: &mut Errors) -> SourceSettings {
    let sources = &config.sources;
    if sources.retry_min_ms > sources.retry_max_ms {
        errors.add(
            &config.origin("sources.retry_min_ms"),
            "`sources.retry_min_ms` must not be larger than `sources.retry_max_ms`",
        );
    }
    let files_root = (!sources.files_root.is_empty()).then(|| {
        // Resolved once: what a file's path is compared with must not contain links itself.
        std::fs::canonicalize(&sources.files_root).unwrap_or_else(|error| {
            let origin = config.origin("sources.files_root");
            errors.add(&origin, format!("`sources.files_root` {}: {error}", sources.files_root));
            PathBuf::new()
        })
    });
    SourceSettings {
        addresses: if sources.allow_private_addresses { AddressPolicy::Any } else { AddressPolicy::Public },
        files_root,
        pulls_max: to_usize(sources.pulls_max),
        channels_max: to_usize(sources.channels_max),
        redirects_max: to_usize(sources.redirects_max),
        connect_timeout: ms(sources.connect_timeout_ms),
        stall_timeout: ms(sources.stall_timeout_ms),
        retry_min: ms(sources.retry_min_ms),
        retry_max: ms(sources.retry_max_ms),
        file_bytes_max: u64::try_from(sources.file_max_bytes).ok().filter(|bytes| *bytes > 0),
        message_bytes_max: to_u32(config.limits.message_max_bytes),
    }
}

/// `[[pull]]` entries, each stream once.
pub(super) fn pulls(config: &Config, errors: &mut Errors) -> Vec<PullSpec> {
    let mut pulls: Vec<PullSpec> = Vec::new();
    for entry in &config.pulls {
        let spec = match PullSpec::of_stream(&entry.pull.stream, &entry.pull.url) {
            Ok(spec) => spec,
            Err(reason) => {
                errors.add(&entry.origin, format!("[[pull]] {reason}"));
                continue;
            }
        };
        if pulls.iter().any(|other| (&other.app, &other.name) == (&spec.app, &spec.name)) {
            errors.add(&entry.origin, format!("[[pull]] has two entries for `{}`", entry.pull.stream));
        }
        pulls.push(spec);
    }
    let max = to_usize(config.sources.pulls_max);
    if pulls.len() > max {
        let origin = config.origin("sources.pulls_max");
        errors.add(&origin, format!("`sources.pulls_max` is {max}, and there are {} [[pull]]", pulls.len()));
    }
    pulls
}
