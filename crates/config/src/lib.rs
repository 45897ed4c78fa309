//! Configuration: defaults, then the TOML file, then the environment, then flags.
//!
//! `load` applies the layers and collects every error with its place. The keys are in `keys.rs`;
//! `resolve.rs` turns them into settings of workers, authorisation and TLS; `print.rs` prints them.

pub mod error;
pub mod file;
pub mod keys;
mod policy;
pub mod print;
pub mod resolve;
mod rtc;
pub mod section;
mod sources;
pub mod tls;
pub mod value;

use std::collections::BTreeMap;

use error::{ConfigError, Origin, suggestion};
use keys::{
    ApplicationName, Auth, AuthRule, ChannelEntry, Demo, Http, Https, Limits, Log, Metrics, PullEntry, Rtc,
    Rtmp, Rtmps, Server, Shutdown, Sources as SourceKeys, Stream, Tls, Transcoding,
};
use section::{Key, Section};
use value::Raw;

/// The whole configuration, typed and within range; relations between keys are checked by `resolve`.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[rtmp]`
    pub rtmp: Rtmp,
    /// `[rtmps]`
    pub rtmps: Rtmps,
    /// `[http]`
    pub http: Http,
    /// `[https]`
    pub https: Https,
    /// `[rtc]`
    pub rtc: Rtc,
    /// `[tls]`
    pub tls: Tls,
    /// `[limits]`
    pub limits: Limits,
    /// `[stream]`
    pub stream: Stream,
    /// `[transcoding]`
    pub transcoding: Transcoding,
    /// `[auth]`
    pub auth: Auth,
    /// `[log]`
    pub log: Log,
    /// `[metrics]`
    pub metrics: Metrics,
    /// `[shutdown]`
    pub shutdown: Shutdown,
    /// `[sources]`
    pub sources: SourceKeys,
    /// `[demo]`
    pub demo: Demo,
    /// `[[application]]` entries in order.
    pub applications: Vec<ApplicationEntry>,
    /// `[[auth.publish]]` entries in order.
    pub publish_rules: Vec<RuleEntry>,
    /// `[[auth.play]]` entries in order.
    pub play_rules: Vec<RuleEntry>,
    /// `[[pull]]` entries in order.
    pub pulls: Vec<PulledEntry>,
    /// `[[channel]]` entries in order.
    pub channels: Vec<ChannelledEntry>,
    /// Where each key that is not at its default was set.
    origins: BTreeMap<String, Origin>,
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

