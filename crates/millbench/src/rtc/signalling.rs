//! Signalling: WHIP (RFC 9725), WHEP, and the HTTP interface of Janus.
//!
//! Requests block, so a few threads beside the media loop make them. They take [`Job`]s and return
//! [`Signalled`]s; `describe.rs` interprets the descriptions. A session's jobs are done in order by
//! one thread.
//!
//! A Janus session takes several steps: create, attach to the streaming plugin, ask to watch, wait
//! for the offer; and once there is an answer, start. The offer arrives in response to a request
//! for events, which stays open until there is one. Publishers create, attach to the videoroom
//! plugin, join a room with an offer, and wait for the answer in the same way.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use serde_json::{Value, json};

use super::http::{Connection, Request, Response, location_path};
use crate::net::HttpUrl;

/// A request to a server.
#[derive(Debug)]
pub struct Job {
    /// Its session.
    pub session: usize,
    /// What.
    pub ask: Ask,
}

/// The kinds of requests.
#[derive(Debug)]
pub enum Ask {
    /// Post an offer (WHIP, WHEP).
    Offer {
        /// Where.
        url: HttpUrl,
        /// The session description.
        sdp: String,
    },
    /// Publish into a room of Janus's videoroom plugin.
    Join {
        /// Number of the room.
        room: u64,
        /// The session description.
        sdp: String,
    },
    /// Watch a mountpoint of Janus's streaming plugin.
    Watch {
        /// Number of the mountpoint.
        mountpoint: u64,
    },
    /// Start the stream that [`Ask::Watch`] has offered.
    Start {
        /// Where, as the offer's [`Answer::location`] says.
        location: String,
        /// The session description.
        sdp: String,
    },
    /// End a session (WHIP, WHEP).
    Delete {
        /// Where, as [`Answer::location`] says.
        location: String,
    },
}

/// What a server answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its session description, empty after [`Ask::Start`] and [`Ask::Delete`].
    pub sdp: String,
    /// Path of the session at the server; empty after [`Ask::Join`], whose session ends with the server.
    pub location: String,
}

/// A completed job.
#[derive(Debug)]
pub struct Signalled {
    /// The session it was for.
    pub session: usize,
    /// Its result.
    pub result: Result<Answer, String>,
}

/// The signalling threads.
#[derive(Debug)]
pub struct Signalling {
    threads: Vec<Sender<Job>>,
    done: Receiver<Signalled>,
}

impl Signalling {
    /// Starts `threads` of them, each with a connection of its own; `wake` is called after each answer.
    ///
    /// # Errors
    /// A text for the user.
    pub fn start(
        threads: usize,
        address: SocketAddr,
        authority: &str,
        token: Option<&str>,
        wake: impl Fn() + Clone + Send + 'static,
    ) -> Result<Signalling, String> {
        let (done_sender, done) = mpsc::channel();
        let mut senders = Vec::new();
        for index in 0..threads.max(1) {
            let (sender, jobs) = mpsc::channel::<Job>();
            let (done, wake) = (done_sender.clone(), wake.clone());
            let mut asker = Asker {
                connection: Connection::new(address, authority),
                token: token.map(str::to_owned),
                transactions: 0,
            };
            let work = move || {
                for job in jobs {
                    let result = asker.ask(job.ask);
                    if done.send(Signalled { session: job.session, result }).is_err() {
                        break;
                    }
                    wake();
                }
            };
            let thread =
                thread::Builder::new().name(format!("signal-{index}")).stack_size(STACK_BYTES).spawn(work);
            thread.map_err(|error| format!("cannot start a thread: {error}"))?;
            senders.push(sender);
        }
        Ok(Signalling { threads: senders, done })
    }

    /// Queues a request.
    pub fn ask(&self, job: Job) {
        // A thread ends only when this end of its queue is dropped.
        let _ = self.threads[job.session % self.threads.len()].send(job);
    }

