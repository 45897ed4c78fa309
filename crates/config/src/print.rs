//! Shows the configuration: as TOML, documented or not, and as the reference page.
//!
//! Both are written from the table of keys. Secrets are never printed.

use std::fmt::Write;

use super::error::Origin;
use super::file::LISTS;
use super::keys::{ApplicationName, AuthRule, ChannelEntry, PullEntry, Stream};
use super::section::{Key, Section};
use super::{Config, section_keys};

/// How to regenerate the reference page.
#[cfg(test)]
pub const REGENERATE: &str = "cargo run -p millstream -- config print --markdown > docs/configuration.md";

/// `config` as TOML, which can be loaded again. As comments: `documented`, everything known about each key; `origins`,
/// where it was set.
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
            document(&mut out, &key);
        }
        let path = key.path();
        let origin = config.origin(&path);
        let value = config.get(&path).unwrap_or_default();
        let source = match origin {
            Origin::Default => String::new(),
            _ if !origins => String::new(),
            _ => format!("  # from {origin}"),
        };
        // An empty token in a file is an error, so one that is not set is not printed as empty.
        let set = if value == "\"\"" { "not set" } else { "set, and not shown" };
        if key.secret {
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
    let _ = write!(out, "\n## `[[application]]`\n\n{}\n", ApplicationName::DOC.trim());
    for key in ApplicationName::keys() {
        entry(&mut out, &key, false);
    }
    let names: Vec<String> = Stream::keys().iter().map(|key| format!("`{}`", key.name)).collect();
    let _ = write!(out, "\nThen any of: {}.\n", names.join(", "));
    let _ = write!(out, "\n## `[[auth.publish]]` and `[[auth.play]]`\n\n{}\n", AuthRule::DOC.trim());
    for key in AuthRule::keys() {
        entry(&mut out, &key, false);
    }
    let _ = write!(out, "\n## `[[pull]]`\n\n{}\n", PullEntry::DOC.trim());
    for key in PullEntry::keys() {
        entry(&mut out, &key, false);
    }
    let _ = write!(out, "\n## `[[channel]]`\n\n{}\n", ChannelEntry::DOC.trim());
    for key in ChannelEntry::keys() {
        entry(&mut out, &key, false);
    }
    out.push_str(EXAMPLES);
    out
}

fn entry(out: &mut String, key: &Key, reachable: bool) {
    let _ = write!(
        out,
        "\n### `{}`\n\n{}\n\n",
        if reachable { key.path() } else { key.name.to_owned() },
        key.doc
    );
    let _ = writeln!(out, "- takes: {}", key.accepts());
    let _ = writeln!(out, "- default: `{}`", key.default);
    let _ = writeln!(out, "- cost: {}", key.cost);
    if reachable {
        let _ = writeln!(out, "- environment `{}`, flag `--{}`", key.variable(), key.flag());
    }
}

fn document(out: &mut String, key: &Key) {
    out.push('\n');
    comment(out, &key.doc);
    comment(out, &format!("Takes {}. Default {}. Cost: {}", key.accepts(), key.default, key.cost));
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
    for entry in &config.pulls {
        let _ = writeln!(out, "\n[[pull]]\nstream = {}", super::value::toml_string(&entry.pull.stream));
        // It may hold a password.
        let _ = writeln!(out, "# url is set and not shown");
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
    debug_assert_eq!(LISTS.len(), 5, "every list is printed");
}

fn section_doc(section: &str) -> &'static str {
    use super::keys::{
        Auth, Demo, Http, Https, Limits, Log, Metrics, Rtc, Rtmp, Rtmps, Server, Shutdown, Sources, Tls,
        Transcoding,
    };
    match section {
        Server::PATH => Server::DOC,
        Rtmp::PATH => Rtmp::DOC,
        Rtmps::PATH => Rtmps::DOC,
        Http::PATH => Http::DOC,
        Https::PATH => Https::DOC,
        Rtc::PATH => Rtc::DOC,
        Tls::PATH => Tls::DOC,
        Limits::PATH => Limits::DOC,
        Stream::PATH => Stream::DOC,
        Transcoding::PATH => Transcoding::DOC,
        Auth::PATH => Auth::DOC,
        Log::PATH => Log::DOC,
        Metrics::PATH => Metrics::DOC,
        Shutdown::PATH => Shutdown::DOC,
        Sources::PATH => Sources::DOC,
        Demo::PATH => Demo::DOC,
        _ => "",
    }
    .trim()
}

