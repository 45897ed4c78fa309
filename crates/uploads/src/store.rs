//! The store: objects by key, with the hash of their content.
//!
//! In S3 the hash is the object's metadata; a directory has none, so its file is read. What a store says of
//! an object without the hash is settled by reading the object as well.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::local::LocalFileSystem;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, CredentialProvider, Error, GetOptions, MultipartUpload,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, RetryConfig,
};
use sha2::{Digest, Sha256};

use crate::bandwidth::Bandwidth;
use crate::client::Connector;
use crate::settings::{Credentials, Destination, UploadSettings};
use crate::status::{Cause, Failure};

/// Name of the hash in the metadata of an object: `x-amz-meta-sha256`.
const HASH: &str = "sha256";
/// Characters of an explanation.
const WHY_CHARACTERS_MAX: usize = 300;

#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    /// Uploads in parts that outlive this process; a directory has none.
    s3: Option<Arc<AmazonS3>>,
    credentials: Option<Credentials>,
    prefix: String,
    label: String,
    /// The store knows no `If-None-Match`: what is there is looked up before alone.
    is_unconditional: AtomicBool,
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) bytes: u64,
    pub(crate) sha256: Option<String>,
    pub(crate) e_tag: Option<String>,
}

impl Store {
    pub(crate) fn new(settings: &UploadSettings) -> Result<Self, String> {
        let (objects, s3, credentials, mut label): (Arc<dyn ObjectStore>, _, _, _) = match &settings
            .destination
        {
            Destination::Directory(path) => {
                let explain = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
                std::fs::create_dir_all(path).map_err(|error| explain(&error))?;
                let local = LocalFileSystem::new_with_prefix(path).map_err(|error| explain(&error))?;
                // Nobody else removes the folders of streams that were deleted.
                let local = local.with_fsync(true).with_automatic_cleanup(true);
                (Arc::new(local), None, None, format!("file://{}", path.display()))
            }
            Destination::S3(s3) => {
                let bandwidth = Arc::new(Bandwidth::new(settings.bytes_per_second));
                let connector = Connector::new(bandwidth, settings.stall_timeout, &s3.extra_roots_pem)?;
                // Failures are seen, waited for and shown here; below, a request is tried once.
                let once = RetryConfig {
                    backoff: BackoffConfig::default(),
                    max_retries: 0,
                    retry_timeout: Duration::ZERO,
                };
                let mut builder = AmazonS3Builder::new()
                    .with_bucket_name(&s3.bucket)
                    .with_region(&s3.region)
                    .with_virtual_hosted_style_request(!s3.path_style)
                    .with_credentials(Arc::new(CurrentKeys(s3.credentials.clone())))
                    .with_retry(once)
                    // A request of its own for each: not all servers know the other.
                    .with_disable_bulk_delete(true)
                    .with_http_connector(connector);
                let mut label = format!("s3://{}", s3.bucket);
                if let Some(endpoint) = &s3.endpoint {
                    let allow_http = endpoint.starts_with("http://");
                    builder = builder.with_endpoint(endpoint).with_allow_http(allow_http);
                    label = format!("{}/{}", endpoint.trim_end_matches('/'), s3.bucket);
                }
                let store = Arc::new(builder.build().map_err(|error| error.to_string())?);
                (Arc::clone(&store) as Arc<dyn ObjectStore>, Some(store), Some(s3.credentials.clone()), label)
            }
        };
        if !settings.prefix.is_empty() {
            label = format!("{label}/{}", settings.prefix);
        }
        let (prefix, is_unconditional) = (settings.prefix.clone(), AtomicBool::new(false));
        Ok(Self { objects, s3, credentials, prefix, label, is_unconditional })
    }

