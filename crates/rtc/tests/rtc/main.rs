//! One peer as its callers see it: one behaviour per module.

mod common;

mod connects_over_lossy_links;
mod consent;
mod dtls;
mod dtls_from_unvalidated_paths;
mod every_length;
mod fingerprints;
mod forged_stun;
mod fuzz_corpus;
mod ice_restart;
mod ice_tcp;
mod nat_rebinding;
mod resumed;
mod roles_and_limits;
mod sdp_bombs;
mod sdp_client;
mod sdp_downgrade;
mod sdp_fragment;
mod sdp_fuzz_corpus;
mod sdp_play;
mod sdp_prefixes;
mod sdp_publish;
mod stream_on_a_stranger;
