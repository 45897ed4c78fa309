//! Requests as they are written, and how long heads are.

use http::Request;
use http::header::{self, HeaderMap, HeaderValue};
use http_body_util::Empty;
use url::{Position, Url};

use super::connection::GetRequest;
use super::redirect;
use crate::error::{Permanent, SourceError};

const USER_AGENT: &str = concat!("range-reader/", env!("CARGO_PKG_VERSION"));

/// Fields that the client sets itself: another value would break the response's meaning or the
/// connection.
pub(crate) fn check_fields(fields: &HeaderMap) -> Result<(), SourceError> {
    const OWN: [header::HeaderName; 8] = [
        header::HOST,
        header::RANGE,
        header::IF_RANGE,
        header::ACCEPT_ENCODING,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    match OWN.iter().find(|name| fields.contains_key(*name)) {
        Some(name) => {
            Err(SourceError::Permanent(Permanent::Setup(format!("the header field {name} cannot be set"))))
        }
        None => Ok(()),
    }
}

/// How a request is written.
pub(crate) enum Form {
    Http1,
    /// To a proxy, with credentials for it.
    ToProxy(Option<HeaderValue>),
    Http2,
}

pub(crate) fn request(
    url: &Url,
    fields: &HeaderMap,
    always: &HeaderMap,
    form: Form,
) -> Result<GetRequest, SourceError> {
    let cannot = || {
        SourceError::Permanent(Permanent::Setup(format!("{} cannot be asked for", redirect::authority(url))))
    };
    let target = match form {
        Form::Http1 => &url[Position::BeforePath..Position::AfterQuery],
        Form::ToProxy(_) | Form::Http2 => url.as_str(),
    };
    let mut request = Request::get(target).body(Empty::new()).map_err(|_| cannot())?;
    let headers = request.headers_mut();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    for (name, value) in fields.iter().chain(always) {
        headers.insert(name, value.clone());
    }
    // What is encoded has no ranges of the file.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if !matches!(form, Form::Http2) {
        headers.insert(header::HOST, HeaderValue::from_str(&redirect::authority(url)).map_err(|_| cannot())?);
    }
    if let Form::ToProxy(Some(credentials)) = form {
        headers.insert(header::PROXY_AUTHORIZATION, credentials);
    }
    Ok(request)
}

/// About how long a head with these fields is: fields as they stand, and a status line.
pub(crate) fn head_bytes(headers: &HeaderMap) -> u64 {
    let fields: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    fields as u64 + 22
}
