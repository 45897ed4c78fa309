/**
 * One session of a message, for showing.
 */
import { sessionId, keyOfId, sessionKey } from './ids';
import { ROLES, type Message } from './message';
import type { Role } from './select';

/** Figures that are not known are NaN. */
export interface LiveSession {
  id: string;
  worker: number;
  role: Role;
  protocol: string;
  /** `app/name`; null while it has none. */
  stream: string | null;
  connectedSeconds: number;
  bitsPerSecond: number;
  packets: number;
  packetsPerSecond: number;
  lostPackets: number;
  lossPercent: number;
  rttMs: number;
  jitterMs: number;
  queueBytes: number;
  queueMs: number;
  droppedFrames: number;
}

export function idAt({ sessions }: Message, row: number): string {
  return sessionId(sessions.worker[row]!, sessions.serial[row]!);
}

export function sessionAt(message: Message, row: number): LiveSession {
  const { sessions, streams, protocols } = message;
  return {
    id: idAt(message, row),
    worker: sessions.worker[row]!,
    role: ROLES[sessions.role[row]!]!,
    protocol: protocols[sessions.protocol[row]!]!,
    stream: streams.name[sessions.stream[row]!] ?? null,
    connectedSeconds: sessions.connected_ms[row]! / 1000,
    bitsPerSecond: sessions.bits_per_second[row]!,
    packets: sessions.packets[row]!,
    packetsPerSecond: sessions.packets_per_second[row]!,
    lostPackets: sessions.lost_packets[row]!,
    lossPercent: sessions.loss_percent[row]!,
    rttMs: sessions.rtt_ms[row]!,
    jitterMs: sessions.jitter_ms[row]!,
    queueBytes: sessions.queue_bytes[row]!,
    queueMs: sessions.queue_ms[row]!,
    droppedFrames: sessions.dropped_frames[row]!,
  };
}

/** The session of this id, or null when the message has none. */
export function findSession(message: Message, id: string): LiveSession | null {
  const key = keyOfId(id);
  const { worker, serial } = message.sessions;
  const row =
    key === null ? -1 : serial.findIndex((number, index) => sessionKey(worker[index]!, number) === key);
  return row < 0 ? null : sessionAt(message, row);
}

/** Names of figures of a row, as in its cells' classes. */
export type CardFigure = 'rate' | 'loss' | 'rtt' | 'queue' | 'dropped' | 'connected';

/**
 * The three figures that say most of a session where there is no room for all: by TCP nobody knows of loss.
 */
export function cardFigures(session: LiveSession): readonly CardFigure[] {
  if (session.protocol === 'whep' || session.protocol === 'whip') return ['rate', 'loss', 'rtt'];
  const path = Number.isNaN(session.rttMs) ? [] : (['rtt'] as const);
  return (
    hasQueue(session)
      ? (['rate', 'queue', ...path, 'dropped'] as const)
      : (['rate', ...path, 'connected'] as const)
  ).slice(0, 3);
}

/** Players by FLV and RTMP have a queue at the server; a packet that WebRTC sends does not wait there. */
export function hasQueue({ role, protocol }: Pick<LiveSession, 'role' | 'protocol'>): boolean {
  return role === 'player' && protocol !== 'whep';
}
