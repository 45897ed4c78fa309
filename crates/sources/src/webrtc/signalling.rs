//! Offer and answer by HTTP (RFC 9725 section 4.2, and the same for WHEP): one POST, redirects by
//! 307 and 308, one DELETE at the end.
//!
//! The token goes to the endpoint's own scheme, host and port only, and the DELETE to those that
//! answered. `Link` fields (STUN and TURN servers) are not used: the client reaches the server.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rtc::sdp::SDP_BYTES_MAX;
use url::{Origin, Url};

use crate::peer::{Connected, connect_to, plain, without_secrets};
use crate::settings::SourceSettings;
use crate::webrtc::Endpoint;
use crate::webrtc::link::OpenError;

/// What a server answered.
pub(super) struct Answered<'a> {
    pub(super) sdp: String,
    pub(super) peer: Option<SocketAddr>,
    /// Of the session, to be deleted in the end; where the server names one that is its own.
    pub(super) resource: Guard<'a>,
}

/// A session at a server.
#[derive(Clone)]
pub(super) struct Resource {
    url: Url,
    token: Option<String>,
}

/// A connection to a server that was not asked yet.
pub(super) struct Connection {
    stream: Connected,
    url: Url,
}

impl Connection {
    pub(super) async fn open(url: &Url, settings: &SourceSettings) -> Result<Self, OpenError> {
        let is_tls = url.scheme() == "https";
        let port = url.port_or_known_default().unwrap_or(if is_tls { 443 } else { 80 });
        let host = url.host_str().unwrap_or_default();
        let stream = connect_to(host, port, is_tls, settings).await.map_err(OpenError::new)?;
        Ok(Self { stream, url: url.clone() })
    }

    /// The address here.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.stream.local.map(|local| local.ip())
    }

    /// The other end.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer
    }

    async fn ask(
        self,
        method: Method,
        token: Option<&str>,
        body: String,
    ) -> Result<Response<Incoming>, OpenError> {
        let broken = |_| OpenError::new("what the server sends is no HTTP");
        let io = TokioIo::new(self.stream.stream);
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake::<_, Full<Bytes>>(io)
            .await
            .map_err(broken)?;
        // It ends with the answer, or with its caller's patience.
        tokio::spawn(tokio::time::timeout(CONNECTION_MAX, connection));
        let host = &self.url[url::Position::BeforeHost..url::Position::AfterPort];
        let path = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::HOST, host)
            .header(header::USER_AGENT, concat!("millstream/", env!("CARGO_PKG_VERSION")))
            .header(header::CONNECTION, "close");
        if method == Method::POST {
            request = request
                .header(header::CONTENT_TYPE, "application/sdp")
                .header(header::ACCEPT, "application/sdp");
        }
        if let Some(token) = token
            && let Ok(mut value) = HeaderValue::try_from(format!("Bearer {token}"))
        {
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let request =
            request.body(Full::new(body.into())).map_err(|_| OpenError::new("its URL is no path"))?;
        sender.send_request(request).await.map_err(broken)
    }
}

/// Sends an offer, and follows redirects, each to where `is_refused` has nothing against it.
pub(super) async fn post<'a>(
    endpoint: &Endpoint,
    connection: Connection,
    offer: &str,
    settings: &'a SourceSettings,
    is_refused: impl Fn(&Connection) -> Option<OpenError>,
) -> Result<Answered<'a>, OpenError> {
    let mut connection = connection;
    // Once another server has said where to go, the way back is no reason to trust it.
    let mut is_trusted = true;
    for _ in 0..=settings.redirects_max {
        let (url, peer) = (connection.url.clone(), connection.peer());
        is_trusted &= url.origin() == endpoint.url().origin();
        let token = endpoint.token().filter(|_| is_trusted);
        let response = connection.ask(Method::POST, token, offer.to_owned()).await?;
        let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let location = location.and_then(|text| url.join(text).ok());
        match response.status() {
            StatusCode::CREATED => {
                let is_own =
                    |other: &Url| matches!(url.origin(), Origin::Tuple(..)) && other.origin() == url.origin();
                let token = token.map(str::to_owned);
                let resource = location.filter(is_own).map(|url| Resource { url, token });
                // From here on it is deleted whatever happens, also if its caller waits no longer.
                let resource = Guard { resource, settings };
                let sdp = body(response).await?;
                return Ok(Answered { sdp, peer, resource });
            }
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                let target = location.filter(|url| matches!(url.scheme(), "http" | "https"));
                let target = target.ok_or_else(|| OpenError::new("the server redirects to nowhere"))?;
                if url.scheme() == "https" && target.scheme() == "http" {
                    return Err(OpenError::new("the server redirects from https to http"));
                }
                connection = Connection::open(&target, settings).await?;
                if let Some(refusal) = is_refused(&connection) {
                    return Err(refusal);
                }
            }
            status => {
                let text = body(response).await.unwrap_or_default();
                let text = without_secrets(text, token, url.query().unwrap_or_default());
                return Err(refused(status, text));
            }
        }
    }
    Err(OpenError::new("the server redirects too often"))
}

