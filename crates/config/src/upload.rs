//! Configuration of uploads: `[upload]`.

use std::path::{Path, PathBuf};

use recording::settings::{Format, RecordSettings};
use uploads::settings::{Credentials, Destination, Keys, MirrorSettings, S3Settings, UploadSettings};
use worker_api::pattern::Pattern;

use super::Config;
use super::resolve::{Errors, ms, to_u64, to_usize};
use super::sources::certificates;
use super::value::HlsChoice;

/// Where recordings and segments are sent; `None`: they are not.
pub(super) fn settings(
    config: &Config,
    record: Option<&RecordSettings>,
    variable: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors,
) -> Option<UploadSettings> {
    let upload = &config.upload;
    let destination = match (upload.bucket.as_str(), upload.directory.as_str()) {
        ("", "") => return None,
        ("", directory) => Destination::Directory(target(config, directory, record, errors)),
        (_, "") => Destination::S3(bucket(config, variable, errors)),
        _ => {
            let message = "`upload.bucket` and `upload.directory`: one must go";
            errors.add(&config.origin("upload.directory"), message);
            return None;
        }
    };
    if record.is_none() && upload.segments.is_empty() {
        let key = if upload.bucket.is_empty() { "upload.directory" } else { "upload.bucket" };
        let message =
            format!("`{key}` needs recordings or segments: set `record.directory` or `upload.segments`");
        errors.add(&config.origin(key), message);
    }
    if upload.retry_min_ms > upload.retry_max_ms {
        let message = "`upload.retry_min_ms` must not be larger than `upload.retry_max_ms`";
        errors.add(&config.origin("upload.retry_min_ms"), message);
    }
    let mut prefix = |key: &str, value: &str| {
        let prefix = value.trim_matches('/').to_owned();
        if prefix.split('/').any(|part| matches!(part, "." | "..") || (part.is_empty() && !prefix.is_empty()))
        {
            let message = format!("`{key}`: `{value}` has an empty part, `.` or `..`");
            errors.add(&config.origin(key), message);
        }
        prefix
    };
    let segments_prefix = prefix("upload.segments_prefix", &upload.segments_prefix);
    let prefix = prefix("upload.prefix", &upload.prefix);
    if !upload.segments.is_empty() && config.hls.mode != HlsChoice::Always {
        let message =
            "`upload.segments` needs `hls.mode = \"always\"`: else streams are cut for players alone";
        errors.add(&config.origin("upload.segments"), message);
    }
    if !upload.segments.is_empty() && segments_prefix.is_empty() {
        // What is deleted there must not be among recordings.
        errors.add(&config.origin("upload.segments_prefix"), "`upload.segments_prefix` must not be empty");
    }
    let mirror = (!upload.segments.is_empty()).then(|| MirrorSettings {
        streams: Pattern::new(&upload.segments),
        prefix: segments_prefix,
        listed: ms(upload.segments_seconds * 1_000),
        deletes: upload.segments_delete,
        waiting_bytes: to_usize(upload.segments_queue_mb) << 20,
    });
    Some(UploadSettings {
        destination,
        prefix,
        concurrency: to_usize(upload.concurrency),
        part_bytes: to_usize(upload.part_bytes),
        bytes_per_second: Some(to_u64(upload.max_kbps) * 1_000 / 8).filter(|rate| *rate > 0),
        stall_timeout: ms(upload.stall_timeout_ms),
        retry_min: ms(upload.retry_min_ms),
        retry_max: ms(upload.retry_max_ms),
        delete_local_after: upload.delete_local.then(|| ms(upload.delete_local_after_seconds * 1_000)),
        suffixes: Format::ALL.map(|format| format!(".{}", format.extension())).to_vec(),
        mirror,
    })
}

fn bucket(config: &Config, variable: &dyn Fn(&str) -> Option<String>, errors: &mut Errors) -> S3Settings {
    let upload = &config.upload;
    if !upload.endpoint.is_empty() {
        let url = url::Url::parse(&upload.endpoint).ok();
        let is_valid = url.is_some_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none()
        });
        if !is_valid {
            let message = "`upload.endpoint` must be an http:// or https:// URL without a user";
            errors.add(&config.origin("upload.endpoint"), message);
        }
    }
    let credentials = match upload.credentials_file.as_str() {
        "" => Keys::from_environment(variable).map(Credentials::Keys).ok_or_else(|| {
            let message = "`upload.bucket` needs keys: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the \
                environment, or `upload.credentials_file`";
            ("upload.bucket", message.to_owned())
        }),
        file => {
            let credentials = Credentials::File(file.into());
            let read = credentials.keys().map(|_| credentials);
            read.map_err(|reason| ("upload.credentials_file", format!("`upload.credentials_file`: {reason}")))
        }
    };
    let credentials = credentials.unwrap_or_else(|(key, message)| {
        errors.add(&config.origin(key), message);
        Credentials::File(PathBuf::new())
    });
    let extra_roots_pem = match upload.ca_file.as_str() {
        "" => Vec::new(),
        file => certificates(Path::new(file)).unwrap_or_else(|reason| {
            errors.add(&config.origin("upload.ca_file"), format!("`upload.ca_file` {file}: {reason}"));
            Vec::new()
        }),
    };
    S3Settings {
        bucket: upload.bucket.clone(),
        region: upload.region.clone(),
        endpoint: Some(upload.endpoint.clone()).filter(|endpoint| !endpoint.is_empty()),
        path_style: upload.path_style,
        credentials,
        extra_roots_pem,
    }
}

/// A directory that recordings are copied to, which must not be one that they are copied from.
fn target(config: &Config, directory: &str, record: Option<&RecordSettings>, errors: &mut Errors) -> PathBuf {
    let path = std::path::absolute(directory).unwrap_or_else(|_| directory.into());
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let mut recorded = record.iter().flat_map(|record| record.files());
    if recorded.any(|files| path.starts_with(&files.directory)) {
        let message = format!("`upload.directory` {directory} is within a directory of recordings");
        errors.add(&config.origin("upload.directory"), message);
    }
    path
}
