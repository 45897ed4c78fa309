/** The HTTP half of a WHIP or WHEP session, against a server played by a function. */
import { describe, expect, it } from 'vitest';
import { TroubleError } from '../src/lib/trouble';
import { Resource, retryAfterMs, sessionUrl } from '../src/rtc/resource';

interface Asked {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string;
  keepalive: boolean;
}

function server(...answers: Response[]) {
  const asked: Asked[] = [];
  const fetcher = ((url: string, init: RequestInit) => {
    asked.push({ url, method: init.method ?? 'GET', headers: init.headers as Record<string, string>, body: (init.body as string) ?? '', keepalive: init.keepalive ?? false });
    const answer = answers.shift();
    return answer === undefined ? Promise.reject(new TypeError('gone')) : Promise.resolve(answer);
  }) as typeof fetch;
  return { asked, fetcher };
}

const created = (headers: Record<string, string> = {}) =>
  new Response('v=0\r\na=ice-lite\r\n', { status: 201, headers: { location: '/rtc/session/secret', etag: '"1"', ...headers } });
const open = (fetcher: typeof fetch, token = '') => Resource.open({ role: 'play', url: 'http://h:8080/whep/live/show', token, offer: 'v=0\r\noffer', fetch: fetcher });

it('posts the offer with the token and reads answer, session and ICE servers', async () => {
  const { asked, fetcher } = server(created({ link: '<stun:s>; rel="ice-server"' }));
  const opened = await open(fetcher, 'to ken');
  expect(asked[0]).toMatchObject({ url: 'http://h:8080/whep/live/show', method: 'POST', body: 'v=0\r\noffer' });
  expect(asked[0]?.headers).toMatchObject({ 'Content-Type': 'application/sdp', Authorization: 'Bearer to ken' });
  expect(opened.answer).toBe('v=0\r\na=ice-lite\r\n');
  expect(opened.iceServers).toEqual([{ urls: 'stun:s' }]);
});

it('sends no token when there is none', async () => {
  const { asked, fetcher } = server(created());
  await open(fetcher);
  expect(asked[0]?.headers).not.toHaveProperty('Authorization');
});

it('patches candidates under the session’s tag, and a restart under any', async () => {
  const { asked, fetcher } = server(created(), new Response(null, { status: 204 }), new Response('a=ice-ufrag:x\r\n', { status: 200, headers: { etag: '"2"' } }), new Response(null, { status: 204 }));
  const { resource } = await open(fetcher, 't');
  expect(await resource.trickle('a=mid:0')).toBe(true);
  expect(await resource.restart('a=mid:0')).toBe('a=ice-ufrag:x\r\n');
  await resource.trickle('a=mid:0');
  expect(asked.slice(1).map(({ url, method, headers }) => [url, method, headers['If-Match'], headers['Content-Type']])).toEqual([
    ['http://h:8080/rtc/session/secret', 'PATCH', '"1"', 'application/trickle-ice-sdpfrag'],
    ['http://h:8080/rtc/session/secret', 'PATCH', '*', 'application/trickle-ice-sdpfrag'],
    ['http://h:8080/rtc/session/secret', 'PATCH', '"2"', 'application/trickle-ice-sdpfrag'],
  ]);
});

it('a patch that fails is no exception', async () => {
  const { fetcher } = server(created());
  const { resource } = await open(fetcher);
  expect(await resource.trickle('a')).toBe(false);
  expect(await resource.restart('a')).toBeNull();
});

it('deletes the session once, and with keepalive when the page goes away', async () => {
  const { asked, fetcher } = server(created(), new Response(null, { status: 200 }));
  const { resource } = await open(fetcher, 't');
  resource.close(true);
  resource.close();
  expect(asked.slice(1)).toEqual([expect.objectContaining({ method: 'DELETE', url: 'http://h:8080/rtc/session/secret', keepalive: true })]);
  expect(await resource.trickle('a')).toBe(false);
  expect(asked).toHaveLength(2);
});

describe('refusals', () => {
  const body = (message: string, code = 'x') => JSON.stringify({ error: { code, message } });
  it.each([
    [401, '', {}, { retry: 'never', needsToken: true }],
    [404, 'off', {}, { retry: 'never', elsewhere: 'cannot' }],
    [406, body('the stream has B-frames'), {}, { retry: 'always', elsewhere: 'absent', text: 'This stream cannot be played by WebRTC here. The server says: the stream has B-frames.' }],
    [409, body('nobody'), { 'retry-after': '3' }, { retry: 'always', elsewhere: 'nobody', waitMs: 3_000 }],
    [409, body('soon', 'not_ready'), { 'retry-after': '1' }, { elsewhere: 'nobody', waitMs: 1_000, text: 'The publisher has just started. Video will appear in a moment.' }],
    [422, '', {}, { retry: 'never', elsewhere: 'cannot' }],
    [503, '', { 'retry-after': '30' }, { retry: 'always', waitMs: 30_000 }],
    [200, 'v=0\r\n', {}, { retry: 'always', text: 'The server answered 200.' }],
  ])('%i', async (status, text, headers, trouble) => {
    const { fetcher } = server(new Response(text, { status, headers: headers as Record<string, string> }));
    const cause = await open(fetcher).catch((error: unknown) => error);
    expect(cause).toBeInstanceOf(TroubleError);
    expect((cause as TroubleError).trouble).toMatchObject(trouble);
  });

  it('a server that cannot be reached', async () => {
    const cause = await open(server().fetcher).catch((error: unknown) => error);
    expect((cause as TroubleError).trouble).toMatchObject({ retry: 'always', text: 'The server cannot be reached.' });
  });

  it('an answer that is no session description', async () => {
    const { fetcher } = server(new Response('<html>', { status: 201 }));
    await expect(open(fetcher)).rejects.toThrow('not a session description');
  });
});

it('uses the session address on the same origin only', () => {
  expect(sessionUrl('/rtc/session/x', 'https://h/whep/a/b')).toBe('https://h/rtc/session/x');
  expect(sessionUrl('x', 'https://h/whep/a/b')).toBe('https://h/whep/a/x');
  expect(sessionUrl('https://evil/x', 'https://h/whep/a/b')).toBeNull();
  expect(sessionUrl('http://[', 'https://h/whep/a/b')).toBeNull();
  expect(sessionUrl(null, 'https://h/whep/a/b')).toBeNull();
});

it('reads Retry-After as seconds or as a date', () => {
  const now = Date.parse('Sat, 21 Nov 2026 21:00:00 GMT');
  expect(retryAfterMs('5', now)).toBe(5_000);
  expect(retryAfterMs('Sat, 21 Nov 2026 21:00:10 GMT', now)).toBe(10_000);
  expect(retryAfterMs('Sat, 21 Nov 2026 20:00:00 GMT', now)).toBe(0);
  expect(retryAfterMs('soon', now)).toBeNull();
  expect(retryAfterMs(null, now)).toBeNull();
});
