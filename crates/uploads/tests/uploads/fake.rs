//! A store in this process that speaks S3, keeps objects in memory, and fails as it was asked to.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is answered with a status.
    Status(u16),
    /// It is never answered.
    Hang,
    /// The connection is closed before the body was read.
    Reset,
    /// It is done, and the connection is closed without an answer.
    LoseAnswer,
    /// It says that it was done, and was not.
    Forget,
    /// It is done with half of the content.
    Truncate,
    /// The answer takes a while.
    Slow,
}

/// Which requests a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Head,
    Put,
    Begin,
    Part,
    Complete,
    /// A playlist.
    Playlist,
    Delete,
    List,
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) content: Vec<u8>,
    pub(crate) sha256: Option<String>,
}

#[derive(Debug, Default)]
struct Upload {
    key: String,
    sha256: Option<String>,
    parts: BTreeMap<usize, Vec<u8>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, StoredObject>,
    uploads: BTreeMap<String, Upload>,
    uploads_begun: usize,
    faults: VecDeque<(On, usize, Fault)>,
    log: Vec<(On, String)>,
    at_once: usize,
    at_once_max: usize,
    drops_metadata: bool,
    is_unconditional: bool,
    playlists: Vec<(String, String)>,
    untrue: Vec<String>,
}

/// The store. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FakeStore {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    _running: oneshot::Sender<()>,
}

impl FakeStore {
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (running, ended) = oneshot::channel::<()>();
        let (sender, address) = std::sync::mpsc::channel();
        let of_server = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                sender.send(listener.local_addr().expect("bound")).expect("somebody waits");
                tokio::select! {
                    () = accept(listener, of_server) => {}
                    _ = ended => {}
                }
            });
        });
        Self { address: address.recv().expect("it listens"), state, _running: running }
    }

    /// The next `times` requests of a kind fail in this way.
    pub(crate) fn fail(&self, on: On, times: usize, fault: Fault) {
        self.state().faults.push_back((on, times, fault));
    }

    pub(crate) fn recover(&self) {
        self.state().faults.clear();
    }

    pub(crate) fn drop_metadata(&self) {
        self.state().drops_metadata = true;
    }

    pub(crate) fn refuse_conditions(&self) {
        self.state().is_unconditional = true;
    }

    pub(crate) fn insert(&self, key: &str, content: &[u8]) {
        let object = StoredObject { content: content.to_vec(), sha256: None };
        self.state().objects.insert(key.to_owned(), object);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.state().objects.remove(key);
    }

    pub(crate) fn object(&self, key: &str) -> Option<StoredObject> {
        self.state().objects.get(key).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Uploads in parts that were begun and neither completed nor aborted.
    pub(crate) fn open_uploads(&self) -> usize {
        self.state().uploads.len()
    }

    /// Forgets uploads in parts, as buckets with a rule for old ones do.
    pub(crate) fn expire_uploads(&self) {
        self.state().uploads.clear();
    }

    /// Playlists in the order in which they were written: key and text.
    pub(crate) fn playlists(&self) -> Vec<(String, String)> {
        self.state().playlists.clone()
    }

    /// What a playlist has named, when it was written, or what was deleted while one named it.
    pub(crate) fn untrue(&self) -> Vec<String> {
        self.state().untrue.clone()
    }

    /// Requests of a kind so far.
    pub(crate) fn count(&self, on: On) -> usize {
        self.state().log.iter().filter(|(kind, _)| on == On::Any || *kind == on).count()
    }

    /// Most requests that were in progress at one time.
    pub(crate) fn at_once_max(&self) -> usize {
        self.state().at_once_max
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic with it")
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&state)));
            // An error is a connection that was closed, by either side.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

/// Closes the connection: hyper does that for a service that fails.
#[derive(Debug)]
struct Close;

impl std::fmt::Display for Close {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed on purpose")
    }
}

