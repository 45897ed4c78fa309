//! One request over a connection of its own, for what does not come by itself.
//!
//! HTTP/1.0 (RFC 1945): the answer ends with the connection, or after its length, and is in one piece. So a
//! few lines read it, with the deadline that the statistics have.

use std::io::{self, Read, Write};

use tungstenite::http::StatusCode;

use super::{AGENT, Connector, Failure, failure, refusal};
use crate::cluster::{CLUSTER_BYTES_MAX, CLUSTER_PATH, Cluster};

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

impl Connector {
    /// Asks for the cluster the server is a node of.
    pub(crate) fn cluster(&self) -> Result<Cluster, Failure> {
        let (status, body) = self.ask("GET", CLUSTER_PATH)?;
        match status {
            StatusCode::OK => Cluster::from_json(&body)
                .map_err(|error| Failure::Lost(format!("the answer cannot be read: {error}"))),
            StatusCode::NOT_FOUND => Err(Failure::Refused("this server is not part of a cluster".to_owned())),
            status => Err(refusal(status, &body, self.authorization.is_some())),
        }
    }

    /// Sends a request without a body, and returns the answer.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Result<(StatusCode, Vec<u8>), Failure> {
        let mut transport = self.open()?;
        let mut request = format!(
            "{method} {} HTTP/1.0\r\nHost: {}\r\nAccept: application/json\r\nUser-Agent: {}\r\n",
            self.target.path(path),
            self.target.authority(),
            AGENT,
        )
        .into_bytes();
        if method != "GET" {
            request.extend_from_slice(b"Content-Length: 0\r\n");
        }
        if let Some(value) = &self.authorization {
            request.extend_from_slice(b"Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let answer =
            transport.write_all(&request).and_then(|()| transport.flush()).and_then(|()| read(transport));
        let answer = answer.map_err(|error| failure(error.into()))?;
        let (status, body) =
            split(&answer).ok_or_else(|| Failure::Lost("what answers there is no HTTP".to_owned()))?;
        Ok((status, body.to_vec()))
    }
}

/// All bytes up to the end of the connection, or of the length that the head says.
fn read(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            // TLS that is cut instead of closed; whether all has come shows in the JSON.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(error) => return Err(error),
        };
        answer.extend_from_slice(&buffer[..count]);
        let head = head_length(&answer);
        if count == 0 || head.is_some_and(|head| complete(&answer, head)) {
            return Ok(answer);
        }
        let too_long = match head {
            Some(_) => answer.len() as u64 > CLUSTER_BYTES_MAX,
            None => answer.len() > HEAD_BYTES_MAX,
        };
        if too_long {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
    }
}

/// Bytes of the head with the empty line.
fn head_length(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4)
}

fn complete(answer: &[u8], head: usize) -> bool {
    let lines = answer[..head].split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|(_, value)| value.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() - head >= length)
}

fn split(answer: &[u8]) -> Option<(StatusCode, &[u8])> {
    let head = head_length(answer)?;
    let line = answer.split(|byte| *byte == b'\r').next()?;
    let status = line.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    Some((StatusCode::from_bytes(status).ok()?, &answer[head..]))
}
