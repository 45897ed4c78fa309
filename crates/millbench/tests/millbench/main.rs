//! The load generator's exit codes and what it sends, against stand-ins that misbehave: a module
//! for each behaviour.

mod exit_code;
mod forwarder;
mod relay;
mod rtc_exit_code;
mod rtc_media_decodes;
