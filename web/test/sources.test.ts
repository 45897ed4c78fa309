/** Channels, pulls and pushes: what is said of them, what is asked for them, and when. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiClient } from '../src/api/client';
import { ApiError } from '../src/api/errors';
import type { Channel, ChannelEventKind, Pull, Push } from '../src/api/sources';
import { positionWords } from '../src/components/channels-table';
import { connectionWords } from '../src/components/pulls-table';
import { droppedWords } from '../src/components/pushes-table';
import {
  behindWords,
  canSkip,
  channelState,
  dayAndTime,
  errorWords,
  itemName,
  itemProblem,
  itemsOf,
  lastTrouble,
  lineWords,
  linkWords,
  patternProblem,
  placeWords,
  pullProblem,
  pushProblem,
  pushState,
  srtWords,
  takesToken,
  tokenOf,
  waitWords,
  zoneWords,
} from '../src/components/source-words';
import { Sources } from '../src/state/sources';
import { aChannel, aPull, aPushed } from './samples';

describe('words of a connection by SRT', () => {
  const srt = {
    packets: 4000, lost_packets: 3, retransmitted_packets: 2, dropped_packets: 1, late_packets: 0,
    undecrypted_packets: 0, rtt_ms: 12.4, latency_ms: 120, buffer_packets: 5, buffer_bytes: 6580,
    buffer_ms: 110, encrypted: false,
  };

  it('say how much was lost, and how far it is', () => {
    expect(srtWords(srt)).toBe(
      'SRT: round trip 12\u00a0ms, 3 of 4,000 packets lost, 2 sent again, 1 given up, 110\u00a0ms in the buffer',
    );
    expect(srtWords({ ...srt, rtt_ms: null })).toContain('SRT: 3 of 4,000 packets lost');
  });

  it('are none of another protocol, or while there is no connection', () => {
    expect([srtWords(null), srtWords(aPull('live/a').srt)]).toEqual(['', '']);
  });
});

describe('words of a channel', () => {
  it.each([
    ['https://example.org/films/opening%20titles.mp4?token=abc', 'opening titles.mp4'],
    ['/srv/films/closing.mp4', 'closing.mp4'],
    ['closing.mp4', 'closing.mp4'],
    ['https://example.org/', 'example.org'],
    ['https://example.org/100%.mp4', '100%.mp4'], // no percent-encoding
  ])('%s is called %s', (location, name) => expect(itemName(location)).toBe(name));

  it('says which item of how many, and in which round', () => {
    const items = ['a', 'b', 'c'].map((location) => ({ location, duration_ms: null, last_error: null }));
    expect(placeWords(aChannel('tv/a', { items, item: 1 }))).toBe('2 of 3');
    expect(placeWords(aChannel('tv/a', { items, item: 0, loops: 1 }))).toBe('1 of 3, round 2');
    expect(placeWords(aChannel('tv/a', { items, item: null }))).toBe('3 items');
  });

  it('says how far it is, and of how much as soon as that is known', () => {
    expect(positionWords(aChannel('tv/a', { position_ms: 65_400, duration_ms: 200_000 }))).toBe('1:05 of 3:20');
    expect(positionWords(aChannel('tv/a', { position_ms: 3_725_000 }))).toBe('1:02:05');
    expect(positionWords(aChannel('tv/a'))).toBe('');
  });

  it('says what it waits for', () => {
    const now = Date.parse('2026-03-01T12:00:00Z');
    const start = now + 90_000;
    expect(waitWords(aChannel('tv/a', { state: 'waiting', start: new Date(start).toISOString() }), now)).toBe(
      `starts in 1\u00a0min 30\u00a0s, at ${dayAndTime(start, now)}`,
    );
    expect(waitWords(aChannel('tv/a', { state: 'retrying', retry_in_ms: 4_100 }), now)).toBe('retrying in 5\u00a0s');
    expect(waitWords(aChannel('tv/a', { state: 'ended' }), now)).toBe('played to its end');
    // Joined in the middle: the start is long past.
    expect(waitWords(aChannel('tv/a', { state: 'opening', start: '2026-01-01T00:00:00Z' }), now)).toBe('');
  });

  it('says which item is opened while nothing plays, and lets it be skipped', () => {
    const items = ['a.mp4', 'b.mp4'].map((location) => ({ location, duration_ms: null, last_error: null }));
    const waits = aChannel('tv/a', { items, state: 'opening', next: 1 });
    expect([waitWords(waits, 0), canSkip(waits)]).toEqual(['opening b.mp4', true]);
    // Its place in the schedule is still looked for.
    expect(canSkip(aChannel('tv/a', { items, state: 'opening' }))).toBe(false);
    expect(canSkip(aChannel('tv/a', { items, state: 'playing', item: 0 }))).toBe(true);
    // It has no stream to play into.
    expect(canSkip(aChannel('tv/a', { items, state: 'waiting', item: 0, next: 1 }))).toBe(false);
  });

  it('says how far behind it is, and behind what', () => {
    expect(behindWords(aChannel('tv/a', { behind_ms: 4_330, start: '2026-01-01T00:00:00Z' }))).toBe('4.3\u00a0s behind schedule');
    expect(behindWords(aChannel('tv/a', { behind_ms: 320 }))).toBe('320\u00a0ms late in all');
    expect(behindWords(aChannel('tv/a', { behind_ms: 30 }))).toBe('');
  });

  it('names the day when it is another', () => {
    const noon = new Date(2026, 2, 1, 12, 0, 5).getTime();
    expect(dayAndTime(noon, noon + 60_000)).toBe('12:00:05');
    expect(dayAndTime(noon, noon + 86_400_000)).toBe('2026-03-01 12:00:05');
  });

  it('shows the newest thing that went wrong, with the file it went wrong with', () => {
    const items = [
      { location: 'https://example.org/a.mp4', duration_ms: 1, last_error: null },
      { location: 'https://example.org/b.mp4', duration_ms: null, last_error: 'answered 404' },
    ];
    const event = (kind: ChannelEventKind, item: number | null, message: string) => ({ at: '2026-01-01T00:00:00Z', item, kind, message });
    expect(lastTrouble(aChannel('tv/a', { items }))).toBe('b.mp4: answered 404');
    expect(lastTrouble(aChannel('tv/a', { items, events: [event('broken', 1, 'no moov box'), event('skipped', 0, 'by hand'), event('late', 0, 'late')] }))).toBe('b.mp4: no moov box');
    expect(lastTrouble(aChannel('tv/a', { items, events: [event('broken', 1, 'no moov box'), event('nothing_to_play', null, 'no item can be played')] }))).toBe('b.mp4: no moov box');
    expect(lastTrouble(aChannel('tv/a', { items: [], events: [event('nothing_to_play', null, 'no item left')] }))).toBe('no item left');
    expect(lastTrouble(aChannel('tv/a', { events: [event('skipped', 0, 'by hand')] }))).toBeNull();
  });

  it('shows a state that it has no words for as it is called', () => {
    expect(channelState({ state: 'draining' as Channel['state'] })).toMatchObject({ text: 'draining', tone: 'plain' });
  });
});

describe('what is entered', () => {
  it('is called by its line when the server refuses it', () => {
    const text = 'a.mp4\n\n  b.mp4\n';
    expect(lineWords('items[1]: 10.0.0.1 is not a public address', text)).toBe('line 3: 10.0.0.1 is not a public address');
    expect(lineWords('items[0]: no; items[1]: neither', text)).toBe('line 1: no; line 3: neither');
    expect(lineWords('items[7]: there is none', text)).toBe('items[7]: there is none');
  });

  it('is in the time zone of the person at the page', () => {
    const shifted = (minutes: number) => zoneWords({ getTimezoneOffset: () => minutes } as Date);
    expect(shifted(-330)).toMatch(/UTC\+05:30$/);
    expect(shifted(210)).toMatch(/UTC\u221203:30$/);
    expect(shifted(0)).toMatch(/UTC\+00:00$/);
  });

  it('is a playlist of the lines that say something', () => {
    expect(itemsOf(' https://a/1.mp4 \r\n\n  b c.mp4\n')).toEqual(['https://a/1.mp4', 'b c.mp4']);
  });

  it.each([
    ['https://example.org/a.mp4', true],
    ['HTTP://example.org/a.mp4', true],
    ['films/a: the beginning.mp4', true], // a file, and no scheme
    ['ftp://example.org/a.mp4', false],
    ['file:///etc/passwd', false],
    ['http://', false],
  ])('%s may be an item: %s', (location, good) => expect(itemProblem(location) === null).toBe(good));

  it.each([
    ['rtmp://example.org/live/a', true],
    ['rtmps://user:secret@example.org/live/a', true],
    ['https://example.org/live/a.flv', true],
    ['', false],
    ['example.org/live/a.flv', false],
    ['rtsp://example.org/a', true],
    ['https://example.org/live/a.m3u8', true],
    ['srt://example.org:8890?streamid=a', true],
    ['ftp://example.org/a', false],
    ['http://', false],
  ])('%s may be pulled: %s', (url, good) => expect(pullProblem(url) === null).toBe(good));

  it('has a place for the name, of a pull that is for many', () => {
    expect(pullProblem('rtsp://example.org/a', true)).toMatch(/\{stream\}/);
    expect(pullProblem('rtsp://example.org/{stream}', true)).toBeNull();
  });

  it.each([
    ['rtmp://example.org/{app}/{stream}', true],
    ['srt://example.org:8890', true],
    ['whips://example.org/whip/{stream}', true],
    ['rtsp://example.org/{stream}', true],
    ['whep://example.org/a', false],
    ['https://example.org/a.flv', false],
    ['', false],
  ])('%s may be pushed to: %s', (url, good) => expect(pushProblem(url) === null).toBe(good));

  it('has a token for endpoints of WebRTC only', () => {
    expect(['whep://a/b', ' WHIPS://a/b', 'whips://a/{stream}'].every(takesToken)).toBe(true);
    expect(['rtmp://a/whip://', 'https://a/whep', 'whipx://a', ''].some(takesToken)).toBe(false);
    expect(tokenOf('whips://a/b', 'sesame')).toBe('sesame');
    expect(tokenOf('whips://a/b', '')).toBeNull();
    // The address was changed after the token had been entered.
    expect(tokenOf('rtmp://a/b', 'sesame')).toBeNull();
  });

  it.each([
    ['live/show', true],
    ['live/*', true],
    ['*', true],
    ['live', false],
    ['', false],
    ['live/', false],
  ])('%s may be what is pushed: %s', (pattern, good) => expect(patternProblem(pattern) === null).toBe(good));
});

it('says of a pull how long it has been there, or when it tries again', () => {
  const now = Date.parse('2026-01-01T00:01:00Z');
  expect(connectionWords(aPull('a/b', { state: 'live' }), now)).toBe('for 1\u00a0min 00\u00a0s');
  expect(connectionWords(aPull('a/b', { state: 'live', reconnects: 2 }), now)).toBe('for 1\u00a0min 00\u00a0s, 2 reconnects');
  expect(connectionWords(aPull('a/b', { state: 'waiting', attempts: 3, retry_in_ms: 3_500 }), now)).toBe('3 attempts, retrying in 4\u00a0s');
  expect(connectionWords(aPull('a/b', { state: 'waiting', attempts: 0, retry_in_ms: 3_500 }), now)).toBe('retrying in 4\u00a0s');
  expect(connectionWords(aPull('a/b'), now)).toBe('first attempt');
  expect(connectionWords(aPull('a/b', { attempts: 3 }), now)).toBe('attempt 3');
});

it('says of a push whether it arrives, and what was left out', () => {
  const now = Date.parse('2026-01-01T00:01:00Z');
  const again = aPushed('a/b', { state: 'live', reconnects: 1 });
  expect(linkWords(again, now)).toBe('for 1\u00a0min 00\u00a0s, 1 reconnect');
  const waiting = aPushed('a/b', { state: 'waiting', attempts: 2, retry_in_ms: 900 });
  expect(linkWords(waiting, now)).toBe('2 attempts, retrying in 1\u00a0s');
  expect([pushState(null).text, pushState(aPushed('a/b', { state: 'live' })).text]).toEqual(['Idle', 'Live']);
  expect(droppedWords(aPushed('a/b'))).toBe('');
  expect(droppedWords(aPushed('a/b', { frames_left_out: 1 }))).toBe('1 frame left out');
});

it('says of a pull on demand what it waits for', () => {
  expect(connectionWords(aPull('a/b', { state: 'idle' }))).toBe('nobody plays it');
  expect(connectionWords(aPull('a/*', { state: 'idle' }))).toBe('for any name that fits');
});

it('says of a pull that is live when it failed last', () => {
  const now = new Date(2026, 2, 1, 12, 5, 0).getTime();
  const failed = { last_error: 'no data', last_error_at: new Date(2026, 2, 1, 12, 0, 5).toISOString() };
  expect(errorWords(aPull('a/b', { state: 'live', ...failed }), now)).toBe('12:00:05: no data');
  expect(errorWords(aPull('a/b', { state: 'waiting', ...failed }), now)).toBe('no data');
  expect(errorWords(aPull('a/b'), now)).toBeNull();
});

describe('requests', () => {
  function client(answer: () => Response) {
    const calls: { url: string; init: RequestInit }[] = [];
    const fake = (async (url: string, init: RequestInit) => {
      calls.push({ url, init });
      return answer();
    }) as typeof fetch;
    return { calls, api: new ApiClient({ fetch: fake }) };
  }

  it('adds a channel with its playlist', async () => {
    const { api, calls } = client(() => new Response('{}', { status: 201 }));
    const channel = { app: 'tv', name: 'a', items: ['https://example.org/a.mp4'], loop: false, start: null };
    await api.addChannel(channel);
    expect(calls[0]?.url).toBe('/api/v1/channels');
    expect(calls[0]?.init).toMatchObject({ method: 'POST', headers: { 'Content-Type': 'application/json' } });
    expect(JSON.parse(String(calls[0]?.init.body))).toEqual(channel);
  });

  it('names channels and pulls by two segments', async () => {
    const { api, calls } = client(() => new Response(null, { status: 204 }));
    const stream = { app: 'tv/late', name: 'a b' };
    await api.skip(stream);
    await api.removeChannel(stream);
    await api.removePull(stream);
    await api.removePush(7);
    await api.addPush({ stream: 'live/*', url: 'rtmp://x/{app}/{stream}', token: null });
    expect(calls.map(({ url, init }) => `${init.method} ${url}`)).toEqual([
      'POST /api/v1/channels/tv%2Flate/a%20b/skip',
      'DELETE /api/v1/channels/tv%2Flate/a%20b',
      'DELETE /api/v1/pulls/tv%2Flate/a%20b',
      'DELETE /api/v1/pushes/7',
      'POST /api/v1/pushes',
    ]);
  });

  it('of a server that has no channels gives null, and its words when it refuses', async () => {
    const error = (code: string, message: string) => JSON.stringify({ error: { code, message } });
    expect(await client(() => new Response(error('not_found', 'nothing here'), { status: 404 })).api.channels()).toBeNull();
    const { api } = client(() => new Response(error('exists', 'live/a is there already'), { status: 409 }));
    const pull = { token: null, app: 'live', name: 'a', url: 'rtmp://x/a/b', on_demand: false };
    const refused = { code: 'exists', message: 'live/a is there already' };
    await expect(api.addPull(pull)).rejects.toMatchObject(refused);
  });
});

describe('asking', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  class FakeServer {
    asked = 0;
    failure: ApiError | null = null;
    channelList: Channel[] | null = [aChannel('tv/b'), aChannel('tv/a')];
    async channels() {
      this.asked += 1;
      if (this.failure !== null) throw this.failure;
      return this.channelList;
    }
    async pulls(): Promise<Pull[] | null> {
      return [];
    }
    async pushes(): Promise<Push[] | null> {
      return [];
    }
  }

  it('goes on once a second while a page shows them and can be seen', async () => {
    const server = new FakeServer();
    const sources = new Sources(server);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(server.asked).toBe(0);
    const [one, other] = [sources.use(), sources.use()];
    await vi.advanceTimersByTimeAsync(2_500);
    expect(server.asked).toBe(3);
    one();
    one();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(server.asked).toBe(4);
    sources.setSeen(false);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(server.asked).toBe(4);
    sources.setSeen(true);
    await vi.advanceTimersByTimeAsync(10);
    expect(server.asked).toBe(5);
    other();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(server.asked).toBe(5);
  });

  it('lists them by name, and keeps the list when the server goes away', async () => {
    const server = new FakeServer();
    const sources = new Sources(server);
    expect(sources.store.value).toEqual({ channels: null, pulls: null, pushes: null, asked: false });
    const leave = sources.use();
    await vi.advanceTimersByTimeAsync(10);
    expect(sources.store.value.channels?.map(({ name }) => name)).toEqual(['a', 'b']);
    expect(sources.store.value).toMatchObject({ pulls: [], pushes: [] });
    server.failure = new ApiError('unreachable', 'gone');
    await vi.advanceTimersByTimeAsync(5_000);
    expect(sources.store.value.channels).toHaveLength(2);
    leave();
  });

  it('knows a server without channels from one that has not answered', async () => {
    const server = new FakeServer();
    server.channelList = null;
    const sources = new Sources(server);
    const leave = sources.use();
    await vi.advanceTimersByTimeAsync(10);
    expect(sources.store.value).toMatchObject({ channels: null, asked: true });
    leave();
  });

  it('asks at once when something was changed', async () => {
    const server = new FakeServer();
    const sources = new Sources(server);
    const leave = sources.use();
    await vi.advanceTimersByTimeAsync(10);
    sources.refresh();
    await vi.advanceTimersByTimeAsync(10);
    expect(server.asked).toBe(2);
    leave();
  });
});
