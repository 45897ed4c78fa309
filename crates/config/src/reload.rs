//! What of a new configuration a running server takes up, and what waits for a restart.
//!
//! One table says which keys are live. The reference page is written from it, and so is the answer to a
//! reload: [`Config::merge`] makes the configuration that is in effect from then on, which has the new values
//! of live keys and the old ones of all others. What is merged is resolved as at the start of the server, so
//! no part of the server needs to know which of its settings can change.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use crate::error::Origin;
use crate::file::LISTS;
use crate::{Config, section_keys};

/// Keys and lists that a reload changes: by name, or a whole section by `section.*`.
///
/// Not among them: addresses, threads, what is allocated once, and what threads of their own were started
/// with (recordings, segments, uploads, the cluster).
const LIVE: &[&str] = &[
    "application",
    "auth.*",
    "auth.play",
    "auth.publish",
    "channel",
    "http.cors_allow_origin",
    "http.keep_alive_connections",
    "http.keep_alive_connections_per_address",
    "http.keep_alive_seconds",
    "http.public_hosts",
    "limits.connections_per_address",
    "limits.connections_per_token",
    "limits.connects_per_second_per_address",
    "limits.connects_per_second_per_token",
    "limits.egress_mbit",
    "limits.handshake_timeout_ms",
    "limits.kbps_per_address",
    "limits.kbps_per_token",
    "limits.load_percent",
    "limits.loop_time_ms",
    "limits.memory_bytes",
    "limits.message_max_bytes",
    "limits.publisher_idle_timeout_ms",
    "limits.publisher_load_percent",
    "limits.send_delay_ms",
    "limits.sessions_per_worker",
    "limits.socket_send_buffer_bytes",
    "limits.socket_unsent_bytes",
    "log.level",
    "log.lines_per_second",
    "metrics.streams_max",
    "pull",
    "push",
    "pushes.*",
    "rtc.adaptation",
    "rtc.addresses_on_request",
    "rtc.ice_credential",
    "rtc.ice_servers",
    "rtc.ice_username",
    "rtc.pending_per_address",
    "rtc.pending_per_worker",
    "rtc.pending_timeout_ms",
    "rtc.player_max_kbps",
    "rtc.public_addresses",
    "rtc.requests_per_second",
    "rtc.sessions_per_worker",
    "rtc.start_kbps",
    "rtsp.pending_per_address",
    "rtsp.reorder_ms",
    "rtsp.silence_timeout_ms",
    "shutdown.drain_seconds",
    "sources.*",
    "srt.buffer_max_bytes",
    "srt.handshakes_per_second",
    "srt.latency_max_ms",
    "srt.latency_ms",
    "srt.passphrase",
    "srt.pending_per_address",
    "srt.pending_per_worker",
    "srt.player_max_kbps",
    "srt.sessions_per_worker",
    "srt.silence_timeout_ms",
    "srt.stream",
    "stream.*",
    "telemetry.samples_per_million",
    "tls.certificate",
    "tls.certificates",
    "tls.check_seconds",
    "tls.key",
    "transcoding.aac_bits_per_second",
    "transcoding.opus_bits_per_second",
];

/// Whether a reload changes the key `path` (`section.name`), or the list of that name.
pub fn is_live(path: &str) -> bool {
    let whole =
        |entry: &str| entry.strip_suffix(".*").is_some_and(|section| path.split('.').next() == Some(section));
    LIVE.iter().any(|entry| *entry == path || whole(entry))
}

/// How a new configuration differs from the one in effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys and lists that have changed and are live, and keys of live files with another content.
    pub changed: Vec<String>,
    /// Those that have changed and take effect at a restart.
    pub needs_restart: Vec<String>,
    /// How many keys and lists are as they were.
    pub unchanged: usize,
}

/// What the files contain that live keys name, by key; as hashes, for comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, u64>);

/// A file that a live key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveFile<'a> {
    /// The key or the list.
    pub key: &'static str,
    /// The file.
    pub path: &'a str,
    /// Where that was written.
    pub origin: Origin,
}

