//! What a token says: JSON objects without a name twice, and the claims that count.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use crate::Refused;

/// What a bearer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// Publish a stream.
    Publish = 1,
    /// Play a stream.
    Play = 2,
    /// Use the management API.
    Manage = 4,
    /// Begin and end the recording of a stream.
    Record = 8,
}

impl Action {
    fn named(name: &str) -> Option<Self> {
        match name {
            "publish" => Some(Self::Publish),
            "play" => Some(Self::Play),
            "manage" => Some(Self::Manage),
            "record" => Some(Self::Record),
            _ => None,
        }
    }
}

/// Patterns in a token, at most.
const STREAMS_MAX: usize = 64;

/// What a token allows, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    actions: u8,
    streams: Vec<Box<str>>,
    from: Option<Duration>,
    until: Duration,
}

/// What is asked of claims, and what those are called that are ours.
pub(crate) struct Names<'a> {
    pub(crate) issuer: &'a Option<String>,
    pub(crate) audience: &'a Option<String>,
    pub(crate) stream_claim: &'a str,
    pub(crate) actions_claim: &'a str,
}

impl Grant {
    pub(crate) fn read(claims: &Words, names: &Names<'_>) -> Result<Self, Refused> {
        let until = claims.time("exp")?.ok_or(Refused::WithoutEnd)?;
        if let Some(issuer) = names.issuer
            && claims.text("iss")? != Some(issuer)
        {
            return Err(Refused::Issuer);
        }
        let audiences = claims.texts("aud", false)?;
        let is_for_us = match names.audience {
            Some(audience) => audiences.contains(&audience.as_str()),
            None => audiences.is_empty(),
        };
        if !is_for_us {
            return Err(Refused::Audience);
        }
        let streams = claims.texts(names.stream_claim, false)?;
        if streams.len() > STREAMS_MAX {
            return Err(Refused::Malformed);
        }
        let actions = claims.texts(names.actions_claim, true)?;
        let actions = actions.into_iter().filter_map(Action::named).fold(0, |all, one| all | one as u8);
        let streams = streams.into_iter().map(Box::from).collect();
        Ok(Self { actions, streams, from: claims.time("nbf")?, until })
    }

    pub(crate) fn check_time(&self, now: Duration, leeway: Duration) -> Result<(), Refused> {
        if self.until + leeway <= now {
            return Err(Refused::Ended);
        }
        match self.from {
            Some(from) if from > now + leeway => Err(Refused::NotYet),
            _ => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn ends_at(until: Duration) -> Self {
        Self { actions: 0, streams: Vec::new(), from: None, until }
    }

    /// When it ends, since 1970.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// Whether it allows `action`, with a stream for which `matches` finds one of its patterns.
    ///
    /// # Errors
    /// [`Refused::Action`] or [`Refused::Stream`].
    pub fn allows(&self, action: Action, matches: impl Fn(&str) -> bool) -> Result<(), Refused> {
        if self.actions & action as u8 == 0 {
            return Err(Refused::Action);
        }
        let is_one_of = action == Action::Manage || self.streams.iter().any(|pattern| matches(pattern));
        if is_one_of { Ok(()) } else { Err(Refused::Stream) }
    }
}

/// A JSON object in which no name is there twice: readers differ in which of two they take.
#[derive(Debug)]
pub(crate) struct Words(BTreeMap<String, Value>);

impl Words {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refused> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refused::Malformed),
        }
    }

    /// A text, or several in an array; `spaced` takes words apart, as in OAuth's `scope`.
    fn texts(&self, name: &str, spaced: bool) -> Result<Vec<&str>, Refused> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) if spaced => Ok(text.split_ascii_whitespace().collect()),
            Some(Value::String(text)) => Ok(vec![text]),
            Some(Value::Array(values)) => {
                values.iter().map(|value| value.as_str().ok_or(Refused::Malformed)).collect()
            }
            Some(_) => Err(Refused::Malformed),
        }
    }

    /// A `NumericDate`: seconds since 1970, perhaps with a fraction.
    fn time(&self, name: &str) -> Result<Option<Duration>, Refused> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let seconds = value.as_f64().ok_or(Refused::Malformed)?;
        // Beyond the year 10000 it makes no difference, and sums stay within a Duration.
        let seconds = seconds.clamp(0.0, 253_402_300_800.0);
        Ok(Some(Duration::from_secs_f64(seconds)))
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Once;

        impl<'de> Visitor<'de> for Once {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Words, A::Error> {
                let mut words = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if words.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name is there twice"));
                    }
                }
                Ok(Words(words))
            }
        }

        from.deserialize_map(Once)
    }
}
