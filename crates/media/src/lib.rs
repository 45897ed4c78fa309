//! What every container and transport of a live stream has in common, and nothing of any one of them.
//!
//! - [`Codec`] and [`MediaKind`] name what is carried. FLV numbers and FourCCs, RTP encoding names and MP4
//!   sample entries are mapped to them where those formats are read and written.
//! - [`Frame`] is an access unit of a track ([`TrackId`]) at a [`Timestamp`].
//! - [`DecodingTimes`] gives pictures decoding times that come without.
//! - [`CodecConfig`] says how a track is coded, as SDP, MP4 and HLS name it.
//! - [`bitstream`] walks over coded data: bits, NAL units, OBUs.
//! - [`calendar`] has dates, for playlists and the API.
//! - [`config`] reads and makes decoder configurations: `avcC`, `hvcC`, `av1C`, `vpcC`,
//!   AudioSpecificConfig, `OpusHead`.
//!
//! Input comes from the network and is hostile until proven otherwise: nothing here panics on it.

pub mod bitstream;
pub mod calendar;
mod codec;
mod codec_config;
pub mod config;
mod decoding_times;
mod frame;
mod timestamp;

pub use codec::{Codec, FourCc, MediaKind};
pub use codec_config::{CodecConfig, h264_fmtp, h265_fmtp, vp9_fmtp};
pub use decoding_times::DecodingTimes;
pub use frame::{CodedAudio, FlvBody, Frame, FrameRole, Metadata, TrackId};
pub use timestamp::Timestamp;
