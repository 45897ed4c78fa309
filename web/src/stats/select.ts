/**
 * Which sessions are listed and in which order: filter and sort over the columns of a message.
 *
 * Pure functions of their arguments; ten thousand rows take a few milliseconds, so they run off the page's thread.
 */
import { keyOfId, sessionId, sessionKey, type SessionKey } from './ids';
import { ROLES, type Message, type SessionColumns } from './message';

export type Role = (typeof ROLES)[number];

/** What the table can be sorted by. */
export const SORTS = ['role', 'stream', 'rate', 'packets', 'loss', 'rtt', 'jitter', 'queue', 'dropped', 'connected'] as const;
export type Sort = (typeof SORTS)[number];

export interface Query {
  role: Role | '';
  /** `app/name`; empty for all. */
  stream: string;
  /** Lower case; occurs in the stream's name, the protocol, the id, or what `ids` stands for. */
  text: string;
  /** Ids of sessions that match the text by what the message does not have: address and program. */
  ids: readonly string[];
  sort: Sort;
  descending: boolean;
}

export const ALL: Query = { role: '', stream: '', text: '', ids: [], sort: 'connected', descending: true };

/** Rows that the query lists, in its order. Rows that are equal keep the message's order; unknown values come last. */
export function select(message: Message, query: Query): Uint32Array<ArrayBuffer> {
  const rows = filter(message, query);
  const keys = sortKeys(message, query.sort);
  const sign = query.descending ? -1 : 1;
  return rows.sort((a, b) => {
    const left = keys[a]!;
    const right = keys[b]!;
    if (left < right) return -sign;
    if (left > right) return sign;
    // Equal, or one of them is not known.
    return Number(Number.isNaN(left)) - Number(Number.isNaN(right)) || a - b;
  });
}

/**
 * The order shown before, as far as its sessions still match, then those that are new. `slotsBefore` is the order in
 * slots, `slots` the slot of each row.
 */
export function holdOrder(slotsBefore: Uint32Array, slots: Uint32Array, matching: Uint32Array): Uint32Array<ArrayBuffer> {
  const rowOf = new Map<number, number>();
  for (const row of matching) rowOf.set(slots[row]!, row);
  const order = new Uint32Array(matching.length);
  let length = 0;
  for (const slot of slotsBefore) {
    const row = rowOf.get(slot);
    if (row === undefined) continue;
    order[length++] = row;
    rowOf.delete(slot);
  }
  for (const row of rowOf.values()) order[length++] = row;
  return order;
}

/** Rows that match, in the message's order. */
export function filter(message: Message, query: Query): Uint32Array<ArrayBuffer> {
  const { sessions } = message;
  const count = sessions.serial.length;
  const role = query.role === '' ? -1 : ROLES.indexOf(query.role);
  const stream = query.stream === '' ? null : message.streams.name.indexOf(query.stream);
  const matches = query.text === '' ? null : textMatcher(message, query);
  const rows = new Uint32Array(count);
  let length = 0;
  for (let row = 0; row < count; row += 1) {
    if (role >= 0 && sessions.role[row] !== role) continue;
    // A stream that is gone has index -1 here, which also stands for "none": nothing matches it.
    if (stream !== null && (stream < 0 || sessions.stream[row] !== stream)) continue;
    if (matches !== null && !matches(row)) continue;
    rows[length++] = row;
  }
  return rows.slice(0, length);
}

/** Names are compared once each, not once a session. */
function textMatcher(message: Message, { text, ids }: Query): (row: number) => boolean {
  const { sessions } = message;
  const has = (name: string) => name.toLowerCase().includes(text);
  const streams = message.streams.name.map(has);
  const protocols = message.protocols.map(has);
  const roles = ROLES.map(has);
  const byAddress = new Set<SessionKey>(ids.map(keyOfId).filter((key) => key !== null));
  const looksLikeId = /^[\d-]+$/.test(text);
  return (row) => {
    const stream = sessions.stream[row]!;
    if (stream >= 0 && streams[stream]) return true;
    if (protocols[sessions.protocol[row]!] || roles[sessions.role[row]!]) return true;
    const [worker, serial] = [sessions.worker[row]!, sessions.serial[row]!];
    if (byAddress.size > 0 && byAddress.has(sessionKey(worker, serial))) return true;
    return looksLikeId && sessionId(worker, serial).includes(text);
  };
}

const COLUMNS = {
  rate: 'bits_per_second',
  packets: 'packets_per_second',
  loss: 'loss_percent',
  rtt: 'rtt_ms',
  jitter: 'jitter_ms',
  queue: 'queue_bytes',
  dropped: 'dropped_frames',
  connected: 'connected_ms',
} as const satisfies Partial<Record<Sort, keyof SessionColumns>>;

/** One number a row that sorts as the column does. */
function sortKeys(message: Message, sort: Sort): ArrayLike<number> {
  const { sessions, streams, protocols } = message;
  if (sort === 'role') {
    const rank = ranks(protocols);
    return Float64Array.from(sessions.role, (role, row) => role * protocols.length + rank[sessions.protocol[row]!]!);
  }
  if (sort === 'stream') {
    const rank = ranks(streams.name);
    return Float64Array.from(sessions.stream, (stream) => (stream < 0 ? Number.NaN : rank[stream]!));
  }
  return sessions[COLUMNS[sort]];
}

/** Place of each name among all, in alphabetical order. */
function ranks(names: readonly string[]): number[] {
  const order = names.map((_, index) => index).sort((a, b) => (names[a]! < names[b]! ? -1 : 1));
  const rank: number[] = [];
  order.forEach((index, place) => (rank[index] = place));
  return rank;
}
