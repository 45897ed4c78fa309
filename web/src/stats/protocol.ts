/**
 * What the page and the thread behind it say to each other.
 *
 * The thread has the connection, reads messages, keeps histories, filters and sorts; the page has what it
 * shows.
 */
import type { Message } from './message';
import type { Query } from './select';
import type { Track } from './recorder';
import type { Summary } from './summary';

/** Figures of one session that are kept as histories, in this order. */
export const SESSION_FIGURES = [
  'bits_per_second',
  'packets_per_second',
  'loss_percent',
  'rtt_ms',
  'jitter_ms',
  'queue_bytes',
] as const;
export type SessionFigure = (typeof SESSION_FIGURES)[number];

/** Samples in the small line of a row. */
export const SPARK_SAMPLES = 60;

/** From the page. */
export type Request =
  /** Open the stream of messages, or open it again with another token. */
  | { kind: 'connect'; socketUrl: string; url: string; token: string | null }
  | { kind: 'disconnect' }
  | { kind: 'query'; query: Query }
  /** While held, rows keep their order though figures change. */
  | { kind: 'hold'; held: boolean }
  | { kind: 'watch'; watched: Watched }
  /** Ids of the sessions whose rows can be seen. */
  | { kind: 'rows'; ids: readonly string[] };

/** What histories the page draws. */
export interface Watched {
  /** Id of the session that is looked at. */
  session: string | null;
  /** Name of the stream that is looked at. */
  stream: string | null;
}

export const NOTHING_WATCHED: Watched = { session: null, stream: null };

/** To the page. */
export type Report =
  | { kind: 'link'; link: Link }
  | { kind: 'frame'; frame: Frame; order: Uint32Array<ArrayBuffer>; tracks: Tracks; sparks: Sparks }
  /** The same message in another order, after a new query. */
  | { kind: 'order'; order: Uint32Array<ArrayBuffer> }
  /** Histories that were asked for between two messages. */
  | { kind: 'tracks'; tracks: Tracks }
  | { kind: 'sparks'; sparks: Sparks };

/** Newest rates by id of the session, for the rows that can be seen. */
export type Sparks = ReadonlyMap<string, Float32Array<ArrayBuffer>>;

/** One message and what was found in it. */
export interface Frame {
  message: Message;
  summary: Summary;
  bytes: number;
  /** Time it took to read it and to make the frame, in milliseconds. */
  readMs: number;
}

export interface Tracks {
  /** TOTAL_FIGURES. */
  all: Track;
  session: { id: string; present: boolean; track: Track } | null;
  /** STREAM_FIGURES; null while there is no such stream. */
  stream: { name: string; summary: Summary; track: Track } | null;
}

/** How the messages come, or why they do not. */
export type Link =
  | { state: 'closed' }
  | { state: 'connecting' }
  /** By WebSocket, once a second. */
  | { state: 'live' }
  /** The WebSocket does not open, so each message is asked for. */
  | { state: 'asking'; why: string }
  | { state: 'lost'; failures: number; retryInMs: number; why: string }
  | { state: 'refused'; kind: 'unauthorized' | 'forbidden' | 'absent' | 'version'; why: string };
