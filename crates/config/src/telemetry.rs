//! Configuration of telemetry: `[telemetry]`.

use std::time::Duration;

use ::sources::settings::SourceSettings;
use ::telemetry::settings::TelemetrySettings;
use http::{HeaderName, HeaderValue, Uri};
use url::Url;
use worker_api::time::since_1970;

use super::Config;
use super::resolve::{Errors, ms, to_u32, to_u64};

/// `[telemetry]`; `None`: nothing is exported.
pub(super) fn settings(
    config: &Config,
    sources: &SourceSettings,
    errors: &mut Errors,
) -> Option<TelemetrySettings> {
    let keys = &config.telemetry;
    let headers = headers(config, errors);
    let resource = resource(config, errors);
    if keys.otlp_endpoint.is_empty() {
        return None;
    }
    let (traces, metrics) = endpoints(&keys.otlp_endpoint)
        .map_err(|reason| {
            // Its text is in no error: it may hold a secret.
            let text = format!("`telemetry.otlp_endpoint` {reason}");
            errors.add(&config.origin("telemetry.otlp_endpoint"), text);
        })
        .ok()?;
    Some(TelemetrySettings {
        traces,
        metrics,
        headers,
        timeout: ms(keys.timeout_ms),
        samples: to_u32(keys.samples_per_million),
        metrics_every: Duration::from_secs(to_u64(keys.metrics_seconds)),
        resource,
        extra_roots_pem: sources.extra_roots_pem.clone(),
    })
}

/// Where traces and metrics go.
fn endpoints(text: &str) -> Result<(Uri, Uri), &'static str> {
    let mut url = Url::parse(text).map_err(|_| "is no URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("begins with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user name or a password, which are not sent: use `telemetry.headers`");
    }
    url.set_fragment(None);
    let base = url.path().trim_end_matches('/').to_owned();
    let mut of_signal = |signal: &str| {
        url.set_path(&format!("{base}/v1/{signal}"));
        url.as_str().parse().map_err(|_| "is no URL")
    };
    Ok((of_signal("traces")?, of_signal("metrics")?))
}

/// Fields of the key and of the file. Their text is in no error.
fn headers(config: &Config, errors: &mut Errors) -> Vec<(HeaderName, HeaderValue)> {
    let keys = &config.telemetry;
    let mut lines: Vec<(&str, String)> =
        keys.headers.iter().map(|line| ("telemetry.headers", line.clone())).collect();
    if !keys.headers_file.is_empty() {
        match std::fs::read_to_string(&keys.headers_file) {
            Ok(text) => {
                let given = text.lines().filter(|line| !line.trim().is_empty());
                lines.extend(given.map(|line| ("telemetry.headers_file", line.to_owned())));
            }
            Err(error) => {
                let text = format!("`telemetry.headers_file` {}: {error}", keys.headers_file);
                errors.add(&config.origin("telemetry.headers_file"), text);
            }
        }
    }
    let read = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value))
    };
    let fields = lines.iter().enumerate().filter_map(|(at, (key, line))| {
        let field = read(line);
        if field.is_none() {
            let text = format!("`{key}` takes `Name: value`, and field {} is none", at + 1);
            errors.add(&config.origin(key), text);
        }
        field
    });
    fields.collect()
}

/// What is said of this server: its name, version and an id of this run, and what the key has.
fn resource(config: &Config, errors: &mut Errors) -> Vec<(String, String)> {
    let keys = &config.telemetry;
    // Unique among the servers of one collector: no two are the same process at the same time.
    let instance = format!("{}-{}", std::process::id(), since_1970().as_millis());
    let mut attributes = vec![
        ("service.name".to_owned(), keys.service_name.clone()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id".to_owned(), instance),
    ];
    for text in &keys.resource_attributes {
        let given = text.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        match given.filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => {
                attributes.retain(|(known, _)| known != name);
                attributes.push((name.to_owned(), value.to_owned()));
            }
            None => errors.add(
                &config.origin("telemetry.resource_attributes"),
                format!("`telemetry.resource_attributes` takes `name=value`, not `{text}`"),
            ),
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_otlp_are_added_to_the_endpoint() {
        for (given, traces) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example/", "https://collector.example/v1/traces"),
            ("https://a.example/otlp/?x=1#y", "https://a.example/otlp/v1/traces?x=1"),
        ] {
            let (found, metrics) = endpoints(given).expect("a URL");
            assert_eq!(found.to_string(), traces);
            assert_eq!(metrics.to_string(), traces.replace("traces", "metrics"));
        }
        for wrong in ["collector", "grpc://a.example", "http://user@a.example", "http://u:p@a.example"] {
            assert!(endpoints(wrong).is_err(), "{wrong}");
        }
    }
}
