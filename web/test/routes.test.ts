/** Addresses of the console's pages. */
import { describe, expect, it } from 'vitest';
import { clusterHref, parseRoute, recordingsHref, sessionsHref, streamHref, watchHref } from '../src/lib/routes';

describe('parseRoute', () => {
  it.each([
    ['', { view: 'overview' }],
    ['#', { view: 'overview' }],
    ['#/', { view: 'overview' }],
    ['#/sources', { view: 'sources' }],
    ['#/recordings', { view: 'recordings', search: '' }],
    ['#/workers', { view: 'workers' }],
    ['#/cluster', { view: 'cluster', stream: '' }],
    ['#/publish', { view: 'publish' }],
    ['#/stream/demo/clock', { view: 'stream', stream: { app: 'demo', name: 'clock' }, session: '' }],
    ['#/stream/demo/clock?session=0-12', { view: 'stream', stream: { app: 'demo', name: 'clock' }, session: '0-12' }],
    ['#/stream/demo', { view: 'unknown', path: 'stream/demo' }],
    [
      '#/watch/a/b/c?token=x%26y',
      { view: 'watch', stream: { app: 'a/b', name: 'c' }, token: 'x&y', asked: {} },
    ],
    [
      '#/watch/a/b?eip=192.0.2.7',
      { view: 'watch', stream: { app: 'a', name: 'b' }, token: '', asked: { eip: '192.0.2.7' } },
    ],
    [
      '#/watch/a/b?max_height=180&max_bitrate=1.5M&max_width=7',
      {
        view: 'watch', stream: { app: 'a', name: 'b' }, token: '',
        asked: { max_height: '180', max_bitrate: '1.5M' },
      },
    ],
    // broken encoding
    [
      '#/watch/a/%',
      { view: 'watch', stream: { app: 'a', name: '%' }, token: '', asked: {} },
    ],
    ['#/sessions?role=player', { view: 'sessions', stream: '', role: 'player', session: '' }],
    ['#/nowhere', { view: 'unknown', path: 'nowhere' }],
  ])('%s', (hash, route) => expect(parseRoute(hash)).toEqual(route));

  it('reads what the links write', () => {
    const stream = { app: 'a b/c', name: 'x?#é' };
    expect(parseRoute(streamHref(stream))).toEqual({ view: 'stream', stream, session: '' });
    expect(parseRoute(streamHref(stream, '1-2'))).toEqual({ view: 'stream', stream, session: '1-2' });
    expect(parseRoute(watchHref(stream, 't&t'))).toEqual({ view: 'watch', stream, token: 't&t', asked: {} });
    expect(parseRoute(sessionsHref({ stream: 'a b/x', role: 'player', session: '0-1' }))).toEqual({ view: 'sessions', stream: 'a b/x', role: 'player', session: '0-1' });
    expect(parseRoute(recordingsHref('a b/c&d'))).toEqual({ view: 'recordings', search: 'a b/c&d' });
    expect(parseRoute(clusterHref('a b/c&d'))).toEqual({ view: 'cluster', stream: 'a b/c&d' });
    expect(sessionsHref({ stream: '', role: '' })).toBe('#/sessions');
  });
});
