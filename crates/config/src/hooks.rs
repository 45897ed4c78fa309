//! Configuration of hooks: `[hooks]`.

use ::hooks::settings::HookSettings;
use ::sources::settings::SourceSettings;
use recording::settings::RecordSettings;
use url::Url;
use worker_api::hooks::HookEvent;

use super::Config;
use super::resolve::{Errors, ms, to_usize};
use super::value::OnErrorChoice;

/// Shortest key of signatures, bytes.
const SECRET_BYTES_MIN: usize = 16;

/// `[hooks]`; `None`: nobody is asked or told.
pub(super) fn settings(
    config: &Config,
    sources: &SourceSettings,
    record: Option<&RecordSettings>,
    errors: &mut Errors,
) -> Option<HookSettings> {
    let keys = &config.hooks;
    let urls = HookEvent::ALL.map(|event| {
        let url = match event {
            HookEvent::Publish => &keys.on_publish,
            HookEvent::PublishEnd => &keys.on_publish_end,
            HookEvent::Play => &keys.on_play,
            HookEvent::PlayEnd => &keys.on_play_end,
            HookEvent::Record => &keys.on_record,
            HookEvent::StreamState => &keys.on_stream_state,
        };
        (!url.is_empty()).then(|| check_url(config, event, url, errors)).flatten()
    });
    let secret = secret(config, errors);
    if urls.iter().all(Option::is_none) {
        return None;
    }
    if secret.is_empty() {
        let text = format!(
            "`hooks.secret` or `hooks.secret_file` is needed, {SECRET_BYTES_MIN} bytes at least: \
             `openssl rand -hex 32` makes a good one"
        );
        errors.add(&config.origin("hooks.secret"), text);
    }
    if keys.timeout_ms > config.limits.handshake_timeout_ms {
        errors.add(
            &config.origin("hooks.timeout_ms"),
            "`hooks.timeout_ms` is longer than `limits.handshake_timeout_ms`, which clients have",
        );
    }
    if keys.play_batch_ms > keys.timeout_ms / 2 {
        let text =
            "`hooks.play_batch_ms` is more than half of `hooks.timeout_ms`: no time is left for the answer";
        errors.add(&config.origin("hooks.play_batch_ms"), text);
    }
    if !keys.on_record.is_empty() && record.is_none() {
        errors.add(&config.origin("hooks.on_record"), "`hooks.on_record` needs `record.directory`");
    }
    let asks = !keys.on_publish.is_empty() || !keys.on_play.is_empty();
    if asks && !config.moq.listen.0.is_empty() {
        let text =
            "`hooks.on_publish` and `hooks.on_play` are not asked for `moq.listen`: turn one of them off";
        errors.add(&config.origin("moq.listen"), text);
    }
    Some(HookSettings {
        urls,
        secret,
        timeout: ms(keys.timeout_ms),
        allows_on_error: keys.on_error == OnErrorChoice::Allow,
        concurrency: to_usize(keys.concurrency),
        play_batch: ms(keys.play_batch_ms),
        queue_max: to_usize(keys.queue_events),
        retry_for: std::time::Duration::from_secs(keys.retry_seconds.unsigned_abs()),
        extra_roots_pem: sources.extra_roots_pem.clone(),
    })
}

/// A URL that can be asked. Its text is in no error: it may hold a secret.
fn check_url(config: &Config, event: HookEvent, text: &str, errors: &mut Errors) -> Option<http::Uri> {
    let key = format!("hooks.{}", event.name());
    let mut refuse = |reason: &str| {
        errors.add(&config.origin(&key), format!("`{key}` {reason}"));
        None
    };
    let Ok(url) = Url::parse(text) else { return refuse("is no URL") };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse("begins with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("has a user name or a password, which are not sent: requests are signed");
    }
    let mut url = url;
    url.set_fragment(None);
    match url.as_str().parse() {
        Ok(uri) => Some(uri),
        Err(_) => refuse("is no URL"),
    }
}

fn secret(config: &Config, errors: &mut Errors) -> Vec<u8> {
    let (text, file) = (&config.hooks.secret, &config.hooks.secret_file);
    let (key, secret) = match (text.is_empty(), file.is_empty()) {
        (true, true) => return Vec::new(),
        (false, true) => ("hooks.secret", Ok(text.clone().into_bytes())),
        (true, false) => {
            // A line break at the end is the editor's.
            let read = std::fs::read(file).map(|bytes| bytes.trim_ascii().to_vec());
            ("hooks.secret_file", read.map_err(|error| format!("{file}: {error}")))
        }
        (false, false) => {
            ("hooks.secret", Err("and `hooks.secret_file` are both set: remove one".to_owned()))
        }
    };
    let secret = secret.and_then(|secret| match secret.len() {
        SECRET_BYTES_MIN.. => Ok(secret),
        _ => Err(format!("is shorter than {SECRET_BYTES_MIN} bytes")),
    });
    secret.unwrap_or_else(|reason| {
        errors.add(&config.origin(key), format!("`{key}` {reason}"));
        // It is not missing.
        vec![0; SECRET_BYTES_MIN]
    })
}