impl std::error::Error for Close {}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Close> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let key = parts.uri.path().trim_start_matches('/').split_once('/').map_or("", |(_, key)| key).to_owned();
    let on = match (&parts.method, query.as_str()) {
        (&Method::HEAD, _) => On::Head,
        (&Method::POST, "uploads" | "uploads=") => On::Begin,
        (&Method::POST, _) => On::Complete,
        (&Method::PUT, "") if key.ends_with(".m3u8") => On::Playlist,
        (&Method::DELETE, query) if !query.contains("uploadId") => On::Delete,
        (&Method::GET, query) if query.contains("list-type") => On::List,
        (&Method::PUT, "") => On::Put,
        (&Method::PUT, _) => On::Part,
        _ => On::Any,
    };
    let fault = {
        let mut state = state.lock().expect("no panic with it");
        state.log.push((on, key.clone()));
        let index = state.faults.iter().position(|(of, ..)| *of == on || *of == On::Any);
        index.map(|index| {
            let (_, times, fault) = &mut state.faults[index];
            *times = times.saturating_sub(1);
            let (times, fault) = (*times, *fault);
            if times == 0 {
                state.faults.remove(index);
            }
            fault
        })
    };
    match fault {
        Some(Fault::Reset) => return Err(Close),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Status(status)) => {
            // What stores say when they refuse keys has the keys.
            let id = parts.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or("");
            let text = format!("<Error><Code>Injected</Code><Message>{id}</Message></Error>");
            let _ = body.collect().await;
            return Ok(reply(status, text));
        }
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_millis(100)).await,
        _ => {}
    }
    {
        let mut state = state.lock().expect("no panic with it");
        state.at_once += 1;
        state.at_once_max = state.at_once_max.max(state.at_once);
    }
    let content = body.collect().await;
    let mut state = state.lock().expect("no panic with it");
    state.at_once -= 1;
    let mut content = content.map_err(|_| Close)?.to_bytes().to_vec();
    if fault == Some(Fault::Truncate) {
        content.truncate(content.len() / 2);
    }
    if fault == Some(Fault::Forget) {
        return Ok(tagged(200, &content));
    }
    let done = handle(&mut state, on, &parts.headers, &parts.method, (&key, &query), content);
    if fault == Some(Fault::LoseAnswer) { Err(Close) } else { Ok(done) }
}