    /// A completed job, if any.
    pub fn poll(&self) -> Option<Signalled> {
        self.done.try_recv().ok()
    }
}

struct Asker {
    connection: Connection,
    token: Option<String>,
    transactions: u64,
}

impl Asker {
    fn ask(&mut self, ask: Ask) -> Result<Answer, String> {
        match ask {
            Ask::Offer { url, sdp } => self.offer(&url, &sdp),
            Ask::Join { room, sdp } => self.join(room, &sdp),
            Ask::Watch { mountpoint } => self.watch(mountpoint),
            Ask::Start { location, sdp } => {
                let body = json!({"request": "start"});
                self.message(&location, body, Some(json!({"type": "answer", "sdp": sdp})))?;
                Ok(Answer { sdp: String::new(), location })
            }
            Ask::Delete { location } => {
                let response = self.send("DELETE", &location, "application/sdp", b"")?;
                if !(200..300).contains(&response.status) {
                    let Response { status, body, .. } = &response;
                    return Err(format!("the server answered {status} to DELETE{}", reason_of(body)));
                }
                Ok(Answer::default())
            }
        }
    }

    fn offer(&mut self, url: &HttpUrl, sdp: &str) -> Result<Answer, String> {
        let response = self.send("POST", &url.path, "application/sdp", sdp.as_bytes())?;
        if response.status != 201 {
            return Err(format!("the server answered {}{}", response.status, reason_of(&response.body)));
        }
        let location = response.location.as_deref().ok_or("the server's answer has no Location")?;
        let location = location_path(url, location);
        let sdp = String::from_utf8(response.body).map_err(|_| "the answer is no text".to_owned())?;
        Ok(Answer { sdp, location })
    }

    fn join(&mut self, room: u64, sdp: &str) -> Result<Answer, String> {
        let (session, handle) = self.attach("janus.plugin.videoroom")?;
        let body = json!({"request": "joinandconfigure", "ptype": "publisher", "room": room});
        self.message(&handle, body, Some(json!({"type": "offer", "sdp": sdp})))?;
        Ok(Answer { sdp: self.description(&session)?, location: String::new() })
    }

    fn watch(&mut self, mountpoint: u64) -> Result<Answer, String> {
        let (session, handle) = self.attach("janus.plugin.streaming")?;
        self.message(&handle, json!({"request": "watch", "id": mountpoint}), None)?;
        Ok(Answer { sdp: self.description(&session)?, location: handle })
    }

    /// Paths of a new session and of its handle to a plugin.
    fn attach(&mut self, plugin: &str) -> Result<(String, String), String> {
        let session = self.janus("/janus", json!({"janus": "create"}))?;
        let session = format!("/janus/{}", id_of(&session)?);
        let attach = json!({"janus": "attach", "plugin": plugin});
        let handle = format!("{session}/{}", id_of(&self.janus(&session, attach)?)?);
        Ok((session, handle))
    }

    /// The description that comes among a session's events.
    fn description(&mut self, session: &str) -> Result<String, String> {
        for _ in 0..EVENTS_MAX {
            let event = parse(&self.send("GET", &format!("{session}?maxev=1"), "application/json", b"")?)?;
            if let Some(sdp) = event["jsep"]["sdp"].as_str() {
                return Ok(sdp.to_owned());
            }
            if let Some(reason) = event["plugindata"]["data"]["error"].as_str() {
                return Err(format!("Janus: {reason}"));
            }
        }
        Err("Janus: no description among its events".to_owned())
    }

    fn message(&mut self, handle: &str, body: Value, jsep: Option<Value>) -> Result<Value, String> {
        let mut message = json!({"janus": "message", "body": body});
        if let Some(jsep) = jsep {
            message["jsep"] = jsep;
        }
        self.janus(handle, message)
    }

