//! Shows the configuration: as TOML, documented or not, and as the reference page.
//!
//! Both are written from the table of keys. Secrets are never printed.

use std::fmt::Write;

use super::error::Origin;
use super::file::LISTS;
use super::keys::{
    ApplicationName, AuthRule, CertificateFiles, ChannelEntry, PullEntry, PushEntry, RecordRule, SrtStream,
    Stream, VodRemote,
};
use super::reload::is_live;
use super::section::{Key, Section};
use super::{Config, section_doc, section_keys};

/// `config` as TOML, which can be loaded again. As comments: `documented`, everything known about
/// each key; `origins`, where it was set.
pub fn toml(config: &Config, documented: bool, origins: bool) -> String {
    let mut out = String::new();
    let mut section = "";
    for key in section_keys() {
        if key.section != section {
            section = key.section;
            if !out.is_empty() {
                out.push('\n');
            }
            if documented {
                comment(&mut out, section_doc(section));
            }
            let _ = writeln!(out, "[{section}]");
        }
        if documented {
            out.push('\n');
            comment(&mut out, &key.doc);
            let summary = format!("Takes {}. Default {}. Cost: {}", key.accepts(), key.default, key.cost);
            comment(&mut out, &summary);
        }
        let path = key.path();
        let origin = config.origin(&path);
        let value = config.get(&path).unwrap_or_default();
        let source = match origin {
            Origin::Default => String::new(),
            _ if !origins => String::new(),
            _ => format!("  # from {origin}"),
        };
        // An empty token in a file is an error, and so is an empty place of keys: one that is not set is
        // not printed as empty.
        let set = if value == "\"\"" { "not set" } else { "set, and not shown" };
        if key.secret || path.starts_with("auth.") && value == "\"\"" {
            let _ = writeln!(out, "# {} is {set}{}", key.name, source.replace("  #", ","));
        } else {
            let _ = writeln!(out, "{} = {value}{source}", key.name);
        }
    }
    lists(&mut out, config);
    if documented {
        out.push('\n');
        comment(&mut out, LISTS_DOC);
    }
    out
}

/// The reference page, `docs/configuration.md`.
pub fn markdown() -> String {
    let mut out = String::from(PREFACE);
    let mut section = "";
    for key in section_keys() {
        if key.section != section {
            section = key.section;
            let _ = write!(out, "\n## `[{section}]`\n\n{}\n", section_doc(section));
        }
        entry(&mut out, &key, true);
    }
    list::<ApplicationName>(&mut out, "`[[application]]`");
    let names: Vec<String> = Stream::keys().iter().map(|key| format!("`{}`", key.name)).collect();
    out.push('\n');
    wrap(&mut out, "", "", &format!("Then any of: {}.", names.join(", ")));
    list::<AuthRule>(&mut out, "`[[auth.publish]]` and `[[auth.play]]`");
    list::<PullEntry>(&mut out, "`[[pull]]`");
    list::<PushEntry>(&mut out, "`[[push]]`");
    list::<ChannelEntry>(&mut out, "`[[channel]]`");
    list::<RecordRule>(&mut out, "`[[record.rule]]`");
    let names: Vec<String> = super::record_rule_keys().iter().map(|key| format!("`{}`", key.name)).collect();
    out.push('\n');
    wrap(&mut out, "", "", &format!("Then any of: {}.", names.join(", ")));
    list::<SrtStream>(&mut out, "`[[srt.stream]]`");
    list::<CertificateFiles>(&mut out, "`[[tls.certificates]]`");
    list::<VodRemote>(&mut out, "`[[vod.remote]]`");
    out.push_str(EXAMPLES);
    out
}

fn list<S: Section>(out: &mut String, title: &str) {
    let _ = write!(out, "\n## {title}\n\n{}\n", S::DOC.trim());
    let changes = if is_live(S::PATH) { "at a reload" } else { "at a restart" };
    let _ = write!(out, "\nEntries change {changes}.\n");
    for key in S::keys() {
        entry(out, &key, false);
    }
}

fn entry(out: &mut String, key: &Key, reachable: bool) {
    let _ = writeln!(out, "\n### `{}`\n", if reachable { key.path() } else { key.name.to_owned() });
    wrap(out, "", "", &key.doc);
    out.push('\n');
    wrap(out, "- ", "  ", &format!("takes: {}", key.accepts()));
    wrap(out, "- ", "  ", &format!("default: `{}`", key.default));
    wrap(out, "- ", "  ", &format!("cost: {}", key.cost));
    let changes = if is_live(&key.path()) { "at a reload" } else { "at a restart" };
    if reachable {
        let _ = writeln!(out, "- changes: {changes}");
    }
    if reachable {
        wrap(out, "- ", "  ", &format!("environment `{}`, flag `--{}`", key.variable(), key.flag()));
    }
}

