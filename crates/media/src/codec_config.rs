//! How a track is coded, as containers, SDP and people say it.

use serde::{Deserialize, Serialize};

use crate::bitstream::{BitReader, Malformed};
use crate::config::{self, AudioFormat, VideoFormat};
use crate::{Codec, MediaKind};

/// Codec and decoder configuration of a track, and what its container says about the audio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecConfig {
    /// The codec.
    pub codec: Codec,
    /// `avcC`, `hvcC`, `av1C`, `vpcC`, AudioSpecificConfig, `OpusHead`, STREAMINFO; empty where there is
    /// none.
    pub record: Vec<u8>,
    /// Samples per second as the container tells, 0 if it does not.
    pub sample_rate: u32,
    /// Channels as the container tells, 0 if it does not.
    pub channels: u8,
}

impl CodecConfig {
    /// A configuration of which the container tells nothing else.
    pub fn new(codec: Codec, record: Vec<u8>) -> Self {
        Self { codec, record, sample_rate: 0, channels: 0 }
    }

    /// Profile, level and size of video, for people to read. `None` if the record does not parse.
    pub fn video_format(&self) -> Option<VideoFormat> {
        config::video_format(self.codec, &self.record)
    }

    /// Profile, rate and channels of audio, for people to read: by the record, else as the container tells.
    pub fn audio_format(&self) -> Option<AudioFormat> {
        let container = || {
            let sample_rate = match self.codec {
                Codec::Pcma | Codec::Pcmu => 8_000,
                _ => self.sample_rate,
            };
            let is_known = self.codec.kind() == MediaKind::Audio && sample_rate > 0 && self.channels > 0;
            is_known.then(|| AudioFormat { profile: String::new(), sample_rate, channels: self.channels })
        };
        config::audio_format(self.codec, &self.record).or_else(container)
    }

    /// Value of `a=fmtp` in SDP, empty where the payload format needs none. `None` if the record does not
    /// parse or WebRTC has no such payload format.
    pub fn fmtp(&self) -> Option<String> {
        let record = &self.record[..];
        Some(match self.codec {
            Codec::H264 => {
                let sets = config::read_avcc(record).ok()?.sets;
                let sps = sets.iter().find(|set| set[0] & 0x1f == 7)?;
                h264_fmtp([*sps.get(1)?, *sps.get(2)?, *sps.get(3)?])
            }
            Codec::H265 => {
                let sets = config::read_hvcc(record).ok()?.sets;
                let sps = sets.iter().find(|set| set[0] >> 1 & 0x3f == 33)?;
                // Behind the header of the unit: ids and layers, then profile, tier and level (H.265 section
                // 7.3.3).
                let read = || {
                    let mut bits = BitReader::nal(sps.get(2..).ok_or(Malformed)?);
                    bits.skip(8 + 2)?;
                    let (high_tier, profile) = (bits.bit()?, bits.u(5)?);
                    bits.skip(32 + 48)?;
                    Ok::<_, Malformed>((profile, high_tier, bits.u(8)?))
                };
                let (profile, high_tier, level) = read().ok()?;
                h265_fmtp(profile, high_tier, level)
            }
            Codec::Av1 => {
                let [0x81, profile_level, flags, _, ..] = *record else { return None };
                let (profile, level, tier) = (profile_level >> 5, profile_level & 0x1f, flags >> 7);
                format!("profile={profile};level-idx={level};tier={tier}")
            }
            Codec::Vp9 => {
                // Some put version and flags of the box before the record.
                let behind = record.strip_prefix(&[1, 0, 0, 0]).filter(|rest| rest.len() >= 8);
                vp9_fmtp(*behind.unwrap_or(record).first()?)
            }
            Codec::Vp8 | Codec::Opus | Codec::Pcma | Codec::Pcmu => String::new(),
            _ => return None,
        })
    }
}

/// Value of `a=fmtp` of H.264 (RFC 6184 section 8.1), by the first bytes of its SPS: profile, constraints,
/// level.
pub fn h264_fmtp([profile, constraints, level]: [u8; 3]) -> String {
    format!(
        "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id={profile:02x}{constraints:02x}{level:02x}"
    )
}

/// Value of `a=fmtp` of H.265 (RFC 7798 section 7.1).
pub fn h265_fmtp(profile: u32, high_tier: bool, level: u32) -> String {
    format!("level-id={level};profile-id={profile};tier-flag={};tx-mode=SRST", u8::from(high_tier))
}

/// Value of `a=fmtp` of VP9 (RFC 9628 section 6).
pub fn vp9_fmtp(profile: u8) -> String {
    format!("profile-id={profile}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(codec: Codec, hex: &str) -> CodecConfig {
        let digits: Vec<u8> =
            hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
        CodecConfig::new(codec, digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }

    /// Records of ffmpeg 5.1 with the encoder named.
    const RECORDS: [(Codec, &str, &str); 9] = [
        // libx264
        (
            Codec::H264,
            "0142c01fffe100196742c01fda014016feb0110000030001000003003c0f1832a001000468ce0fc8",
            "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42c01f",
        ),
        // libx265, Main 10
        (
            Codec::H265,
            "01022000000090000000000078f000fcfdfafa00000f03200001001840010c01ffff0220000003009000000300000300789594\
             09210001002d420101022000000300900000030000030078a003c0801107cad965654a4c2f016808000003000800000300f0402200\
             0100064401c073c18927",
            "level-id=120;profile-id=2;tier-flag=0;tx-mode=SRST",
        ),
        // libaom, SVT-AV1
        (Codec::Av1, "81010c000a0b0000000cc5036936be4010", "profile=0;level-idx=1;tier=0"),
        (Codec::Av1, "81010c000a0b0000000cc4ff6700be0010", "profile=0;level-idx=1;tier=0"),
        // libvpx, with the version of the box and without
        (Codec::Vp9, "010000000015820202020000", "profile-id=0"),
        (Codec::Vp9, "0015820202020000", "profile-id=0"),
        (Codec::Vp8, "0014820202020000", ""),
        (Codec::Opus, "4f7075734865616401023801 80bb000000 0000", ""),
        (Codec::Pcma, "", ""),
    ];

    #[test]
    fn records_of_real_encoders_are_named() {
        for (codec, record, fmtp) in RECORDS {
            let config = config(codec, record);
            assert_eq!(config.fmtp().as_deref(), Some(fmtp), "{codec}");
            for length in 0..config.record.len() {
                let cut = CodecConfig { record: config.record[..length].to_vec(), ..config.clone() };
                let _ = (cut.fmtp(), cut.video_format(), cut.audio_format());
            }
        }
    }

    #[test]
    fn audio_without_a_record_is_as_the_container_says() {
        let container =
            CodecConfig { sample_rate: 22_050, channels: 2, ..CodecConfig::new(Codec::Mp3, Vec::new()) };
        let format = container.audio_format().unwrap();
        assert_eq!((format.sample_rate, format.channels), (22_050, 2));
        let law = CodecConfig { channels: 1, ..CodecConfig::new(Codec::Pcmu, Vec::new()) };
        assert_eq!(law.audio_format().unwrap().sample_rate, 8_000);
        assert_eq!(CodecConfig::new(Codec::Speex, Vec::new()).audio_format(), None);
        assert_eq!(CodecConfig::new(Codec::Vp8, Vec::new()).audio_format(), None);
        assert_eq!(CodecConfig::new(Codec::Aac, vec![0x12, 0x10]).fmtp(), None, "WebRTC has no AAC");
    }
}
