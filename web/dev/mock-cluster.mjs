/**
 * The cluster of the stand-in server: a number of nodes in regions, whose figures move, with links in trouble
 * if wanted. The stand-in is the first node.
 */

const REGIONS = ['frankfurt', 'paris', 'newyork', 'singapore', 'saopaulo'];
/** Milliseconds from the first region to each. */
const DISTANCE_MS = [0.6, 9.4, 84, 162, 204];

const wobble = (middle, seed) => middle * (1 + 0.12 * Math.sin(Date.now() / 3000 + seed) + 0.06 * Math.sin(Date.now() / 700 + seed * 3));

/**
 * `trouble`: a node that cannot be reached, one that drops frames, one that loses packets, one that drains.
 * `streams`: how many there are besides the first few. `die`: seconds after which the last node is gone.
 */
export function makeCluster({ nodes: count, trouble, streams: extra = 0, die = Infinity, silent = false }) {
  const startedAt = Date.now();
  const seconds = () => (Date.now() - startedAt) / 1000;
  const regions = count < 3 ? 1 : Math.min(REGIONS.length, Math.ceil(count / 6) + 1);
  const all = Array.from({ length: count }, (_, index) => {
    // The first region has about half of them.
    const region = index < count / 2 ? 0 : 1 + (index % Math.max(1, regions - 1));
    return { index, region: Math.min(region, regions - 1), name: '' };
  });
  for (const node of all) {
    const number = all.filter((other) => other.region === node.region && other.index <= node.index).length;
    node.name = `${REGIONS[node.region].slice(0, 3)}-${number === 1 && node.region === 0 ? 'origin' : `edge-${String(number).padStart(2, '0')}`}`;
  }
  const [self, ...others] = all;
  const bad = trouble ? { unreachable: others.at(-1), slow: others[0], lossy: others[1], draining: others[2] } : {};
  const living = () => all.filter((node) => node !== others.at(-1) || seconds() < die);

  const nodeOf = (node) => ({
    name: node.name, region: REGIONS[node.region], version: '0.1.0',
    relay_tcp: `10.${node.region}.0.${node.index + 10}:8290`, relay_udp: `10.${node.region}.0.${node.index + 10}:8290`, http: `http://10.${node.region}.0.${node.index + 10}:8080`,
    load: { players: Math.round(wobble(40 + ((node.index * 137) % 700), node.index)), streams: node.index % 3 === 0 ? 2 : 0, cpu_percent: wobble(node.index === 4 ? 84 : 12 + ((node.index * 29) % 60), node.index), egress_bits_per_second: Math.round(wobble(2e7 + ((node.index * 53) % 90) * 1e7, node.index)) },
    draining: node === bad.draining, reachable: node !== bad.unreachable,
  });

  const way = (streams, bits, packets, seed, loss, dropped) => {
    // What an idle link says to keep going.
    const rate = streams === 0 ? 900 : Math.round(wobble(bits, seed));
    const sent = Math.round(seconds() * packets);
    return {
      streams, bytes: Math.round((seconds() * bits) / 8), bits_per_second: rate, frames: Math.round(seconds() * streams * 70), dropped_frames: dropped,
      packets: sent, packets_per_second: Math.round(wobble(packets, seed)), repaired_packets: Math.round(sent * loss), given_up_packets: Math.round(sent * loss * 0.02), loss_percent: packets === 0 ? null : wobble(loss * 100, seed),
    };
  };

  const idle = () => ({ ...way(0, 0, 0, 0, 0, 0), bits_per_second: 0 });
  const tree = makeStreams(all);
  const linkOf = (node) => {
    const down = node === bad.unreachable;
    const out = down ? [] : tree.filter((stream) => stream.edges.some((edge) => edge.node === node.name && edge.parent === self.name));
    const back = down ? [] : tree.filter((stream) => stream.edges.some((edge) => edge.node === self.name && edge.parent === node.name));
    const bits = (list) => list.reduce((sum, stream) => sum + stream.bits, 0);
    const packets = (list) => list.reduce((sum, stream) => sum + (stream.lane === 'packets' ? stream.bits / 9000 : 0), 0);
    const loss = node === bad.lossy ? 0.034 : 0.0004;
    return {
      node: node.name, state: down ? 'down' : 'up', state_seconds: Math.floor(seconds() + (down ? 12 : 84_000 + node.index * 311)),
      last_problem: down ? 'cannot connect to 10.1.0.21:8290: connection timed out' : null,
      round_trip_ms: down ? null : wobble(DISTANCE_MS[node.region] + 0.05 * node.index, node.index),
      packets_heard: !down,
      sent: down ? idle() : way(out.length, bits(out), packets(out), node.index, loss, node === bad.slow ? Math.round(seconds() * 12) : 0),
      received: down ? idle() : way(back.length, bits(back), packets(back), node.index + 9, loss / 2, 0),
    };
  };

  return {
    node: self.name,
    answer(query) {
      const here = new Set(living().map((node) => node.name));
      const more = Array.from({ length: extra }, (_, index) => ({ stream: `cams/room-${String(index + 1).padStart(3, '0')}`, lane: 'frames', codecs: ['H.264', 'AAC'], home: all[index % count].name, edges: [] }));
      const streams = [...tree, ...more].sort((a, b) => (a.stream < b.stream ? -1 : 1));
      const [search, only] = [query.get('search')?.toLowerCase(), query.get('stream')];
      const matching = streams.filter(({ stream }) => (!search || stream.toLowerCase().includes(search)) && (!only || stream === only));
      const offset = Number(query.get('offset') ?? 0);
      const fetched = streams.filter((stream) => stream.edges.some((edge) => edge.node === self.name)).length;
      const home = streams.filter((stream) => stream.home === self.name).length;
      return {
        node: self.name,
        directory: { heard: !silent, settled: true, server_version: '2.10.22', last_problem: silent ? 'no answer for 2.7 s' : null, ignored: 0, messages_in: Math.round(seconds() * count * 0.7), messages_out: Math.round(seconds() * 0.9) },
        nodes: living().map(nodeOf).sort((a, b) => (a.name < b.name ? -1 : 1)),
        links: others.filter((node) => here.has(node.name)).map(linkOf).sort((a, b) => (a.node < b.node ? -1 : 1)),
        streams: matching.slice(offset, offset + Number(query.get('limit') ?? 100)).map(({ stream, lane, codecs, home: at, edges }) => ({ stream, lane, codecs, home: at, edges: edges.filter((edge) => here.has(edge.node)) })),
        streams_total: matching.length,
        streams_by_home: { here: home, fetched, elsewhere: streams.length - home - fetched },
      };
    },
  };
}

