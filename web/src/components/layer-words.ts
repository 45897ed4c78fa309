/** Layers of a stream and what a player gets of them, in a few words. */
import type { LayerName, RtcPath, StreamLayer } from '../api/types';
import { bitrate, count } from '../lib/format';

/** `h`, or `h S0 T1` with limits inside the encoding. */
export function layerName({ name, spatial, temporal }: LayerName): string {
  const limits = [spatial === null ? '' : ` S${spatial}`, temporal === null ? '' : ` T${temporal}`];
  return name + limits.join('');
}

/** `1280×720 · 1.7 Mbit/s · 3 players`. */
export function layerWords({ width, height, live, bits_per_second: bits, viewers }: StreamLayer): string {
  const size = width !== null && height !== null ? `${width}×${height}` : null;
  const rate = live ? bitrate(bits) : 'does not arrive';
  return [size, rate, viewers === 1 ? '1 player' : `${count(viewers)} players`].filter(Boolean).join(' · ');
}

const SHARES = { all: '', key_frames: 'key frames', audio_only: 'audio only' } as const;

/** The layer that a player gets, or less than one, and what its path carries. */
export function pathFigure(path: RtcPath): { value: string; sub: string } {
  const layer = path.layer === null ? 'all' : layerName(path.layer);
  const value = path.state === 'ok' ? SHARES[path.share] || layer : 'no reports';
  return { value, sub: bitrate(path.estimate_kbps * 1000) };
}