impl Contents {
    /// Takes from `other` what certificates are made of.
    pub fn take_certificates(&mut self, other: &Self) {
        let of_tls = other.0.iter().filter(|(key, _)| key.starts_with("tls."));
        self.0.extend(of_tls.map(|(key, hash)| (key.clone(), *hash)));
    }
}

impl Config {
    /// The configuration that is in effect after a reload of `new` while `self` was in effect, and how they
    /// differ. `before` and `after` are the contents of the files that they name.
    pub fn merge(&self, new: &Self, before: &Contents, after: &Contents) -> (Self, Changes) {
        let (mut merged, mut changes) = (self.clone(), Changes::default());
        // Listeners with TLS are there from the start on, or not at all.
        // Nor can files take the place of a certificate of our own, whose keys wait for a restart.
        let tls_stays = self.has_certificates() == new.has_certificates();
        let is_live = |path: &str| is_live(path) && (tls_stays || !path.starts_with("tls."));
        for key in section_keys() {
            let path = key.path();
            let is_same = self.get(&path) == new.get(&path);
            let is_same_content = before.0.get(&path) == after.0.get(&path);
            if is_live(&path) {
                merged.take_key(new, &path);
            }
            let is_live = is_live(&path);
            changes.note(path, is_same && is_same_content, is_live);
        }
        for list in LISTS {
            let is_same = self.list_text(list) == new.list_text(list);
            let is_same_content = before.0.get(list) == after.0.get(list);
            changes.note(list.to_owned(), is_same && is_same_content, is_live(list));
        }
        // Errors name a line of the new file, even of entries that are as they were.
        merged.applications.clone_from(&new.applications);
        merged.publish_rules.clone_from(&new.publish_rules);
        merged.play_rules.clone_from(&new.play_rules);
        merged.pulls.clone_from(&new.pulls);
        merged.pushed.clone_from(&new.pushed);
        merged.channels.clone_from(&new.channels);
        merged.srt_streams.clone_from(&new.srt_streams);
        if tls_stays {
            merged.certificates.clone_from(&new.certificates);
        }
        (merged, changes)
    }

    /// What the files contain that live keys name. One that cannot be read has no content.
    pub fn contents(&self) -> Contents {
        let mut hashers = BTreeMap::<_, DefaultHasher>::new();
        for LiveFile { key, path, .. } in self.live_files() {
            let hasher = hashers.entry(key.to_owned()).or_default();
            hasher.write(&std::fs::read(path).unwrap_or_default());
            hasher.write_u8(0);
        }
        Contents(hashers.into_iter().map(|(key, hasher)| (key, hasher.finish())).collect())
    }

    /// The files that live keys name, in no order that means anything.
    pub fn live_files(&self) -> Vec<LiveFile<'_>> {
        let auth = &self.auth;
        let single = [
            ("auth.publish_token_file", &auth.publish_token_file),
            ("auth.play_token_file", &auth.play_token_file),
            ("auth.manage_token_file", &auth.manage_token_file),
            ("auth.metrics_token_file", &auth.metrics_token_file),
            ("auth.jwks_file", &auth.jwks_file),
            ("auth.jwt_secret_file", &auth.jwt_secret_file),
            ("sources.ca_file", &self.sources.ca_file),
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
        ];
        let mut files: Vec<_> =
            single.map(|(key, path)| LiveFile { key, path, origin: self.origin(key) }).into();
        for (key, rules) in [("auth.publish", &self.publish_rules), ("auth.play", &self.play_rules)] {
            for entry in rules {
                let of_entry = entry.rule.token_files.iter();
                files.extend(of_entry.map(|path| LiveFile { key, path, origin: entry.origin.clone() }));
            }
        }
        for entry in &self.certificates {
            let of_entry = [&entry.files.certificate, &entry.files.key];
            let key = "tls.certificates";
            files.extend(of_entry.map(|path| LiveFile { key, path, origin: entry.origin.clone() }));
        }
        files.retain(|file| !file.path.is_empty());
        files
    }

    /// The key as `other` has it.
    fn take_key(&mut self, other: &Self, path: &str) {
        self.take(other, path);
        match other.origins.get(path) {
            Some(origin) => self.origins.insert(path.to_owned(), origin.clone()),
            None => self.origins.remove(path),
        };
    }

    /// All of a list, without places, for comparison.
    fn list_text(&self, list: &str) -> String {
        macro_rules! text {
            ($entries:expr, $entry:ident => $value:expr) => {
                format!("{:?}", $entries.iter().map(|$entry| $value).collect::<Vec<_>>())
            };
        }
        match list {
            "application" => text!(self.applications, entry => (&entry.name, &entry.overrides)),
            "auth.publish" => text!(self.publish_rules, entry => &entry.rule),
            "auth.play" => text!(self.play_rules, entry => &entry.rule),
            "pull" => text!(self.pulls, entry => &entry.pull),
            "push" => text!(self.pushed, entry => &entry.push),
            "channel" => text!(self.channels, entry => &entry.channel),
            "record.rule" => text!(self.record_rules, entry => (&entry.rule, &entry.overrides)),
            "srt.stream" => text!(self.srt_streams, entry => &entry.stream),
            "tls.certificates" => text!(self.certificates, entry => &entry.files),
            "vod.remote" => text!(self.vod_remotes, entry => &entry.remote),
            other => unreachable!("`{other}` is no list"),
        }
    }
}

