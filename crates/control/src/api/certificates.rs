//! Certificates of the TLS listeners in the management API.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use worker_api::time::rfc3339;

use crate::Context;

/// Certificates that clients are shown, and those that are ordered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CertificateList {
    /// Those in use; the first is for clients that ask for no name, or for one that none has.
    certificates: Vec<UsedCertificate>,
    /// Those that are ordered from an authority (`acme.domains`), in the order of the
    /// configuration.
    orders: Vec<CertificateOrder>,
}

/// A certificate in use.
#[derive(Debug, Serialize, ToSchema)]
struct UsedCertificate {
    /// Names in it.
    #[schema(example = json!(["live.example.org"]))]
    names: Vec<String>,
    /// The key of the configuration and the file.
    source: String,
    /// When it begins to be valid.
    not_before: String,
    /// When it expires.
    not_after: String,
}

/// A certificate that is ordered from an authority.
#[derive(Debug, Serialize, ToSchema)]
struct CertificateOrder {
    /// Names that it is to have.
    #[schema(example = json!(["live.example.org"]))]
    names: Vec<String>,
    /// When the one in use expires; null: there is none yet.
    not_after: Option<String>,
    /// Whether it is being ordered now.
    ordering: bool,
    /// When it is ordered next.
    next_attempt: String,
    /// Orders that have failed since the last that succeeded.
    failures: u32,
    /// Why the last one has failed.
    last_error: Option<String>,
}

/// Certificates in use, and how their renewal goes.
#[utoipa::path(get, path = "/api/v1/certificates", tag = "server", responses(
    (status = 200, description = "Certificates; none where TLS is off", body = CertificateList),
))]
pub(super) async fn certificates(State(context): State<Arc<Context>>) -> Json<CertificateList> {
    let at = |moment: Duration| rfc3339(UNIX_EPOCH + moment);
    let used = context.reload.certificates.as_ref().map(|store| store.list()).unwrap_or_default();
    let certificates = used.iter().map(|certificate| UsedCertificate {
        names: certificate.names.clone(),
        source: certificate.source.clone(),
        not_before: at(certificate.not_before),
        not_after: at(certificate.not_after),
    });
    let orders = context.acme.as_ref().map(|status| status.orders()).unwrap_or_default();
    let orders = orders.into_iter().map(|order| CertificateOrder {
        names: order.names,
        not_after: order.not_after.map(at),
        ordering: order.is_ordering,
        next_attempt: at(order.next_attempt),
        failures: order.failures,
        last_error: order.last_error,
    });
    Json(CertificateList { certificates: certificates.collect(), orders: orders.collect() })
}
