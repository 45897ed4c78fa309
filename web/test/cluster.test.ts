/** The map, the trees and the state of the cluster. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApiClient } from '../src/api/client';
import type { Cluster, ClusterQuery } from '../src/api/cluster';
import { ApiError } from '../src/api/errors';
import { linkReport } from '../src/lib/cluster-health';
import { betweenNodes, hubLinks, innerEnd, layoutMap, strandWidth, type Box } from '../src/lib/cluster-map';
import { roundTrip, shortRate } from '../src/lib/format';
import { depthOf, flatten, layoutTree, treeOf } from '../src/lib/stream-tree';
import { ClusterState, DROPPING_MS, GONE_MS, STREAMS_LISTED } from '../src/state/cluster';
import { aCluster, aDirection, aLink, aSpread } from './samples';

const overlap = (a: Box, b: Box) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
const plain = (text: string) => text.replaceAll('\u00a0', ' ');

/** All points of a path, control points among them. */
function points(path: string): { x: number; y: number }[] {
  const at = { x: 0, y: 0 };
  return [...path.matchAll(/([MCQHV])([^MCQHV]*)/g)].flatMap(([, letter, numbers = '']) => {
    const values = numbers.trim().split(/ +/).map(Number);
    if (letter === 'H') at.x = values[0]!;
    else if (letter === 'V') at.y = values[0]!;
    else [at.x, at.y] = [values.at(-2)!, values.at(-1)!];
    const pairs = letter === 'H' || letter === 'V' ? [] : values.flatMap((x, index) => (index % 2 === 0 ? [{ x, y: values[index + 1]! }] : []));
    return pairs.length > 0 ? pairs : [{ ...at }];
  });
}

describe('the map', () => {
  const others = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `n${index}`, region: ['fra', 'par', 'nyc', 'sgp'][Math.min(3, Math.floor((index * 5) / count))]! }));

  it('has room for every node, whatever their number and the width of the page', () => {
    for (const width of [332, 619, 620, 900, 1160, 1400]) {
      for (let count = 1; count <= 40; count += 1) {
        const map = layoutMap(width, 'fra', others(count));
        const boxes = [...map.nodes, map.hub];
        const words = `${count} nodes, ${width} pixels`;
        expect(map.nodes.map(({ name }) => name).sort(), words).toEqual(others(count).map(({ name }) => name).sort());
        for (const box of boxes) {
          const inside = box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= map.height;
          expect(inside, words).toBe(true);
          expect(boxes.some((other) => other !== box && overlap(box, other)), words).toBe(false);
        }
        for (const region of map.regions) expect(boxes.some((box) => overlap(box, { ...region, height: 24 })), words).toBe(false);
      }
    }
  });

  it('puts the region of this node first and keeps regions together where that is cheap', () => {
    const map = layoutMap(1200, 'par', others(8));
    expect(map.nodes[0]?.name).toBe('n2'); // of par
    expect(map.regions.map(({ region, side }) => `${side} ${region}`)).toEqual(['left par', 'left fra', 'right nyc', 'right sgp']);
    const one = layoutMap(1200, 'fra', Array.from({ length: 9 }, (_, index) => ({ name: `n${index}`, region: 'fra' })));
    expect(one.nodes.filter(({ side }) => side === 'left')).toHaveLength(4); // five beside four, and its name twice
    expect(one.regions).toHaveLength(2);
  });

  it('draws a link from the hub to the edge of its node', () => {
    for (const width of [360, 1200]) {
      const map = layoutMap(width, 'fra', others(12));
      const links = hubLinks(map);
      for (const node of map.nodes) {
        const path = points(links.get(node.name)!(0));
        const [start, end] = [path[0]!, path.at(-1)!];
        expect(Math.hypot(end.x - innerEnd(node).x, end.y - innerEnd(node).y)).toBeLessThan(0.2);
        expect(overlap(map.hub, { x: start.x - 0.2, y: start.y - 0.2, width: 0.4, height: 0.4 })).toBe(true);
      }
    }
  });

  it('leads links of others round the hub', () => {
    const map = layoutMap(1200, 'fra', others(30));
    const { hub } = map;
    for (const from of map.nodes) {
      for (const to of map.nodes.filter(({ name }) => name !== from.name)) {
        const path = betweenNodes(map, from, to, 3);
        const end = points(path).at(-1)!;
        expect(Math.hypot(end.x - innerEnd(to).x, end.y - innerEnd(to).y)).toBeLessThan(0.2);
        const level = /H/.test(path) ? points(path)[3]! : null;
        if (level !== null) expect(level.y < hub.y || level.y > hub.y + hub.height).toBe(true);
      }
    }
    // Through the middle, unless it is led round.
    const [left, right] = [map.nodes.find(({ side }) => side === 'left')!, map.nodes.findLast(({ side }) => side === 'right')!];
    expect(betweenNodes(map, left, right)).toContain('H');
    const top = map.nodes.find(({ side }) => side === 'right')!;
    expect(betweenNodes(map, left, top)).not.toContain('H');
  });

  it('draws more traffic thicker, and the talk of an idle link not at all', () => {
    expect(strandWidth(900)).toBe(0);
    const widths = [50e3, 1e6, 10e6, 100e6, 1e9, 10e9].map(strandWidth);
    expect(widths).toEqual([1.5, 3, 4.5, 6, 7.5, 9]);
    expect(strandWidth(1e15)).toBe(9);
  });
});

