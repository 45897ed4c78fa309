/** Statistics messages for tests, as a server would send them. */
import { encode } from '@msgpack/msgpack';

export interface SampleSession {
  id: string;
  stream: string | null;
  role: number;
  protocol: number;
  rate: number;
  loss: number;
  rtt: number;
  queueMs: number;
}

export const aRow = (id: string, change: Partial<SampleSession> = {}): SampleSession => ({
  id, stream: 'live/a', role: 2, protocol: 0, rate: 1000, loss: Number.NaN, rtt: Number.NaN, queueMs: 0, ...change,
});

/** A message in its plain form: what MessagePack or JSON decodes to. */
export function plainMessage(sequence: number, rows: SampleSession[], change: Record<string, unknown> = {}) {
  const names = [...new Set(rows.map(({ stream }) => stream).filter((name) => name !== null))];
  const column = <T>(of: (row: SampleSession, index: number) => T) => rows.map(of);
  const zero = () => rows.map(() => 0);
  return {
    version: 1, sequence, time_ms: 1_700_000_000_000 + 1000 * sequence, interval_ms: 1000, protocols: ['rtmp', 'whep'],
    workers: { index: [0], load_percent: [12.5], sessions: [rows.length], snapshot_us: [40], bits_in_per_second: [500], bits_out_per_second: [9000] },
    streams: {
      name: names, live: names.map(() => true), publisher_worker: names.map(() => -1), players: names.map((_, index) => index + 1),
      bits_in_per_second: names.map(() => 500), bits_out_per_second: names.map(() => 9000),
    },
    sessions: {
      worker: column(({ id }) => Number(id.split('-')[0])), serial: column(({ id }) => Number(id.split('-')[1])),
      stream: column(({ stream }) => (stream === null ? 0xffff_ffff : names.indexOf(stream))), role: column(({ role }) => role), protocol: column(({ protocol }) => protocol),
      connected_ms: column((_, index) => 1000 * index), bits_per_second: column(({ rate }) => rate), packets: zero(), packets_per_second: zero(), lost_packets: zero(),
      loss_percent: column(({ loss }) => loss), rtt_ms: column(({ rtt }) => rtt), jitter_ms: column(() => Number.NaN), queue_bytes: zero(), queue_ms: column(({ queueMs }) => queueMs), dropped_frames: zero(),
    },
    ...change,
  };
}

export const packed = (sequence: number, rows: SampleSession[], change: Record<string, unknown> = {}): Uint8Array<ArrayBuffer> => encode(plainMessage(sequence, rows, change));
