//! Responses of HTTP/1.1 on a connection that is kept (RFC 9112): status, length or chunks, body.

/// Reads one response after the other. **Give every byte read to [`Response::read`].**
#[derive(Debug, Default)]
pub(crate) struct Response {
    state: State,
    head: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Bytes still to come.
    Length(u64),
    /// The line with the size of a chunk: digits so far.
    ChunkSize(u64),
    Chunk(u64),
    /// CR LF behind a chunk, or behind the last one, which ends the body.
    ChunkEnd {
        left: u8,
        is_last: bool,
    },
}

impl Response {
    /// Takes bytes and hands on those of the body; the number of bytes taken, and whether the response is
    /// complete with them. What is left belongs to the next one.
    ///
    /// # Errors
    /// When the answer is not 200 or 206, or no HTTP.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        mut on_body: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(usize, bool), String> {
        let mut at = 0;
        while at < input.len() || self.state == State::Length(0) {
            let rest = &input[at..];
            match &mut self.state {
                State::Head => {
                    let from = self.head.len().saturating_sub(3);
                    let before = self.head.len();
                    self.head.extend_from_slice(&rest[..rest.len().min(HEAD_BYTES_MAX - before)]);
                    let end = memchr::memmem::find(&self.head[from..], b"\r\n\r\n").map(|end| from + end + 4);
                    let Some(end) = end else {
                        if self.head.len() == HEAD_BYTES_MAX {
                            return Err("protocol: the answer's head is too long".to_owned());
                        }
                        return Ok((input.len(), false));
                    };
                    at += end - before;
                    self.state = read_head(&self.head[..end])?;
                    self.head.clear();
                }
                State::Length(left) => {
                    let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    on_body(&rest[..taken])?;
                    at += taken;
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = State::Head;
                        return Ok((at, true));
                    }
                }
                State::ChunkSize(size) => {
                    at += 1;
                    match rest[0] {
                        b'\n' if *size == 0 => self.state = State::ChunkEnd { left: 2, is_last: true },
                        b'\n' => self.state = State::Chunk(*size),
                        b'\r' => {}
                        digit => {
                            let digit = char::from(digit).to_digit(16).map(u64::from);
                            let digit = digit.filter(|_| *size < 1 << 40);
                            *size = *size << 4 | digit.ok_or("protocol: broken chunked coding")?;
                        }
                    }
                }
                State::Chunk(left) => {
                    let taken = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    on_body(&rest[..taken])?;
                    at += taken;
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = State::ChunkEnd { left: 2, is_last: false };
                    }
                }
                State::ChunkEnd { left, is_last } => {
                    at += 1;
                    *left -= 1;
                    if *left == 0 {
                        let is_last = *is_last;
                        self.state = if is_last { State::Head } else { State::ChunkSize(0) };
                        if is_last {
                            return Ok((at, true));
                        }
                    }
                }
            }
        }
        Ok((at, false))
    }
}

fn read_head(head: &[u8]) -> Result<State, String> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(head).map_err(|_| "protocol: the answer is no HTTP/1 response".to_owned())?;
    match response.code {
        Some(200 | 206) => {}
        code => return Err(format!("the server answered {}", code.unwrap_or(0))),
    }
    let of = |name: &str| {
        let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    if of("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Ok(State::ChunkSize(0));
    }
    let length = of("content-length").and_then(|length| length.trim().parse().ok());
    length.map(State::Length).ok_or_else(|| "protocol: a body without a length".to_owned())
}

const HEAD_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\
        Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\
        Content-Length: 0\r\n\r\n";

    #[test]
    fn responses_are_read_one_after_the_other_however_they_are_cut() {
        for size in [1, 2, 3, 7, TWO.len()] {
            let (mut response, mut bodies, mut body) = (Response::default(), Vec::new(), Vec::new());
            for mut piece in TWO.chunks(size) {
                while !piece.is_empty() {
                    let read = response.read(piece, |bytes| {
                        body.extend_from_slice(bytes);
                        Ok(())
                    });
                    let (taken, is_complete) = read.expect("good responses");
                    piece = &piece[taken..];
                    if is_complete {
                        bodies.push(std::mem::take(&mut body));
                    }
                }
            }
            assert_eq!(bodies, [&b"hello"[..], b"abc0123456789", b""], "by {size}");
        }
    }

    #[test]
    fn refusals_and_nonsense_are_errors() {
        for (input, expected) in [
            ("HTTP/1.1 503 no\r\n\r\n", "the server answered 503"),
            ("SSH-2.0\r\n\r\n", "protocol: the answer is no HTTP/1 response"),
            ("HTTP/1.1 200 OK\r\n\r\n", "protocol: a body without a length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", "protocol: broken chunked coding"),
        ] {
            let read = Response::default().read(input.as_bytes(), |_| Ok(()));
            assert_eq!(read, Err(expected.to_owned()), "{input}");
        }
    }
}
