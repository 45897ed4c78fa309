/** Layers of a stream and what a player gets of them, in a few words. */
import type { LayerName, RtcPath, StreamLayer } from '../api/types';
import { bitrate, count, UNKNOWN } from '../lib/format';

/** `h`, or `h S0 T1` with limits inside the encoding. */
export function layerName({ name, spatial, temporal }: LayerName): string {
  const limits = [spatial === null ? '' : ` S${spatial}`, temporal === null ? '' : ` T${temporal}`];
  return name + limits.join('');
}

/** `1280×720`, `1.7 Mbit/s` and `3`: a row of the table of layers. */
export function layerCells({ width, height, live, bits_per_second: bits, viewers }: StreamLayer): string[] {
  const size = width !== null && height !== null ? `${width}×${height}` : UNKNOWN;
  return [size, live ? bitrate(bits) : 'not sent', count(viewers)];
}

/** `, limited to 800 kbit/s and 360 pixels of height`: what a player has asked for, if it has. */
export function limitWords({ limit_kbps: kbps, max_height: height }: RtcPath): string {
  const limits = [
    kbps === null ? null : bitrate(kbps * 1000),
    height === null || height === undefined ? null : `${height} pixels of height`,
  ].filter(Boolean);
  return limits.length === 0 ? '' : `, limited to ${limits.join(' and ')}`;
}

const SHARES = { all: '', key_frames: 'key frames', audio_only: 'audio only' } as const;

/** The layer that a player gets, or less than one, and what its path carries. */
export function pathFigure(path: RtcPath): { value: string; sub: string } {
  const layer = path.layer === null ? 'all' : layerName(path.layer);
  const value = path.state === 'ok' ? SHARES[path.share] || layer : 'no reports';
  return { value, sub: bitrate(path.estimate_kbps * 1000) };
}