describe('a tree', () => {
  it('grows from the home', () => {
    const tree = treeOf(aSpread('live/a', 'h', [['c', 'b'], ['b', 'h'], ['d', 'b'], ['e', 'h']]));
    expect(flatten(tree).map(({ name, depth, parent }) => [name, depth, parent])).toEqual([['h', 0, null], ['b', 1, 'h'], ['c', 2, 'b'], ['d', 2, 'b'], ['e', 1, 'h']]);
    expect(depthOf(tree)).toBe(2);
    expect(depthOf(treeOf(aSpread('live/a', 'h')))).toBe(0);
  });

  it('keeps nodes whose parent is gone, and ends where two feed each other', () => {
    const tree = treeOf(aSpread('live/a', 'h', [['b', 'gone'], ['c', 'd'], ['d', 'c'], ['h', 'b']]));
    expect(flatten(tree).map(({ name, lost }) => [name, lost])).toEqual([['h', false], ['b', true], ['c', true], ['d', false]]);
  });

  it('is drawn without one node over another, parents amid their children', () => {
    const edges = Array.from({ length: 29 }, (_, index): [string, string] => [`n${index + 1}`, `n${Math.floor(index / 8)}`]);
    const { nodes, width, height } = layoutTree(treeOf(aSpread('live/a', 'n0', edges)), { cardWidth: 200, cardHeight: 40, columnGap: 50, rowGap: 8 });
    expect(nodes).toHaveLength(30);
    for (const node of nodes) {
      expect(nodes.some((other) => other !== node && overlap(node, other))).toBe(false);
      expect(node.x + node.width <= width && node.y + node.height <= height).toBe(true);
    }
    const at = (name: string) => nodes.find(({ node }) => node.name === name)!;
    expect(at('n1').y).toBe((at('n9').y + at('n16').y) / 2);
    expect([at('n0').x, at('n1').x, at('n9').x]).toEqual([0, 250, 500]);
  });
});

describe('a link', () => {
  const report = (change: Parameters<typeof aLink>[1], dropping = false) => {
    const { health, remarks } = linkReport(aLink('b', change), dropping);
    return [health, ...remarks.map(plain)];
  };

  it.each([
    [report({}), ['good']],
    [report({ sent: aDirection({ loss_percent: 0.9 }), round_trip_ms: 230 }), ['good']], // far away is no trouble
    [report({ received: aDirection({ loss_percent: 4.5 }) }), ['troubled', '4.5 % lost']],
    [report({ packets_heard: false }), ['troubled', 'no packets come through']],
    [report({ round_trip_ms: 700 }, true), ['troubled', 'too slow, frames are dropped', 'round trip 700 ms']],
    [report({ state: 'down', state_seconds: 75, round_trip_ms: null }, true), ['down', 'no connection for 1 min 15 s']],
  ])('%j', (found, expected) => expect(found).toEqual(expected));

  it('has figures for little room', () => {
    expect([0, 605_000, 12.4e6, 1e9, null].map((rate) => plain(shortRate(rate)))).toEqual(['0', '605k', '12.4M', '1.00G', '–']);
    expect([0.64, 9.94, 9.96, 84.4, null].map((ms) => plain(roundTrip(ms)))).toEqual(['0.6 ms', '9.9 ms', '10 ms', '84 ms', '–']);
  });
});

describe('requests', () => {
  it('name the stream or a part of it', async () => {
    const urls: string[] = [];
    const answer = { status: 200, body: JSON.stringify(aCluster(['a'])) };
    const client = new ApiClient({
      fetch: async (url) => {
        urls.push(String(url));
        return new Response(answer.body, { status: answer.status });
      },
    });
    await client.cluster({ search: 'a&b', limit: 100 });
    await client.cluster({ stream: 'live/a b', limit: 1 });
    expect(urls).toEqual(['/api/v1/cluster?search=a%26b&limit=100', '/api/v1/cluster?stream=live%2Fa+b&limit=1']);
    Object.assign(answer, { status: 404, body: '{"error":{"code":"not_found","message":"this server is not part of a cluster"}}' });
    expect(await client.cluster({})).toBeNull();
  });
});

