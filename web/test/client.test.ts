/** The API client against answers good and bad. */
import { describe, expect, it, vi } from 'vitest';
import { ApiClient, sessionQueryString } from '../src/api/client';

type Call = { url: string; init: RequestInit };

function client(answer: () => Response | Promise<Response>, token: string | null = null, deadlineMs = 1000) {
  const calls: Call[] = [];
  const fake = ((url: string, init: RequestInit) => {
    calls.push({ url, init });
    return new Promise<Response>((resolve, reject) => {
      init.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
      Promise.resolve().then(answer).then(resolve, reject);
    });
  }) as typeof fetch;
  return { calls, api: new ApiClient({ fetch: fake, token: () => token, deadlineMs }) };
}

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });

it('asks for sessions with only the filters that are set', () => {
  expect(sessionQueryString({})).toBe('');
  expect(sessionQueryString({ stream: 'a/b c', role: 'player', offset: 200, limit: 100 })).toBe(
    '?stream=a%2Fb+c&role=player&offset=200&limit=100',
  );
});

it('sends the token only when there is one', async () => {
  const without = client(() => json({ streams: [] }));
  await without.api.streams();
  expect(without.calls[0]?.init.headers).not.toHaveProperty('Authorization');
  const having = client(() => json({ streams: [] }), 'secret');
  await having.api.streams();
  expect(having.calls[0]?.url).toBe('/api/v1/streams');
  expect(having.calls[0]?.init.headers).toHaveProperty('Authorization', 'Bearer secret');
});

describe('failures', () => {
  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [503, 'unreachable'],
    [500, 'server'],
    [418, 'server'],
  ])('status %s is of kind %s and keeps the message of the API', async (status, kind) => {
    const { api } = client(() => json({ error: { code: 'some_code', message: 'Some words.' } }, status));
    await expect(api.workers()).rejects.toMatchObject({ kind, status, code: 'some_code', message: 'Some words.' });
  });

  it('an error page of somebody else still gives a message', async () => {
    const { api } = client(() => new Response('<html>', { status: 502, statusText: 'Bad Gateway' }));
    await expect(api.workers()).rejects.toMatchObject({ kind: 'unreachable', message: 'The server answered 502 Bad Gateway.' });
  });

  it('a page where JSON was promised is a server error', async () => {
    const { api } = client(() => new Response('<!doctype html>'));
    await expect(api.server()).rejects.toMatchObject({ kind: 'server' });
  });

  it('a list that is missing is a server error, not a crash later', async () => {
    const { api } = client(() => json({ sessions: 'none' }));
    await expect(api.sessions({})).rejects.toMatchObject({ kind: 'server', message: 'The answer has no list of sessions.' });
  });

  it('no connection is unreachable', async () => {
    const { api } = client(() => Promise.reject(new TypeError('Failed to fetch')));
    await expect(api.streams()).rejects.toMatchObject({ kind: 'unreachable', status: null });
  });

  it('an answer that does not come is unreachable after the deadline', async () => {
    vi.useFakeTimers();
    const { api } = client(() => new Promise<Response>(() => undefined), null, 5_000);
    const outcome = expect(api.streams()).rejects.toMatchObject({ kind: 'unreachable', message: 'The server did not answer in time.' });
    await vi.advanceTimersByTimeAsync(5_000);
    await outcome;
    vi.useRealTimers();
  });
});

it('kicks by id, encoded', async () => {
  const { api, calls } = client(() => new Response(null, { status: 204 }));
  await api.kick('1/2');
  expect(calls[0]?.url).toBe('/api/v1/sessions/1%2F2');
  expect(calls[0]?.init.method).toBe('DELETE');
});
