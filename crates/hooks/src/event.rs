//! Events as JSON, and what hooks answer. Tokens are in none of it.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use http::StatusCode;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use worker_api::hooks::{Asker, Ended, HookEvent, Limits};
use worker_api::time::rfc3339;

use crate::status::CallResult;

/// Longest reason of a hook that is logged, characters.
const REASON_CHARS_MAX: usize = 200;

/// What every event has.
#[derive(Debug, Serialize)]
pub(crate) struct Event<'a, D: Serialize> {
    /// Unlike all others; the same when it is sent again.
    pub(crate) id: &'a str,
    event: &'static str,
    /// When it happened, RFC 3339.
    time: String,
    /// `app/name`.
    stream: &'a str,
    #[serde(flatten)]
    details: D,
}

impl<'a, D: Serialize> Event<'a, D> {
    /// Of what happened at `time`, since 1970.
    pub(crate) fn new(event: HookEvent, id: &'a str, time: Duration, stream: &'a str, details: D) -> Self {
        Self { id, event: event.name(), time: rfc3339(UNIX_EPOCH + time), stream, details }
    }

    /// As the body of a request.
    pub(crate) fn to_json(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Several events in one request.
#[derive(Debug, Serialize)]
pub(crate) struct Batch<'a, D: Serialize> {
    pub(crate) events: Vec<Event<'a, D>>,
}

/// Who publishes or plays.
#[derive(Debug, Serialize)]
pub(crate) struct Who<'a> {
    /// Its session in the API; `null` before there is one.
    session: Option<String>,
    protocol: &'static str,
    address: String,
    user_agent: Option<&'a str>,
}

impl<'a> Who<'a> {
    /// What is said of it.
    pub(crate) fn of(asker: &'a Asker) -> Self {
        Self {
            session: asker.session.map(|session| session.to_string()),
            protocol: asker.protocol.name(),
            address: asker.address.to_string(),
            user_agent: asker.user_agent.as_deref(),
        }
    }
}

/// An end.
#[derive(Debug, Serialize)]
pub(crate) struct End<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    /// Id of the event that asked for it.
    asked: &'a str,
    /// Whether it published or played: not, if something else was in its way.
    started: bool,
    seconds: f64,
    bytes: u64,
    reason: &'static str,
}

impl<'a> End<'a> {
    /// Of one who was let in, at `now` since 1970.
    pub(crate) fn of(ended: &'a Ended, now: Duration) -> Self {
        Self {
            who: Who::of(&ended.asker),
            asked: &ended.id,
            started: ended.has_begun,
            seconds: now.saturating_sub(ended.since).as_millis() as f64 / 1000.0,
            bytes: ended.bytes,
            reason: ended.reason,
        }
    }
}

/// A stream begins or ends.
#[derive(Debug, Serialize)]
pub(crate) struct StreamState {
    pub(crate) state: &'static str,
    /// Number of the publication on this node.
    pub(crate) publication: u64,
}

/// A recording begins or is complete.
#[derive(Debug, Serialize)]
pub(crate) struct Recording<'a> {
    pub(crate) state: &'static str,
    pub(crate) directory: &'a str,
    pub(crate) file: &'a str,
}

/// What a hook says to one question.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct HookAnswer {
    /// The event that is answered: needed in a batch.
    id: Option<String>,
    allow: bool,
    /// For the log of this server.
    reason: Option<String>,
    record: Option<bool>,
    max_seconds: Option<u32>,
    max_bitrate: Option<u64>,
    max_height: Option<u16>,
}

#[derive(Debug, Deserialize)]
struct Answers {
    answers: Vec<OneOfMany>,
}

/// One answer of a batch: a mistake in it is none in the others.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOfMany {
    Answer(HookAnswer),
    Mistake { id: String },
    Other(IgnoredAny),
}

impl OneOfMany {
    fn is_about(&self, question: &str) -> bool {
        match self {
            Self::Answer(answer) => answer.id.as_deref() == Some(question),
            Self::Mistake { id } => id == question,
            Self::Other(_) => false,
        }
    }
}

/// One who is let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) limits: Limits,
    /// The stream is to be recorded.
    pub(crate) is_recorded: bool,
}

/// Reads the answer to the one question `id`, at `now` since 1970. A refusal comes with its reason.
pub(crate) fn read_one(
    id: &str,
    status: StatusCode,
    body: &[u8],
    now: Duration,
) -> Result<Allowed, (CallResult, Option<String>)> {
    if let Some(answer) = by_status(status) {
        return answer.map_err(|result| (result, None));
    }
    let answer: HookAnswer = serde_json::from_slice(body).map_err(|_| (CallResult::Invalid, None))?;
    match &answer.id {
        // It answers something else.
        Some(other) if other != id => Err((CallResult::Invalid, None)),
        _ => answer.decide(now),
    }
}

/// Reads the answers to the questions `ids`, at `now` since 1970; each in its order.
pub(crate) fn read_batch(
    ids: &[&str],
    status: StatusCode,
    body: &[u8],
    now: Duration,
) -> Vec<Result<Allowed, (CallResult, Option<String>)>> {
    if let Some(answer) = by_status(status) {
        return ids.iter().map(|_| answer.map_err(|result| (result, None))).collect();
    }
    let answers = serde_json::from_slice(body).map_or(Vec::new(), |Answers { answers }| answers);
    let find = |id: &&str| {
        // The first counts, whatever it says; what is not answered has failed.
        match answers.iter().find(|answer| answer.is_about(id)) {
            Some(OneOfMany::Answer(answer)) => answer.clone().decide(now),
            _ => Err((CallResult::Invalid, None)),
        }
    };
    ids.iter().map(find).collect()
}

