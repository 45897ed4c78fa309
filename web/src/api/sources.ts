/**
 * Shapes of what the server fetches and sends by itself: channels (playlists of files), pulls (streams of
 * other servers) and pushes (streams of this one to others).
 *
 * As documented in `/api/v1/openapi.json`. Addresses come without credentials.
 */
import type { SrtSession } from './types';

/** What has happened to a channel, newest last; the server keeps a few. */
export interface ChannelEvent {
  /** RFC 3339. */
  at: string;
  /** Index of the item it is about. */
  item: number | null;
  kind: ChannelEventKind;
  message: string;
}

/**
 * - `broken`: an item could not be played
 * - `skipped`: it was left on request
 * - `late`: frames came too late, and pacing restarted
 * - `interrupted`: the stream was refused, or taken away
 * - `nothing_to_play`: no item can be played
 */
export type ChannelEventKind = 'broken' | 'skipped' | 'late' | 'interrupted' | 'nothing_to_play';

export interface ChannelItem {
  /** URL or path. */
  location: string;
  /** Known once it has been opened. */
  duration_ms: number | null;
  last_error: string | null;
}

/**
 * - `waiting`: for its start, or for its stream's name, which somebody else has
 * - `opening`: nothing plays until the next item is open
 * - `retrying`: no item could be played; the next try comes later
 * - `ended`: played to its end, without repetition
 */
export type ChannelState = 'waiting' | 'opening' | 'playing' | 'retrying' | 'ended';

export interface Channel {
  app: string;
  name: string;
  /** Who made it: what is in the configuration comes back when the server starts. */
  source: SourceOrigin;
  state: ChannelState;
  /** When the state began, RFC 3339. */
  since: string;
  items: ChannelItem[];
  loop: boolean;
  /** When the playlist began or will begin, RFC 3339; null: when the server did. */
  start: string | null;
  /** Index of the item that is played, where in it, and how long it is. */
  item: number | null;
  position_ms: number | null;
  duration_ms: number | null;
  /** Index of the item that comes, and whether it has been opened already. */
  next: number | null;
  next_ready: boolean;
  /** Times the playlist was played to its end. */
  loops: number;
  items_played: number;
  items_failed: number;
  /** Times late frames made the pacing restart. */
  pauses: number;
  /** By how much it is later because of that; with a start, since it was last where its schedule says. */
  behind_ms: number;
  /** Until something is tried again, or until the start. */
  retry_in_ms: number | null;
  events: ChannelEvent[];
}

export type SourceOrigin = 'configuration' | 'api';

/** `idle`: for a player; `waiting`: for the next try. */
export type PullState = 'idle' | 'connecting' | 'live' | 'waiting';

export interface Pull {
  app: string;
  name: string;
  source: SourceOrigin;
  url: string;
  /** Begun by the first player and ended after the last. */
  on_demand: boolean;
  state: PullState;
  /** When the state began, RFC 3339. */
  since: string;
  /** Tries since it was live last, the present one among them; while it is live, those that it took. */
  attempts: number;
  /** Tries that failed since it was added. */
  failures: number;
  /** Times it became live again. */
  reconnects: number;
  /** Why the last try that failed did, and when (RFC 3339); it stays when the pull is live again. */
  last_error: string | null;
  last_error_at: string | null;
  retry_in_ms: number | null;
  bytes: number;
  bitrate_bits_per_second: number;
  /** Its connection, while it has one by SRT. */
  srt?: SrtSession | null;
}

export interface NewChannel {
  app: string;
  name: string;
  items: string[];
  loop: boolean;
  start: string | null;
}

/** Streams that are sent on to another server. */
export interface Push {
  id: number;
  source: SourceOrigin;
  /** Which: a pattern of `app/name`. */
  stream: string;
  /** Where to; without user name, password, query and stream key. */
  url: string;
  /** Those that are published at present. */
  streams: PushedStream[];
}

/** One stream on its way to one target; the fields that a pull has mean the same. */
export interface PushedStream {
  app: string;
  name: string;
  url: string;
  state: PullState;
  since: string;
  attempts: number;
  failures: number;
  reconnects: number;
  last_error: string | null;
  last_error_at: string | null;
  retry_in_ms: number | null;
  /** Tracks that the target cannot carry, while others go on: why. */
  not_carried: string | null;
  bytes: number;
  bitrate_bits_per_second: number;
  frames: number;
  /** Frames that the target was too slow for, or cannot carry. */
  frames_left_out: number;
  srt?: SrtSession | null;
}

export interface NewPull {
  app: string;
  name: string;
  url: string;
  on_demand: boolean;
  /** Bearer token of WHEP; the server never shows it. */
  token: string | null;
}

export interface NewPush {
  stream: string;
  url: string;
  /** Bearer token of WHIP; the server never shows it. */
  token: string | null;
}
