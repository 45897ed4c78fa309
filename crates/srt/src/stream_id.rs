//! Stream IDs: what a caller asks a listener for (draft-sharabayko-srt-01 appendix B, and the short form
//! that many servers take).
//!
//! ```text
//! publish:app/stream?token=...     read:app/stream     play:app/stream     request:app/stream
//! #!::r=app/stream,m=publish,u=name,t=token,program=7  #!::r=app/stream
//! ```

/// What a caller is to do with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It sends it.
    Publish,
    /// It receives it.
    Request,
}

/// A stream ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamId<'a> {
    /// What the caller is to do.
    pub mode: Mode,
    /// Name of the stream.
    pub resource: &'a str,
    /// What stands behind `?` in the name.
    pub query: &'a str,
    /// Name of the user.
    pub user: Option<&'a str>,
    /// The token.
    pub token: Option<&'a str>,
    /// Number of the program that is published, of several.
    pub program: Option<&'a str>,
}

impl<'a> StreamId<'a> {
    /// Reads one. The error is a sentence.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut id =
            Self { mode: Mode::Request, resource: "", query: "", user: None, token: None, program: None };
        if let Some(fields) = text.strip_prefix("#!::") {
            for field in fields.split(',').filter(|field| !field.is_empty()) {
                let (key, value) = field.split_once('=').ok_or("the stream id has a field without `=`")?;
                match key {
                    "r" => id.resource = value,
                    "m" => {
                        id.mode = match value {
                            "publish" => Mode::Publish,
                            "request" => Mode::Request,
                            _ => return Err("the stream id takes `m=publish` and `m=request`"),
                        };
                    }
                    "u" => id.user = Some(value),
                    // The type of the resource, where the draft has it. No token is that short.
                    "t" if value == "stream" => {}
                    "t" | "token" => id.token = Some(value),
                    "program" => id.program = Some(value),
                    // Host, session, and what other servers add.
                    _ => {}
                }
            }
        } else {
            let (mode, resource) = text.split_once(':').ok_or(
                "the stream id has to be `publish:app/stream`, `read:app/stream` or `#!::r=app/stream,m=...`",
            )?;
            id.mode = match mode {
                "publish" => Mode::Publish,
                "read" | "play" | "request" => Mode::Request,
                _ => return Err("the stream id takes `publish:`, `read:` and `play:`"),
            };
            id.resource = resource;
        }
        if let Some((resource, query)) = id.resource.split_once('?') {
            (id.resource, id.query) = (resource, query);
        }
        match id.resource.strip_prefix('/').unwrap_or(id.resource) {
            "" => Err("the stream id names no stream"),
            resource => Ok(Self { resource, ..id }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let id = |mode, resource, query, user, token| {
            Ok(StreamId { mode, resource, query, user, token, program: None })
        };
        let (publish, request) = (Mode::Publish, Mode::Request);
        let cases = [
            ("publish:live/cam", id(publish, "live/cam", "", None, None)),
            ("read:a/b/cam?token=x", id(request, "a/b/cam", "token=x", None, None)),
            ("play:/live/cam", id(request, "live/cam", "", None, None)),
            ("#!::r=live/cam", id(request, "live/cam", "", None, None)),
            (
                "#!::u=me,r=/live/cam,m=publish,t=secret,h=host",
                id(publish, "live/cam", "", Some("me"), Some("secret")),
            ),
            ("#!::r=live/cam?a=b,t=stream,token=x=y", id(request, "live/cam", "a=b", None, Some("x=y"))),
        ];
        for (text, expected) in cases {
            assert_eq!(StreamId::parse(text), expected, "{text}");
        }
        let numbered = StreamId::parse("#!::r=live/cam,m=publish,program=7").expect("an id");
        assert_eq!((numbered.resource, numbered.program), ("live/cam", Some("7")));
        for text in
            ["", "live/cam", "publish:", "delete:live/cam", "#!::", "#!::m=publish", "#!::r", "read:?x"]
        {
            StreamId::parse(text).expect_err(text);
        }
        StreamId::parse("#!::r=a,m=bidirectional").expect_err("one direction is carried");
    }
}
