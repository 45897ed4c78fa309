//! Keys of signed tokens, read from where an identity system publishes them, and read again.
//!
//! The rules of sources apply: which addresses may be reached, redirects, TLS. Keys that have been read count
//! until others have been: an identity system that is away for an hour locks nobody out.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jwt::{KeySet, Verifier};
use range_reader::http::Client;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::settings::{SourceSettings, explain};

/// Time for an answer as a whole.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Largest answer that is read; [`KeySet::parse`] refuses shorter ones.
const ANSWER_BYTES_MAX: usize = 512 << 10;
/// How often it is looked whether a token named a key that is not there.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two readings, whatever tokens name: anybody can invent ids of keys.
const PAUSE_MIN: Duration = Duration::from_secs(10);

/// Where keys are.
#[derive(Debug, Clone)]
pub enum Place {
    /// A server.
    Url(Url),
    /// A file.
    File(PathBuf),
}

/// Where keys are, and how often they are read.
#[derive(Debug, Clone)]
pub struct KeySource {
    /// Where.
    pub place: Place,
    /// How often.
    pub refresh: Duration,
}

/// Reads keys for `verifier`, for ever.
pub async fn keep_up_to_date(verifier: Arc<Verifier>, source: KeySource, settings: Arc<SourceSettings>) {
    let mut before = None;
    let mut failures = 0_u32;
    loop {
        let unknown = verifier.unknown_keys();
        let read = read(&source.place, &settings).await;
        let taken = read.and_then(|json| {
            if before.as_ref() != Some(&json) {
                take(&verifier, &json)?;
                before = Some(json);
            }
            Ok(())
        });
        let pause = match taken {
            Ok(()) => {
                failures = 0;
                source.refresh
            }
            Err(reason) => {
                // Less and less often while it lasts.
                if failures == 0 || failures.is_power_of_two() {
                    tracing::warn!(reason, failures, "keys of signed tokens stay as they are");
                }
                failures += 1;
                source.refresh.min(PAUSE_MIN)
            }
        };
        wait(&verifier, unknown, pause).await;
    }
}

/// Reads keys for `verifier` once: what a reload of the configuration needs before it takes effect.
///
/// # Errors
/// They could not be read, or are none.
pub async fn read_once(
    verifier: &Verifier,
    source: &KeySource,
    settings: &SourceSettings,
) -> Result<(), String> {
    take(verifier, &read(&source.place, settings).await?)
}

fn take(verifier: &Verifier, json: &[u8]) -> Result<(), String> {
    let keys = KeySet::parse(json).map_err(|error| error.to_string())?;
    tracing::info!(keys = keys.len(), left_out = keys.left_out(), "keys of signed tokens read");
    verifier.set_keys(keys);
    Ok(())
}

/// Until it is time, or a token has named a key that was not known before the last reading.
async fn wait(verifier: &Verifier, unknown: u64, pause: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < pause {
        sleep(LOOK_EVERY).await;
        if begun.elapsed() >= PAUSE_MIN && verifier.unknown_keys() != unknown {
            return;
        }
    }
}

async fn read(place: &Place, settings: &SourceSettings) -> Result<Vec<u8>, String> {
    match place {
        Place::File(file) => match timeout(ANSWER_MAX, read_file(file)).await {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the file could not be read in {} s", ANSWER_MAX.as_secs())),
        },
        Place::Url(url) => match timeout(ANSWER_MAX, fetch(url, settings)).await {
            Ok(read) => read,
            Err(_) => Err(format!("no whole answer in {} s", ANSWER_MAX.as_secs())),
        },
    }
}

/// On a thread of its own: the disk may be somebody else's.
async fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    tokio::fs::File::open(file).await?.take(ANSWER_BYTES_MAX as u64).read_to_end(&mut json).await?;
    Ok(json)
}

async fn fetch(url: &Url, settings: &SourceSettings) -> Result<Vec<u8>, String> {
    let client = Client::new(settings.http_config()).map_err(|error| explain(&error))?;
    let mut answer = client.get(url, &HeaderMap::new()).await.map_err(|error| explain(&error))?;
    if answer.status != StatusCode::OK {
        return Err(format!("the server answers {}", answer.status.as_u16()));
    }
    let mut json = Vec::new();
    while let Some(data) = answer.body.data().await {
        json.extend_from_slice(&data.map_err(|error| explain(&error))?);
        if json.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {} kB", ANSWER_BYTES_MAX >> 10));
        }
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
    use jwt::{Refused, Settings};
    use serde_json::json;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    struct Signer {
        key: EncodingKey,
        id: &'static str,
    }

    impl Signer {
        fn new(id: &'static str) -> Self {
            let pair = rcgen::KeyPair::generate().expect("a key");
            Self { key: EncodingKey::from_ec_der(&pair.serialize_der()), id }
        }

        fn set(&self) -> String {
            let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).expect("a public key");
            jwk.common.key_id = Some(self.id.to_owned());
            json!({ "keys": [jwk] }).to_string()
        }

        fn token(&self) -> String {
            let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
            let claims = json!({ "exp": NOW.as_secs() + 9, "stream": "*", "actions": "play" });
            encode(&header, &claims, &self.key).expect("a token")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_read_again_and_the_last_good_ones_stay() {
        let path = std::env::temp_dir().join(format!("millstream-keys-{}.json", std::process::id()));
        let (first, second) = (Signer::new("1"), Signer::new("2"));
        std::fs::write(&path, first.set()).expect("written");
        let verifier = Arc::new(Verifier::new(Settings::default(), None).expect("no secret"));
        let source = KeySource { place: Place::File(path.clone()), refresh: Duration::from_secs(300) };
        let settings = Arc::new(SourceSettings::default());
        let task = tokio::spawn(keep_up_to_date(Arc::clone(&verifier), source, settings));
        let verify = |signer: &Signer| verifier.verify(&signer.token(), NOW).map(|_| ());
        sleep(Duration::from_secs(2)).await;
        assert_eq!(verify(&first), Ok(()));

        // Not before it is time, unless a token names a key that is not there.
        std::fs::write(&path, second.set()).expect("written");
        sleep(Duration::from_secs(200)).await;
        assert_eq!(verify(&first), Ok(()));
        assert_eq!(verify(&second), Err(Refused::UnknownKey));
        sleep(Duration::from_secs(2)).await;
        assert_eq!(verify(&second), Ok(()));
        assert_eq!(verify(&first), Err(Refused::UnknownKey), "that key has gone");

        // What cannot be read, or is no set, changes nothing, and is read again soon.
        for broken in ["<html>down</html>", "{\"keys\":[]}", ""] {
            std::fs::write(&path, broken).expect("written");
            sleep(Duration::from_secs(400)).await;
            assert_eq!(verify(&second), Ok(()));
        }
        std::fs::remove_file(&path).expect("removed");
        sleep(Duration::from_secs(400)).await;
        assert_eq!(verify(&second), Ok(()));
        std::fs::write(&path, first.set()).expect("written");
        sleep(Duration::from_secs(12)).await;
        assert_eq!(verify(&first), Ok(()), "after a failure it is tried again soon");
        task.abort();
    }
}