/// Keys of all sections that exist once, in the order of the documentation.
pub fn section_keys() -> Vec<Key> {
    let sections = [
        Server::keys(),
        Rtmp::keys(),
        Rtmps::keys(),
        Http::keys(),
        Https::keys(),
        Rtc::keys(),
        Tls::keys(),
        Limits::keys(),
        Stream::keys(),
        Transcoding::keys(),
        Auth::keys(),
        Log::keys(),
        Metrics::keys(),
        Shutdown::keys(),
        SourceKeys::keys(),
        Demo::keys(),
    ];
    sections.into_iter().flatten().collect()
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

    /// Value of `path` as TOML.
    pub fn get(&self, path: &str) -> Option<String> {
        let (section, name) = path.split_once('.')?;
        match section {
            Server::PATH => self.server.get(name),
            Rtmp::PATH => self.rtmp.get(name),
            Rtmps::PATH => self.rtmps.get(name),
            Http::PATH => self.http.get(name),
            Https::PATH => self.https.get(name),
            Rtc::PATH => self.rtc.get(name),
            Tls::PATH => self.tls.get(name),
            Limits::PATH => self.limits.get(name),
            Stream::PATH => self.stream.get(name),
            Transcoding::PATH => self.transcoding.get(name),
            Auth::PATH => self.auth.get(name),
            Log::PATH => self.log.get(name),
            Metrics::PATH => self.metrics.get(name),
            Shutdown::PATH => self.shutdown.get(name),
            SourceKeys::PATH => self.sources.get(name),
            Demo::PATH => self.demo.get(name),
            _ => None,
        }
    }

    fn set(&mut self, path: &str, value: &Raw) -> Option<Result<(), value::NotAccepted>> {
        let (section, name) = path.split_once('.')?;
        match section {
            Server::PATH => self.server.set(name, value),
            Rtmp::PATH => self.rtmp.set(name, value),
            Rtmps::PATH => self.rtmps.set(name, value),
            Http::PATH => self.http.set(name, value),
            Https::PATH => self.https.set(name, value),
            Rtc::PATH => self.rtc.set(name, value),
            Tls::PATH => self.tls.set(name, value),
            Limits::PATH => self.limits.set(name, value),
            Stream::PATH => self.stream.set(name, value),
            Transcoding::PATH => self.transcoding.set(name, value),
            Auth::PATH => self.auth.set(name, value),
            Log::PATH => self.log.set(name, value),
            Metrics::PATH => self.metrics.set(name, value),
            Shutdown::PATH => self.shutdown.set(name, value),
            SourceKeys::PATH => self.sources.set(name, value),
            Demo::PATH => self.demo.set(name, value),
            _ => None,
        }
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
            None => errors.push(unknown_key(path, &origin)),
        }
    }

    fn apply_file(&mut self, content: file::FileContent, errors: &mut Vec<ConfigError>) {
        let known: Vec<&str> =
            section_keys().iter().map(|key| key.section).chain(["application", "pull", "channel"]).collect();
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
                "pull" => self.apply_pull(table, errors),
                "channel" => self.apply_channel(table, errors),
                _ => self.apply_rule(table, errors),
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
                let names = section_keys().iter().map(Key::variable).collect::<Vec<_>>();
                errors.push(ConfigError::new(&origin, format!("no such setting{}", suggestion(name, names))));
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

    fn apply_rule(&mut self, table: file::ListTable, errors: &mut Vec<ConfigError>) {
        let mut rule = AuthRule::default();
        let mut allow_given = false;
        for entry in table.entries {
            match rule.set(&entry.path, &entry.value) {
                Some(Ok(())) => allow_given |= entry.path == "allow",
                Some(Err(_)) => errors.push(list_value(table.list, &entry, &AuthRule::keys())),
                None => errors.push(list_key(table.list, &entry, &AuthRule::keys())),
            }
        }
        let rules = if table.list == "auth.publish" { &mut self.publish_rules } else { &mut self.play_rules };
        rules.push(RuleEntry { rule, allow_given, origin: table.origin });
    }

    fn apply_pull(&mut self, table: file::ListTable, errors: &mut Vec<ConfigError>) {
        let mut pull = PullEntry::default();
        for entry in table.entries {
            match pull.set(&entry.path, &entry.value) {
                Some(Ok(())) => {}
                Some(Err(_)) => errors.push(list_value(table.list, &entry, &PullEntry::keys())),
                None => errors.push(list_key(table.list, &entry, &PullEntry::keys())),
            }
        }
        self.pulls.push(PulledEntry { pull, origin: table.origin });
    }

    fn apply_channel(&mut self, table: file::ListTable, errors: &mut Vec<ConfigError>) {
        let mut channel = ChannelEntry::default();
        for entry in table.entries {
            match channel.set(&entry.path, &entry.value) {
                Some(Ok(())) => {}
                Some(Err(_)) => errors.push(list_value(table.list, &entry, &ChannelEntry::keys())),
                None => errors.push(list_key(table.list, &entry, &ChannelEntry::keys())),
            }
        }
        self.channels.push(ChannelledEntry { channel, origin: table.origin });
    }
}

/// Names the file to read; `--config` takes precedence.
pub const CONFIG_VARIABLE: &str = "MILLSTREAM_CONFIG";

fn unknown_key(path: &str, origin: &Origin) -> ConfigError {
    let names = section_keys().iter().map(Key::path).collect::<Vec<_>>();
    let names = names.into_iter().chain(file::LISTS.map(str::to_owned));
    ConfigError::new(origin, format!("unknown key `{path}`{}", suggestion(path, names)))
}

fn not_accepted(path: &str, value: &Raw, key: Option<Key>, origin: &Origin) -> ConfigError {
    let secret = key.as_ref().is_some_and(|key| key.secret);
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