/// What a status says by itself.
fn by_status(status: StatusCode) -> Option<Result<Allowed, CallResult>> {
    match status {
        StatusCode::OK => None,
        StatusCode::NO_CONTENT => Some(Ok(Allowed::default())),
        StatusCode::FORBIDDEN => Some(Err(CallResult::Denied)),
        _ => Some(Err(CallResult::Status)),
    }
}

impl HookAnswer {
    fn decide(self, now: Duration) -> Result<Allowed, (CallResult, Option<String>)> {
        let Self { id: _, allow, reason, record, max_seconds, max_bitrate, max_height } = self;
        if !allow {
            let shown =
                |text: String| text.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
            return Err((CallResult::Denied, reason.map(shown)));
        }
        let is_nothing = max_seconds == Some(0) || max_bitrate == Some(0) || max_height == Some(0);
        if is_nothing {
            // Who is to get nothing is refused; this is a mistake.
            return Err((CallResult::Invalid, None));
        }
        let limits = Limits {
            until: max_seconds.map(|seconds| now + Duration::from_secs(seconds.into())),
            bits_per_second_max: max_bitrate,
            height_max: max_height,
        };
        Ok(Allowed { limits, is_recorded: record == Some(true) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn only_what_says_so_lets_in() {
        let allowed = Ok(Allowed::default());
        let failed = |result| Err((result, None));
        for (status, body, expected, remark) in [
            (200, r#"{"allow":true}"#, allowed.clone(), "yes"),
            (200, r#"{"allow":true,"id":"1","later":[]}"#, allowed.clone(), "fields of later versions"),
            (204, "", allowed, "yes, in short"),
            (200, r#"{"allow":false}"#, failed(CallResult::Denied), "no"),
            (403, "<html>no</html>", failed(CallResult::Denied), "no, in short"),
            (200, "", failed(CallResult::Invalid), "nothing"),
            (200, "{}", failed(CallResult::Invalid), "neither yes nor no"),
            (200, r#"{"allow":"true"}"#, failed(CallResult::Invalid), "a text"),
            (200, r#"{"allow":1}"#, failed(CallResult::Invalid), "a number"),
            (200, r#"{"allow":true,"allow":false}"#, failed(CallResult::Invalid), "both"),
            (200, r#"{"allow":true,"id":"2"}"#, failed(CallResult::Invalid), "of another question"),
            (200, r#"{"allow":true,"max_seconds":-1}"#, failed(CallResult::Invalid), "no time"),
            (200, r#"{"allow":true,"max_seconds":0}"#, failed(CallResult::Invalid), "nothing of it"),
            (200, r#"{"allow":true"#, failed(CallResult::Invalid), "half of it"),
            (200, "<html>welcome</html>", failed(CallResult::Invalid), "another server"),
            (201, r#"{"allow":true}"#, failed(CallResult::Status), "another status"),
            (302, r#"{"allow":true}"#, failed(CallResult::Status), "a redirect"),
            (401, r#"{"allow":true}"#, failed(CallResult::Status), "the hook wants a password"),
            (500, r#"{"allow":true}"#, failed(CallResult::Status), "an error"),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(read_one("1", status, body.as_bytes(), NOW), expected, "{remark}");
        }
    }

    #[test]
    fn settings_come_with_the_answer() {
        let body = br#"{"allow":true,"record":true,"max_seconds":60,"max_bitrate":500000,"max_height":360}"#;
        let limits = Limits {
            until: Some(NOW + Duration::from_secs(60)),
            bits_per_second_max: Some(500_000),
            height_max: Some(360),
        };
        let expected = Ok(Allowed { limits, is_recorded: true });
        assert_eq!(read_one("1", StatusCode::OK, body, NOW), expected);
        let body = br#"{"allow":false,"reason":"not\nyou"}"#;
        let refused = Err((CallResult::Denied, Some("notyou".to_owned())));
        assert_eq!(read_one("1", StatusCode::OK, body, NOW), refused, "fit for a line of the log");
    }

    #[test]
    fn answers_of_a_batch_are_found_by_their_ids() {
        let body = br#"{"answers":[{"id":"3","allow":true},{"id":"1","allow":false},{"id":"9","allow":true},
            {"id":"1","allow":true},{"allow":true}]}"#;
        let read = read_batch(&["1", "2", "3"], StatusCode::OK, body, NOW);
        let (denied, missing) = (Err((CallResult::Denied, None)), Err((CallResult::Invalid, None)));
        assert_eq!(read, [denied.clone(), missing.clone(), Ok(Allowed::default())]);
        let body = br#"{"answers":[{"id":"1","allow":true},{"id":"2","allow":1},{"id":"2","allow":true},7,
            {"id":"3","allow":true,"max_height":70000},{"id":"4","allow":false},
            {"id":"5","allow":false,"allow":true}]}"#;
        let read = read_batch(&["1", "2", "3", "4", "5"], StatusCode::OK, body, NOW);
        let expected =
            [Ok(Allowed::default()), missing.clone(), missing.clone(), denied.clone(), missing.clone()];
        assert_eq!(read, expected, "a mistake in one is none in the others");
        for garbage in ["", "[]", "{}", r#"{"answers":{}}"#, r#"{"answers":[{"id":"1"}]}"#] {
            let read = read_batch(&["1"], StatusCode::OK, garbage.as_bytes(), NOW);
            assert_eq!(read, std::slice::from_ref(&missing), "{garbage}");
        }
        assert_eq!(read_batch(&["1"], StatusCode::FORBIDDEN, b"", NOW), [denied]);
    }
}
