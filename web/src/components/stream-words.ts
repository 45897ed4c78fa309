/**
 * A stream's tracks and GOP in a few words, the same on every page.
 */
import type { Stream } from '../api/types';
import { bytes, channels, frameRate, milliseconds, resolution, sampleRate, UNKNOWN } from '../lib/format';
import type { TrackHints } from '../player/tracks';
import type { Offered } from '../player/transports';

/** `H.264 · 1280×720 · 30 fps`, without the parts that are not known */
export function videoWords(stream: Stream): string {
  const video = stream.video;
  if (video === null) return stream.audio === null ? UNKNOWN : 'audio only';
  return join([video.codec, resolution(video.width, video.height), frameRate(video.frame_rate)]);
}

/** `AAC · 44.1 kHz · stereo` */
export function audioWords(stream: Stream): string {
  const audio = stream.audio;
  if (audio === null) return stream.video === null ? UNKNOWN : 'no audio';
  return join([audio.codec, sampleRate(audio.sample_rate), channels(audio.channels)]);
}

/** `60 frames · 2.0 s · 152 kB` */
export function gopWords(gop: Stream['gop']): string {
  if (gop.frames === 0) return UNKNOWN;
  return `${gop.frames} frames · ${milliseconds(gop.duration_ms)} · ${bytes(gop.bytes)}`;
}

/** A stream that has run for some seconds has shown all its tracks. */
const SETTLED_SECONDS = 4;

export function trackHints(stream: Stream | null): TrackHints {
  if (stream === null || stream.state !== 'live' || stream.uptime_seconds < SETTLED_SECONDS) {
    return { hasAudio: null, hasVideo: null };
  }
  const [hasVideo, hasAudio] = [stream.video !== null, stream.audio !== null];
  return hasVideo || hasAudio ? { hasAudio, hasVideo } : { hasAudio: null, hasVideo: null };
}

/** Tells one set of tracks and codecs from another; undefined while nothing is published. */
export function formatKey(stream: Stream | null): string | undefined {
  if (stream === null || stream.state !== 'live') return undefined;
  const { video, audio } = stream;
  return [
    video?.codec,
    video?.profile,
    video?.width,
    video?.height,
    '/',
    audio?.codec,
    audio?.sample_rate,
    audio?.channels,
  ].join(' ');
}

/**
 * By which transports the server offers the stream. Not known while nobody publishes: it depends on who does.
 */
export function offered(stream: Stream | null): Offered {
  if (stream === null || stream.state !== 'live') return { rtc: null, flv: null, reason: '' };
  return { rtc: Boolean(stream.urls.whep), flv: stream.urls.flv !== '', reason: stream.not_bridged ?? '' };
}

/** What to say in place of addresses of FLV and RTMP. */
export const RTC_ONLY =
  'This stream is played by WebRTC: here, on its page for viewers, or by any player that speaks WHEP.';

function join(parts: string[]): string {
  const known = parts.filter((part) => part !== UNKNOWN && part !== '');
  return known.length === 0 ? UNKNOWN : known.join(' · ');
}
