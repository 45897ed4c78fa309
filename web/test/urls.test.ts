/** Addresses of streams and the commands that carry them. */
import { describe, expect, it } from 'vitest';
import * as urls from '../src/lib/urls';

describe('stream keys', () => {
  it.each([
    ['live/show', { app: 'live', name: 'show' }],
    ['a/b/show', { app: 'a/b', name: 'show' }],
    [' /live/show/ ', { app: 'live', name: 'show' }],
    ['show', null],
    ['', null],
    ['live/', null],
  ])('%s', (key, expected) => expect(urls.parseStreamKey(key)).toEqual(expected));
});

it('builds the player address from the page, with each segment encoded', () => {
  const stream = { app: 'a/b', name: 'été ?' };
  expect(urls.playerUrl('https://h:8443', stream, 'http')).toBe('https://h:8443/a/b/%C3%A9t%C3%A9%20%3F.flv');
  expect(urls.playerUrl('http://h', { app: 'a', name: 'b' }, 'rtc', 't', { eip: '2001:db8::7' })).toBe(
    'http://h/whep/a/b?eip=2001%3Adb8%3A%3A7',
  );
  const limits = { max_height: '180', max_bitrate: '800k' };
  expect(urls.playerUrl('http://h', { app: 'a', name: 'b' }, 'rtc', 't', limits)).toBe(
    'http://h/whep/a/b?max_height=180&max_bitrate=800k',
  );
  expect(urls.playerUrl('http://h', { app: 'a', name: 'b' }, 'http', '', limits)).toBe('http://h/a/b.flv');
  expect(urls.playerUrl('https://h:8443', stream, 'ws', 'a&b')).toBe('wss://h:8443/a/b/%C3%A9t%C3%A9%20%3F.flv?token=a%26b');
  expect(urls.playerUrl('http://h:8080', stream, 'ws')).toMatch(/^ws:\/\/h:8080\//);
});

describe('publishing', () => {
  it('keeps app and key apart for OBS and joins them for ffmpeg', () => {
    expect(urls.publishTarget('rtmp://h:1935/', { app: 'live', name: 'show' }, '')).toEqual({
      server: 'rtmp://h:1935/live',
      key: 'show',
      url: 'rtmp://h:1935/live/show',
    });
  });

  it('puts the token into the key, and quotes it for the shell', () => {
    const { key, url } = urls.publishTarget('rtmp://h', { app: 'live', name: 'show' }, "it's & $HOME");
    expect(key).toBe("show?token=it's%20%26%20%24HOME");
    expect(urls.ffmpegFileCommand(url)).toContain(`'rtmp://h/live/show?token=it'\\''s%20%26%20%24HOME'`);
  });

  it('uses the addresses the server reports, else guesses from the page', () => {
    const endpoints = { rtmp: ['rtmp://h:1'], rtmps: ['rtmps://h:2'], http: [], https: [] };
    expect(urls.publishBases(endpoints, 'page')).toEqual(['rtmp://h:1', 'rtmps://h:2']);
    expect(urls.publishBases(null, 'page')).toEqual(['rtmp://page:1935']);
    expect(urls.publishBases({ ...endpoints, rtmp: [], rtmps: [] }, 'page')).toEqual(['rtmp://page:1935']);
  });
});

describe('names', () => {
  it.each([
    ['show', false, true],
    ['', false, false],
    ['a/b', true, true],
    ['a/b', false, false],
    ['/a', true, false],
    ['a/../b', true, false],
    ['a..b', false, true], // only a whole segment is dangerous
    ['a?b', false, false],
    ['a\u0000b', false, false],
    ['é'.repeat(127), false, true], // 254 bytes
    ['é'.repeat(128), false, false], // 256 bytes
  ])('%s (slash %s) usable: %s', (name, slash, usable) => expect(urls.nameProblem(name, slash) === null).toBe(usable));
});
