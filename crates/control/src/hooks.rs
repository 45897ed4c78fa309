//! Asks the operator's hook about viewers whose requests the control side answers.

use axum::http::{HeaderMap, header};
use worker_api::Refused;
use worker_api::auth::{Action, Denied};
use worker_api::hooks::Asker;
use worker_api::snapshot::{Protocol, kept_user_agent};
use worker_api::time::since_1970;
use worker_api::viewers::Viewer;

use crate::context::{Context, Peer};

/// Whether a viewer that the rules let in may have segments or files of `key`. A viewer makes many requests:
/// its hook is asked at the first.
pub(crate) async fn may_view(
    context: &Context,
    peer: Peer,
    headers: &HeaderMap,
    key: &str,
    token: Option<&str>,
) -> Result<(), Refused> {
    let policy = context.policy();
    let Some(hooks) = policy.hooks.as_ref().filter(|hooks| hooks.admits(Action::Play)) else {
        return Ok(());
    };
    // As much of it as workers keep.
    let user_agent =
        headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).map(kept_user_agent);
    let viewer = Viewer { address: peer.address.ip(), user_agent: user_agent.as_deref(), token };
    let viewer = hooks.viewer(key, &viewer);
    let protocol = if peer.tls { Protocol::HlsTls } else { Protocol::Hls };
    let (action, address) = (Action::Play, peer.address);
    let asker = Asker { action, key: key.into(), session: None, protocol, address, user_agent };
    let admitted = hooks.ask_and_wait(asker, Some(viewer)).await?;
    match admitted.limits.until {
        Some(until) if since_1970() >= until => Err(Denied::Hook.into()),
        _ => Ok(()),
    }
}
