//! Decoder configurations as FLV and MP4 carry them: `avcC`, `hvcC`, `av1C`, `vpcC`,
//! AudioSpecificConfig, `OpusHead`.
//!
//! [`video_format`] and [`audio_format`] read what they say, for people; [`read_avcc`] and
//! [`read_hvcc`] give the parameter sets in them; `record.rs` makes them of what a coded stream has
//! in itself. Of coded pictures only the first bytes of VP8 and VP9 key frames are looked at, which
//! have their configuration nowhere else.

mod aac;
mod audio;
mod av1;
mod avc;
mod hevc;
mod parameter_sets;
mod record;
mod video;
mod vp;

pub use aac::AudioSpecificConfig;
pub use audio::{AudioFormat, audio_format, audio_frame_format, flac_stream_info};
pub use avc::reorder_frames;
pub use hevc::reorder_pictures;
pub use parameter_sets::{
    PARAMETER_SET_BYTES_MAX, PARAMETER_SETS_MAX, ParameterSets, RecordError, SETS_BYTES_MAX, read_avcc,
    read_hvcc,
};
pub use record::{
    Record, av1_record, avc_record, hevc_record, opus_head, picture_size, vp8_record, vp9_record,
};
pub use video::{VideoFormat, video_format};
