/** What pages learn of one stream, and what they do with it: addresses, order of transports, words. */
import { describe, expect, it, vi } from 'vitest';
import { ApiClient } from '../src/api/client';
import { ApiError } from '../src/api/errors';
import { offered, rtcOnly } from '../src/components/stream-words';
import { fallbackWords, NO_FLV } from '../src/player/transports';
import { describeError } from '../src/player/words';
import { StreamFacts } from '../src/state/stream-facts';
import { aStream } from './samples';

const REF = { app: 'a/b', name: 'été' };
const byRtc = aStream('live/a', { urls: { rtmp: '', flv: '', ws_flv: '', whep: 'http://h/whep/live/a' } });
const byAll = aStream('live/a', { urls: { rtmp: 'rtmp://h/live/a', flv: 'http://h/live/a.flv', ws_flv: 'ws://h/live/a.flv', whep: 'http://h/whep/live/a' } });

describe('one stream of the API', () => {
  it('is asked for with the app in one segment; an unknown one is null', async () => {
    const paths: string[] = [];
    const client = new ApiClient({
      fetch: (async (input: string) => {
        paths.push(input);
        return paths.length === 1 ? Response.json(byRtc) : Response.json({ error: { code: 'not_found', message: 'no' } }, { status: 404 });
      }) as typeof fetch,
    });
    expect(await client.stream(REF)).toEqual(byRtc);
    expect(await client.stream(REF)).toBeNull();
    expect(paths[0]).toBe('/api/v1/streams/a%2Fb/%C3%A9t%C3%A9');
  });

  it('is live, is not, or is not known', async () => {
    const answers = [byRtc, aStream('live/a', { state: 'waiting' }), null, new ApiError('unreachable', 'gone')];
    const facts = new StreamFacts({ stream: async () => { const next = answers.shift() ?? null; if (next instanceof Error) throw next; return next; } }, REF);
    expect([await facts.live(), await facts.live(), await facts.live(), await facts.live()]).toEqual([true, false, false, null]);
  });

  it.each(['unauthorized', 'forbidden'] as const)('is not asked for again after %s', async (kind) => {
    const stream = vi.fn(() => Promise.reject(new ApiError(kind, 'no')));
    const facts = new StreamFacts({ stream }, REF);
    expect([await facts.live(), await facts.live()]).toEqual([null, null]);
    expect(stream).toHaveBeenCalledTimes(1);
  });
});

it('only a stream known to come by WebRTC has no other addresses', () => {
  expect([rtcOnly(byRtc), rtcOnly(byAll), rtcOnly(null), rtcOnly({ ...byRtc, state: 'waiting' })]).toEqual([true, false, false, false]);
});

it('says why FLV gives way to WebRTC, for WebSockets too when the server tells', () => {
  const refused = describeError('HttpStatusCodeInvalid', { code: 406 }, false);
  expect(refused).toMatchObject({ text: NO_FLV, elsewhere: 'absent' });
  const broke = describeError('Exception', {}, true);
  expect(broke.elsewhere).toBe('absent');
  expect(fallbackWords('ws', broke.text, offered(byRtc))).toBe(NO_FLV);
  expect(fallbackWords('ws', broke.text, offered(byAll))).toBe(broke.text);
  expect(fallbackWords('ws', broke.text, offered(null))).toBe(broke.text);
  expect(fallbackWords('rtc', 'No media path.', offered(byRtc))).toBe('No media path.');
});