describe('asking', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  class FakeServer {
    queries: ClusterQuery[] = [];
    failure: ApiError | null = null;
    answer: Cluster | null = aCluster(['a', 'b', 'c'], { streams: [aSpread('live/a', 'a')] });
    hidden = [aSpread('live/z', 'b', [['a', 'b']])];
    async cluster(query: ClusterQuery): Promise<Cluster | null> {
      this.queries.push(query);
      if (this.failure !== null) throw this.failure;
      if (query.stream === undefined || this.answer === null) return this.answer;
      return { ...this.answer, streams: this.hidden.filter(({ stream }) => stream === query.stream) };
    }
  }
  const opened = () => {
    const server = new FakeServer();
    return { server, state: new ClusterState(server) };
  };
  const seconds = (count: number) => vi.advanceTimersByTimeAsync(count * 1_000);

  it('goes on once a second while a page shows it and can be seen', async () => {
    const { server, state } = opened();
    await seconds(5);
    expect(server.queries).toHaveLength(0);
    const leave = state.use();
    await seconds(2.5);
    expect(server.queries).toEqual(Array(3).fill({ limit: STREAMS_LISTED }));
    state.setSeen(false);
    await seconds(5);
    expect(server.queries).toHaveLength(3);
    state.setSeen(true);
    await seconds(0.01);
    leave();
    leave();
    await seconds(5);
    expect(server.queries).toHaveLength(4);
  });

  it('knows a single node from a server that has not answered, and keeps what it knows', async () => {
    const { server, state } = opened();
    server.failure = new ApiError('unreachable', 'gone');
    const leave = state.use();
    await seconds(0.01);
    expect(state.store.value).toMatchObject({ cluster: null, asked: false });
    server.failure = null;
    await seconds(3);
    expect(state.store.value.cluster?.nodes).toHaveLength(3);
    expect(state.rates.get('sent:b').length).toBeGreaterThan(0);
    server.failure = new ApiError('unreachable', 'gone');
    await seconds(3);
    expect(state.store.value.cluster?.nodes).toHaveLength(3);
    server.failure = null;
    server.answer = null;
    await seconds(10);
    expect(state.store.value).toMatchObject({ cluster: null, asked: true });
    leave();
  });

  it('remembers a node that has gone, until it is back or that was long ago', async () => {
    const { server, state } = opened();
    state.use();
    await seconds(0.01);
    server.answer = aCluster(['a', 'b']);
    await seconds(1);
    server.answer = aCluster(['a']);
    await seconds(2);
    expect(state.store.value.gone.map(({ node }) => node.name)).toEqual(['c', 'b']);
    server.answer = aCluster(['a', 'b']);
    await seconds(1);
    expect(state.store.value.gone.map(({ node }) => node.name)).toEqual(['c']);
    await seconds(GONE_MS / 1000);
    expect(state.store.value.gone).toEqual([]);
  });

  it('calls a link dropping while the number of frames that were dropped grows', async () => {
    const { server, state } = opened();
    const dropped = (frames: number) => {
      server.answer = aCluster(['a', 'b'], { links: [aLink('b', { sent: aDirection({ dropped_frames: frames }) })] });
    };
    dropped(500); // before this page was opened
    state.use();
    await seconds(1.5);
    expect([...state.store.value.dropping]).toEqual([]);
    dropped(501);
    await seconds(1);
    expect([...state.store.value.dropping]).toEqual(['b']);
    await seconds(DROPPING_MS / 1000);
    expect([...state.store.value.dropping]).toEqual([]);
    dropped(0); // connected again
    await seconds(1);
    expect([...state.store.value.dropping]).toEqual([]);
  });

  it('finds the stream that is looked at, also one that is not listed', async () => {
    const { server, state } = opened();
    state.use();
    await seconds(0.01);
    state.select('live/a');
    expect(state.store.value.stream?.home).toBe('a'); // at once
    expect(server.queries).toHaveLength(1);
    state.select('live/z');
    expect(state.store.value.stream).toBeNull();
    await seconds(0.01);
    expect(state.store.value.stream?.home).toBe('b');
    expect(server.queries.at(-1)).toEqual({ stream: 'live/z', limit: 1 });
    state.search('room');
    await seconds(0.01);
    expect(server.queries.at(-2)).toEqual({ limit: STREAMS_LISTED, search: 'room' });
    state.select('live/nobody');
    await seconds(0.01);
    expect(state.store.value.stream).toBeNull();
  });
});
