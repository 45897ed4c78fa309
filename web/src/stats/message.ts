/**
 * The server's statistics message, version 1: a MessagePack map of columns (docs/statistics.md), as typed
 * arrays.
 *
 * What comes in is checked once, here; all other code may rely on columns of one group having one length and
 * on indexes that exist. Keys this version does not know are ignored, as the schema asks of readers.
 */
import { decode } from '@msgpack/msgpack';

/** The only version of the schema that is understood; it grows when a key changes its meaning. */
export const MESSAGE_VERSION = 1;
/** Most rows of a group that are taken from a message. */
export const ROWS_MAX = 1_000_000;
/** Longest name of a stream or protocol, in bytes. */
const NAME_BYTES_MAX = 4_096;
/** Stands in the message for a session that belongs to no stream. */
const NO_STREAM = 0xffff_ffff;

export type Numbers = Float64Array<ArrayBuffer>;

/** Columns over the sessions; unknown values are NaN. */
export interface SessionColumns {
  worker: Numbers;
  /** With the worker it makes the id: `worker-serial`. */
  serial: Numbers;
  /** Index into the streams, -1 for none. */
  stream: Int32Array<ArrayBuffer>;
  /** See ROLES. */
  role: Uint8Array<ArrayBuffer>;
  /** Index into the protocols. */
  protocol: Uint8Array<ArrayBuffer>;
  connected_ms: Numbers;
  bits_per_second: Numbers;
  packets: Numbers;
  packets_per_second: Numbers;
  lost_packets: Numbers;
  loss_percent: Numbers;
  rtt_ms: Numbers;
  jitter_ms: Numbers;
  queue_bytes: Numbers;
  queue_ms: Numbers;
  dropped_frames: Numbers;
}

export interface StreamColumns {
  name: string[];
  live: boolean[];
  publisher_worker: Numbers;
  players: Numbers;
  bits_in_per_second: Numbers;
  bits_out_per_second: Numbers;
}

export interface WorkerColumns {
  index: Numbers;
  load_percent: Numbers;
  sessions: Numbers;
  snapshot_us: Numbers;
  bits_in_per_second: Numbers;
  bits_out_per_second: Numbers;
}

export interface Message {
  sequence: number;
  timeMs: number;
  intervalMs: number;
  protocols: string[];
  workers: WorkerColumns;
  streams: StreamColumns;
  sessions: SessionColumns;
}

export const ROLES = ['pending', 'publisher', 'player'] as const;

/** Why a message cannot be shown. */
export class MessageError extends Error {
  /** It is of a version that is not understood, so the next ones will not be either. */
  readonly version: number | null;

  constructor(text: string, version: number | null = null) {
    super(text);
    this.name = 'MessageError';
    this.version = version;
  }
}

/** Reads one message; anything that is not one fails with MessageError. */
export function readMessage(bytes: Uint8Array): Message {
  let value: unknown;
  try {
    value = decode(bytes, {
      maxArrayLength: ROWS_MAX,
      maxStrLength: NAME_BYTES_MAX,
      maxMapLength: 1_000,
      maxBinLength: 0,
      maxExtLength: 0,
    });
  } catch (cause) {
    throw new MessageError(
      `The statistics cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
    );
  }
  return messageOf(value);
}

/** Checks a decoded map and turns its arrays into columns. */
export function messageOf(value: unknown): Message {
  const map = group(value, 'the message');
  const version = map['version'];
  if (version !== MESSAGE_VERSION) {
    const shown = typeof version === 'number' ? version : null;
    throw new MessageError(
      `The server sends statistics of version ${shown ?? 'unknown'}, this page reads version ${MESSAGE_VERSION}.`,
      shown,
    );
  }
  const protocols = texts(map['protocols'], 'protocols');
  const streams = streamsOf(group(map['streams'], 'streams'));
  return {
    sequence: scalar(map['sequence'], 'sequence'),
    timeMs: scalar(map['time_ms'], 'time_ms'),
    intervalMs: Math.max(1, scalar(map['interval_ms'], 'interval_ms')),
    protocols,
    workers: workersOf(group(map['workers'], 'workers')),
    streams,
    sessions: sessionsOf(group(map['sessions'], 'sessions'), streams.name.length, protocols.length),
  };
}

function workersOf(map: Group): WorkerColumns {
  const read = numbersOf(map, 'workers', 'index');
  return {
    index: read('index'),
    load_percent: read('load_percent'),
    sessions: read('sessions'),
    snapshot_us: read('snapshot_us'),
    bits_in_per_second: read('bits_in_per_second'),
    bits_out_per_second: read('bits_out_per_second'),
  };
}

function streamsOf(map: Group): StreamColumns {
  const name = texts(map['name'], 'streams.name');
  const live = map['live'];
  if (!Array.isArray(live) || live.length !== name.length)
    throw new MessageError('streams.live is not a column of its group.');
  const read = numbersOf(map, 'streams', 'name');
  return {
    name,
    live: live.map(Boolean),
    publisher_worker: read('publisher_worker'),
    players: read('players'),
    bits_in_per_second: read('bits_in_per_second'),
    bits_out_per_second: read('bits_out_per_second'),
  };
}

function sessionsOf(map: Group, streams: number, protocols: number): SessionColumns {
  const read = numbersOf(map, 'sessions', 'serial');
  const stream = Int32Array.from(read('stream'), (index) => (index === NO_STREAM ? -1 : index));
  if (stream.some((index) => index < -1 || index >= streams))
    throw new MessageError('A session names a stream that is not in the message.');
  const role = Uint8Array.from(read('role'));
  if (role.some((index) => index >= ROLES.length))
    throw new MessageError('A session has a role that is not known.');
  const protocol = Uint8Array.from(read('protocol'));
  if (protocol.some((index) => index >= protocols))
    throw new MessageError('A session names a protocol that is not in the message.');
  return {
    worker: read('worker'),
    serial: read('serial'),
    stream,
    role,
    protocol,
    connected_ms: read('connected_ms'),
    bits_per_second: read('bits_per_second'),
    packets: read('packets'),
    packets_per_second: read('packets_per_second'),
    lost_packets: read('lost_packets'),
    loss_percent: read('loss_percent'),
    rtt_ms: read('rtt_ms'),
    jitter_ms: read('jitter_ms'),
    queue_bytes: read('queue_bytes'),
    queue_ms: read('queue_ms'),
    dropped_frames: read('dropped_frames'),
  };
}

type Group = Record<string, unknown>;

function group(value: unknown, what: string): Group {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new MessageError(`${what} is not a map.`);
  return value as Group;
}

function scalar(value: unknown, what: string): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number))
    throw new MessageError(`${what} is not a number.`);
  return number;
}

function texts(value: unknown, what: string): string[] {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string'))
    throw new MessageError(`${what} is not a list of texts.`);
  return value;
}

/** Reads columns of one group, each as long as `first`. JSON has null where MessagePack has NaN. */
function numbersOf(map: Group, what: string, first: string): (name: string) => Numbers {
  const head = map[first];
  const length = Array.isArray(head) ? head.length : -1;
  return (name) => {
    const values = map[name];
    if (!Array.isArray(values) || values.length !== length)
      throw new MessageError(`${what}.${name} is not a column of its group.`);
    const column = new Float64Array(length);
    for (let row = 0; row < length; row += 1) {
      const value: unknown = values[row];
      if (typeof value === 'number') column[row] = value;
      else if (value === null) column[row] = Number.NaN;
      else throw new MessageError(`${what}.${name} has something that is not a number.`);
    }
    return column;
  };
}