    fn janus(&mut self, path: &str, mut message: Value) -> Result<Value, String> {
        self.transactions += 1;
        message["transaction"] = Value::from(self.transactions.to_string());
        let body = message.to_string();
        let answer = parse(&self.send("POST", path, "application/json", body.as_bytes())?)?;
        match answer["janus"].as_str() {
            Some("success" | "ack") => Ok(answer),
            _ => Err(format!("Janus: {}", answer["error"]["reason"].as_str().unwrap_or("an unknown answer"))),
        }
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Response, String> {
        let token = self.token.as_deref();
        self.connection.request(&Request { method, path, content_type, token, body })
    }
}

/// The server's reason for a refusal, after a colon: `error.message`, or `detail` or `title` of
/// RFC 9457. Empty if it gives none.
fn reason_of(body: &[u8]) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return String::new() };
    let texts = [&body["error"]["message"], &body["detail"], &body["title"]];
    let Some(text) = texts.into_iter().find_map(Value::as_str) else { return String::new() };
    let printable = text.chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX);
    format!(": {}", printable.collect::<String>())
}

fn parse(response: &Response) -> Result<Value, String> {
    if response.status != 200 {
        return Err(format!("Janus answered {}", response.status));
    }
    serde_json::from_slice(&response.body).map_err(|_| "Janus: the answer is no JSON".to_owned())
}

fn id_of(answer: &Value) -> Result<u64, String> {
    answer["data"]["id"].as_u64().ok_or_else(|| "Janus: no id in the answer".to_owned())
}

/// Events before a description: the acknowledgement of keep-alives and "preparing".
const EVENTS_MAX: usize = 10;

