//! Servers that lie, or cannot: the bytes of the file or a clear error, and never anything else.

use std::io::SeekFrom;
use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use range_reader::ReadError;
use range_reader::error::{Permanent, SourceError};
use range_reader::http::HttpConfig;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::http::scripted::{Asked, Scripted, Step, answer, head, honest, parts};
use crate::http::{config, file, read_all, reader};

/// Longer than the first window of sequential reading, so that more than one request is sent.
const FILE_BYTES: usize = 300_000;

/// What is read with hints: some near each other, some far.
const HINTS: [Range<usize>; 4] = [0..10, 1_000..5_000, 100_000..100_100, 299_000..300_000];

/// The expected result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Bytes,
    Changed,
    Lying,
    Status(u16),
    /// Tried several times.
    Transient,
}

use Outcome::{Bytes, Changed, Lying, Status, Transient};

fn outcome(result: std::io::Result<bool>) -> Outcome {
    let error = match result {
        Ok(are_right) => {
            assert!(are_right, "wrong bytes");
            return Bytes;
        }
        Err(error) => error,
    };
    let inner = error.get_ref().unwrap().downcast_ref::<ReadError>().unwrap();
    match inner {
        ReadError::Source(SourceError::Changed) => Changed,
        ReadError::Source(SourceError::Permanent(Permanent::Lying(_))) => Lying,
        ReadError::Source(SourceError::Permanent(Permanent::Status(status))) => Status(*status),
        ReadError::Source(SourceError::Transient { .. }) | ReadError::Truncated => Transient,
        ReadError::Source(_) => panic!("{inner:?}"),
    }
}

/// Reads all of the file of a server, then reads pieces of it that another reader was reported of.
async fn outcomes(
    http: HttpConfig,
    script: impl Fn(&Asked, &[u8]) -> Vec<Step> + Clone + Send + Sync + 'static,
) -> [Outcome; 2] {
    let file = file(FILE_BYTES);
    let (theirs, again) = (file.clone(), script.clone());
    let server = Scripted::start(move |asked| script(asked, &theirs)).await;
    let all = read_all(&mut reader(&server.url("/file"), http.clone())).await.map(|bytes| bytes == file);
    drop(server);
    let theirs = file.clone();
    let server = Scripted::start(move |asked| again(asked, &theirs)).await;
    let pieces = read_hinted(&server, http, &file).await;
    [outcome(all), outcome(pieces)]
}

async fn read_hinted(server: &Scripted, http: HttpConfig, file: &[u8]) -> std::io::Result<bool> {
    let mut reader = reader(&server.url("/file"), http);
    reader.will_need(HINTS.map(|range| range.start as u64..range.end as u64));
    let mut are_right = true;
    for range in HINTS {
        reader.seek(SeekFrom::Start(range.start as u64)).await?;
        let mut bytes = vec![0; range.len()];
        reader.read_exact(&mut bytes).await?;
        are_right &= bytes == file[range];
    }
    Ok(are_right)
}

fn send(bytes: Vec<u8>) -> Vec<Step> {
    vec![Step::Send(bytes)]
}

/// The ranges of a request and whether it asks for several.
fn ranges(asked: &Asked) -> Vec<Range<usize>> {
    asked.ranges(FILE_BYTES).unwrap_or_default()
}

fn partial(range: &str, body: &[u8]) -> Vec<Step> {
    send(answer("206 Partial Content", &[&format!("content-range: {range}")], body))
}

#[tokio::test]
async fn an_honest_server_is_read() {
    assert_eq!(
        outcomes(config(), |asked, file| send(honest(asked, file, &["etag: \"a\""]))).await,
        [Bytes; 2]
    );
}

#[tokio::test]
async fn ranges_ignored_cost_bytes_only() {
    // With a length, chunked, and with the connection's end for an end.
    assert_eq!(outcomes(config(), |_, file| send(answer("200 OK", &[], file))).await, [Bytes; 2]);
    assert_eq!(outcomes(config(), |_, file| send(chunked("200 OK", &[], file))).await, [Bytes; 2]);
    let until_closed =
        |_: &Asked, file: &[u8]| vec![Step::Send([head("200 OK", &[]), file.to_vec()].concat()), Step::Close];
    assert_eq!(outcomes(config(), until_closed).await, [Bytes; 2]);
}

