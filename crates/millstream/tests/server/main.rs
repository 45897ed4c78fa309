//! The running server, with real and with hostile clients: a module for each behaviour.
//!
//! Servers are processes of their own, so tests run beside each other. One binary for all of them: linking
//! one for each module took longer than running it.

// Those of group-send's trials, and of the workers' tests.
#[expect(dead_code, reason = "what is not needed here")]
#[path = "../../../../libs/group-send/tests/namespaces/host.rs"]
mod host;
#[expect(dead_code, reason = "what is not needed here")]
#[path = "../../../worker/tests/worker/packets/common/media.rs"]
mod media;
#[expect(dead_code, unexpected_cfgs, reason = "what is not needed here, and features of that package")]
#[path = "../../../../libs/group-send/tests/namespaces/backends.rs"]
mod needs;
#[path = "../../../worker/tests/worker/place.rs"]
mod place;

mod common;

mod api_shapes;
mod authorisation;
mod bridge_api;
mod bridge_audio_first;
mod bridge_audio_header_late;
mod bridge_b_frames;
mod bridge_on_demand;
mod bridge_once;
mod bridge_publisher_back;
mod bridge_refused_video;
mod bridge_stray_codec;
mod bridge_track_later;
mod bridge_without_headers;
mod channel_and_publisher;
mod channel_api;
mod channel_broken_item;
mod channel_codecs;
mod channel_https;
mod channel_loop;
mod channel_origin_back;
mod channel_shutdown;
mod channel_start;
mod channel_tracks;
mod cluster;
mod cluster_back_ends;
mod cluster_faults;
mod cluster_hostile;
mod cluster_off;
mod cluster_redirects;
mod commands;
mod configuration;
mod demo;
mod doctor;
mod doors_matrix;
mod enhanced_rtmp;
mod fault_bodies;
mod fault_chunks;
mod fault_descriptors;
mod fault_handshake;
mod fault_memory;
mod fault_names;
mod fault_publisher_killed;
mod fault_reply_flood;
mod fault_stalled_players;
mod fault_tls;
mod fetch_trace;
mod full_worker;
mod gop_cache;
mod hls;
mod hooks;
mod http_flv;
mod http_flv_ffmpeg;
mod http_ts;
mod keep_alive;
mod kick;
mod load_tool_sample;
mod logs;
mod metrics;
#[cfg(feature = "moq")]
mod moq_doors;
#[cfg(feature = "moq")]
mod moq_hostile;
#[cfg(feature = "moq")]
mod moq_publish;
mod one_tcp_port;
mod overload;
mod player_pause;
mod publisher_reconnect;
mod pull;
mod pull_and_publisher;
mod pull_api;
mod pull_failures;
mod pull_forbidden;
mod pull_hls;
mod pull_hls_hostile;
mod pull_on_demand;
mod pull_on_demand_doors;
mod pull_origin_back;
mod pull_rtsp;
mod pull_tls;
mod pull_udp;
mod pushes;
mod recording;
mod reload;
mod reload_certificates;
mod reload_tokens;
mod rtc_back_ends;
mod rtc_counter_mode;
mod rtc_network_faults;
mod rtc_security_churn;
mod rtc_security_feedback;
mod rtc_security_injection;
mod rtc_security_signalling;
mod rtmp_ffmpeg;
mod rtmp_rtmpdump;
mod rtsp_doors;
mod rtsp_hostile;
mod rtsp_lies;
mod rtsp_sessions;
mod second_publisher;
mod segments_store;
mod shutdown;
mod signed_tokens;
mod single_port;
mod slow_player;
mod source_secrets;
mod srt_doors;
mod srt_handshake;
mod srt_hostile;
mod stats_access;
mod stats_once;
mod stats_readers;
mod stats_rtc;
mod stats_shutdown;
mod stats_stream;
mod stats_tls;
mod telemetry;
mod timestamp_wrap;
mod tls;
mod token_limits;
mod top_once;
mod top_terminal;
mod ts_sections;
mod two_workers;
mod upgrade;
mod upgrade_bridged;
mod upgrade_connections;
mod upgrade_ice_tcp;
mod vod;
mod webrtc_clients;
mod websocket_flv;
mod whep_layers;
mod whip_api_shapes;
mod whip_first_player;
mod whip_https;
mod whip_refusals;
mod whip_returning_publisher;
mod whip_session;
mod whip_two_workers;
