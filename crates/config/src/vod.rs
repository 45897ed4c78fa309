//! Configuration of video on demand: `[vod]` and `[[vod.remote]]`.

use std::path::PathBuf;

use ::sources::settings::SourceSettings;
use ::vod::settings::{Remote, VodSettings};
use recording::settings::RecordSettings;
use url::Url;

use super::Config;
use super::resolve::{Errors, to_u64, to_usize};

/// What is played on demand; `None`: nothing.
pub(super) fn settings(
    config: &Config,
    record: Option<&RecordSettings>,
    sources: &SourceSettings,
    errors: &mut Errors,
) -> Option<VodSettings> {
    let vod = &config.vod;
    let root = (!vod.root.is_empty()).then(|| {
        std::fs::canonicalize(&vod.root).unwrap_or_else(|error| {
            errors.add(&config.origin("vod.root"), format!("`vod.root` {}: {error}", vod.root));
            PathBuf::new()
        })
    });
    let settings = VodSettings {
        root,
        recordings: super::record::directories(record),
        remotes: remotes(config, sources, errors),
        http: sources.http_config(),
        requests_max: to_usize(vod.requests_max),
        index_bytes_max: to_u64(vod.index_max_bytes),
        cache_bytes: to_usize(vod.cache_max_bytes),
    };
    (vod.enabled && !settings.is_off()).then_some(settings)
}

fn remotes(config: &Config, sources: &SourceSettings, errors: &mut Errors) -> Vec<Remote> {
    let mut remotes: Vec<Remote> = Vec::new();
    for entry in &config.vod_remotes {
        let name = &entry.remote.name;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
            let message = "[[vod.remote]] needs a `name` of up to 64 letters, digits, `-` and `_`";
            errors.add(&entry.origin, message);
        }
        // The parser's words do not repeat what was given, which may hold a password.
        let url = match Url::parse(&entry.remote.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => url,
            Ok(_) => {
                errors.add(&entry.origin, "[[vod.remote]] `url` must be an http:// or https:// URL");
                continue;
            }
            Err(error) => {
                errors.add(&entry.origin, format!("[[vod.remote]] `url`: {error}"));
                continue;
            }
        };
        if let Some(Err(reason)) = url.host_str().map(|host| sources.check_host(host)) {
            errors.add(&entry.origin, format!("[[vod.remote]] `url`: {reason}"));
        }
        if remotes.iter().any(|other| other.name == *name) {
            errors.add(&entry.origin, format!("[[vod.remote]] has two entries named `{name}`"));
        }
        remotes.push(Remote { name: name.clone(), url });
    }
    remotes
}