fn handle(
    state: &mut State,
    on: On,
    headers: &HeaderMap,
    method: &Method,
    (key, query): (&str, &str),
    content: Vec<u8>,
) -> Response<Full<Bytes>> {
    let sha256 = headers.get("x-amz-meta-sha256").map(|value| value.to_str().expect("digits").to_owned());
    let sha256 = sha256.filter(|_| !state.drops_metadata);
    let of_query = |name: &str| {
        query.split('&').find_map(|pair| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
    };
    match on {
        On::Head => match state.objects.get(key) {
            Some(object) => {
                let mut found = tagged(200, &object.content);
                let length = object.content.len().to_string();
                found.headers_mut().insert("content-length", length.parse().expect("digits"));
                if let Some(sha256) = &object.sha256 {
                    found.headers_mut().insert("x-amz-meta-sha256", sha256.parse().expect("digits"));
                }
                *found.body_mut() = Full::default();
                found
            }
            None => reply(404, String::new()),
        },
        On::Put => {
            let is_conditional = headers.contains_key("if-none-match");
            if is_conditional && state.is_unconditional {
                return reply(501, "<Error><Code>NotImplemented</Code></Error>".to_owned());
            }
            if is_conditional && state.objects.contains_key(key) {
                return reply(412, "<Error><Code>PreconditionFailed</Code></Error>".to_owned());
            }
            let done = tagged(200, &content);
            state.objects.insert(key.to_owned(), StoredObject { content, sha256 });
            done
        }
        On::Playlist => {
            let text = String::from_utf8(content.clone()).expect("text");
            let missing = named(key, &text).into_iter().filter(|name| !state.objects.contains_key(name));
            state.untrue.extend(missing.map(|name| format!("{key} names {name}, which is not there")));
            state.playlists.push((key.to_owned(), text));
            let done = tagged(200, &content);
            state.objects.insert(key.to_owned(), StoredObject { content, sha256: None });
            done
        }
        On::Delete => {
            state.objects.remove(key);
            let naming = state.objects.iter().filter(|(name, _)| name.ends_with(".m3u8"));
            let naming = naming.filter(|(name, object)| {
                named(name, &String::from_utf8_lossy(&object.content)).iter().any(|name| name == key)
            });
            let untrue = naming.map(|(name, _)| format!("{key} is deleted, and {name} names it"));
            let untrue: Vec<_> = untrue.collect();
            state.untrue.extend(untrue);
            reply(204, String::new())
        }
        On::List => {
            let prefix = of_query("prefix").unwrap_or_default().replace("%2F", "/");
            let found = state.objects.iter().filter(|(key, _)| key.starts_with(&prefix));
            let found = found.map(|(key, object)| {
                let bytes = object.content.len();
                let date = "2026-11-27T19:00:00.000Z";
                let about = format!("<Size>{bytes}</Size><LastModified>{date}</LastModified>");
                format!("<Contents><Key>{key}</Key>{about}</Contents>")
            });
            let found: String = found.collect();
            reply(200, format!("<ListBucketResult>{found}</ListBucketResult>"))
        }
        On::Begin => {
            state.uploads_begun += 1;
            let id = format!("upload-{}", state.uploads_begun);
            let upload = Upload { key: key.to_owned(), sha256, parts: BTreeMap::new() };
            state.uploads.insert(id.clone(), upload);
            reply(
                200,
                format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                ),
            )
        }
        On::Part => {
            let number: usize = of_query("partNumber").and_then(|n| n.parse().ok()).expect("a number");
            let upload = of_query("uploadId").and_then(|id| state.uploads.get_mut(&id));
            let Some(upload) = upload.filter(|upload| upload.key == key) else { return no_upload() };
            let done = tagged(200, &content);
            upload.parts.insert(number, content);
            done
        }
        On::Complete => {
            let upload = of_query("uploadId").and_then(|id| state.uploads.remove(&id));
            let Some(upload) = upload else { return no_upload() };
            let content: Vec<u8> = upload.parts.into_values().flatten().collect();
            let e_tag = e_tag(&content);
            state.objects.insert(key.to_owned(), StoredObject { content, sha256: upload.sha256 });
            reply(
                200,
                format!(
                    "<CompleteMultipartUploadResult><ETag>{e_tag}</ETag></CompleteMultipartUploadResult>"
                ),
            )
        }
        On::Any if *method == Method::DELETE => {
            let aborted = of_query("uploadId").and_then(|id| state.uploads.remove(&id));
            if aborted.is_some() { reply(204, String::new()) } else { no_upload() }
        }
        On::Any => match state.objects.get(key) {
            Some(object) => {
                let mut found = tagged(200, &object.content);
                *found.body_mut() = Full::new(object.content.clone().into());
                found
            }
            None => reply(404, "<Error><Code>NoSuchKey</Code></Error>".to_owned()),
        },
    }
}

/// Keys of what a playlist has files for.
fn named(key: &str, text: &str) -> Vec<String> {
    let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut is_gap = false;
    let mut names = Vec::new();
    for line in text.lines() {
        is_gap |= line == "#EXT-X-GAP";
        let uri = match line.split_once("URI=\"") {
            Some((_, rest)) => rest.split('"').next().expect("a quote ends it"),
            None if line.starts_with('#') => continue,
            None if std::mem::take(&mut is_gap) => continue,
            None => line,
        };
        names.push(format!("{folder}/{uri}"));
    }
    names
}

fn no_upload() -> Response<Full<Bytes>> {
    reply(404, "<Error><Code>NoSuchUpload</Code></Error>".to_owned())
}

fn e_tag(content: &[u8]) -> String {
    format!("\"{:08x}\"", crc32fast::hash(content))
}

fn tagged(status: u16, content: &[u8]) -> Response<Full<Bytes>> {
    let mut response = reply(status, String::new());
    response.headers_mut().insert("etag", e_tag(content).parse().expect("printable"));
    let date = "Fri, 27 Nov 2026 19:00:00 GMT".parse().expect("printable");
    response.headers_mut().insert("last-modified", date);
    response
}

fn reply(status: u16, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response
}
