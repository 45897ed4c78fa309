/**
 * What the console knows about the server: polled once a second, with short histories for sparklines.
 *
 * The last good answer stays when the server goes away, so pages never go blank; `connection` says how fresh
 * it is. Sessions are not here: they can be thousands, so each page asks for the part it shows.
 */
import type { ApiClient } from '../api/client';
import type { ApiError } from '../api/errors';
import type { ServerInfo, Stream, Worker } from '../api/types';
import { streamKey } from '../lib/urls';
import { BridgeCosts } from './bridge-cost';
import { SeriesMap } from './history';
import { PollLoop } from './poll-loop';
import { Store } from './store';

export type Connection =
  | { state: 'connecting' }
  | { state: 'online' }
  | { state: 'reconnecting'; failures: number; retryInMs: number; message: string }
  | { state: 'unauthorized'; message: string }
  | { state: 'forbidden'; message: string };

export interface Snapshot {
  connection: Connection;
  server: ServerInfo | null;
  streams: Stream[] | null;
  workers: Worker[] | null;
  /** Sums over all workers, bits per second. */
  rateIn: number;
  rateOut: number;
  /** Grows with every successful poll; lets views redraw sparklines that are mutated in place. */
  revision: number;
}

const POLL_MS = 1_000;
/** Server facts hardly change; asked for once in this many polls. */
const SERVER_EVERY = 5;

export class Model {
  readonly store = new Store<Snapshot>({
    connection: { state: 'connecting' },
    server: null,
    streams: null,
    workers: null,
    rateIn: 0,
    rateOut: 0,
    revision: 0,
  });
  /** Bit rate by `app/name`. */
  readonly streamRates = new SeriesMap();
  /** `in` and `out`, bits per second over all workers, and `thinned`, players with less than all video. */
  readonly totals = new SeriesMap();
  /** `load:N`, `out:N` (bits per second) and `p99:N` (microseconds) for worker N. */
  readonly workerSeries = new SeriesMap();
  readonly bridges = new BridgeCosts();

  readonly #client: ApiClient;
  readonly #loop: PollLoop;
  #polls = 0;

  constructor(client: ApiClient) {
    this.#client = client;
    this.#loop = new PollLoop({
      run: (signal) => this.#poll(signal),
      intervalMs: POLL_MS,
      onFailure: (error, failures, retryInMs) => this.#failed(error, failures, retryInMs),
    });
  }

  start(): void {
    this.#loop.start();
  }

  stop(): void {
    this.#loop.stop();
  }

  /** Asks again at once, for example after a token was entered or a session kicked. */
  refresh(): void {
    this.#polls = 0;
    this.#loop.now();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const known = this.store.value;
    const online = known.connection.state === 'online';
    const wantServer = !online || known.server === null || this.#polls % SERVER_EVERY === 0;
    const [server, streams, workers] = await Promise.all([
      wantServer ? this.#client.server(signal) : known.server,
      this.#client.streams(signal),
      this.#client.workers(signal),
    ]);
    if (signal.aborted) return;
    this.#polls += 1;
    if (server?.started_at !== known.server?.started_at) this.#forgetHistory();
    const rateIn = 8 * sum(workers, (worker) => worker.bytes_in_per_second);
    const rateOut = 8 * sum(workers, (worker) => worker.bytes_out_per_second);
    this.#record(streams, workers, rateIn, rateOut);
    this.store.set({
      connection: online ? known.connection : { state: 'online' },
      server,
      streams: sorted(streams),
      workers,
      rateIn,
      rateOut,
      revision: known.revision + 1,
    });
  }

  #record(streams: Stream[], workers: Worker[], rateIn: number, rateOut: number): void {
    this.totals.round([
      ['in', rateIn],
      ['out', rateOut],
      ['thinned', sum(workers, (worker) => worker.rtc_players_thinned ?? 0)],
    ]);
    this.streamRates.round(
      streams.map((stream) => [streamKey(stream), stream.bitrate_bits_per_second] as const),
    );
    this.bridges.round(streams);
    this.workerSeries.round(
      workers.flatMap((worker) => [
        [`load:${worker.index}`, worker.load_percent] as const,
        [`out:${worker.index}`, worker.bytes_out_per_second * 8] as const,
        [`p99:${worker.index}`, worker.loop_time_us_p99] as const,
      ]),
    );
  }

  #forgetHistory(): void {
    this.totals.clear();
    this.streamRates.clear();
    this.workerSeries.clear();
    this.bridges.clear();
  }

  #failed(error: ApiError, failures: number, retryInMs: number): void {
    this.store.update((known) => ({ ...known, connection: connectionAfter(error, failures, retryInMs) }));
  }
}

/** What a failed poll means for the page. */
export function connectionAfter(error: ApiError, failures: number, retryInMs: number): Connection {
  if (error.kind === 'unauthorized') return { state: 'unauthorized', message: error.message };
  if (error.kind === 'forbidden') return { state: 'forbidden', message: error.message };
  return { state: 'reconnecting', failures, retryInMs, message: error.message };
}

/** Live before waiting, then by name: rows keep their place while numbers change. */
export function sorted(streams: readonly Stream[]): Stream[] {
  return [...streams].sort((a, b) => {
    if (a.state !== b.state) return a.state === 'live' ? -1 : 1;
    return streamKey(a).localeCompare(streamKey(b));
  });
}

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