fn lists(out: &mut String, config: &Config) {
    for entry in &config.applications {
        let _ = write!(out, "\n[[application]]\nname = {}\n", super::value::toml_string(&entry.name));
        let stream = config.application_stream(entry);
        for (name, _) in &entry.overrides {
            let _ = writeln!(out, "{name} = {}", stream.get(name).unwrap_or_default());
        }
    }
    for (list, rules) in [("auth.publish", &config.publish_rules), ("auth.play", &config.play_rules)] {
        for entry in rules {
            let _ = writeln!(out, "\n[[{list}]]");
            for key in AuthRule::keys() {
                match entry.rule.get(key.name) {
                    Some(value) if key.secret && value != "[]" => {
                        let _ = writeln!(out, "# {} is set and not shown", key.name);
                    }
                    Some(value) if value != "[]" => {
                        let _ = writeln!(out, "{} = {value}", key.name);
                    }
                    _ => {}
                }
            }
        }
    }
    for entry in &config.record_rules {
        let _ = writeln!(out, "\n[[record.rule]]");
        for key in RecordRule::keys() {
            let _ = writeln!(out, "{} = {}", key.name, entry.rule.get(key.name).unwrap_or_default());
        }
        let record = config.rule_record(entry);
        for (name, _) in &entry.overrides {
            let _ = writeln!(out, "{name} = {}", record.get(name).unwrap_or_default());
        }
    }
    for entry in &config.pulls {
        let _ = writeln!(out, "\n[[pull]]\nstream = {}", super::value::toml_string(&entry.pull.stream));
        if entry.pull.on_demand {
            let _ = writeln!(out, "on_demand = true");
        }
        // It may hold a password.
        let _ = writeln!(out, "# url is set and not shown");
    }
    for entry in &config.pushed {
        let _ = writeln!(out, "\n[[push]]\nstream = {}", super::value::toml_string(&entry.push.stream));
        // It may hold a key.
        let _ = writeln!(out, "# url is set and not shown");
    }
    for entry in &config.srt_streams {
        let stream = super::value::toml_string(&entry.stream.stream);
        let _ = writeln!(out, "\n[[srt.stream]]\nstream = {stream}");
        for (name, passphrase) in [
            ("publish_passphrase", &entry.stream.publish_passphrase),
            ("play_passphrase", &entry.stream.play_passphrase),
        ] {
            if !passphrase.is_empty() {
                let _ = writeln!(out, "# {name} is set and not shown");
            }
        }
    }
    for entry in &config.certificates {
        let _ = writeln!(out, "\n[[tls.certificates]]");
        for key in CertificateFiles::keys() {
            let _ = writeln!(out, "{} = {}", key.name, entry.files.get(key.name).unwrap_or_default());
        }
    }
    for entry in &config.vod_remotes {
        let name = super::value::toml_string(&entry.remote.name);
        let _ = writeln!(out, "\n[[vod.remote]]\nname = {name}\n# url is set and not shown");
    }
    for entry in &config.channels {
        let _ = writeln!(out, "\n[[channel]]");
        for key in ChannelEntry::keys() {
            // URLs may hold passwords.
            match entry.channel.get(key.name) {
                Some(_)
                    if key.name == "items" && entry.channel.items.iter().any(|item| item.contains("://")) =>
                {
                    let _ = writeln!(out, "# items are set and not shown");
                }
                Some(value) => {
                    let _ = writeln!(out, "{} = {value}", key.name);
                }
                None => {}
            }
        }
    }
    debug_assert_eq!(LISTS.len(), 10, "every list is printed");
}

/// Writes `text` as comment lines. Lines that begin with a space are code and stay as they are.
fn comment(out: &mut String, text: &str) {
    for paragraph in text.lines() {
        match paragraph.starts_with(' ') {
            true => _ = writeln!(out, "#{paragraph}"),
            false => wrap(out, "# ", "# ", paragraph),
        }
    }
}

/// Writes `text` in lines of at most 100 characters, if its words permit.
fn wrap(out: &mut String, first: &str, rest: &str, text: &str) {
    let mut line = String::new();
    let mut prefix = first;
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.len() + 1 + word.len() > 100 {
            let _ = writeln!(out, "{prefix}{line}");
            (prefix, line) = (rest, String::new());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{}", format!("{prefix}{line}").trim_end());
}

const LISTS_DOC: &str = "Lists of tables:
  [[application]]            # streams of one application; the first match applies
  name = \"low*\"              # pattern over the app name
  merge_latency_ms = 0       # any key of [stream]
  [[auth.publish]]           # also [[auth.play]]; the first match decides, no match refuses
  stream = \"live/*\"          # pattern over app/stream
  allow = \"token\"            # token, loopback, token_or_loopback, anyone or nobody
  token_files = [\"/etc/millstream/publish\"]
  [[channel]]                # files played in a loop as a stream
  stream = \"live/films\"
  items = [\"https://media.example/one.mp4\", \"/srv/films/two.mp4\"]
  [[record.rule]]            # streams that are recorded; the first match decides
  stream = \"live/*\"
  directory = \"/srv/recordings\"
  [[srt.stream]]             # passphrases of SRT
  [[tls.certificates]]       # a further certificate, for the names in it
  certificate = \"/etc/millstream/other.pem\"
  key = \"/etc/millstream/other.key\"
  [[vod.remote]]             # a server whose MP4 files are played
  name = \"store\"
  url = \"https://media.example/films/\"
  [[pull]]                   # a stream of another server
  stream = \"live/cam\"
  url = \"rtmp://media.example/live/cam\"
  [[push]]                   # streams that are sent on to another server
  stream = \"live/*\"
  url = \"rtmp://backup.example/{app}/{stream}\"";

const PREFACE: &str = include_str!("preface.md");
const EXAMPLES: &str = include_str!("examples.md");
