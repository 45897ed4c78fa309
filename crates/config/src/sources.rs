//! Configuration of the streams that this server publishes itself: `[sources]`, `[[pull]]`,
//! `[[channel]]`.

use std::path::{Path, PathBuf};

use range_reader::http::address::AddressPolicy;
use recording::settings::RecordSettings;
use rtmp::name::NameRules;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Config;
use super::keys::{ChannelEntry, PullEntry};
use super::resolve::{Errors, ms, to_u32, to_usize};
use ::sources::channels::{ChannelRequest, ChannelSpec};
use ::sources::pull::PullSpec;
use ::sources::settings::{AddedBy, SourceSettings};

/// `[sources]`, checked.
pub(super) fn settings(
    config: &Config,
    names: &NameRules,
    record: Option<&RecordSettings>,
    errors: &mut Errors,
) -> SourceSettings {
    let sources = &config.sources;
    if sources.retry_min_ms > sources.retry_max_ms {
        errors.add(
            &config.origin("sources.retry_min_ms"),
            "`sources.retry_min_ms` must not be larger than `sources.retry_max_ms`",
        );
    }
    let extra_roots_pem = match sources.ca_file.as_str() {
        "" => Vec::new(),
        file => certificates(Path::new(file)).unwrap_or_else(|reason| {
            errors.add(&config.origin("sources.ca_file"), format!("`sources.ca_file` {file}: {reason}"));
            Vec::new()
        }),
    };
    let files_root = (!sources.files_root.is_empty()).then(|| {
        // Resolved once: the path that file paths are compared with must not contain links itself.
        std::fs::canonicalize(&sources.files_root).unwrap_or_else(|error| {
            let origin = config.origin("sources.files_root");
            errors.add(&origin, format!("`sources.files_root` {}: {error}", sources.files_root));
            PathBuf::new()
        })
    });
    SourceSettings {
        names: names.clone(),
        addresses: if sources.allow_private_addresses { AddressPolicy::Any } else { AddressPolicy::Public },
        extra_roots_pem,
        files_root,
        recordings: super::record::directories(record),
        pulls_max: to_usize(sources.pulls_max),
        on_demand_max: to_usize(sources.on_demand_max),
        on_demand_timeout: ms(sources.on_demand_timeout_ms),
        on_demand_linger: ms(sources.on_demand_linger_ms),
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

/// The bytes of a file that contains only readable certificates.
pub(super) fn certificates(path: &Path) -> Result<Vec<u8>, String> {
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if found.is_empty() => Err("no PEM certificate".to_owned()),
        Ok(_) => Ok(pem),
        Err(error) => Err(format!("not a PEM certificate: {error}")),
    }
}

/// `[[pull]]` entries, each stream once.
pub(super) fn pulls(config: &Config, settings: &SourceSettings, errors: &mut Errors) -> Vec<PullSpec> {
    let mut pulls: Vec<PullSpec> = Vec::new();
    for entry in &config.pulls {
        let PullEntry { stream, url, on_demand, token } = &entry.pull;
        let token = Some(token.as_str()).filter(|token| !token.is_empty());
        let spec = PullSpec::of_stream(stream, url, *on_demand, settings);
        let spec = match spec.and_then(|spec| spec.with_token(token)) {
            Ok(spec) => spec,
            Err(reason) => {
                errors.add(&entry.origin, format!("[[pull]] {reason}"));
                continue;
            }
        };
        if let Err(reason) = spec.origin.check(AddedBy::Configuration, settings) {
            errors.add(&entry.origin, format!("[[pull]] `url`: {reason}"));
        }
        if pulls.iter().any(|other| (&other.app, &other.name) == (&spec.app, &spec.name)) {
            errors.add(&entry.origin, format!("[[pull]] has two entries for `{}`", entry.pull.stream));
        }
        if config.channels.iter().any(|channel| channel.channel.stream == entry.pull.stream) {
            let stream = &entry.pull.stream;
            errors.add(&entry.origin, format!("`{stream}` has a [[pull]] and a [[channel]]: one must go"));
        }
        pulls.push(spec);
    }
    let max = settings.pulls_max;
    if pulls.len() > max {
        let origin = config.origin("sources.pulls_max");
        errors.add(&origin, format!("`sources.pulls_max` is {max}, and there are {} [[pull]]", pulls.len()));
    }
    pulls
}

/// `[[channel]]` entries, each stream once.
pub(super) fn channels(config: &Config, settings: &SourceSettings, errors: &mut Errors) -> Vec<ChannelSpec> {
    let mut channels: Vec<ChannelSpec> = Vec::new();
    for entry in &config.channels {
        let ChannelEntry { stream, items, r#loop, start } = &entry.channel;
        let Some((app, name)) = stream.rsplit_once('/') else {
            let message = match stream.as_str() {
                "" => "[[channel]] needs a `stream`, such as \"live/films\"".to_owned(),
                other => {
                    format!("[[channel]] `stream`: `{other}` names no application: write \"live/{other}\"")
                }
            };
            errors.add(&entry.origin, message);
            continue;
        };
        let request = ChannelRequest { app, name, items, looped: *r#loop, start: start.0 };
        let spec = match ChannelSpec::new(request, settings, AddedBy::Configuration) {
            Ok(spec) => spec,
            Err(reason) => {
                errors.add(&entry.origin, format!("[[channel]] {reason}"));
                continue;
            }
        };
        if channels.iter().any(|other| (&other.app, &other.name) == (&spec.app, &spec.name)) {
            errors.add(&entry.origin, format!("[[channel]] has two entries for `{stream}`"));
        }
        if config.demo.enabled && config.demo.stream == *stream {
            errors.add(
                &entry.origin,
                format!("`{stream}` has a [[channel]] and is `demo.stream`: one must go"),
            );
        }
        channels.push(spec);
    }
    let max = to_usize(config.sources.channels_max);
    if channels.len() > max {
        let message =
            format!("`sources.channels_max` is {max}, and there are {} [[channel]]", channels.len());
        errors.add(&config.origin("sources.channels_max"), message);
    }
    channels
}
