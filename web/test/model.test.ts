/** What the console remembers of the server while it comes and goes. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ApiClient } from '../src/api/client';
import { ApiError } from '../src/api/errors';
import type { ServerInfo, Stream, Worker } from '../src/api/types';
import { chooseStream } from '../src/lib/choose-stream';
import { Model, sorted } from '../src/state/model';
import { search, SEARCH_SESSIONS_MAX, sessionMatches } from '../src/state/sessions';
import { aSession, aStream, aWorker } from './samples';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class FakeServer {
  failure: ApiError | null = null;
  startedAt = '2026-01-01T00:00:00Z';
  streamList: Stream[] = [aStream('live/a', { bitrate_bits_per_second: 600 })];
  workerList: Worker[] = [
    aWorker(0, { bytes_in_per_second: 10, bytes_out_per_second: 100, rtc_players_thinned: 2 }),
    aWorker(1, { bytes_in_per_second: 1, bytes_out_per_second: 2, rtc_players_thinned: 1 }),
  ];
  serverCalls = 0;

  client(): ApiClient {
    const answer = <T>(value: () => T) => async () => {
      if (this.failure !== null) throw this.failure;
      return value();
    };
    const server = answer(() => ({ started_at: this.startedAt }) as ServerInfo);
    return {
      server: () => {
        this.serverCalls += 1;
        return server();
      },
      streams: answer(() => this.streamList),
      workers: answer(() => this.workerList),
    } as unknown as ApiClient;
  }
}

it('sums rates over workers, in bits, and keeps a history', async () => {
  const model = new Model(new FakeServer().client());
  model.start();
  await vi.advanceTimersByTimeAsync(2_500);
  expect(model.store.value).toMatchObject({ connection: { state: 'online' }, rateIn: 88, rateOut: 816, revision: 3 });
  expect(model.streamRates.get('live/a')).toEqual([600, 600, 600]);
  expect(model.totals.get('out')).toEqual([816, 816, 816]);
  expect(model.totals.get('thinned')).toEqual([3, 3, 3]);
  model.stop();
});

it('asks for the server facts once in five polls', async () => {
  const server = new FakeServer();
  const model = new Model(server.client());
  model.start();
  await vi.advanceTimersByTimeAsync(9_500);
  expect(server.serverCalls).toBe(2);
  model.stop();
});

it('keeps the last figures while the server is away, and says so', async () => {
  const server = new FakeServer();
  const model = new Model(server.client());
  model.start();
  await vi.advanceTimersByTimeAsync(500);
  server.failure = new ApiError('unreachable', 'The server cannot be reached.');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(model.store.value.connection).toMatchObject({ state: 'reconnecting', failures: 1 });
  expect(model.store.value.streams).toHaveLength(1);
  server.failure = null;
  await vi.advanceTimersByTimeAsync(2_000);
  expect(model.store.value.connection).toEqual({ state: 'online' });
  model.stop();
});

it('begins a new history after a restart of the server', async () => {
  const server = new FakeServer();
  const model = new Model(server.client());
  model.start();
  await vi.advanceTimersByTimeAsync(500);
  server.failure = new ApiError('unreachable', 'gone');
  await vi.advanceTimersByTimeAsync(1_000);
  server.failure = null;
  server.startedAt = '2026-01-01T01:00:00Z';
  // One poll after the failure: its delay is between 0.85 and 1.15 s.
  await vi.advanceTimersByTimeAsync(1_300);
  expect(model.totals.get('out')).toEqual([816]);
  expect(model.streamRates.get('live/a')).toEqual([600]);
  model.stop();
});

it.each(['unauthorized', 'forbidden'] as const)('%s is shown as such', async (kind) => {
  const server = new FakeServer();
  server.failure = new ApiError(kind, 'Some words.');
  const model = new Model(server.client());
  model.start();
  await vi.advanceTimersByTimeAsync(10);
  expect(model.store.value.connection).toEqual({ state: kind, message: 'Some words.' });
  model.stop();
});

it('lists live streams before waiting ones, each by name', () => {
  const streams = [aStream('z/a'), aStream('a/w', { state: 'waiting' }), aStream('a/b')];
  expect(sorted(streams).map((stream) => stream.name)).toEqual(['b', 'a', 'w']);
});

it('chooses what to preview: asked, then shown, then demo, then busiest', () => {
  const streams = [aStream('demo/clock', { players: 1 }), aStream('live/a', { players: 9 }), aStream('live/w', { state: 'waiting' })];
  const choose = (asked: string | null, shown: string | null, demo: string | null) => chooseStream(streams, asked, shown, demo)?.name;
  expect(choose('live/w', 'live/a', 'demo/clock')).toBe('w');
  expect(choose('gone/x', 'live/a', 'demo/clock')).toBe('a');
  expect(choose(null, 'live/w', 'demo/clock')).toBe('clock'); // the one shown went off air
  expect(choose(null, null, null)).toBe('a');
  expect(chooseStream([], null, null, 'demo/clock')).toBeNull();
});

it('searches sessions in windows and stops at the limit', async () => {
  const total = SEARCH_SESSIONS_MAX + 700;
  const asked: number[] = [];
  const client = {
    sessions: async ({ offset = 0, limit = 0 }) => {
      asked.push(offset);
      const length = Math.min(limit, total - offset);
      return { sessions: Array.from({ length }, (_, index) => aSession(`s${offset + index}`, { address: `192.0.2.1:${offset + index}` })), total };
    },
  };
  const found = await search(client, {}, [':1999', '192.0.2.1:7'], new AbortController().signal);
  // 1999, and 19990 to 19999 within the limit.
  expect(found.ids.get(':1999')).toEqual(['s1999', ...Array.from({ length: 10 }, (_, index) => `s1999${index}`)]);
  // 7, 70 to 79, 700 to 799, 7000 to 7999.
  expect(found.ids.get('192.0.2.1:7')).toHaveLength(1111);
  expect(found.truncated).toBe(true);
  expect(asked.length).toBe(SEARCH_SESSIONS_MAX / 1000);
});

it('matches sessions by address and program', () => {
  const session = aSession('1-7', { user_agent: 'VLC/3', stream: 'live/Show', address: '192.0.2.4:1' });
  for (const needle of ['vlc', '192.0']) expect(sessionMatches(session, needle)).toBe(true);
  for (const needle of ['obs', 'show']) expect(sessionMatches(session, needle)).toBe(false);
});