/// What a server says when it does not take an offer. It is not cut: a push has more to hide in it, such
/// as a key in the path.
fn refused(status: StatusCode, text: String) -> OpenError {
    let text = if text.starts_with('<') { String::new() } else { plain("", &text) };
    let text = text.trim_start_matches(": ").trim().to_owned();
    let reason = match text.as_str() {
        "" => format!("the server answers {}", status.as_u16()),
        text => format!("the server answers {}: {text}", status.as_u16()),
    };
    // A token that is wrong stays wrong.
    let is_lasting = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    OpenError { reason, is_lasting }
}

async fn body(response: Response<Incoming>) -> Result<String, OpenError> {
    let body = Limited::new(response.into_body(), SDP_BYTES_MAX).collect().await;
    let body = body.map_err(|_| OpenError::new("the server's answer breaks off, or is too long"))?;
    String::from_utf8(body.to_bytes().to_vec()).map_err(|_| OpenError::new("the server's answer is no text"))
}

/// Deletes a session that nobody has taken over.
pub(super) struct Guard<'a> {
    resource: Option<Resource>,
    settings: &'a SourceSettings,
}

impl Guard<'_> {
    pub(super) fn release(mut self) -> Option<Resource> {
        self.resource.take()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        delete_later(self.resource.take(), self.settings);
    }
}

pub(super) fn delete_later(resource: Option<Resource>, settings: &SourceSettings) {
    if let (Some(resource), Ok(runtime)) = (resource, tokio::runtime::Handle::try_current()) {
        let settings = settings.clone();
        runtime.spawn(async move { resource.delete(&settings).await });
    }
}

impl Resource {
    /// Ends the session at the server, as far as that takes it in time.
    pub(super) async fn delete(self, settings: &SourceSettings) {
        let deleting = async {
            let connection = Connection::open(&self.url, settings).await?;
            connection.ask(Method::DELETE, self.token.as_deref(), String::new()).await
        };
        let deleted = tokio::time::timeout(settings.connect_timeout.min(DELETE_MAX), deleting).await;
        if !matches!(deleted, Ok(Ok(_))) {
            tracing::debug!("a session could not be deleted at its server, which will miss it");
        }
    }
}

/// Longest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Longest life of a connection of HTTP.
const CONNECTION_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Longest wait for the answer to a DELETE.
const DELETE_MAX: std::time::Duration = std::time::Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_repeats_of_token_and_query_is_not_said() {
        let url = Url::parse("https://host/whep/x?token=a%2Fbcdef&v=1").expect("a URL");
        let text = "no: Bearer s3cret, POST /whep/x?token=a%2Fbcdef&v=1, a/bcdef, v 1";
        let said = without_secrets(text.to_owned(), Some("s3cret"), url.query().expect("a query"));
        assert_eq!(said, "no: Bearer ..., POST /whep/x?..., ..., v 1");
    }

    #[test]
    fn what_a_server_says_is_cut_by_those_who_hide_secrets_in_it() {
        for before in 150..200 {
            let said = refused(StatusCode::NOT_FOUND, format!("{}abcd-efgh", ".".repeat(before)));
            assert!(said.reason.ends_with(".abcd-efgh"), "{before}: {}", said.reason);
        }
    }
}
