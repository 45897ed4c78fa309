/**
 * Which sessions are listed and in which order: filter and sort over the columns of a message.
 *
 * Pure functions of their arguments; ten thousand rows take a few milliseconds, so they run off the page's
 * thread.
 */
import { keyOfId, sessionId, sessionKey, type SessionKey } from './ids';
import { ROLES, type Message, type SessionColumns } from './message';
import { wordsOf, type Word } from './words';

export type Role = (typeof ROLES)[number];

/** What the table can be sorted by. */
export const SORTS = [
  'role',
  'stream',
  'rate',
  'packets',
  'loss',
  'rtt',
  'jitter',
  'queue',
  'dropped',
  'connected',
] as const;
export type Sort = (typeof SORTS)[number];

export interface Query {
  role: Role | '';
  /** `app/name`; empty for all. */
  stream: string;
  /** Words that must all fit (stats/words.ts). */
  text: string;
  /** By word, ids of the sessions it fits by what the message does not have: address and program. */
  ids: ReadonlyMap<string, readonly string[]>;
  sort: Sort;
  descending: boolean;
}

export const ALL: Query = {
  role: '',
  stream: '',
  text: '',
  ids: new Map(),
  sort: 'connected',
  descending: true,
};

/**
 * Rows that the query lists, in its order. Rows that are equal keep the message's order; unknown values come
 * last.
 */
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
 * The order shown before, as far as its sessions still match, then those that are new. `slotsBefore` is the
 * order in slots, `slots` the slot of each row.
 */
export function holdOrder(
  slotsBefore: Uint32Array,
  slots: Uint32Array,
  matching: Uint32Array,
): Uint32Array<ArrayBuffer> {
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
  const fits = wordsOf(query.text).map((word) => matcher(message, word, query.ids));
  const rows = new Uint32Array(count);
  let length = 0;
  for (let row = 0; row < count; row += 1) {
    if (role >= 0 && sessions.role[row] !== role) continue;
    // A stream that is gone has index -1 here, which also stands for "none": nothing matches it.
    if (stream !== null && (stream < 0 || sessions.stream[row] !== stream)) continue;
    if (!fits.every((fit) => fit(row))) continue;
    rows[length++] = row;
  }
  return rows.slice(0, length);
}

/** Whether a word fits a row. Names are compared once each, not once a session. */
function matcher(message: Message, { field, text }: Word, ids: Query['ids']): (row: number) => boolean {
  const { sessions } = message;
  const has = (name: string) => name.toLowerCase().includes(text);
  const roles = ROLES.map(has);
  const role = (row: number) => roles[sessions.role[row]!]!;
  if (field === 'role') return role;
  if (field === 'worker') return (row) => String(sessions.worker[row]) === text;
  const streams = message.streams.name.map(has);
  // Index -1 stands for none.
  const stream = (row: number) => streams[sessions.stream[row]!] ?? false;
  if (field === 'stream') return stream;
  const protocols = message.protocols.map(has);
  const protocol = (row: number) => protocols[sessions.protocol[row]!]!;
  if (field === 'protocol') return protocol;
  const identity = identityMatcher(message, text, ids.get(text) ?? []);
  return (row) => stream(row) || protocol(row) || role(row) || identity(row);
}

/** By the beginning of the id, or because the id is one of those given. */
function identityMatcher(
  { sessions }: Message,
  text: string,
  ids: readonly string[],
): (row: number) => boolean {
  const given = new Set<SessionKey>(ids.map(keyOfId).filter((key) => key !== null));
  const looksLikeId = /^[\d-]+$/.test(text);
  return (row) => {
    const [worker, serial] = [sessions.worker[row]!, sessions.serial[row]!];
    if (given.size > 0 && given.has(sessionKey(worker, serial))) return true;
    return looksLikeId && sessionId(worker, serial).startsWith(text);
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
    return Float64Array.from(
      sessions.role,
      (role, row) => role * protocols.length + rank[sessions.protocol[row]!]!,
    );
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
