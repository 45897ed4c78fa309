//! Configuration: defaults, then the TOML file, then the environment, then flags.
//!
//! `load` applies the layers and collects every error with its place. The keys are in `keys.rs`;
//! `resolve.rs` turns them into settings of workers, authorisation and TLS; `print.rs` prints them.

mod acme;
mod cluster;
pub mod error;
pub mod file;
mod hooks;
pub mod keys;
mod moq;
mod policy;
pub mod print;
mod pushes;
mod record;
pub mod reload;
pub mod resolve;
mod rtc;
pub mod section;
mod sources;
mod srt;
mod telemetry;
pub mod tls;
mod udp_backend;
mod upload;
pub mod value;
mod vod;

use std::collections::BTreeMap;

use error::{ConfigError, Origin, key_suggestion, suggestion};
use keys::{
    ApplicationName, AuthRule, CertificateFiles, ChannelEntry, PullEntry, PushEntry, Record, RecordRule,
    SrtStream, Stream, VodRemote,
};
use section::{Key, Section};
use value::Raw;

/// Declares [`Config`] and what goes through its sections.
macro_rules! config {
    ($($field:ident: $Section:ident,)*) => {
        /// The whole configuration, typed and within range; relations between keys are checked by `resolve`.
        #[derive(Debug, Clone, Default)]
        pub struct Config {
            $(
                #[doc = concat!("`[", stringify!($field), "]`")]
                pub $field: keys::$Section,
            )*
            /// `[[application]]` entries in order.
            pub applications: Vec<ApplicationEntry>,
            /// `[[auth.publish]]` entries in order.
            pub publish_rules: Vec<RuleEntry>,
            /// `[[auth.play]]` entries in order.
            pub play_rules: Vec<RuleEntry>,
            /// `[[pull]]` entries in order.
            pub pulls: Vec<PulledEntry>,
            /// `[[push]]` entries in order.
            pub pushed: Vec<PushedEntry>,
            /// `[[channel]]` entries in order.
            pub channels: Vec<ChannelledEntry>,
            /// `[[record.rule]]` entries in order.
            pub record_rules: Vec<RecordEntry>,
            /// `[[srt.stream]]` entries in order.
            pub srt_streams: Vec<SrtStreamEntry>,
            /// `[[tls.certificates]]` entries in order.
            pub certificates: Vec<CertificateEntry>,
            /// `[[vod.remote]]` entries in order.
            pub vod_remotes: Vec<VodRemoteEntry>,
            /// Where each key that is not at its default was set.
            origins: BTreeMap<String, Origin>,
        }

        /// Keys of all sections that exist once, in the order of the documentation.
        pub fn section_keys() -> Vec<Key> {
            [$(keys::$Section::keys()),*].into_iter().flatten().collect()
        }

        /// What a section is about.
        fn section_doc(section: &str) -> &'static str {
            match section {
                $(keys::$Section::PATH => keys::$Section::DOC.trim(),)*
                _ => "",
            }
        }

        impl Config {
            /// Value of `path` as TOML.
            pub fn get(&self, path: &str) -> Option<String> {
                match path.split_once('.')? {
                    $((keys::$Section::PATH, name) => self.$field.get(name),)*
                    _ => None,
                }
            }

            /// Sets `path` to what `other` has.
            fn take(&mut self, other: &Self, path: &str) {
                match path.split_once('.') {
                    $(Some((keys::$Section::PATH, name)) => self.$field.take(&other.$field, name),)*
                    _ => {}
                }
            }

            fn set(&mut self, path: &str, value: &Raw) -> Option<Result<(), value::NotAccepted>> {
                match path.split_once('.')? {
                    $((keys::$Section::PATH, name) => self.$field.set(name, value),)*
                    _ => None,
                }
            }
        }
    };
}

