//! Configuration of MoQ: `[moq]`.

use std::sync::Arc;

use worker_api::settings::MoqSettings;

use super::Config;
use super::resolve::{Errors, ms, to_usize};

/// What `[moq]` means; `None`: it is off. `tls` is what `[tls]` means.
pub(super) fn settings(
    config: &Config,
    tls: Option<&Arc<rustls::ServerConfig>>,
    ipv6: bool,
    errors: &mut Errors,
) -> Option<MoqSettings> {
    let moq = &config.moq;
    if moq.listen.0.is_empty() {
        return None;
    }
    if !cfg!(feature = "moq") {
        let message = "`moq.listen` needs a server that is built with the cargo feature `moq`";
        errors.add(&config.origin("moq.listen"), message);
        return None;
    }
    Some(MoqSettings {
        listen: moq.listen.addresses(ipv6),
        // Browsers do not take the self-signed one, which is for years.
        tls: tls.filter(|_| config.has_certificates() || config.has_acme()).map(Arc::clone),
        certificate_names: config.tls.self_signed_names.clone(),
        sessions_max: to_usize(moq.sessions_max),
        silence_max: ms(moq.silence_timeout_ms),
        age_max: ms(moq.max_age_ms),
        group_bytes_max: to_usize(moq.group_max_bytes),
    })
}