/// Writes `text` as comment lines of at most about 100 characters.
fn comment(out: &mut String, text: &str) {
    for paragraph in text.lines() {
        let mut line = String::from("#");
        // Lines that begin with a space are code and stay as they are.
        if paragraph.starts_with(' ') {
            let _ = writeln!(out, "#{paragraph}");
            continue;
        }
        for word in paragraph.split_whitespace() {
            if line.len() + word.len() > 100 {
                let _ = writeln!(out, "{line}");
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        let _ = writeln!(out, "{line}");
    }
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
  [[pull]]                   # a stream of another server
  stream = \"live/cam\"
  url = \"rtmp://media.example/live/cam\"";

const PREFACE: &str = "# Configuration

<!-- Generated: change crates/millstream/src/config/, then run
     cargo run -p millstream -- config print --markdown > docs/configuration.md -->

Millstream starts without any configuration. Each key can be set in four places; a later one wins:

1. the default;
2. a TOML file, named by `--config FILE` or `MILLSTREAM_CONFIG`;
3. the environment: `MILLSTREAM_SECTION_KEY`, lists separated by commas;
4. flags: `--section-key VALUE` (keys of `[server]` without `server-`, and `--udp-backend` without `rtc-`), or
   `--set section.key=value` for any key.

A key that does not exist is an error that names the nearest one that does, and so is a value of the wrong type or out
of range. `millstream config check` reports all of these at once, and when there are none, all that is wrong with values
together and inside lists; it ends with exit code 2 if there is an error. `millstream config print` shows what applies;
`--origins` adds where it was set, `--documented` this page as comments.
Variables that Kubernetes sets for a service called `millstream` (`MILLSTREAM_SERVICE_...`, `MILLSTREAM_PORT...`) are
ignored, and those of `millstream top` (`MILLSTREAM_TOP_...`).
";

const EXAMPLES: &str = "
## Who may do what

Without configuration anyone may play; publishing and the management API are open to this machine only
(127.0.0.0/8, ::1). A token is shown as `?token=...` at the end of the stream name (the *stream key* of OBS) or of the
FLV address, as `Authorization: Bearer ...` to the management API, and in either way to WHIP and WHEP (the *bearer token*
of OBS). The rules for publishing and playing are the same for all protocols.

```toml
[auth]
manage_token_file = \"/etc/millstream/manage\"   # the API and the console ask for it, from everywhere

[[auth.publish]]
stream = \"live/*\"
token_files = [\"/etc/millstream/publish\"]      # one token per line

[[auth.publish]]
stream = \"test/*\"
allow = \"loopback\"

[[auth.play]]
stream = \"members/*\"
token_env = [\"MEMBERS_TOKEN\"]

[[auth.play]]                                  # without it, streams no rule matches could not be played
stream = \"*\"
allow = \"anyone\"
```

**Behind a reverse proxy on the same machine every client has a loopback address.** Requests to the management API that
carry a forwarding header (`Forwarded`, `X-Forwarded-*`, `X-Real-IP`, `Via`) are refused without a token, but a proxy
may send none, and RTMP has none: set `auth.manage_token` and `auth.publish_token` (or rules with tokens) on such a
machine. Containers are the opposite case: clients on the host do not appear as loopback, so use tokens there as well.

Browsers on this machine may use the API without a token only when the page comes from this server under `localhost`, a
loopback address or a name in `http.public_hosts`; requests from pages of other sites are refused. The same holds for WHIP
and WHEP where a rule trusts this machine (as the default does for publishing): otherwise any web page a user of this
machine looks at could publish, because browsers carry requests of all pages. Rules with tokens, and rules that let anyone
in, also hold for pages of other sites, as far as `http.cors_allow_origin` lets them read the answer.

## WebRTC

Publish to `http://HOST:8080/whip/APP/STREAM`, play from `http://HOST:8080/whep/APP/STREAM`; APP may contain `/`. Media takes
other ports than HTTP: UDP 8189, and TCP 8189 where no UDP gets through; with several workers the ports after it as well, one
for each. Streams published by RTMP are played at the same addresses, see below. A token is sent as
`Authorization: Bearer TOKEN` or `?token=TOKEN`.

```toml
[rtc]
public_addresses = [\"203.0.113.7\"]             # behind a NAT that forwards the ports of all workers; for clients inside, list the
                                               # server's address there as well: nothing else is announced
```

Browsers give pages a camera only over HTTPS or on `localhost`: set `[tls]`, or put a proxy with TLS in front of HTTP (media
does not go through it).

Offers that no media follows are freed after `pending_timeout_ms`. How many there may be is limited by
`pending_per_address` (429) and `pending_per_worker` (503); `requests_per_second` limits requests of one address (429).

## From RTMP to WebRTC and back

Every stream is played in both ways, however it is published: a bridge is started by the first player of the other kind, serves
all of them, and ends `bridge_linger_ms` after the last.

To WebRTC go H.264, H.265, AV1, VP9 and VP8, as far as the player's browser decodes them; AAC and MP3 become Opus, Opus and
G.711 are passed on. B-frames are left out where that can be done (`bridge_b_frames`), so publishers had better not send any.
From WebRTC every codec is passed on, by Enhanced RTMP where plain FLV has no name for it; Opus becomes AAC in builds that
have the encoder.

```toml
[[application]]
name = \"cinema\"
bridge_b_frames = \"refuse\"                     # full frame rate by RTMP and FLV, nothing by WebRTC

[[application]]
name = \"archive\"
bridge = false

[transcoding]
threads = 2
```

What a bridge costs and how long it takes is in `/metrics` (`millstream_stream_bridge_...`, `millstream_bridge_...`), in
`GET /api/v1/streams` (`bridge`) and on the stream's page of the console; what it cannot carry is said there as well, and to
the player by the error of WHEP.
";
