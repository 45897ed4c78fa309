//! Configuration of a node among others: `[cluster]`.
//!
//! Reads the secret, and finds what would otherwise show only when other nodes cannot connect.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ::cluster::{Credentials, NodeName, Tls};
use node_link::{SECRET_BYTES_MIN, Secret};
use nodes::{Redirect, Settings};

use super::Config;
use super::error::Origin;
use super::keys::Cluster;
use super::resolve::{Errors, ms, to_usize};
use super::value::RedirectChoice;
use worker_api::settings::RelaySettings;

/// `[cluster]`, checked; `None` without NATS.
pub(super) fn settings(config: &Config, ipv6: bool, errors: &mut Errors) -> Option<Settings> {
    let cluster = &config.cluster;
    if cluster.nats.is_empty() {
        for (key, value) in
            [("cluster.node_name", &cluster.node_name), ("cluster.secret_file", &cluster.secret_file)]
        {
            if !value.is_empty() {
                errors.add(&config.origin(key), format!("`{key}` needs `cluster.nats`, or it has no effect"));
            }
        }
        return None;
    }
    let has_password = |url: &String| url.split_once("://").map_or(&**url, |(_, rest)| rest).contains('@');
    if cluster.nats.iter().any(has_password) {
        let message = "`cluster.nats` takes no user or password in URLs, which are printed: set \
                       `cluster.nats_user` and `cluster.nats_password`, or `cluster.nats_token`";
        errors.add(&config.origin("cluster.nats"), message);
    }
    let name = NodeName::new(&cluster.node_name);
    if name.is_none() {
        let message = if cluster.node_name.is_empty() {
            "`cluster.nats` needs `cluster.node_name`, a name that no other node has".to_owned()
        } else {
            format!(
                "`cluster.node_name` cannot be `{}`: it takes 1 to 64 letters, digits, `-`, `_` and `.`, \
                 first a letter or digit",
                cluster.node_name
            )
        };
        let key = if cluster.node_name.is_empty() { "cluster.nats" } else { "cluster.node_name" };
        errors.add(&config.origin(key), message);
    }
    let secret = secret(config, errors);
    let public = public_address(config, errors);
    let credentials = credentials(config, errors);
    let certificate = match (cluster.nats_certificate.as_str(), cluster.nats_key.as_str()) {
        ("", "") => None,
        (certificate, key) if !certificate.is_empty() && !key.is_empty() => {
            Some((PathBuf::from(certificate), PathBuf::from(key)))
        }
        _ => {
            let key = if cluster.nats_key.is_empty() { "nats_certificate" } else { "nats_key" };
            let message = "`cluster.nats_certificate` and `cluster.nats_key` belong together";
            errors.add(&config.origin(&format!("cluster.{key}")), message);
            None
        }
    };
    let mut directory = ::cluster::Settings::new(cluster.nats.clone(), name?);
    directory.credentials = credentials;
    directory.tls = Tls { required: cluster.nats_tls, ca_file: path(&cluster.nats_ca_file), certificate };
    directory.prefix.clone_from(&cluster.nats_prefix);
    directory.region.clone_from(&cluster.region);
    directory.addresses.http = public_url(config, errors);
    directory.addresses.relay_tcp.clone_from(&public);
    directory.addresses.relay_udp = public;
    if let Err(message) = directory.check() {
        errors.add(&config.origin("cluster.nats"), format!("[cluster]: {message}"));
    }
    Some(Settings {
        directory,
        listen: cluster.relay_listen.addresses(ipv6),
        secret: secret?,
        exposed_secret_file: exposed(&cluster.secret_file),
        fan_out_max: to_usize(cluster.fan_out_max),
        linger: ms(cluster.linger_ms),
        redirect: match cluster.redirect {
            RedirectChoice::Never => Redirect::Never,
            RedirectChoice::WhenFull => Redirect::WhenFull,
            RedirectChoice::Always => Redirect::Always,
        },
        frame_bytes_max: to_usize(config.limits.message_max_bytes),
    })
}

/// Packets of other nodes; `None` without NATS.
pub(super) fn relay(config: &Config, ipv6: bool) -> Option<RelaySettings> {
    let cluster = &config.cluster;
    // At the first address: one socket takes the datagrams of all nodes.
    let listen = cluster.relay_listen.addresses(ipv6).first().copied();
    let interface = (!cluster.udp_interface.is_empty()).then(|| cluster.udp_interface.clone());
    let listen = listen.filter(|_| !cluster.nats.is_empty())?;
    Some(RelaySettings { listen, udp_backend: cluster.udp_backend.into(), interface })
}

fn path(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| text.into())
}

/// The file, if others than its owner can read it.
fn exposed(file: &str) -> Option<PathBuf> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o044 != 0).then(|| file.into())
}