// Sections that exist once, in the order of the documentation.
config! {
    server: Server,
    rtmp: Rtmp,
    rtmps: Rtmps,
    http: Http,
    https: Https,
    rtc: Rtc,
    rtsp: Rtsp,
    rtsps: Rtsps,
    srt: Srt,
    moq: Moq,
    tls: Tls,
    acme: Acme,
    limits: Limits,
    stream: Stream,
    hls: Hls,
    record: Record,
    upload: Upload,
    vod: Vod,
    transcoding: Transcoding,
    auth: Auth,
    hooks: Hooks,
    log: Log,
    metrics: Metrics,
    telemetry: Telemetry,
    shutdown: Shutdown,
    cluster: Cluster,
    sources: Sources,
    pushes: PushLimits,
    demo: Demo,
}

/// One `[[application]]`: a name pattern and what differs from `[stream]`.
#[derive(Debug, Clone)]
pub struct ApplicationEntry {
    /// The pattern.
    pub name: String,
    /// Keys of `[stream]` it sets, already checked.
    pub overrides: Vec<(String, Raw)>,
}

/// One `[[auth.publish]]` or `[[auth.play]]`.
#[derive(Debug, Clone)]
pub struct RuleEntry {
    /// Its values.
    pub rule: AuthRule,
    /// Whether `allow` was written.
    pub allow_given: bool,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[record.rule]]`.
#[derive(Debug, Clone)]
pub struct RecordEntry {
    /// Which streams.
    pub rule: RecordRule,
    /// Keys of `[record]` it sets, already checked.
    pub overrides: Vec<(String, Raw)>,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[push]]`.
#[derive(Debug, Clone)]
pub struct PushedEntry {
    /// Its values.
    pub push: PushEntry,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[pull]]`.
#[derive(Debug, Clone)]
pub struct PulledEntry {
    /// Its values.
    pub pull: PullEntry,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[channel]]`.
