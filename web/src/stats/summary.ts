/**
 * What one message says of all sessions together, and of those of each stream.
 */
import type { Message, Numbers } from './message';

/** A session loses noticeably from this many percent on. */
export const LOSSY_PERCENT = 2;
/** A player is behind from this many milliseconds of queue on. */
export const BEHIND_MS = 1_000;

export interface Summary {
  sessions: number;
  publishers: number;
  players: number;
  /** Half of the sessions whose round trip is known have a shorter one; NaN where none is known. */
  rttMedianMs: number;
  /** 95 of 100 have a shorter one. */
  rttP95Ms: number;
  /** Sessions that lose at least LOSSY_PERCENT. */
  lossy: number;
  /** Players that are at least BEHIND_MS behind. */
  behind: number;
}

/** All sessions, or those of one stream (index). */
export function summarise(message: Message, stream: number | null = null): Summary {
  const { sessions } = message;
  const count = sessions.serial.length;
  const trips = new Float32Array(count);
  const summary = { sessions: 0, publishers: 0, players: 0, lossy: 0, behind: 0 };
  let known = 0;
  for (let row = 0; row < count; row += 1) {
    if (stream !== null && sessions.stream[row] !== stream) continue;
    summary.sessions += 1;
    if (sessions.role[row] === 1) summary.publishers += 1;
    else if (sessions.role[row] === 2) summary.players += 1;
    const trip = sessions.rtt_ms[row]!;
    if (!Number.isNaN(trip)) trips[known++] = trip;
    if (sessions.loss_percent[row]! >= LOSSY_PERCENT) summary.lossy += 1;
    if (sessions.queue_ms[row]! >= BEHIND_MS) summary.behind += 1;
  }
  const ordered = trips.subarray(0, known).sort();
  return { ...summary, rttMedianMs: percentile(ordered, 50), rttP95Ms: percentile(ordered, 95) };
}

/** Figures over all sessions that are kept as histories, in this order. */
export const TOTAL_FIGURES = [
  'bitsIn',
  'bitsOut',
  'rttMedianMs',
  'rttP95Ms',
  'lossy',
  'behind',
  'sessions',
] as const;
export type TotalFigure = (typeof TOTAL_FIGURES)[number];

export function totalFigures(message: Message, summary: Summary): number[] {
  const { workers } = message;
  const { rttMedianMs, rttP95Ms, lossy, behind, sessions } = summary;
  return [
    sum(workers.bits_in_per_second),
    sum(workers.bits_out_per_second),
    rttMedianMs,
    rttP95Ms,
    lossy,
    behind,
    sessions,
  ];
}

/** Figures of each stream that are kept as histories, in this order. */
export const STREAM_FIGURES = ['bitsIn', 'bitsOut', 'rttMeanMs', 'lossy', 'behind', 'players'] as const;
export type StreamFigure = (typeof STREAM_FIGURES)[number];

/** STREAM_FIGURES as columns over the streams, in one pass over the sessions. */
export function streamFigures(message: Message): Numbers[] {
  const { sessions, streams } = message;
  const column = () => new Float64Array(streams.name.length);
  const [trips, known, lossy, behind] = [column(), column(), column(), column()];
  for (let row = 0; row < sessions.serial.length; row += 1) {
    const stream = sessions.stream[row]!;
    if (stream < 0) continue;
    const trip = sessions.rtt_ms[row]!;
    if (!Number.isNaN(trip)) {
      trips[stream]! += trip;
      known[stream]! += 1;
    }
    if (sessions.loss_percent[row]! >= LOSSY_PERCENT) lossy[stream]! += 1;
    if (sessions.queue_ms[row]! >= BEHIND_MS) behind[stream]! += 1;
  }
  // Nothing known divides zero by zero, which is NaN: not known.
  const mean = trips.map((total, stream) => total / known[stream]!);
  return [streams.bits_in_per_second, streams.bits_out_per_second, mean, lossy, behind, streams.players];
}

/** Nearest-rank percentile of ordered values; NaN of none. */
export function percentile(ordered: ArrayLike<number>, percent: number): number {
  if (ordered.length === 0) return Number.NaN;
  return ordered[Math.max(0, Math.ceil((percent / 100) * ordered.length) - 1)]!;
}

function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let index = 0; index < values.length; index += 1) total += values[index]!;
  return total;
}
