//! Reads what C passes to `range_reader_open`.

use crate::Options;
use crate::error::Failure;
use range_reader::ReaderConfig;
use range_reader::http::address::AddressPolicy;
use range_reader::http::{HeaderMap, HeaderName, HeaderValue, HttpConfig, Proxy};
use std::ffi::{CStr, c_char};
use std::time::Duration;

/// # Safety
/// The strings of `options` are NULL or end with a zero.
pub(crate) unsafe fn read(options: Option<&Options>) -> Result<(HttpConfig, ReaderConfig), Failure> {
    let (mut http, mut config) = (HttpConfig::default(), ReaderConfig::default());
    let Some(options) = options else { return Ok((http, config)) };
    // SAFETY: as the contract says.
    if let Some(lines) = unsafe { string("headers", options.headers) }? {
        http.headers = headers(lines)?;
    }
    // SAFETY: as the contract says.
    if let Some(roots) = unsafe { string("roots_pem", options.roots_pem) }? {
        http.extra_roots_pem = roots.as_bytes().to_vec();
    }
    if options.any_address {
        http.addresses = AddressPolicy::Any;
    }
    if options.proxies_of_environment {
        http.proxy = Proxy::from_environment().map_err(|error| Failure::argument(error.to_string()))?;
    }
    if options.timeout_ms > 0 {
        let timeout = Duration::from_millis(u64::from(options.timeout_ms));
        (http.connect_timeout, http.head_timeout, http.idle_timeout) = (timeout, timeout, timeout);
    }
    config.learn = !options.no_learning;
    if options.window_bytes > 0 {
        config.window_bytes = options.window_bytes;
    }
    if options.look_back_bytes > 0 {
        config.look_back_bytes = options.look_back_bytes;
    }
    config.file_bytes_max = (options.file_bytes_max > 0).then_some(options.file_bytes_max);
    Ok((http, config))
}

/// A string as text.
pub(crate) fn text<'a>(name: &str, string: &'a CStr) -> Result<&'a str, Failure> {
    string.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// # Safety
/// `pointer` is NULL or ends with a zero, and stays as it is while the result is used.
unsafe fn string<'a>(name: &str, pointer: *const c_char) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, so it ends with a zero by the contract.
    text(name, unsafe { CStr::from_ptr(pointer) }).map(Some)
}

fn headers(lines: &str) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let field = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        // The line itself may be a secret.
        let (name, value) =
            field.ok_or_else(|| Failure::argument("headers: expected lines `name: value`"))?;
        headers.append(name, value);
    }
    Ok(headers)
}
