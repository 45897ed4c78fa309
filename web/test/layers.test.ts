/** Layers of the picture: what a server names, what its events say, and what is asked of it. */
import { expect, it, vi } from 'vitest';
import { LayerWatch, readLayers, type Layers } from '../src/rtc/layers';
import { layerCells, layerName, limitWords, pathFigure } from '../src/components/layer-words';
import type { RtcPath, StreamLayer } from '../src/api/types';
import { extensionsOf, iceServersOf } from '../src/rtc/link-header';

const LINK =
  '<stun:s>; rel="ice-server", </rtc/session/x/layer>; rel="urn:ietf:params:whep:ext:core:layer", ' +
  '</rtc/session/x/sse>; rel="urn:ietf:params:whep:ext:core:server-sent-events"; events="active,inactive,layers"';
const layer = (name: string, bitrate: number, height?: number) =>
  ({ encodingId: name, rid: name, bitrate, height });
const LAYERS = [layer('q', 150_000, 180), layer('h', 600_000, 360), layer('f', 0)];
const EVENT = JSON.stringify({ 1: { layers: LAYERS, current: layer('h', 0), automatic: true } });

function source() {
  const listeners: ((event: { data: string }) => void)[] = [];
  const opened: string[] = [];
  let closed = false;
  const makeEvents = (url: string) => {
    opened.push(url);
    return { addEventListener: (_: string, listener: never) => void listeners.push(listener), close: () => void (closed = true) } as never;
  };
  return { opened, makeEvents, send: (data: string) => listeners.forEach((listener) => listener({ data })), isClosed: () => closed };
}

it('finds extensions among the links, and leaves them out of the ICE servers', () => {
  expect(extensionsOf(LINK)).toEqual({ layer: '/rtc/session/x/layer', events: '/rtc/session/x/sse' });
  expect(iceServersOf(LINK)).toEqual([{ urls: 'stun:s' }]);
  expect(extensionsOf(null)).toEqual({ layer: null, events: null });
  expect(extensionsOf('<stun:s>; rel="ice-server"')).toEqual({ layer: null, events: null });
});

it('reads layers with the best first', () => {
  const layers = readLayers(EVENT)!;
  expect(layers.names).toEqual(['h', 'q', 'f']);
  expect([layers.current, layers.automatic, layers.rates.get('q'), layers.rates.has('f')]).toEqual(['h', true, 150_000, false]);
  expect([...layers.heights]).toEqual([['q', 180], ['h', 360]]);
});

it('takes nothing from what is no event of layers', () => {
  for (const data of ['', 'x', '{}', '[]', 'null', '{"1":{}}', '{"1":{"layers":1}}', '{"1":null}']) expect(readLayers(data), data).toBeNull();
  expect(readLayers('{"1":{"layers":[null,1,{}]}}')?.names).toEqual([]);
});

it('listens until it is closed', () => {
  const server = source();
  const seen: Layers[] = [];
  const extensions = { layer: 'http://h/rtc/session/x/layer', events: 'http://h/rtc/session/x/sse' };
  const watch = new LayerWatch({ extensions, token: '', onLayers: (layers) => seen.push(layers), makeEvents: server.makeEvents });
  watch.open();
  watch.open();
  expect(server.opened).toEqual(['http://h/rtc/session/x/sse?events=layers']);
  server.send('nonsense');
  server.send(EVENT);
  expect(seen.map(({ current }) => current)).toEqual(['h']);
  watch.close();
  server.send(EVENT);
  expect([seen.length, server.isClosed()]).toEqual([1, true]);
});

it('listens to nothing where there is nothing to choose', () => {
  const server = source();
  new LayerWatch({ extensions: { layer: null, events: 'http://h/sse' }, token: '', onLayers: () => undefined, makeEvents: server.makeEvents }).open();
  expect(server.opened).toEqual([]);
});

it('asks for a layer, and gives the choice back', async () => {
  const bodies: string[] = [];
  const answers = [new Response(null, { status: 200 }), new Response(null, { status: 404 })];
  const fetcher = ((_: string, init: RequestInit) => {
    bodies.push(init.body as string);
    const answer = answers.shift();
    return answer === undefined ? Promise.reject(new TypeError('gone')) : Promise.resolve(answer);
  }) as typeof fetch;
  const extensions = { layer: 'http://h/layer', events: null };
  const watch = new LayerWatch({ extensions, token: 't', onLayers: () => undefined, fetch: fetcher });
  expect([await watch.choose('h'), await watch.choose('x'), await watch.choose(null)]).toEqual([true, false, false]);
  expect(bodies).toEqual(['{"encodingId":"h"}', '{"encodingId":"x"}', '{"encodingId":null}']);
});

it('gives the connection back where there is one layer only', () => {
  vi.useFakeTimers();
  const extensions = { layer: 'http://h/layer', events: 'http://h/sse' };
  const one = JSON.stringify({ 1: { layers: [layer('0', 900_000)], current: layer('0', 0), automatic: true } });
  for (const [event, closed] of [[one, true], [EVENT, false]] as const) {
    const server = source();
    const watch = new LayerWatch({ extensions, token: '', onLayers: () => undefined, makeEvents: server.makeEvents });
    watch.open();
    server.send(event);
    vi.advanceTimersByTime(60_000);
    expect(server.isClosed()).toBe(closed);
    watch.close();
  }
  vi.useRealTimers();
});

it('says in a few words what a layer is and what a player gets', () => {
  const size = { width: 640, height: 360 };
  const layer: StreamLayer =
    { name: 'h', spatial: null, temporal: 1, ...size, bits_per_second: 500_000, live: true, viewers: 1 };
  expect([layerName(layer), ...layerCells(layer)]).toEqual(['h T1', '640×360', '500\u00a0kbit/s', '1']);
  const dead = { ...layer, width: null, height: null, live: false, viewers: 3 };
  expect(layerCells(dead)).toEqual(['–', 'not sent', '3']);
  const path = { state: 'ok', estimate_kbps: 620, share: 'all', layer } as Partial<RtcPath> as RtcPath;
  expect(pathFigure(path)).toEqual({ value: 'h T1', sub: '620\u00a0kbit/s' });
  expect(pathFigure({ ...path, share: 'key_frames' }).value).toBe('key frames');
  expect(pathFigure({ ...path, state: 'no_reports' }).value).toBe('no reports');
  expect(pathFigure({ ...path, layer: null }).value).toBe('all');
  expect(limitWords({ ...path, limit_kbps: null })).toBe(''); // an older server
  expect(limitWords({ ...path, limit_kbps: null, max_height: null })).toBe('');
  expect(limitWords({ ...path, limit_kbps: 800, max_height: null })).toBe(', limited to 800\u00a0kbit/s');
  const both = { ...path, limit_kbps: 800, max_height: 360 };
  expect(limitWords(both)).toBe(', limited to 800\u00a0kbit/s and 360 pixels of height');
});
