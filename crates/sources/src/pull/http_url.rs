//! URLs of `http` and `https` for people: without user name, password and query, which holds tokens.

use url::Url;

/// What of it may be shown.
pub(in crate::pull) fn shown_http(url: &Url) -> String {
    let mut shown = url.clone();
    // Both fail only for URLs without a host, which are refused.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_fragment(None);
    shown.set_query(None);
    let hidden = if url.query().is_some() { "?..." } else { "" };
    format!("{shown}{hidden}")
}
