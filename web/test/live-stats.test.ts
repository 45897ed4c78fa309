/** When the page wants statistics, and what it remembers of sessions. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Session } from '../src/api/types';
import { LiveStats, type Thread } from '../src/state/live-stats';
import { IDS_MAX, SessionBook } from '../src/state/session-book';
import { Store } from '../src/state/store';
import type { Report, Request } from '../src/stats/protocol';
import { ALL } from '../src/stats/select';
import { aSession } from './samples';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class FakeThread implements Thread {
  readonly requests: Request[] = [];
  onmessage: Thread['onmessage'] = null;
  onerror: Thread['onerror'] = null;

  postMessage(request: Request): void {
    this.requests.push(request);
  }

  report(report: Report): void {
    this.onmessage?.({ data: report } as MessageEvent<Report>);
  }

  kinds(): string[] {
    return this.requests.map(({ kind }) => kind).filter((kind) => kind.endsWith('connect'));
  }
}

function live() {
  const threads: FakeThread[] = [];
  const token = new Store<string | null>(null);
  const stats = new LiveStats({
    startThread: () => {
      threads.push(new FakeThread());
      return threads.at(-1)!;
    },
    origin: 'https://host:8443',
    token,
  });
  return { stats, threads, token };
}

it('connects with the first page that wants it, and stays for a minute after the last', async () => {
  const { stats, threads } = live();
  expect(threads).toEqual([]);
  const first = stats.use();
  const second = stats.use();
  expect(threads[0]!.requests.at(-1)).toEqual({ kind: 'connect', socketUrl: 'wss://host:8443/api/v1/stats/stream', url: 'https://host:8443/api/v1/stats', token: null });
  first();
  first();
  await vi.advanceTimersByTimeAsync(120_000);
  expect(threads[0]!.kinds()).toEqual(['connect']);
  second();
  await vi.advanceTimersByTimeAsync(59_000);
  const third = stats.use();
  await vi.advanceTimersByTimeAsync(120_000);
  expect(threads[0]!.kinds()).toEqual(['connect']);
  third();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(threads[0]!.kinds()).toEqual(['connect', 'disconnect']);
  stats.use();
  expect(threads[0]!.kinds()).toEqual(['connect', 'disconnect', 'connect']);
  expect(threads.length).toBe(1);
});

it('a page that cannot be seen is left after a minute', async () => {
  const { stats, threads } = live();
  stats.use();
  stats.setSeen(false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(threads[0]!.kinds()).toEqual(['connect', 'disconnect']);
  stats.setSeen(true);
  expect(threads[0]!.kinds()).toEqual(['connect', 'disconnect', 'connect']);
});

it('connects again with a new token, but not while nobody looks', () => {
  const { stats, threads, token } = live();
  token.set('early');
  expect(threads).toEqual([]);
  stats.use();
  token.set('late');
  expect(threads[0]!.requests.filter(({ kind }) => kind === 'connect').map((request) => request.kind === 'connect' && request.token)).toEqual(['early', 'late']);
});

it('tells the thread what is wanted once, also what was wanted before it ran', async () => {
  const { stats, threads } = live();
  stats.setQuery({ ...ALL, text: 'x' });
  stats.watch({ stream: 'a/b' });
  stats.use();
  stats.setQuery({ ...ALL, text: 'x', ids: new Map() });
  stats.watch({ stream: 'a/b' });
  stats.watch({ session: '0-1' });
  expect(threads[0]!.requests.filter(({ kind }) => kind === 'query')).toEqual([{ kind: 'query', query: { ...ALL, text: 'x' } }]);
  expect(threads[0]!.requests.filter(({ kind }) => kind === 'watch')).toEqual([
    { kind: 'watch', watched: { session: null, stream: 'a/b' } },
    { kind: 'watch', watched: { session: '0-1', stream: 'a/b' } },
  ]);
  for (const id of ['0-1', '0-2', '0-3']) stats.watchRows([id]);
  await vi.advanceTimersByTimeAsync(100);
  expect(threads[0]!.requests.filter(({ kind }) => kind === 'rows')).toEqual([{ kind: 'rows', ids: ['0-3'] }]);
});

it('tells page and thread once that the order is held', () => {
  const { stats, threads } = live();
  stats.use();
  const seen: boolean[] = [];
  stats.store.subscribe(() => seen.push(stats.store.value.held));
  for (const held of [true, true, false]) stats.hold(held);
  expect(seen).toEqual([true, false]);
  expect(threads[0]!.requests.filter(({ kind }) => kind === 'hold')).toEqual([{ kind: 'hold', held: true }, { kind: 'hold', held: false }]);
});

it('asks again when a word fits other sessions', () => {
  const { stats, threads } = live();
  stats.use();
  const ask = (...ids: [string, string[]][]) => stats.setQuery({ ...ALL, text: 'x y', ids: new Map(ids) });
  ask(['x', ['0-1']], ['y', []]);
  ask(['x', ['0-1']], ['y', []]);
  ask(['x', []], ['y', ['0-1']]);
  const queries = threads[0]!.requests.flatMap((request) => (request.kind === 'query' && request.query.text !== '' ? [[...request.query.ids]] : []));
  expect(queries).toEqual([[['x', ['0-1']], ['y', []]], [['x', []], ['y', ['0-1']]]]);
});

it('keeps the last message when the connection is lost', () => {
  const { stats, threads } = live();
  stats.use();
  threads[0]!.report({ kind: 'order', order: Uint32Array.of(3) });
  threads[0]!.report({ kind: 'link', link: { state: 'lost', failures: 1, retryInMs: 1, why: '' } });
  expect([...stats.store.value.order]).toEqual([3]);
  expect(stats.store.value.link.state).toBe('lost');
});

it('says so when its thread does not start', () => {
  const { stats, threads } = live();
  stats.use();
  threads[0]!.onerror?.({ message: '' } as ErrorEvent);
  expect(stats.store.value.link).toMatchObject({ state: 'refused' });
});

class FakeClient {
  readonly asked: string[][] = [];
  failing = false;

  async sessionsByIds(ids: readonly string[]): Promise<Session[]> {
    this.asked.push([...ids]);
    if (this.failing) throw new Error('gone');
    return ids.filter((id) => !id.startsWith('9')).map((id) => aSession(id, { address: `address of ${id}` }));
  }
}

it('asks once for the sessions that stay in view, and not for those that flew by', async () => {
  const client = new FakeClient();
  const book = new SessionBook(client, () => Date.now());
  book.want(['0-1']);
  book.want(['0-2', '9-1']);
  await vi.advanceTimersByTimeAsync(200);
  expect(client.asked).toEqual([['0-2', '9-1']]);
  expect([book.get('0-2')?.address, book.get('9-1'), book.get('0-1')]).toEqual(['address of 0-2', null, null]);
  expect(book.revision.value).toBe(1);
  book.want(['0-2', '9-1', '0-3']);
  await vi.advanceTimersByTimeAsync(200);
  expect(client.asked[1]).toEqual(['0-3']);
  await vi.advanceTimersByTimeAsync(30_000);
  book.want(['0-2']);
  await vi.advanceTimersByTimeAsync(200);
  expect(client.asked[2]).toEqual(['0-2']);
});

it('asks for so many at a time, remembers so many, and goes on after a failure', async () => {
  const client = new FakeClient();
  const book = new SessionBook(client, () => Date.now());
  client.failing = true;
  book.want(['0-1']);
  await vi.advanceTimersByTimeAsync(200);
  client.failing = false;
  for (let round = 0; round < 30; round += 1) {
    book.want(Array.from({ length: IDS_MAX + 1 }, (_, index) => `${round}-${index}`));
    await vi.advanceTimersByTimeAsync(200);
  }
  expect(client.asked.every((ids) => ids.length <= IDS_MAX)).toBe(true);
  expect(book.get('0-0')).toBeNull();
  expect(book.get('29-0')?.address).toBe('address of 29-0');
});