/// Maximum characters of a server's message that are shown.
const REASON_CHARS_MAX: usize = 200;
const STACK_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::str::FromStr;

    use super::*;

    /// Answers each request of one connection with the next text, and returns the requests.
    fn server(answers: Vec<String>) -> (SocketAddr, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client comes");
            let mut requests = Vec::new();
            for answer in answers {
                let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
                let text = loop {
                    let length = stream.read(&mut buffer).expect("it writes");
                    bytes.extend_from_slice(&buffer[..length]);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                    if body.len() == length.expect("a length").parse::<usize>().expect("a number") {
                        break text;
                    }
                };
                requests.push(text);
                stream.write_all(answer.as_bytes()).expect("it reads");
            }
            requests
        });
        (address, thread)
    }

    fn http(status: &str, headers: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    }

    fn ask_all(address: SocketAddr, asks: Vec<Ask>) -> Vec<Result<Answer, String>> {
        let (wake, woken) = mpsc::channel();
        let wake = move || wake.send(()).expect("the test waits");
        let signalling = Signalling::start(1, address, "h", Some("secret"), wake).expect("a thread");
        asks.into_iter()
            .map(|ask| {
                signalling.ask(Job { session: 7, ask });
                woken.recv().expect("it wakes");
                signalling.poll().expect("it is done").result
            })
            .collect()
    }

    #[test]
    fn an_offer_is_posted_and_its_session_deleted() {
        let answers = vec![http("201 Created", "Location: s/1\r\n", "v=0"), http("200 OK", "", "")];
        let (address, server) = server(answers);
        let url = HttpUrl::from_str("http://h/whep/live/a").expect("a URL");
        let offer = Ask::Offer { url, sdp: "offer".to_owned() };
        let delete = Ask::Delete { location: "/whep/live/s/1".to_owned() };
        let answered = Answer { sdp: "v=0".to_owned(), location: "/whep/live/s/1".to_owned() };
        assert_eq!(ask_all(address, vec![offer, delete]), [Ok(answered), Ok(Answer::default())]);
        let requests = server.join().expect("it ends");
        assert!(
            requests[0].starts_with("POST /whep/live/a HTTP/1.1\r\n")
                && requests[0].ends_with("\r\n\r\noffer")
        );
        assert!(requests[0].contains("Authorization: Bearer secret\r\n"));
        assert!(requests[1].starts_with("DELETE /whep/live/s/1 "));
    }

    #[test]
    fn a_refusal_is_reported_with_its_status_and_the_servers_message() {
        let cases = [
            ("", "the server answered 409"),
            ("<html>409</html>", "the server answered 409"),
            (r#"{"error":{"message":7}}"#, "the server answered 409"),
            (
                r#"{"error":{"message":"nobody\u001b publishes"}}"#,
                "the server answered 409: nobody publishes",
            ),
            (r#"{"title":"Conflict","detail":"two of them"}"#, "the server answered 409: two of them"),
        ];
        for (body, expected) in cases {
            let (address, server) = server(vec![http("409 Conflict", "Retry-After: 2\r\n", body)]);
            let url = HttpUrl::from_str("http://h/whep/live/a").expect("a URL");
            let answers = ask_all(address, vec![Ask::Offer { url, sdp: String::new() }]);
            assert_eq!(answers, [Err(expected.to_owned())]);
            server.join().expect("it ends");
        }
    }

    #[test]
    fn janus_is_asked_step_by_step() {
        let ok = |body: &str| http("200 OK", "", body);
        let (address, server) = server(vec![
            ok(r#"{"janus":"success","data":{"id":11}}"#),
            ok(r#"{"janus":"success","data":{"id":22}}"#),
            ok(r#"{"janus":"ack"}"#),
            ok(r#"{"janus":"event","plugindata":{"data":{"result":{"status":"preparing"}}}}"#),
            ok(r#"{"janus":"event","jsep":{"type":"offer","sdp":"v=0 janus"}}"#),
            ok(r#"{"janus":"ack"}"#),
        ]);
        let location = "/janus/11/22".to_owned();
        let start = Ask::Start { location: location.clone(), sdp: "mine".to_owned() };
        let answers = ask_all(address, vec![Ask::Watch { mountpoint: 5 }, start]);
        let offered = Answer { sdp: "v=0 janus".to_owned(), location: location.clone() };
        assert_eq!(answers, [Ok(offered), Ok(Answer { sdp: String::new(), location })]);
        let requests = server.join().expect("it ends");
        let paths: Vec<&str> = requests.iter().filter_map(|text| text.split(' ').nth(1)).collect();
        let expected =
            ["/janus", "/janus/11", "/janus/11/22", "/janus/11?maxev=1", "/janus/11?maxev=1", "/janus/11/22"];
        assert_eq!(paths, expected);
        assert!(requests[5].contains(r#""sdp":"mine""#));
    }

    #[test]
    fn a_publisher_joins_a_room_of_janus_with_its_offer() {
        let ok = |body: &str| http("200 OK", "", body);
        let (address, server) = server(vec![
            ok(r#"{"janus":"success","data":{"id":11}}"#),
            ok(r#"{"janus":"success","data":{"id":22}}"#),
            ok(r#"{"janus":"ack"}"#),
            ok(r#"{"janus":"event","jsep":{"type":"answer","sdp":"v=0 janus"}}"#),
        ]);
        let answers = ask_all(address, vec![Ask::Join { room: 5, sdp: "mine".to_owned() }]);
        assert_eq!(answers, [Ok(Answer { sdp: "v=0 janus".to_owned(), location: String::new() })]);
        let requests = server.join().expect("it ends");
        assert!(requests[1].contains("janus.plugin.videoroom"));
        for part in [r#""type":"offer""#, r#""sdp":"mine""#, r#""room":5"#, r#""request":"joinandconfigure""#]
        {
            assert!(requests[2].contains(part), "{part}");
        }
    }

    #[test]
    fn an_error_of_janus_is_reported_with_its_message() {
        let (address, server) =
            server(vec![http("200 OK", "", r#"{"janus":"error","error":{"reason":"No such thing"}}"#)]);
        assert_eq!(
            ask_all(address, vec![Ask::Watch { mountpoint: 1 }]),
            [Err("Janus: No such thing".to_owned())]
        );
        server.join().expect("it ends");
    }
}