fn secret(config: &Config, errors: &mut Errors) -> Option<Secret> {
    let file = &config.cluster.secret_file;
    if file.is_empty() {
        errors.add(&config.origin("cluster.nats"), "`cluster.nats` needs `cluster.secret_file`");
        return None;
    }
    let origin = config.origin("cluster.secret_file");
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            errors.add(&origin, format!("`cluster.secret_file` {file}: {error}"));
            return None;
        }
    };
    // A line break at the end is the editor's.
    let secret = Secret::new(bytes.trim_ascii());
    if secret.is_none() {
        let message = format!(
            "`cluster.secret_file` {file}: {SECRET_BYTES_MIN} bytes are needed at least; \
             `openssl rand -hex 32` makes a good one"
        );
        errors.add(&origin, message);
    }
    secret
}

/// What other nodes are told to connect to, with a port: 0 for the one that is bound.
fn public_address(config: &Config, errors: &mut Errors) -> String {
    let Cluster { relay_public_address: text, relay_listen, .. } = &config.cluster;
    let Some(first) = relay_listen.0.first() else {
        errors
            .add(&config.origin("cluster.relay_listen"), "`cluster.relay_listen` takes at least one address");
        return String::new();
    };
    if text.is_empty() {
        return match first.ip.filter(|ip| !ip.is_unspecified()) {
            Some(ip) => std::net::SocketAddr::new(ip, first.port).to_string(),
            None => {
                let message = "`cluster.relay_public_address` is needed: other nodes cannot connect to `*`";
                let origin = config.origin("cluster.relay_listen");
                let origin = if origin == Origin::Default { config.origin("cluster.nats") } else { origin };
                errors.add(&origin, message);
                String::new()
            }
        };
    }
    let with_port = |ip| std::net::SocketAddr::new(ip, first.port);
    let literal = || text.parse::<std::net::SocketAddr>().ok().filter(|address| address.port() > 0);
    if let Some(address) = text.parse().ok().map(with_port).or_else(literal) {
        let listens = |ip: Option<std::net::IpAddr>| ip.is_none_or(|ip| ip.is_ipv6() == address.is_ipv6());
        let problem = if address.ip().is_unspecified() {
            "other nodes cannot connect to"
        } else if !relay_listen.0.iter().any(|listen| listens(listen.ip)) {
            "`cluster.relay_listen` has no address of the kind of"
        } else {
            return address.to_string();
        };
        let origin = config.origin("cluster.relay_public_address");
        errors.add(&origin, format!("`cluster.relay_public_address`: {problem} `{text}`"));
        return String::new();
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok().filter(|port| *port > 0)),
        None => (text.as_str(), Some(first.port)),
    };
    let is_host = |character: char| character.is_ascii_alphanumeric() || ".-_[]:".contains(character);
    match port {
        Some(port) if !host.is_empty() && host.chars().all(is_host) => format!("{host}:{port}"),
        _ => {
            let origin = config.origin("cluster.relay_public_address");
            errors.add(
                &origin,
                format!("`cluster.relay_public_address` takes HOST or HOST:PORT, not `{text}`"),
            );
            String::new()
        }
    }
}

/// Where players are sent, without a slash at the end.
fn public_url(config: &Config, errors: &mut Errors) -> String {
    let text = config.cluster.public_url.trim_end_matches('/');
    let parsed = url::Url::parse(text);
    let is_base = text.bytes().all(|byte| byte.is_ascii_graphic())
        && parsed.is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.query().is_none()
                && url.fragment().is_none()
                && url.username().is_empty()
        });
    if !text.is_empty() && !is_base {
        let message = format!("`cluster.public_url` takes an http or https URL, not `{text}`");
        errors.add(&config.origin("cluster.public_url"), message);
    }
    text.to_owned()
}

fn credentials(config: &Config, errors: &mut Errors) -> Credentials {
    let Cluster { nats_credentials_file, nats_user, nats_password, nats_token, nats_nkey_seed, .. } =
        &config.cluster;
    let given = [
        ("nats_credentials_file", nats_credentials_file),
        ("nats_user", nats_user),
        ("nats_token", nats_token),
        ("nats_nkey_seed", nats_nkey_seed),
    ];
    let mut given = given.into_iter().filter(|(_, value)| !value.is_empty());
    let first = given.next();
    if let (Some((first, _)), Some((second, _))) = (first, given.next()) {
        let message = format!("`cluster.{first}` and `cluster.{second}` are both set: remove one");
        errors.add(&config.origin(&format!("cluster.{second}")), message);
    }
    if nats_user.is_empty() != nats_password.is_empty() {
        let key = if nats_user.is_empty() { "nats_password" } else { "nats_user" };
        let message = "`cluster.nats_user` and `cluster.nats_password` belong together";
        errors.add(&config.origin(&format!("cluster.{key}")), message);
    }
    match first {
        Some(("nats_credentials_file", file)) => Credentials::File(file.into()),
        Some(("nats_user", user)) => {
            Credentials::UserPassword { user: user.clone(), password: nats_password.clone() }
        }
        Some(("nats_token", token)) => Credentials::Token(token.clone()),
        Some(("nats_nkey_seed", seed)) => Credentials::NkeySeed(seed.clone()),
        _ => Credentials::None,
    }
}