    /// What the store is called in the API, in logs and in the journal: nothing of it is secret.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Key of the file that is at `path` below its directory.
    pub(crate) fn key(&self, path: &str) -> Result<Path, Failure> {
        let key = if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) };
        Path::parse(key)
            .map_err(|error| Failure::new(Cause::File, format!("not a name for an object: {error}")))
    }

    /// Whether large files are sent in parts that the store keeps over a restart.
    pub(crate) fn resumes(&self) -> bool {
        self.s3.is_some()
    }

    pub(crate) async fn head(&self, key: &Path) -> Result<Option<Object>, Failure> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.objects.get_opts(key, options).await {
            Ok(found) => {
                let sha256 = found.attributes.get(&Attribute::Metadata(HASH.into()));
                Ok(Some(Object {
                    bytes: found.meta.size,
                    sha256: sha256.map(|value| value.as_ref().to_owned()),
                    e_tag: found.meta.e_tag,
                }))
            }
            Err(error) => match self.explain(&error) {
                // A bucket that is not there answers HEAD in the same way: sending will tell.
                Failure { cause: Cause::Missing, .. } => Ok(None),
                failure => Err(failure),
            },
        }
    }

    /// Reads an object for its hash.
    pub(crate) async fn read_hash(&self, key: &Path) -> Result<String, Failure> {
        let found = self.objects.get(key).await.map_err(|error| self.explain(&error))?;
        let (mut content, mut hash) = (found.into_stream(), Sha256::new());
        while let Some(bytes) = content.next().await {
            hash.update(bytes.map_err(|error| self.explain(&error))?);
        }
        Ok(hex(&hash.finalize()))
    }

    /// Sends an object that is not there yet, in one request. Its `ETag`.
    pub(crate) async fn put(
        &self,
        key: &Path,
        content: Bytes,
        sha256: &str,
    ) -> Result<Option<String>, Failure> {
        self.create(key, content, self.attributes(key, sha256)).await
    }

    /// The same for a segment, which caches may keep.
    pub(crate) async fn put_segment(
        &self,
        key: &Path,
        content: Bytes,
        sha256: &str,
    ) -> Result<Option<String>, Failure> {
        let mut attributes = self.attributes(key, sha256);
        if self.s3.is_some() {
            attributes.insert(Attribute::CacheControl, "public, max-age=31536000, immutable".into());
        }
        self.create(key, content, attributes).await
    }

    /// Writes a playlist, over the one that is there.
    pub(crate) async fn replace(&self, key: &Path, content: Bytes) -> Result<(), Failure> {
        let mut attributes = Attributes::new();
        if self.s3.is_some() {
            attributes.insert(Attribute::ContentType, "application/vnd.apple.mpegurl".into());
            attributes.insert(Attribute::CacheControl, "max-age=1".into());
        }
        let options = PutOptions { mode: PutMode::Overwrite, attributes, ..PutOptions::default() };
        let put = self.objects.put_opts(key, PutPayload::from_bytes(content), options).await;
        put.map(|_| ()).map_err(|error| self.explain(&error))
    }

    /// Deletes an object; one that is not there is none.
    pub(crate) async fn delete(&self, key: &Path) -> Result<(), Failure> {
        match self.objects.delete(key).await.map_err(|error| self.explain(&error)) {
            Err(Failure { cause: Cause::Missing, .. }) => Ok(()),
            deleted => deleted,
        }
    }

    /// Names of all objects below a folder.
    pub(crate) fn list(
        &self,
        folder: &Path,
    ) -> impl Stream<Item = Result<Path, Error>> + Send + Unpin + 'static {
        self.objects.list(Some(folder)).map(|object| object.map(|object| object.location))
    }

    async fn create(
        &self,
        key: &Path,
        content: Bytes,
        attributes: Attributes,
    ) -> Result<Option<String>, Failure> {
        let payload = PutPayload::from_bytes(content);
        if !self.is_unconditional.load(Ordering::Relaxed) {
            let options =
                PutOptions { mode: PutMode::Create, attributes: attributes.clone(), ..PutOptions::default() };
            match self.objects.put_opts(key, payload.clone(), options).await {
                Ok(put) => return Ok(put.e_tag),
                Err(error) if status(&error.to_string()) == Some(501) => {
                    tracing::info!(store = self.label, "the store takes no conditional requests");
                    self.is_unconditional.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(self.explain(&error)),
            }
        }
        let options = PutOptions { attributes, ..PutOptions::default() };
        let put = self.objects.put_opts(key, payload, options).await;
        put.map(|put| put.e_tag).map_err(|error| self.explain(&error))
    }

    /// Begins an upload in parts that outlives this process.
    pub(crate) async fn begin(&self, key: &Path, sha256: &str) -> Result<String, Failure> {
        let options = PutMultipartOptions {
            attributes: self.attributes(key, sha256),
            ..PutMultipartOptions::default()
        };
        let begun = self.s3().create_multipart_opts(key, options).await;
        begun.map_err(|error| self.explain(&error))
    }

    pub(crate) async fn put_part(
        &self,
        key: &Path,
        upload: &str,
        index: usize,
        content: Bytes,
    ) -> Result<String, Failure> {
        let payload = PutPayload::from_bytes(content);
        let part = self.s3().put_part(key, &upload.to_owned(), index, payload).await;
        part.map(|part| part.content_id).map_err(|error| self.explain(&error))
    }

    pub(crate) async fn complete(
        &self,
        key: &Path,
        upload: &str,
        parts: impl Iterator<Item = &String>,
    ) -> Result<Option<String>, Failure> {
        let parts = parts.map(|e_tag| PartId { content_id: e_tag.clone() }).collect();
        let done = self.s3().complete_multipart(key, &upload.to_owned(), parts).await;
        done.map(|done| done.e_tag).map_err(|error| self.explain(&error))
    }

    pub(crate) async fn abort(&self, key: &Path, upload: &str) -> Result<(), Failure> {
        let aborted = self.s3().abort_multipart(key, &upload.to_owned()).await;
        aborted.map_err(|error| self.explain(&error))
    }

    /// Begins to copy a large file to a directory.
    pub(crate) async fn copy(&self, key: &Path) -> Result<Box<dyn MultipartUpload>, Failure> {
        self.objects.put_multipart(key).await.map_err(|error| self.explain(&error))
    }

    fn s3(&self) -> &AmazonS3 {
        self.s3.as_ref().expect("asked of stores that resume")
    }

    fn attributes(&self, key: &Path, sha256: &str) -> Attributes {
        if self.s3.is_none() {
            return Attributes::new();
        }
        let content_type = match key.extension() {
            Some("mp4" | "m4s") => "video/mp4",
            Some("flv") => "video/x-flv",
            _ => "application/octet-stream",
        };
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata(HASH.into()), sha256.to_owned().into());
        attributes.insert(Attribute::ContentType, content_type.into());
        attributes
    }

    /// What an error means and what to say of it, without secrets.
    pub(crate) fn explain(&self, error: &Error) -> Failure {
        let text = error.to_string();
        let (status, transport) = (status(&text), transport(error));
        let cause = match (error, status, transport) {
            (_, _, Some(HttpErrorKind::Timeout)) => Cause::Timeout,
            (_, _, Some(_)) => Cause::Unreachable,
            (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, ..) => Cause::Denied,
            (Error::NotFound { .. }, ..) => Cause::Missing,
            (Error::AlreadyExists { .. } | Error::Precondition { .. }, ..) => Cause::Conflict,
            (_, Some(401 | 403), _) => Cause::Denied,
            (_, Some(404), _) => Cause::Missing,
            (_, Some(409 | 412), _) => Cause::Conflict,
            (_, Some(400..=499), _) => Cause::Refused,
            _ => Cause::Server,
        };
        let mut why = match (status, transport) {
            (None, Some(_)) => deepest(error),
            (Some(status), _) => format!("status {status}"),
            (None, None) => deepest(error),
        };
        // What S3 says, in its XML.
        for element in ["Code", "Message"] {
            let said = text.split_once(&format!("<{element}>")).and_then(|(_, rest)| rest.split_once("</"));
            if let Some((said, _)) = said {
                why.push_str(": ");
                why.push_str(said);
            }
        }
        if let Some(keys) = self.credentials.as_ref().and_then(|credentials| credentials.keys().ok()) {
            why = keys.redact(&why);
        }
        let why: String = why.chars().filter(|c| !c.is_control()).take(WHY_CHARACTERS_MAX).collect();
        Failure::new(cause, why)
    }
}

/// The status in the text of an error: the type that has it is not public.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn transport(error: &Error) -> Option<HttpErrorKind> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return Some(http.kind());
        }
        source = error.source();
    }
    None
}

fn deepest(error: &Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys as they are when a request is signed.
#[derive(Debug)]
struct CurrentKeys(Credentials);

#[async_trait]
impl CredentialProvider for CurrentKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let keys = self
            .0
            .keys()
            .map_err(|reason| Error::Unauthenticated { path: String::new(), source: reason.into() })?;
        Ok(Arc::new(AwsCredential { key_id: keys.id, secret_key: keys.secret, token: keys.token }))
    }
}
