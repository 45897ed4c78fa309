//! The buckets, over `async-nats`: everything here only carries out what `machine.rs` decides.
//!
//! Buckets are ordinary ones that `nats kv` can read, but are made and opened as the streams they are:
//! `create_key_value` fails with nats-server 2.9, whose answer about the account lacks fields. Expiry is the
//! bucket's `max_age` alone, because 2.9 ignores times of single messages. Whatever goes wrong in a session
//! ends it, and the next one reads everything again: after a restart of NATS, revisions start over, and a
//! consumer that continued where it was would never see them.

use std::fs::File;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::client::RequestErrorKind;
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy, push};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{self, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use tokio::time::timeout;
use tracing::warn;

use crate::directory::Shared;
use crate::machine::{
    ANNOUNCE_EVERY_MAX, Answer, Bucket, ECHO_WITHIN, HEARTBEAT_MAX_AGE, Input, Key, Outcome,
};
use crate::record::VALUE_BYTES_MAX;
use crate::settings::{Credentials, Settings, Tls};

/// Entries of nodes are gone from the bucket this long after the last announcement: when all nodes
/// died, since else the others delete them.
const NODE_MAX_AGE: Duration = Duration::from_secs(60);
const _: () = assert!(NODE_MAX_AGE.as_millis() >= 3 * ANNOUNCE_EVERY_MAX.as_millis());
/// What one bucket may take of the server's memory; it refuses more.
const BUCKET_BYTES_MAX: i64 = 64 * 1024 * 1024;
/// And entries, because the server counts the bytes of values only: more than nodes take.
const BUCKET_ENTRIES_MAX: i64 = 600_000;
/// Headers of ours take less than this beside the value.
const HEADER_BYTES_MAX: i32 = 1024;
/// Requests to JetStream.
const REQUEST_WITHIN: Duration = ECHO_WITHIN;
/// A write is taken as lost after this.
const WRITE_WITHIN: Duration = Duration::from_millis(750);
const ANSWER_WITHIN: Duration = Duration::from_millis(400);
/// While a session begins, the next entry has to come within this.
const NEXT_WITHIN: Duration = Duration::from_millis(2000);
/// Ten requests, and two subscriptions.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// Between two attempts at a session, and at a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Between two looks at whether there are servers for copies that lack.
const LOOK_AT_COPIES_EVERY: Duration = Duration::from_secs(10);
const RECONNECT_MAX: Duration = Duration::from_millis(400);
const PING_EVERY: Duration = Duration::from_secs(2);

const OPERATION: &str = "KV-Operation";
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// What a session ended for, as text for the log.
pub(crate) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What writes and questions need of NATS.
#[derive(Debug, Clone)]
pub(crate) struct Nats {
    pub(crate) client: Client,
    context: Context,
    prefix: String,
}

/// The options for `settings`, or what is wrong with them.
pub(crate) async fn options(settings: &Settings) -> Result<ConnectOptions, String> {
    // The client would find out when it connects, and say so again and again.
    let Tls { required, ca_file, certificate } = &settings.tls;
    let pair = certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
    for path in ca_file.iter().chain(pair) {
        File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mut options = ConnectOptions::new();
    options = match &settings.credentials {
        Credentials::None => options,
        Credentials::UserPassword { user, password } => {
            options.user_and_password(user.clone(), password.clone())
        }
        Credentials::Token(token) => options.token(token.clone()),
        Credentials::NkeySeed(seed) => options.nkey(seed.clone()),
        Credentials::File(path) => {
            let unreadable = |error| format!("{}: {error}", path.display());
            options.credentials_file(path).await.map_err(unreadable)?
        }
    };
    if let Some(path) = ca_file {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options
        .require_tls(*required)
        .name(format!("millstream {}", settings.name))
        .connection_timeout(REQUEST_WITHIN)
        .ping_interval(PING_EVERY)
        .request_timeout(Some(REQUEST_WITHIN))
        .reconnect_delay_callback(|attempt| match attempt {
            0 | 1 => Duration::ZERO,
            _ => (PAUSE * u32::try_from(attempt).unwrap_or(u32::MAX).min(4)).min(RECONNECT_MAX),
        }))
}

/// Why no server can be reached: the client, which keeps trying, says only of what kind that is.
pub(crate) async fn why_unreachable(settings: &Settings) -> Option<Problem> {
    let options = options(settings).await.ok()?;
    Some(options.connect(settings.servers.clone()).await.err()?.into())
}

impl Nats {
    pub(crate) fn new(client: Client, prefix: &str) -> Self {
        let context = jetstream::ContextBuilder::new().timeout(REQUEST_WITHIN).build(client.clone());
        Self { client, context, prefix: prefix.to_owned() }
    }

    fn bucket(&self, bucket: Bucket) -> String {
        let kind = match bucket {
            Bucket::Nodes => "nodes",
            Bucket::Streams => "streams",
            Bucket::Heartbeats => "heartbeats",
        };
        format!("{}_{kind}", self.prefix)
    }

    fn subject(&self, key: &Key) -> String {
        format!("$KV.{}.{}", self.bucket(key.bucket()), key.text())
    }

    fn stream_name(&self, bucket: Bucket) -> String {
        format!("KV_{}", self.bucket(bucket))
    }

    fn ask_subject(&self, instance: u64) -> String {
        format!("{}.alive.{instance:016x}", self.prefix)
    }

    pub(crate) fn heartbeat_subject(&self, instance: u64) -> String {
        format!("$KV.{}.{instance:016x}", self.bucket(Bucket::Heartbeats))
    }

    /// Copies that there should be of each bucket.
    fn copies(&self, settings: &Settings) -> usize {
        let clustered = self.client.server_info().cluster.is_some();
        settings.replicas.unwrap_or(if clustered { 3 } else { 1 })
    }

    /// Opens a bucket, and makes it if it is not there. One of another version gets this one's expiry.
    async fn open(&self, bucket: Bucket, replicas: usize) -> Result<Stream, Problem> {
        let name = self.stream_name(bucket);
        let max_age = match bucket {
            Bucket::Nodes => NODE_MAX_AGE,
            Bucket::Streams => Duration::ZERO,
            Bucket::Heartbeats => HEARTBEAT_MAX_AGE,
        };
        if let Ok(stream) = self.context.get_stream(&name).await {
            let config = &stream.cached_info().config;
            if config.max_age != max_age {
                let config = stream::Config { max_age, duplicate_window: max_age, ..config.clone() };
                // A user without the right works with what there is, as with buckets of another version.
                if let Err(error) = self.context.update_stream(config).await {
                    warn!(bucket = name, %error, "directory: the expiry of a bucket could not be changed");
                }
            }
            return Ok(stream);
        }
        let config = |num_replicas| stream::Config {
            name: name.clone(),
            subjects: vec![format!("$KV.{}.>", self.bucket(bucket))],
            max_messages_per_subject: 1,
            max_bytes: BUCKET_BYTES_MAX,
            max_messages: BUCKET_ENTRIES_MAX,
            max_message_size: i32::try_from(VALUE_BYTES_MAX).expect("a few kilobytes") + HEADER_BYTES_MAX,
            max_age,
            duplicate_window: max_age,
            discard: DiscardPolicy::New,
            storage: StorageType::Memory,
            num_replicas,
            allow_rollup: true,
            deny_delete: true,
            ..stream::Config::default()
        };
        let made = match self.context.create_stream(config(replicas)).await {
            // Not so many servers are there yet. `add_copies` makes up for it.
            Err(_) if replicas > 1 => self.context.create_stream(config(1)).await,
            made => made,
        };
        match made {
            Ok(_) => Ok(self.context.get_stream(&name).await?),
            // Another node may have made it meanwhile, with other limits.
            Err(error) => self.context.get_stream(&name).await.map_err(|_| error.into()),
        }
    }

    /// Has more copies made of buckets that were made while servers were away. Says whether some lack still.
    async fn add_copies(&self, replicas: usize) -> bool {
        let mut lack = false;
        for bucket in [Bucket::Nodes, Bucket::Streams, Bucket::Heartbeats] {
            let Ok(stream) = self.context.get_stream(self.stream_name(bucket)).await else { return true };
            let config = stream.cached_info().config.clone();
            if config.num_replicas < replicas {
                let config = stream::Config { num_replicas: replicas, ..config };
                lack |= self.context.update_stream(config).await.is_err();
            }
        }
        lack
    }

    /// All that is in the bucket, and then all that comes; and how much there is.
    async fn watch(&self, bucket: Bucket, stream: &Stream) -> Result<(push::Ordered, u64), Problem> {
        let consumer = stream
            .create_consumer(push::OrderedConfig {
                deliver_subject: self.client.new_inbox(),
                filter_subject: format!("$KV.{}.>", self.bucket(bucket)),
                replay_policy: ReplayPolicy::Instant,
                deliver_policy: DeliverPolicy::LastPerSubject,
                ..push::OrderedConfig::default()
            })
            .await?;
        let pending = consumer.cached_info().num_pending;
        Ok((consumer.messages().await?, pending))
    }

    /// Hands everything on to the machine until something goes wrong.
    pub(crate) async fn session(&self, shared: &Shared, settings: &Settings) -> Problem {
        match self.run(shared, settings).await {
            Ok(()) => "the subscription has ended".into(),
            Err(problem) => problem,
        }
    }

    async fn run(&self, shared: &Shared, settings: &Settings) -> Result<(), Problem> {
        let copies = self.copies(settings);
        let begin = async {
            let nodes = self.open(Bucket::Nodes, copies).await?;
            let streams = self.open(Bucket::Streams, copies).await?;
            self.open(Bucket::Heartbeats, copies).await?;
            Ok::<_, Problem>((
                self.watch(Bucket::Nodes, &nodes).await?,
                self.watch(Bucket::Streams, &streams).await?,
            ))
        };
        // Requests have a time limit of their own; a subscription, which waits for the connection, has none.
        let ((mut nodes, nodes_pending), (mut streams, streams_pending)) =
            timeout(BEGIN_WITHIN, begin).await??;
        shared.input(Input::Began);
        for (bucket, watch, pending) in
            [(Bucket::Nodes, &mut nodes, nodes_pending), (Bucket::Streams, &mut streams, streams_pending)]
        {
            let mut pending = pending;
            while pending > 0 {
                let Some(message) = timeout(NEXT_WITHIN, watch.next()).await? else { return Ok(()) };
                pending = self.hand_on(shared, bucket, &message?)?;
            }
        }
        shared.input(Input::Synced);
        let mut lack = copies > 1;
        let mut look_at_copies = tokio::time::interval(LOOK_AT_COPIES_EVERY);
        loop {
            tokio::select! {
                _ = look_at_copies.tick(), if lack => lack = self.add_copies(copies).await,
                message = nodes.next() => {
                    let Some(message) = message else { return Ok(()) };
                    self.hand_on(shared, Bucket::Nodes, &message?)?;
                }
                message = streams.next() => {
                    let Some(message) = message else { return Ok(()) };
                    self.hand_on(shared, Bucket::Streams, &message?)?;
                }
            }
        }
    }

    /// Gives a message to the machine; returns how many follow that are there already.
    fn hand_on(&self, shared: &Shared, bucket: Bucket, message: &jetstream::Message) -> Result<u64, Problem> {
        let info = message.info()?;
        let prefix = format!("$KV.{}.", self.bucket(bucket));
        if let Some(key) = message.subject.strip_prefix(&prefix) {
            let value = value_of(message.headers.as_ref(), &message.payload);
            let (key, revision) = (key.to_owned(), info.stream_sequence);
            shared.input(Input::Seen { bucket, key, revision, value });
        }
        Ok(info.pending)
    }

    pub(crate) async fn write(&self, key: &Key, value: Option<Bytes>, expected: Option<u64>) -> Outcome {
        let mut headers = HeaderMap::new();
        if let Some(expected) = expected {
            headers.insert(EXPECTED, expected.to_string());
        }
        if value.is_none() {
            headers.insert(OPERATION, "DEL");
        }
        let written = async {
            let subject = self.subject(key);
            self.context.publish_with_headers(subject, headers, value.unwrap_or_default()).await?.await
        };
        match timeout(WRITE_WITHIN, written).await {
            Ok(Ok(done)) => Outcome::Done(done.sequence),
            Ok(Err(error)) => match error.kind() {
                PublishErrorKind::WrongLastSequence => self.current(key).await,
                PublishErrorKind::Other | PublishErrorKind::MaxPayloadExceeded => Outcome::Refused,
                _ => Outcome::Failed,
            },
            Err(_) => Outcome::Failed,
        }
    }

    /// Leaves a heartbeat of `instance`, and finds out whose there are: an entry each, without a value,
    /// which nobody watches. That one is stored needs no answer; the next look shows it.
    pub(crate) async fn beat(&self, instance: u64) -> Option<Vec<u64>> {
        let prefix = format!("$KV.{}.", self.bucket(Bucket::Heartbeats));
        let look = async {
            self.client.publish(self.heartbeat_subject(instance), Bytes::new()).await.ok()?;
            let stream = self.context.get_stream_no_info(self.stream_name(Bucket::Heartbeats)).await.ok()?;
            let heartbeats = stream.info_with_subjects(">").await.ok()?;
            // Up to the last one: beyond it, it would ask for more.
            let count = usize::try_from(heartbeats.info.state.subjects_count).ok()?;
            heartbeats.take(count).try_collect::<Vec<_>>().await.ok()
        };
        let heartbeats = timeout(REQUEST_WITHIN, look).await.ok().flatten()?;
        let instance = |subject: &str| u64::from_str_radix(subject.strip_prefix(&prefix)?, 16).ok();
        Some(heartbeats.iter().filter_map(|(subject, _)| instance(subject)).collect())
    }

    /// What the key has, for a write that expected something else.
    async fn current(&self, key: &Key) -> Outcome {
        let get = async {
            let stream = self.context.get_stream_no_info(self.stream_name(key.bucket())).await.ok()?;
            match stream.get_last_raw_message_by_subject(&self.subject(key)).await {
                Ok(message) => {
                    let value = value_of(Some(&message.headers), &message.payload);
                    Some(Outcome::Conflict(Some((message.sequence, value))))
                }
                Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                    Some(Outcome::Conflict(None))
                }
                Err(_) => None,
            }
        };
        timeout(WRITE_WITHIN, get).await.ok().flatten().unwrap_or(Outcome::Failed)
    }

    /// Answers who asks whether this instance is there, as long as there is a connection. Apart from
    /// sessions, because JetStream may have no leader for this node's server and have one for those that ask.
    pub(crate) async fn answer_questions(&self, instance: u64) -> Result<(), Problem> {
        let mut questions = self.client.subscribe(self.ask_subject(instance)).await?;
        while let Some(question) = questions.next().await {
            if let Some(reply) = question.reply {
                self.client.publish(reply, Bytes::new()).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn ask(&self, instance: u64) -> Answer {
        let asked = self.client.request(self.ask_subject(instance), Bytes::new());
        match timeout(ANSWER_WITHIN, asked).await {
            Ok(Ok(_)) => Answer::Alive,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => Answer::Nobody,
            _ => Answer::Silence,
        }
    }

    /// Removes the key's messages up to `revision`. If that fails, a few bytes stay until the next restart.
    pub(crate) async fn purge(&self, key: &Key, revision: u64) {
        if let Ok(stream) = self.context.get_stream_no_info(self.stream_name(key.bucket())).await {
            let _ = stream.purge().sequence(revision + 1).filter(self.subject(key)).await;
        }
    }
}

fn value_of(headers: Option<&HeaderMap>, payload: &Bytes) -> Option<Bytes> {
    let deleted = headers.and_then(|headers| headers.get(OPERATION)).is_some();
    (!deleted).then(|| payload.clone())
}