#[tokio::test]
async fn ranges_ignored_are_asked_for_once_with_hints_too() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let server = Scripted::start(move |_| send(answer("200 OK", &[], &theirs))).await;
    assert_eq!(outcome(read_hinted(&server, config(), &file).await), Bytes);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn several_ranges_ignored_by_a_server_that_takes_one_are_asked_one_by_one() {
    let file = file(FILE_BYTES);
    let theirs = file.clone();
    let script = move |asked: &Asked| {
        let takes = "accept-ranges: bytes";
        if ranges(asked).len() > 1 {
            send(answer("200 OK", &[takes], &theirs))
        } else {
            send(honest(asked, &theirs, &[takes]))
        }
    };
    let server = Scripted::start(script).await;
    assert_eq!(outcome(read_hinted(&server, config(), &file).await), Bytes);
    let asked = server.asked();
    assert!(asked.len() > 1 && asked[1..].iter().all(|asked| ranges(asked).len() == 1), "{asked:?}");
}

#[tokio::test]
async fn a_whole_file_that_never_comes_to_its_end_is_an_error_after_a_few_tries() {
    type Cut = fn(&[u8]) -> Vec<u8>;
    let cuts: [(&str, Cut); 2] = [
        ("length", |file| answer("200 OK", &[], file)[..100_000].to_vec()),
        ("chunks", |file| chunked("200 OK", &[], file)[..100_000].to_vec()),
    ];
    for (name, cut) in cuts {
        for has_hints in [false, true] {
            let file = file(FILE_BYTES);
            let theirs = cut(&file);
            let server = Scripted::start(move |_| vec![Step::Send(theirs.clone()), Step::Close]).await;
            let result = if has_hints {
                read_hinted(&server, config(), &file).await
            } else {
                read_all(&mut reader(&server.url("/file"), config())).await.map(|bytes| bytes == file)
            };
            assert_eq!(outcome(result), Transient, "{name}");
            assert!(server.asked().len() <= 8, "{name}: {} requests", server.asked().len());
        }
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over_until_there_are_too_many() {
    for (count, expected) in [(1, Bytes), (20, Bytes), (100, Lying), (100_000, Lying)] {
        for status in ["102 Processing", "103 Early Hints"] {
            let file = file(FILE_BYTES);
            let theirs = file.clone();
            let before = head(status, &["link: </a>"]).repeat(count);
            let script = move |asked: &Asked| {
                send([before.clone(), honest(asked, &theirs, &["etag: \"a\""])].concat())
            };
            let server = Scripted::start(script).await;
            let result = read_all(&mut reader(&server.url("/file"), config())).await;
            assert_eq!(outcome(result.map(|bytes| bytes == file)), expected, "{count} times {status}");
            assert!(expected == Bytes || server.asked().len() == 1, "{count} times {status}: tried again");
        }
    }
}

#[tokio::test]
async fn ranges_are_used_whatever_accept_ranges_says() {
    for field in ["accept-ranges: none", "accept-ranges: items", "accept-ranges: bytes"] {
        let script = move |asked: &Asked, file: &[u8]| send(honest(asked, file, &[field]));
        assert_eq!(outcomes(config(), script).await, [Bytes; 2], "{field}");
    }
}

#[tokio::test]
async fn a_wrong_content_range_is_an_error_and_no_bytes() {
    type Field = fn(&Range<usize>) -> String;
    let cases: [(&str, Field); 9] = [
        ("another start", |range| format!("bytes {}-{}/{FILE_BYTES}", range.start + 1, range.end)),
        ("from 0 always", |range| format!("bytes 0-{}/{}", range.len() - 1, FILE_BYTES - range.start)),
        ("end behind the whole", |range| {
            format!("bytes {}-{}/{}", range.start, range.end - 1, range.end - 1)
        }),
        ("end before start", |range| format!("bytes {}-{}/{FILE_BYTES}", range.end, range.start)),
        ("other unit", |range| format!("lines {}-{}/{FILE_BYTES}", range.start, range.end - 1)),
        ("no number", |_| "bytes a-b/c".to_owned()),
        ("too large a number", |_| "bytes 0-99999999999999999999/*".to_owned()),
        ("none", |_| format!("bytes */{FILE_BYTES}")),
        ("empty", |_| String::new()),
    ];
    for (name, field) in cases {
        let script = move |asked: &Asked, file: &[u8]| {
            let Some(range) =
                ranges(asked).first().cloned().filter(|range| range.start > 0 || name != "from 0 always")
            else {
                return send(honest(asked, file, &[]));
            };
            partial(&field(&range), &file[range])
        };
        // The first request is answered truthfully then; with hints there is none but the first.
        let expected = if name == "from 0 always" { [Changed, Bytes] } else { [Lying; 2] };
        assert_eq!(outcomes(config(), script).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_range_without_content_range_is_an_error() {
    let script = |asked: &Asked, file: &[u8]| {
        send(answer("206 Partial Content", &[], &file[ranges(asked)[0].clone()]))
    };
    assert_eq!(outcomes(config(), script).await, [Lying; 2]);
}

#[tokio::test]
async fn lengths_that_disagree_are_an_error() {
    // The body is shorter than the range says, and the length says so.
    let short = |asked: &Asked, file: &[u8]| {
        let range = ranges(asked)[0].clone();
        partial(
            &format!("bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1),
            &file[range.start..range.end - 1],
        )
    };
    assert_eq!(outcomes(config(), short).await, [Lying; 2]);
    // Chunked, without a length: the body continues beyond its range.
    let long = |asked: &Asked, file: &[u8]| {
        let range = ranges(asked)[0].clone();
        let field = format!("content-range: bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1);
        send(chunked("206 Partial Content", &[&field], &[&file[range], b"!"].concat()))
    };
    assert_eq!(outcomes(config(), long).await, [Lying; 2]);
    // Or ends in the middle of it, which is a response cut short.
    let cut = |asked: &Asked, file: &[u8]| {
        let range = ranges(asked)[0].clone();
        let field = format!("content-range: bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1);
        send(chunked(
            "206 Partial Content",
            &[&field],
            &file[range.start..range.start + range.len().div_ceil(2)],
        ))
    };
    assert_eq!(outcomes(config(), cut).await, [Bytes; 2]);
}

#[tokio::test]
async fn an_answer_cut_short_is_continued_at_the_byte() {
    for end in [Step::Close, Step::Reset] {
        let script = move |asked: &Asked, file: &[u8]| {
            let whole = honest(asked, file, &["etag: \"a\""]);
            let body = whole.len() - head_length(&whole);
            vec![Step::Send(whole[..whole.len() - body / 3].to_vec()), end.clone()]
        };
        assert_eq!(outcomes(config(), script).await, [Bytes; 2]);
    }
}

#[tokio::test]
async fn a_server_that_never_gets_further_is_given_up() {
    let script = |asked: &Asked, file: &[u8]| {
        let whole = honest(asked, file, &[]);
        let head = head_length(&whole);
        vec![Step::Send(whole[..head].to_vec()), Step::Close]
    };
    assert_eq!(outcomes(config(), script).await, [Transient; 2]);
    assert_eq!(outcomes(config(), |_, _| vec![Step::Close]).await, [Transient; 2]);
}

#[tokio::test]
async fn several_ranges_refused_are_asked_one_by_one() {
    for status in ["416 Range Not Satisfiable", "400 Bad Request", "501 Not Implemented", "431 Too Large"] {
        let script = move |asked: &Asked, file: &[u8]| {
            if ranges(asked).len() > 1 {
                send(answer(status, &[], b"no"))
            } else {
                send(honest(asked, file, &[]))
            }
        };
        assert_eq!(outcomes(config(), script).await, [Bytes; 2], "{status}");
    }
}

#[tokio::test]
async fn several_ranges_answered_by_fewer_are_made_good() {
    type Pick = fn(&[Range<usize>]) -> Range<usize>;
    let cases: [(&str, Pick); 4] = [
        ("all in one", |ranges| ranges[0].start..ranges[ranges.len() - 1].end),
        ("the whole file", |_| 0..FILE_BYTES),
        ("the first", |ranges| ranges[0].clone()),
        ("the last", |ranges| ranges[ranges.len() - 1].clone()),
    ];
    for (name, pick) in cases {
        let script = move |asked: &Asked, file: &[u8]| {
            let asked_for = ranges(asked);
            if asked_for.len() < 2 {
                return send(honest(asked, file, &[]));
            }
            let range = pick(&asked_for);
            partial(&format!("bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1), &file[range])
        };
        assert_eq!(outcomes(config(), script).await, [Bytes; 2], "{name}");
    }
    // Parts left out, and parts in another order.
    for keep in [0..1, 1..2] {
        let script = move |asked: &Asked, file: &[u8]| {
            let mut some = ranges(asked);
            if some.len() < 2 {
                return send(honest(asked, file, &[]));
            }
            some.reverse();
            some.truncate(some.len() - keep.start);
            send(answer(
                "206 Partial Content",
                &["content-type: multipart/byteranges; boundary=sea"],
                &parts(&some, file),
            ))
        };
        assert_eq!(outcomes(config(), script).await, [Bytes; 2]);
    }
}

#[tokio::test]
async fn several_ranges_that_are_wrong_are_an_error() {
    type Change = fn(&[Range<usize>], &[u8]) -> Vec<u8>;
    let cases: [(&str, Change); 7] = [
        ("a part too many", |ranges, file| parts(&vec![ranges[1].clone(); ranges.len() + 1], file)),
        ("a part not asked for", |ranges, file| parts(&[50_000..50_010, ranges[0].clone()], file)),
        ("a part without its range", |_, _| {
            b"--sea\r\ncontent-type: a/b\r\n\r\nbytes\r\n--sea--\r\n".to_vec()
        }),
        ("a part with two ranges", |_, _| {
            b"--sea\r\ncontent-range: bytes 0-4/300000\r\ncontent-range: bytes 0-3/300000\r\n\r\nbytes\r\n--sea--\r\n".to_vec()
        }),
        ("a part longer than its range", |_, _| {
            b"--sea\r\ncontent-range: bytes 0-3/300000\r\n\r\nbytes\r\n--sea--\r\n".to_vec()
        }),
        ("a compressed part", |_, _| {
            b"--sea\r\ncontent-encoding: gzip\r\ncontent-range: bytes 0-4/300000\r\n\r\nbytes\r\n--sea--\r\n"
                .to_vec()
        }),
        ("a preamble without end", |_, _| b"la\r\n".repeat(10_000)),
    ];
    for (name, change) in cases {
        let script = move |asked: &Asked, file: &[u8]| {
            let asked_for = ranges(asked);
            if asked_for.len() < 2 {
                return send(honest(asked, file, &[]));
            }
            let body = change(&asked_for, file);
            send(answer("206 Partial Content", &["content-type: multipart/byteranges; boundary=sea"], &body))
        };
        assert_eq!(outcomes(config(), script).await, [Bytes, Lying], "{name}");
    }
}

#[tokio::test]
async fn a_connection_closed_between_requests_is_opened_anew() {
    // Announced, unannounced, and at the very moment of the next request.
    let said = |asked: &Asked, file: &[u8]| {
        vec![Step::Send(honest(asked, file, &["connection: close"])), Step::Close]
    };
    assert_eq!(outcomes(config(), said).await, [Bytes; 2]);
    let unsaid = |asked: &Asked, file: &[u8]| vec![Step::Send(honest(asked, file, &[])), Step::Close];
    assert_eq!(outcomes(config(), unsaid).await, [Bytes; 2]);
    let seen = Mutex::new(std::collections::HashSet::new());
    let seen = std::sync::Arc::new(seen);
    let late = move |asked: &Asked, file: &[u8]| {
        if seen.lock().unwrap().insert((asked.connection, file.len())) {
            send(honest(asked, file, &[]))
        } else {
            vec![Step::Close]
        }
    };
    assert_eq!(outcomes(config(), late).await, [Bytes; 2]);
}

#[tokio::test]
async fn a_drip_and_a_silence_are_given_up() {
    let impatient = HttpConfig {
        idle_timeout: Duration::from_millis(300),
        head_timeout: Duration::from_millis(300),
        bytes_per_second_min: 1_000,
        ..config()
    };
    let drip = |asked: &Asked, file: &[u8]| {
        let whole = honest(asked, file, &[]);
        let head = head_length(&whole);
        vec![
            Step::Send(whole[..head].to_vec()),
            Step::Drip(whole[head..].to_vec(), Duration::from_millis(20)),
        ]
    };
    // Each attempt delivers some bytes, so the reader would continue as long as it is polled: the
    // source gives up.
    let file = file(FILE_BYTES);
    let server = Scripted::start(move |asked| drip(asked, &file)).await;
    let mut reader = reader(&server.url("/file"), impatient.clone());
    let mut bytes = [0; 40];
    reader.read_exact(&mut bytes).await.unwrap();
    assert!(reader.counters().retries > 0, "{:?}", reader.counters());
    for silence in [0, 40] {
        let script = move |asked: &Asked, file: &[u8]| {
            vec![Step::Send(honest(asked, file, &[])[..silence].to_vec()), Step::Hang]
        };
        assert_eq!(outcomes(impatient.clone(), script).await, [Transient; 2], "{silence} bytes of the head");
    }
}

#[tokio::test]
async fn a_chunked_range_is_read() {
    let script = |asked: &Asked, file: &[u8]| {
        let asked_for = ranges(asked);
        if let [range] = asked_for.as_slice() {
            let field = format!("content-range: bytes {}-{}/{FILE_BYTES}", range.start, range.end - 1);
            return send(chunked("206 Partial Content", &[&field], &file[range.clone()]));
        }
        let kind = "content-type: multipart/byteranges; boundary=sea";
        send(chunked("206 Partial Content", &[kind], &parts(&asked_for, file)))
    };
    assert_eq!(outcomes(config(), script).await, [Bytes; 2]);
}

#[tokio::test]
async fn a_file_that_changes_is_an_error() {
    // After the first request, everything is different: length, entity tag, date.
    type Later = fn(&Asked, &[u8]) -> Vec<u8>;
    let cases: [(&str, &str, Later); 9] = [
        ("length", "x: y", |asked, file| honest(asked, &file[..FILE_BYTES - 1], &[])),
        ("entity tag", "etag: \"a\"", |asked, file| honest(asked, file, &["etag: \"b\""])),
        ("weak entity tag", "etag: W/\"a\"", |asked, file| honest(asked, file, &["etag: W/\"b\""])),
        ("date", "last-modified: Sat, 29 Oct 1994 19:43:31 GMT", |asked, file| {
            honest(asked, file, &["last-modified: Sat, 29 Oct 1994 19:43:32 GMT"])
        }),
        // The new file has no version, and the server has ignored the condition.
        ("entity tag gone", "etag: \"a\"", |asked, file| honest(asked, file, &[])),
        ("weak entity tag gone", "etag: W/\"a\"", |asked, file| honest(asked, file, &[])),
        ("weak entity tag gone, whole", "etag: W/\"a\"", |_, file| answer("200 OK", &[], file)),
        ("date gone", "last-modified: Sat, 29 Oct 1994 19:43:31 GMT", |asked, file| honest(asked, file, &[])),
        // What `If-Range` is for: the server responses with the new file, and says nothing else of
        // it.
        ("condition", "etag: \"a\"", |asked, file| {
            let condition = asked.field("if-range");
            assert_eq!(condition, Some("\"a\""));
            answer("200 OK", &[], file)
        }),
    ];
    for (name, field, later) in cases {
        let script = move |asked: &Asked, file: &[u8]| {
            let is_first = ranges(asked)[0].start == 0;
            send(if is_first { honest(asked, file, &[field]) } else { later(asked, file) })
        };
        let file = file(FILE_BYTES);
        let theirs = file.clone();
        let server = Scripted::start(move |asked| script(asked, &theirs)).await;
        let mut reader = reader(&server.url("/file"), config());
        let mut bytes = [0; 10];
        reader.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes, file[..10]);
        let result = read_all(&mut reader).await.map(|bytes| bytes == file[10..]);
        assert_eq!(outcome(result), Changed, "{name}");
    }
}

#[tokio::test]
async fn what_is_compressed_is_an_error() {
    for field in ["content-encoding: gzip", "content-encoding: br"] {
        let script = move |asked: &Asked, file: &[u8]| send(honest(asked, file, &[field]));
        assert_eq!(outcomes(config(), script).await, [Lying; 2], "{field}");
    }
    let script = |asked: &Asked, file: &[u8]| send(honest(asked, file, &["content-encoding: identity"]));
    assert_eq!(outcomes(config(), script).await, [Bytes; 2]);
}

#[tokio::test]
async fn statuses_that_mean_no_say_no() {
    for (status, expected) in [
        ("401 Unauthorized", Status(401)),
        ("403 Forbidden", Status(403)),
        ("404 Not Found", Status(404)),
        ("410 Gone", Status(410)),
        ("300 Multiple Choices", Status(300)),
        ("304 Not Modified", Lying),
        ("204 No Content", Lying),
        ("503 Service Unavailable", Transient),
        ("429 Too Many Requests", Transient),
        ("500 Internal Server Error", Transient),
    ] {
        let has_body = !matches!(&status[..3], "304" | "204");
        let script = move |_: &Asked, _: &[u8]| {
            send(if has_body { answer(status, &[], b"no") } else { head(status, &[]) })
        };
        assert_eq!(outcomes(config(), script).await, [expected; 2], "{status}");
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let busy = std::sync::Arc::new(Mutex::new(0));
    let script = move |asked: &Asked, file: &[u8]| {
        let mut count = busy.lock().unwrap();
        *count += 1;
        send(if *count % 2 == 1 {
            answer("503 Busy", &["retry-after: 0"], b"")
        } else {
            honest(asked, file, &[])
        })
    };
    assert_eq!(outcomes(config(), script).await, [Bytes; 2]);
}

#[tokio::test]
async fn what_is_not_http_is_an_error() {
    for bytes in
        ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nno field\r\n\r\n", "HTTP/1.1 99999 OK\r\n\r\n"]
    {
        let server = Scripted::start(move |_| vec![Step::Send(bytes.into()), Step::Close]).await;
        assert!(read_all(&mut reader(&server.url("/"), config())).await.is_err(), "{bytes}");
    }
    // A head that does not end.
    let endless = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(100_000)].concat();
    let server = Scripted::start(move |_| vec![Step::Send(endless.clone()), Step::Hang]).await;
    assert!(read_all(&mut reader(&server.url("/"), config())).await.is_err());
}

#[tokio::test]
async fn an_empty_file_is_empty() {
    for ranges_are_known in [true, false] {
        let script = move |asked: &Asked| {
            send(if ranges_are_known { honest(asked, &[], &[]) } else { answer("200 OK", &[], b"") })
        };
        let server = Scripted::start(script).await;
        assert_eq!(read_all(&mut reader(&server.url("/"), config())).await.unwrap(), b"");
    }
    // 416 for everything, and no length: only a request without a range reveals it.
    let whole = file(1_000);
    let theirs = whole.clone();
    let server = Scripted::start(move |asked: &Asked| {
        send(if asked.field("range").is_some() {
            answer("416 No", &[], b"")
        } else {
            answer("200 OK", &[], &theirs)
        })
    })
    .await;
    assert_eq!(read_all(&mut reader(&server.url("/"), config())).await.unwrap(), whole);
}

fn head_length(answer: &[u8]) -> usize {
    answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4
}

fn chunked(status: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let fields: Vec<&str> = fields.iter().copied().chain(["transfer-encoding: chunked"]).collect();
    let mut bytes = head(status, &fields);
    for chunk in body.chunks(10_007) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}
