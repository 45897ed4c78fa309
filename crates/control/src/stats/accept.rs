//! Which form of an answer a request wants, by its `Accept` fields (RFC 9110 section 12.5.1).

use axum::http::{HeaderMap, header};

/// A form of the statistics message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// MessagePack, under the media type the client knows it by.
    MessagePack(&'static str),
    /// JSON.
    Json,
}

/// The registered name first, then those that were in use before it.
const MESSAGEPACK: [&str; 3] = ["application/vnd.msgpack", "application/msgpack", "application/x-msgpack"];
const JSON: &str = "application/json";
/// Media ranges that are looked at; nobody needs more.
const RANGES_MAX: usize = 64;

/// How well a form suits: thousandths of quality, and how exactly it was named.
type Suits = (u16, u8);

/// The form for a request with these header fields: the one with the better quality, among equals
/// the one that is named more exactly, then MessagePack. `None` when it takes neither.
pub(super) fn form(headers: &HeaderMap) -> Option<Form> {
    if !headers.contains_key(header::ACCEPT) {
        return Some(Form::MessagePack(MESSAGEPACK[0]));
    }
    let fields = headers.get_all(header::ACCEPT).iter().filter_map(|field| field.to_str().ok());
    let ranges: Vec<(&str, u16)> =
        fields.flat_map(|field| field.split(',')).filter_map(range).take(RANGES_MAX).collect();
    let json = suits(&ranges, JSON);
    // The first among equals: `max_by_key` gives the last.
    let named =
        MESSAGEPACK.into_iter().rev().max_by_key(|name| suits(&ranges, name)).unwrap_or(MESSAGEPACK[0]);
    let messagepack = suits(&ranges, named);
    match (messagepack.0, json.0) {
        (0, 0) => None,
        _ if json > messagepack => Some(Form::Json),
        _ => Some(Form::MessagePack(named)),
    }
}

/// One media range and its quality in thousandths.
fn range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| name.contains('/'))?;
    let quality = parts.find_map(|parameter| parameter.strip_prefix("q=").or(parameter.strip_prefix("Q=")));
    let quality = quality.map_or(Some(1.0), |quality| quality.trim().parse::<f32>().ok())?;
    (0.0..=1.0).contains(&quality).then_some((name, (quality * 1000.0) as u16))
}

/// The most exact range decides, whatever others say.
fn suits(ranges: &[(&str, u16)], media_type: &str) -> Suits {
    let exactness = |name: &str| match name {
        _ if name.eq_ignore_ascii_case(media_type) => Some(3),
        _ if name.eq_ignore_ascii_case("application/*") => Some(2),
        "*/*" => Some(1),
        _ => None,
    };
    let matching = ranges.iter().filter_map(|(name, quality)| Some((exactness(name)?, *quality)));
    matching.max().map_or((0, 0), |(exactness, quality)| (quality, exactness))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_what_the_client_likes_best() {
        let messagepack = |index: usize| Some(Form::MessagePack(MESSAGEPACK[index]));
        let cases: [(&[&str], Option<Form>); 16] = [
            (&[], messagepack(0)),
            (&["*/*"], messagepack(0)),
            (&["application/json"], Some(Form::Json)),
            (&["application/json, text/plain, */*"], Some(Form::Json)), // what libraries send that want JSON
            (&["APPLICATION/JSON;q=1.0"], Some(Form::Json)),
            (&["application/msgpack"], messagepack(1)),
            (&["application/x-msgpack;q=0.5, application/json;q=0.4"], messagepack(2)),
            (&["application/vnd.msgpack, application/msgpack"], messagepack(0)),
            (&["application/json;q=0.5, application/vnd.msgpack;q=0.5"], messagepack(0)),
            (&["application/vnd.msgpack;q=0.5", "application/json"], Some(Form::Json)), // two fields
            (&["text/html, application/xhtml+xml, */*;q=0.8"], messagepack(0)), // a browser's address bar
            (&["application/*;q=0.3, application/vnd.msgpack;q=0"], messagepack(1)),
            (&["text/html"], None),
            (&["application/json;q=0"], None),
            (&["application/json;q=2, */"], None), // no such quality, no such range
            (&[""], None),
        ];
        for (fields, expected) in cases {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::ACCEPT, field.parse().expect("a value"));
            }
            assert_eq!(form(&headers), expected, "{fields:?}");
        }
    }
}