impl Changes {
    fn note(&mut self, path: String, is_same: bool, is_live: bool) {
        match (is_same, is_live) {
            (true, _) => self.unchanged += 1,
            (false, true) => self.changed.push(path),
            (false, false) => self.needs_restart.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    fn load(text: &str) -> Config {
        let sources = Sources { file: Some(("m.toml".to_owned(), text.to_owned())), ..Sources::default() };
        crate::load(&sources).expect("valid")
    }

    #[test]
    fn each_entry_of_the_table_is_a_key_a_list_or_a_section() {
        let keys: Vec<_> = section_keys().iter().map(|key| key.path()).collect();
        for entry in LIVE {
            let is_section = entry
                .strip_suffix(".*")
                .is_some_and(|section| keys.iter().any(|key| key.split('.').next() == Some(section)));
            assert!(is_section || LISTS.contains(entry) || keys.iter().any(|key| key == entry), "{entry}");
        }
        assert!(LIVE.is_sorted());
    }

    #[test]
    fn live_keys_are_taken_and_all_others_named() {
        let before =
            load("[rtmp]\nlisten = '*:1'\n[auth]\npublish_token = 'a'\n[limits]\nring_frames = 64\n");
        let after = load(
            "[rtmp]\nlisten = '*:2'\n[limits]\nsessions_per_worker = 7\nring_frames = 64\n[[record.rule]]\n\
             stream = 'a/*'\nrecord = false\n[[auth.play]]\nstream = '*'\nallow = 'anyone'\n",
        );
        let (merged, changes) = before.merge(&after, &before.contents(), &after.contents());
        assert_eq!(changes.changed, ["limits.sessions_per_worker", "auth.publish_token", "auth.play"]);
        assert_eq!(changes.needs_restart, ["rtmp.listen", "record.rule"]);
        assert_eq!(changes.unchanged + 5, section_keys().len() + LISTS.len());
        assert_eq!((merged.limits.sessions_per_worker, merged.rtmp.listen.0[0].port), (7, 1));
        assert_eq!(merged.auth.publish_token, "");
        assert_eq!(merged.origin("auth.publish_token"), Origin::Default);
        assert!(merged.record_rules.is_empty() && merged.play_rules.len() == 1);
        // What waits for a restart is named again and again, what was taken is not.
        let (_, again) = merged.merge(&after, &after.contents(), &after.contents());
        assert_eq!((again.changed.len(), again.needs_restart), (0, changes.needs_restart));
    }

    #[test]
    fn another_line_is_no_change() {
        let before = load("[[pull]]\nstream = 'a/b'\nurl = 'rtmp://h/a/b'\n");
        let after = load("\n\n[[pull]]\nurl = 'rtmp://h/a/b'\nstream = 'a/b'\n");
        let (_, changes) = before.merge(&after, &Contents::default(), &Contents::default());
        assert_eq!((changes.changed.len(), changes.needs_restart.len()), (0, 0));
    }
}
