//! The operator's server that hooks ask, scripted: it notes what it is asked, and says what a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use super::eventually;

/// What it says to a request.
pub(crate) enum Reply {
    /// An answer of 200 with this body.
    Json(Value),
    /// These bytes as they are, and then the connection is closed.
    Bytes(Vec<u8>),
    /// Nothing, until [`HookServer::let_go`]; then nothing either.
    Hang,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Path of the URL.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// As it came.
    pub(crate) body: Vec<u8>,
    /// Which connection it came by, from 0.
    pub(crate) connection: usize,
}

impl Call {
    /// Value of a header field.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

type Answer = dyn Fn(&Call) -> Reply + Send + Sync;

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    connections: usize,
    is_let_go: bool,
}

struct Shared {
    answer: Mutex<Arc<Answer>>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A server on a free port of this machine. Its threads end with the test's process.
pub(crate) struct HookServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl HookServer {
    /// One that says this.
    pub(crate) fn start(answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            answer: Mutex::new(Arc::new(answer)),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let of_listener = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&of_listener);
                let connection = {
                    let mut state = shared.state();
                    state.connections += 1;
                    state.connections - 1
                };
                thread::spawn(move || shared.serve(socket, connection));
            }
        });
        Self { address, shared }
    }

    /// From now on it says this.
    pub(crate) fn set_answer(&self, answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) {
        *self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(answer);
    }

    /// URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A section of the configuration with these events, whose paths are their names.
    pub(crate) fn config(&self, events: &[&str], more: &str) -> String {
        let urls = events.iter().map(|event| format!("{event} = \"{}\"\n", self.url(&format!("/{event}"))));
        format!("[hooks]\nsecret = \"{SECRET}\"\n{}{more}\n", urls.collect::<String>())
    }

    /// Requests so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Events of this name so far, those of batches too.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        let calls = self.calls().into_iter().map(|call| call.json());
        let events = calls.flat_map(|json| match json["events"].as_array() {
            Some(events) => events.clone(),
            None => vec![json],
        });
        events.filter(|event| event["event"] == name).collect()
    }

    /// Waits until it has been told so many events of this name.
    pub(crate) fn wait_for(&self, name: &str, count: usize) -> Vec<Value> {
        eventually(&format!("{count} {name}"), || {
            let events = self.events(name);
            (events.len() >= count).then_some(events)
        })
    }

    /// Requests that hang go on.
    pub(crate) fn let_go(&self) {
        self.shared.state().is_let_go = true;
        self.shared.changed.notify_all();
    }
}

/// Key of the signatures.
pub(crate) const SECRET: &str = "a key that both sides have";

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, socket: TcpStream, connection: usize) {
        let mut reader = BufReader::new(socket);
        while let Some(call) = read_call(&mut reader, connection) {
            self.state().calls.push(call.clone());
            let answer = Arc::clone(&self.answer.lock().unwrap_or_else(PoisonError::into_inner));
            match answer(&call) {
                Reply::Json(json) => {
                    let body = json.to_string();
                    let length = body.len();
                    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                    if reader.get_mut().write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
                Reply::Bytes(bytes) => {
                    let _ = reader.get_mut().write_all(&bytes);
                    return;
                }
                Reply::Hang => {
                    let state = self.state();
                    drop(self.changed.wait_while(state, |state| !state.is_let_go));
                    return;
                }
            }
        }
    }
}

fn read_call(reader: &mut BufReader<TcpStream>, connection: usize) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().expect("a number"))];
    reader.read_exact(&mut body).ok()?;
    Some(Call { path, headers, body, connection })
}
