//! What a channel is: its stream, its items, and when it began. Checked once.

use std::time::SystemTime;

use super::location::Location;
use crate::settings::{AddedBy, SourceSettings};

/// Items of one channel.
pub(super) const ITEMS_MAX: usize = 1_000;

/// Items that are named in one error.
const ERRORS_MAX: usize = 10;

/// One channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSpec {
    /// Application of its stream.
    pub app: String,
    /// Name of its stream.
    pub name: String,
    /// What is played, in order. Not empty.
    pub items: Vec<Location>,
    /// Whether it begins again after the last item.
    pub looped: bool,
    /// When the playlist began, or will begin. Without it, when the channel is made.
    pub start: Option<SystemTime>,
}

/// A channel as the configuration or the API names it, not checked yet.
#[derive(Debug, Clone, Copy)]
pub struct ChannelRequest<'a> {
    /// Application of its stream.
    pub app: &'a str,
    /// Name of its stream.
    pub name: &'a str,
    /// URLs and paths.
    pub items: &'a [String],
    /// Whether it begins again after the last item.
    pub looped: bool,
    /// When the playlist began.
    pub start: Option<SystemTime>,
}

impl ChannelSpec {
    /// Checks `request` against `settings`. The error is a sentence without what may be secret.
    pub fn new(
        request: ChannelRequest<'_>,
        settings: &SourceSettings,
        added_by: AddedBy,
    ) -> Result<Self, String> {
        let ChannelRequest { app, name, items, looped, start } = request;
        settings.check_name(app, name)?;
        if items.is_empty() || items.len() > ITEMS_MAX {
            return Err(format!("items: takes 1 to {ITEMS_MAX} of them"));
        }
        let root = settings.files_root.as_deref();
        let read = |(index, text): (usize, &String)| {
            let read = Location::parse(text, root, added_by);
            let checked = read.and_then(|location| location.check_host(settings).map(|()| location));
            checked.map_err(|error| format!("items[{index}]: {error}"))
        };
        let (items, errors): (Vec<_>, Vec<_>) = items.iter().enumerate().map(read).partition(Result::is_ok);
        let errors: Vec<_> = errors.into_iter().filter_map(Result::err).take(ERRORS_MAX).collect();
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        let items = items.into_iter().flatten().collect();
        Ok(Self { app: app.to_owned(), name: name.to_owned(), items, looped, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(app: &str, name: &str, items: &[&str]) -> String {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        let request = ChannelRequest { app, name, items: &items, looped: true, start: None };
        ChannelSpec::new(request, &SourceSettings::default(), AddedBy::Api).expect_err("refused")
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            (error_of("live", "", &["http://h/a"]), "cannot publish as `live/`: the name"),
            (error_of("live", "a/b", &["http://h/a"]), "has a slash"),
            (error_of("live", "$(id)", &["http://h/a"]), "other than letters"),
            (error_of("live", "a", &[]), "items: takes 1 to"),
            (error_of("live", "a", &["http://h/a"; ITEMS_MAX + 1]), "items: takes 1 to"),
            (error_of("live", "a", &["http://h/a", "ftp://me:secret@h/b"]), "items[1]: the scheme `ftp`"),
            (error_of("live", "a", &["a.mp4"]), "items[0]: local files need"),
            (
                error_of("live", "a", &["http://h/a", "http://10.1.2.3/b"]),
                "items[1]: 10.1.2.3 is not a public",
            ),
            (
                error_of("live", "a", &["http://10.1.2.3/b", "http://h/a", "ftp://h/b"]),
                "; items[2]: the scheme",
            ),
        ];
        for (error, expected) in cases {
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_lets_in_is_not_shown() {
        let items = ["https://me:secret@h/a?token=secret".to_owned()];
        let request = ChannelRequest { app: "a/b", name: "c", items: &items, looped: true, start: None };
        let spec = ChannelSpec::new(request, &SourceSettings::default(), AddedBy::Api).expect("a channel");
        assert!(!format!("{spec:?} {}", spec.items[0]).contains("secret"));
    }
}
