//! Declares a section of the configuration: the typed struct and its documentation in one place.
//!
//! `section!` expands a list of keys into a plain struct, its defaults, and the table from which
//! the file reader, the environment, the flags, `config print` and `docs/configuration.md` are all
//! served. So a key cannot exist without a meaning, a default and a cost. The keys are in
//! `keys.rs`.

use super::value::{NotAccepted, Raw};

/// Documentation and limits of one key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Section, such as `rtmp`; for entries of a list, the name of the list.
    pub section: &'static str,
    /// Name within the section.
    pub name: &'static str,
    /// What it means; several sentences.
    pub doc: String,
    /// Unit of the value; empty when it has none.
    pub unit: &'static str,
    /// What values look like, such as `integer`.
    pub kind: &'static str,
    /// Smallest and largest integer allowed.
    pub range: Option<(i64, i64)>,
    /// What a larger or different value costs.
    pub cost: &'static str,
    /// Default as TOML.
    pub default: String,
    /// Whether the value must not be printed.
    pub secret: bool,
}

impl Key {
    /// `section.name`, as written in errors and with `--set`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// `MILLSTREAM_SECTION_NAME`.
    pub fn variable(&self) -> String {
        format!("MILLSTREAM_{}_{}", self.section, self.name).to_uppercase().replace('.', "_")
    }

    /// Flag without the leading `--`: `section-name`, or the short form for some common ones. The command
    /// line takes [`Self::whole_flag`] for these as well.
    pub fn flag(&self) -> String {
        match (self.section, self.name) {
            ("server", name) | ("rtc", name @ "udp_backend") => name.replace('_', "-"),
            (section, _) => format!("{section}-{}", self.name).replace('_', "-"),
        }
    }

    /// `section-name`: a flag of every key, without the leading `--`.
    pub fn whole_flag(&self) -> String {
        self.path().replace(['_', '.'], "-")
    }

    /// Whether `text` means this key: its path, flag or variable, whatever joins the words.
    pub fn is_spelt(&self, text: &str) -> bool {
        let words = |text: &str| {
            let text = text.trim_start_matches('-').to_lowercase().replace(['-', '.'], "_");
            text.strip_prefix("millstream_").map(str::to_owned).unwrap_or(text)
        };
        let wanted = words(text);
        wanted == words(&self.path()) || wanted == words(&self.flag())
    }

    /// What is accepted, for error messages: kind, range and unit.
    pub fn accepts(&self) -> String {
        let range = self.range.map(|(low, high)| format!(" from {low} to {high}")).unwrap_or_default();
        let unit = if self.unit.is_empty() { String::new() } else { format!(" ({})", self.unit) };
        format!("{}{range}{unit}", self.kind)
    }
}

/// A group of keys that can be set by name.
pub trait Section: Default + Clone {
    /// Name of the section or list.
    const PATH: &'static str;
    /// What the section is about.
    const DOC: &'static str;
    /// All keys in order of declaration.
    fn keys() -> Vec<Key>;
    /// Sets `name`. `None`: no such key.
    fn set(&mut self, name: &str, value: &Raw) -> Option<Result<(), NotAccepted>>;
    /// Sets `name` to what `other` has, if there is such a key.
    fn take(&mut self, other: &Self, name: &str);
    /// Value of `name` as TOML. `None`: no such key.
    fn get(&self, name: &str) -> Option<String>;
}

/// Name of a key whose field needs `r#` because it is a Rust keyword.
pub(super) fn plain(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Declares a section; see `keys.rs` for its use.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $Section:ident = $path:literal {
            $(
                $(#[doc = $doc:literal])+
                $key:ident: $ty:ty = $default:expr,
                $(unit $unit:literal,)?
                $(range $low:literal..=$high:literal,)?
                $(secret $secret:literal,)?
                cost $cost:literal;
            )*
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Section {
            $( $(#[doc = $doc])+ pub $key: $ty, )*
        }

        impl Default for $Section {
            fn default() -> Self {
                Self { $( $key: $default, )* }
            }
        }

        impl $crate::section::Section for $Section {
            const PATH: &'static str = $path;
            const DOC: &'static str = concat!($($section_doc, "\n"),+);

            fn keys() -> Vec<$crate::section::Key> {
                let default = Self::default();
                vec![$(
                    $crate::section::Key {
                        section: $path,
                        name: $crate::section::plain(stringify!($key)),
                        doc: [$($doc.trim()),+].join(" ").trim().to_owned(),
                        unit: [$($unit,)? ""][0],
                        kind: <$ty as $crate::value::Setting>::KIND,
                        range: [$(Some(($low, $high)),)? None][0],
                        cost: $cost,
                        default: $crate::value::Setting::to_toml(&default.$key),
                        secret: [$($secret,)? false][0],
                    },
                )*]
            }

            fn set(&mut self, name: &str, value: &$crate::value::Raw) -> Option<Result<(), $crate::value::NotAccepted>> {
                $(
                    if name == $crate::section::plain(stringify!($key)) {
                        let range: Option<(i64, i64)> = [$(Some(($low, $high)),)? None][0];
                        return Some($crate::value::assign(&mut self.$key, value, range));
                    }
                )*
                None
            }

            fn take(&mut self, other: &Self, name: &str) {
                $(
                    if name == $crate::section::plain(stringify!($key)) {
                        self.$key.clone_from(&other.$key);
                    }
                )*
            }

            fn get(&self, name: &str) -> Option<String> {
                $(
                    if name == $crate::section::plain(stringify!($key)) {
                        return Some($crate::value::Setting::to_toml(&self.$key));
                    }
                )*
                None
            }
        }
    };
}

pub(super) use section;