#[derive(Debug, Clone)]
pub struct ChannelledEntry {
    /// Its values.
    pub channel: ChannelEntry,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[srt.stream]]`.
#[derive(Debug, Clone)]
pub struct SrtStreamEntry {
    /// Its values.
    pub stream: SrtStream,
    /// Where it was written.
    pub origin: Origin,
}

/// One `[[tls.certificates]]`.
#[derive(Debug, Clone)]
pub struct CertificateEntry {
    /// Its values.
    pub files: CertificateFiles,
    /// Where it begins.
    pub origin: Origin,
}

/// One `[[vod.remote]]`.
#[derive(Debug, Clone)]
pub struct VodRemoteEntry {
    /// Its values.
    pub remote: VodRemote,
    /// Where it begins.
    pub origin: Origin,
}

/// The layers above the defaults.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Name and text of the file.
    pub file: Option<(String, String)>,
    /// Environment variables; those without our prefix are ignored.
    pub environment: Vec<(String, String)>,
    /// `section.name`, value, and the flag as written.
    pub flags: Vec<(String, String, String)>,
}

/// Applies every layer. On failure returns all errors, in the order of the layers.
pub fn load(sources: &Sources) -> Result<Config, Vec<ConfigError>> {
    let mut config = Config::default();
    let mut errors = Vec::new();
    if let Some((name, text)) = &sources.file {
        match file::parse(name, text) {
            Ok(content) => config.apply_file(content, &mut errors),
            Err(syntax) => errors.extend(syntax),
        }
    }
    for (name, value) in &sources.environment {
        config.apply_variable(name, value, &mut errors);
    }
    for (path, value, flag) in &sources.flags {
        let origin = Origin::Flag(flag.clone());
        config.apply(path, &Raw::Untyped(value.clone()), origin, &mut errors);
    }
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

impl Config {
    /// Where `path` (`section.name`) was set.
    pub fn origin(&self, path: &str) -> Origin {
        self.origins.get(path).cloned().unwrap_or(Origin::Default)
    }

    /// Settings of the application `entry`: `[stream]` with its differences.
    pub fn application_stream(&self, entry: &ApplicationEntry) -> Stream {
        let mut stream = self.stream.clone();
        for (name, value) in &entry.overrides {
            // Checked when the entry was read.
            let _ = stream.set(name, value);
        }
        stream
    }

    /// How the streams of a rule are recorded: `[record]` with its differences.
    pub fn rule_record(&self, entry: &RecordEntry) -> Record {
        let mut record = self.record.clone();
        for (name, value) in &entry.overrides {
            // Checked when the entry was read.
            let _ = record.set(name, value);
        }
        record
    }

    fn apply(&mut self, path: &str, value: &Raw, origin: Origin, errors: &mut Vec<ConfigError>) {
        match self.set(path, value) {
            Some(Ok(())) => {
                self.origins.insert(path.to_owned(), origin);
            }
            Some(Err(_)) => {
                let accepted = section_keys().into_iter().find(|key| key.path() == path);
                errors.push(not_accepted(path, value, accepted, &origin));
            }
            None => {
                let near = key_suggestion(path, Key::path, file::LISTS.map(str::to_owned));
                errors.push(ConfigError::new(&origin, format!("unknown key `{path}`{near}")));
            }
        }
    }

    fn apply_file(&mut self, content: file::FileContent, errors: &mut Vec<ConfigError>) {
        let known: Vec<&str> = section_keys()
            .iter()
            .map(|key| key.section)
            .chain(["application", "pull", "push", "channel"])
            .collect();
        let mut unknown = content.sections;
        unknown.retain(|(section, _)| !known.contains(&section.as_str()));
        for (section, origin) in &unknown {
            let near = suggestion(section, known.iter().map(|name| (*name).to_owned()));
            errors.push(ConfigError::new(origin, format!("unknown section [{section}]{near}")));
        }
        let of_unknown =
            |path: &str| unknown.iter().any(|(section, _)| path.split('.').next() == Some(section));
        for entry in content.entries {
            if of_unknown(&entry.path) {
                // Reported once, for the section.
            } else if file::LISTS.contains(&entry.path.as_str()) {
                let message = format!("`{0}` is a list of tables: write [[{0}]]", entry.path);
                errors.push(ConfigError::new(&entry.origin, message));
            } else {
                self.apply(&entry.path, &entry.value, entry.origin, errors);
            }
        }
        for table in content.tables {
            match table.list {
                "application" => self.apply_application(table, errors),
                "record.rule" => self.apply_record_rule(table, errors),
                "srt.stream" => {
                    let stream = list_entry(&table, errors);
                    self.srt_streams.push(SrtStreamEntry { stream, origin: table.origin });
                }
                "tls.certificates" => {
                    let files = list_entry(&table, errors);
                    self.certificates.push(CertificateEntry { files, origin: table.origin });
                }
                "vod.remote" => {
                    let remote = list_entry(&table, errors);
                    self.vod_remotes.push(VodRemoteEntry { remote, origin: table.origin });
                }
                "pull" => {
                    self.pulls.push(PulledEntry { pull: list_entry(&table, errors), origin: table.origin })
                }
                "push" => {
                    self.pushed.push(PushedEntry { push: list_entry(&table, errors), origin: table.origin })
                }
                "channel" => self
                    .channels
                    .push(ChannelledEntry { channel: list_entry(&table, errors), origin: table.origin }),
                list => {
                    let rules =
                        if list == "auth.publish" { &mut self.publish_rules } else { &mut self.play_rules };
                    let allow_given = table.entries.iter().any(|entry| entry.path == "allow");
                    rules.push(RuleEntry {
                        rule: list_entry(&table, errors),
                        allow_given,
                        origin: table.origin,
                    });
                }
            }
        }
    }

    fn apply_variable(&mut self, name: &str, value: &str, errors: &mut Vec<ConfigError>) {
        // Kubernetes gives every container of a namespace that has a service `millstream` these names.
        let foreign = name.starts_with("MILLSTREAM_SERVICE_")
            || name == "MILLSTREAM_PORT"
            || name
                .strip_prefix("MILLSTREAM_PORT_")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        // Options of `millstream top`, which may be set in the shell that starts a server.
        let foreign = foreign || name.starts_with(top::VARIABLES);
        if !name.starts_with("MILLSTREAM_") || name == CONFIG_VARIABLE || foreign {
            return;
        }
        let origin = Origin::Environment(name.to_owned());
        match section_keys().iter().find(|key| key.variable() == name) {
            Some(key) => self.apply(&key.path(), &Raw::Untyped(value.to_owned()), origin, errors),
            None => {
                let near = key_suggestion(name, Key::variable, []);
                errors.push(ConfigError::new(&origin, format!("no such setting{near}")));
            }
        }
    }

    fn apply_application(&mut self, table: file::ListTable, errors: &mut Vec<ConfigError>) {
        let mut name = ApplicationName::default();
        let mut scratch = Stream::default();
        let mut overrides = Vec::new();
        let keys: Vec<Key> = ApplicationName::keys().into_iter().chain(Stream::keys()).collect();
        for entry in table.entries {
            match name.set(&entry.path, &entry.value).or_else(|| scratch.set(&entry.path, &entry.value)) {
                Some(Ok(())) if entry.path == "name" => {}
                Some(Ok(())) => overrides.push((entry.path, entry.value)),
                Some(Err(_)) => errors.push(list_value("application", &entry, &keys)),
                None => errors.push(list_key("application", &entry, &keys)),
            }
        }
        if name.name.is_empty() {
            errors.push(ConfigError::new(
                &table.origin,
                "[[application]] needs a `name`, such as \"live\" or \"*\"",
            ));
        }
        self.applications.push(ApplicationEntry { name: name.name, overrides });
    }

    fn apply_record_rule(&mut self, table: file::ListTable, errors: &mut Vec<ConfigError>) {
        let mut rule = RecordRule::default();
        let mut scratch = Record::default();
        let mut overrides = Vec::new();
        let of_record = record_rule_keys();
        let keys: Vec<Key> = RecordRule::keys().into_iter().chain(of_record.clone()).collect();
        for entry in table.entries {
            let is_of_record = of_record.iter().any(|key| key.name == entry.path);
            let set = match is_of_record {
                true => scratch.set(&entry.path, &entry.value),
                false => rule.set(&entry.path, &entry.value),
            };
            match set {
                Some(Ok(())) if is_of_record => overrides.push((entry.path, entry.value)),
                Some(Ok(())) => {}
                Some(Err(_)) => errors.push(list_value("record.rule", &entry, &keys)),
                None => errors.push(list_key("record.rule", &entry, &keys)),
            }
        }
        self.record_rules.push(RecordEntry { rule, overrides, origin: table.origin });
    }
}

/// Keys of `[record]` that a rule may set otherwise.
pub(crate) fn record_rule_keys() -> Vec<Key> {
    let own = |key: &Key| {
        matches!(key.name, "directory" | "format")
            || key.name.starts_with("rotate_")
            || key.name.starts_with("keep_")
    };
    Record::keys().into_iter().filter(own).collect()
}

/// An entry of a list whose keys are those of one section.
fn list_entry<S: Section>(table: &file::ListTable, errors: &mut Vec<ConfigError>) -> S {
    let mut section = S::default();
    for entry in &table.entries {
        match section.set(&entry.path, &entry.value) {
            Some(Ok(())) => {}
            Some(Err(_)) => errors.push(list_value(table.list, entry, &S::keys())),
            None => errors.push(list_key(table.list, entry, &S::keys())),
        }
    }
    section
}

/// Names the file to read; `--config` takes precedence.
pub const CONFIG_VARIABLE: &str = "MILLSTREAM_CONFIG";

fn not_accepted(path: &str, value: &Raw, key: Option<Key>, origin: &Origin) -> ConfigError {
    // A token may be at a key beside its own.
    let secret = key.as_ref().is_some_and(|key| key.secret) || path.starts_with("auth.");
    let given = if secret { "the given value".to_owned() } else { value.describe() };
    let accepts = key.map(|key| key.accepts()).unwrap_or_default();
    ConfigError::new(origin, format!("`{path}` cannot be {given}: it takes {accepts}"))
}

fn list_value(list: &str, entry: &file::Entry, keys: &[Key]) -> ConfigError {
    let key = keys.iter().find(|key| key.name == entry.path).cloned();
    not_accepted(&format!("{list}.{}", entry.path), &entry.value, key, &entry.origin)
}

fn list_key(list: &str, entry: &file::Entry, keys: &[Key]) -> ConfigError {
    let near = suggestion(&entry.path, keys.iter().map(|key| key.name.to_owned()));
    ConfigError::new(&entry.origin, format!("unknown key `{}` in [[{list}]]{near}", entry.path))
}

#[cfg(test)]
mod tests;
