/**
 * What every player does, whatever carries the stream: the words between them and the page.
 */
import type { Trouble } from '../lib/trouble';

/** `rtc`: WHEP. `hls`: low-latency HLS. `http`, `ws`: FLV over one HTTP response or over a WebSocket. */
export type Transport = 'rtc' | 'hls' | 'http' | 'ws';

export type Phase =
  'idle' | 'connecting' | 'playing' | 'buffering' | 'waiting' | 'paused' | 'blocked' | 'retrying' | 'failed';

export interface PlayerState {
  phase: Phase;
  /** What is going on, in words; empty while all is well. */
  message: string;
  needsToken: boolean;
  /** Connections opened again since `start`. */
  reconnects: number;
  /** When the next try begins (`Date.now()` scale); only in phase `retrying`. */
  retryAtMs: number | null;
  /** Bytes per second over the last second or seconds. */
  bytesPerSecond: number;
}

export const IDLE: PlayerState = {
  phase: 'idle',
  message: '',
  needsToken: false,
  reconnects: 0,
  retryAtMs: null,
  bytesPerSecond: 0,
};

/** Where a stream can be fetched, and how. */
export interface Source {
  transport: Transport;
  url: string;
  /** Sent in a header; FLV and HLS have their token in `url`: a WebSocket takes no header. */
  token: string;
}

export interface StreamPlayer {
  /** Plays `url` from now on, until `stop` or another `start`. */
  start(url: string, token?: string): void;
  stop(): void;
  /** Stops for good and lets go of the video element. */
  destroy(): void;
  /** Tries again at once, from a failed or waiting state. */
  retryNow(): void;
  /** The stream has other tracks or codecs than before: what failed may work now. */
  formatChanged(): void;
  pause(): void;
  /** Resumes at the live edge, never at the point where it was paused. */
  resume(): void;
}

export interface StreamPlayerOptions {
  video: HTMLVideoElement;
  onState: (state: PlayerState) => void;
  /** Called with each failure first. True: the owner takes over, and this player goes quiet. */
  onTrouble?: (trouble: Trouble) => boolean;
  now?: () => number;
  random?: () => number;
}