/** A few streams, the first of them on all nodes, in a tree of eight children for a node. */
function makeStreams(all) {
  const names = all.map((node) => node.name);
  const edgesOf = (home, on) => {
    const has = [home];
    return on.filter((name) => name !== home).map((node, index) => {
      has.push(node);
      return { node, parent: has[Math.floor(index / 8)] };
    });
  };
  const pick = (step, from = 0) => names.filter((_, index) => index >= from && index % step === 0);
  const at = (index) => names[Math.min(index, names.length - 1)];
  return [
    { stream: 'live/main-stage', lane: 'packets', codecs: ['H.264', 'Opus'], home: names[0], edges: edgesOf(names[0], names), bits: 4.6e6 },
    { stream: 'live/backstage', lane: 'frames', codecs: ['H.265', 'AAC'], home: names[0], edges: edgesOf(names[0], pick(3, 1)), bits: 1.7e6 },
    { stream: 'sport/court-2', lane: 'frames', codecs: ['AV1', 'Opus'], home: at(1), edges: edgesOf(at(1), [names[0], ...pick(4, 2)]), bits: 6.1e6 },
    { stream: 'radio/night', lane: 'frames', codecs: ['AAC'], home: at(5), edges: edgesOf(at(5), pick(5, 6)), bits: 128e3 },
    { stream: 'live/rehearsal', lane: 'frames', codecs: ['H.264'], home: at(2), edges: [], bits: 2.2e6 },
  ].filter((stream, index) => index < 3 || names.length > 3);
}
