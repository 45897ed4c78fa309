//! Parsers of option values that several commands take.

use std::time::Duration;

/// Seconds from 0 to a day, fractions allowed.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let value: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=86_400.0).contains(&value) {
        return Err("from 0 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(value))
}

/// A number above 0, up to a million.
pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (value > 0.0 && value <= 1e6).then_some(value).ok_or_else(|| "above 0, up to 1000000".to_owned())
}
