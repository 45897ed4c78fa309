/**
 * Live statistics of the stand-in server: the message of docs/statistics.md over made-up sessions, once a
 * second to every WebSocket and on request.
 *
 * Sessions have steady figures with some noise, some have trouble, and a few come and go each second, so that
 * a table of them behaves as with a real server.
 */
import { encode } from '@msgpack/msgpack';
import { createHash } from 'node:crypto';

const NO_STREAM = 0xffff_ffff;
const PROTOCOLS = ['rtmp', 'http-flv', 'ws-flv', 'whip', 'whep'];
const AGENTS = ['VLC/3.0.20 LibVLC/3.0.20', 'Lavf/61.7.100', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/156', null];
/** Made-up sessions that leave, and as many that come, in a second. */
const CHURN = 3;

/** The schema's fractions are single precision, and readers may insist on it. */
const AS_SINGLE = { forceFloat32: true };

/** Repeatable noise between -1 and 1. */
const noise = (seed) => {
  const value = Math.sin(seed * 12.9898) * 43758.5453;
  return 2 * (value - Math.floor(value)) - 1;
};

/**
 * `kinds` are `[stream, bits per second]`, the publishers come first; `real` gives the sessions that are not
 * made up, as the management API shows them.
 */
export function makeStats({ sessions: count, workers, kinds, real }) {
  let serial = 0;
  let sequence = 0;
  const birth = (index) => {
    serial += 1;
    const [stream, bits] = kinds[index % kinds.length];
    const role = index < kinds.length ? 'publisher' : index % 997 === 996 ? 'pending' : 'player';
    const protocol = role === 'publisher' ? 'rtmp' : PROTOCOLS[[0, 1, 2, 4][serial % 4]];
    return {
      id: `${index % workers}-${serial}`, worker: index % workers, serial, role, protocol, stream: role === 'pending' ? null : stream, bits,
      address: `192.0.2.${(serial * 7) % 250}:${20_000 + (serial % 40_000)}`, user_agent: role === 'publisher' ? 'FMLE/3.0 (compatible; FMSc/1.0)' : AGENTS[serial % 4],
      since: Date.now() - (serial <= count ? ((serial * 7919) % 9_000) * 1000 : 0), packets: 0, lost: 0, dropped: 0,
    };
  };
  let list = Array.from({ length: count }, (_, index) => birth(index));

  /** One second of a made-up session's life. */
  function step(session, index) {
    const seed = session.serial + sequence * 0.37;
    const own = noise(session.serial);
    const rtc = session.protocol === 'whep' || session.protocol === 'whip';
    const trouble = session.serial % 61 === 0 ? 1 + Math.sin(sequence / 9 + session.serial) : 0;
    session.rate = session.role === 'pending' ? 0 : Math.round(session.bits * (1 + 0.08 * Math.sin(sequence / 6 + index % 17) + 0.04 * noise(seed)) * (1 - 0.3 * trouble));
    session.pps = Math.round(session.rate / 9_600);
    session.packets += session.pps;
    session.loss = rtc ? Math.max(0, 2.2 * trouble + 0.15 * noise(seed + 1)) : NaN;
    session.lost += Math.round((session.pps * (session.loss || 0)) / 100);
    session.rtt = !rtc ? NaN : Math.max(0.4, 38 + 30 * own + 40 * trouble + 3 * noise(seed + 2));
    session.jitter = rtc ? Math.max(0.1, 3 + 2 * own + 6 * trouble + noise(seed + 3)) : NaN;
    session.queueMs = rtc || session.role !== 'player' ? 0 : Math.round(1_600 * trouble * Math.max(0, noise(seed + 4) + 0.6));
    session.queue = Math.round((session.queueMs * session.rate) / 8_000);
    if (session.queueMs > 2_200) session.dropped += 12;
  }

  function tick() {
    sequence += 1;
    // Publishers stay.
    for (let index = 0; index < CHURN && list.length > kinds.length + 10; index += 1) {
      const at = kinds.length + Math.floor(((noise(sequence * 31 + index) + 1) / 2) * (list.length - kinds.length));
      list[Math.min(at, list.length - 1)] = birth(Math.min(at, list.length - 1));
    }
    list.forEach(step);
  }

  /** A real session, whose figures the stand-in hardly knows. */
  const asMadeUp = (session) => ({
    ...session, serial: Number(session.id.split('-')[1]), since: Date.now() - 1000 * session.connected_seconds, rate: session.bitrate_bits_per_second,
    pps: 73, packets: 73 * session.connected_seconds, loss: NaN, lost: 0, rtt: NaN, jitter: NaN, queue: session.queue_bytes, queueMs: session.queue_ms, dropped: session.dropped_frames,
  });
  const all = () => [...real().map(asMadeUp), ...list];

  function message() {
    const rows = all();
    const names = [...new Set(rows.map(({ stream }) => stream).filter((name) => name !== null))].sort();
    const of = new Map(names.map((name, index) => [name, index]));
    const column = (value) => rows.map(value);
    const sum = (wanted, value) => rows.reduce((total, row) => (wanted(row) ? total + value(row) : total), 0);
    const players = names.map(() => 0);
    const out = names.map(() => 0);
    const into = names.map(() => 0);
    for (const row of rows) {
      if (row.stream === null) continue;
      const index = of.get(row.stream);
      if (row.role === 'player') players[index] += 1;
      (row.role === 'player' ? out : into)[index] += row.rate;
    }
    const indexes = Array.from({ length: workers }, (_, index) => index);
    const bits = (index, role) => sum((row) => row.worker === index && row.role === role, (row) => row.rate);
    return {
      version: 1, sequence, time_ms: Date.now(), interval_ms: 1000, protocols: PROTOCOLS,
      workers: {
        index: indexes, load_percent: indexes.map((index) => 31 + 5 * noise(index + sequence)), sessions: indexes.map((index) => sum((row) => row.worker === index, () => 1)),
        snapshot_us: indexes.map(() => Math.round(rows.length / 30)), bits_in_per_second: indexes.map((index) => bits(index, 'publisher')), bits_out_per_second: indexes.map((index) => bits(index, 'player')),
      },
      streams: { name: names, live: names.map(() => true), publisher_worker: names.map(() => 0), players, bits_in_per_second: into, bits_out_per_second: out },
      sessions: {
        worker: column((row) => row.worker), serial: column((row) => row.serial), stream: column((row) => of.get(row.stream) ?? NO_STREAM),
        role: column((row) => ['pending', 'publisher', 'player'].indexOf(row.role)), protocol: column((row) => PROTOCOLS.indexOf(row.protocol)), connected_ms: column((row) => Date.now() - row.since),
        bits_per_second: column((row) => row.rate), packets: column((row) => row.packets), packets_per_second: column((row) => row.pps), lost_packets: column((row) => row.lost),
        loss_percent: column((row) => row.loss), rtt_ms: column((row) => row.rtt), jitter_ms: column((row) => row.jitter),
        queue_bytes: column((row) => row.queue), queue_ms: column((row) => row.queueMs), dropped_frames: column((row) => row.dropped),
      },
    };
  }

  /** As `GET /api/v1/sessions` shows a made-up session. */
  const shown = (session) => ({
    id: session.id, worker: session.worker, role: session.role, protocol: session.protocol, stream: session.stream, address: session.address,
    connected_seconds: Math.floor((Date.now() - session.since) / 1000), bytes_in: session.role === 'publisher' ? session.packets * 1200 : 3400,
    bytes_out: session.role === 'player' ? session.packets * 1200 : 3200, bitrate_bits_per_second: session.rate, queue_bytes: session.queue, queue_ms: session.queueMs,
    dropped_frames: session.dropped, user_agent: session.user_agent, rtc: rtcOf(session),
  });
  const rtcOf = (session) =>
    session.protocol !== 'whep' ? null : {
      state: 'connected', transport: 'udp', codecs: ['H.264', 'Opus'], packets: session.packets, lost_packets: session.lost, loss_percent: session.loss, rtt_ms: session.rtt,
      jitter_ms: session.jitter, nacks: session.lost, resent_packets: session.lost, key_frame_requests: 2,
      path: {
        state: 'ok', estimate_kbps: 620, target_kbps: 600, limit_kbps: null, max_height: null,
        queue_ms: 12.5, probes: 3, padding_bytes: 48_000, times_behind: 1, share: 'all',
        layer: { name: 'q', spatial: null, temporal: null }, wanted_layer: { name: 'q', spatial: null, temporal: null }, fixed: false, reason: 'its path carries 620 kbit/s, h takes 1.8 Mbit/s',
      },
    };

  tick();
  let bytes = encode(message(), AS_SINGLE);
  const sockets = new Set();
  setInterval(() => {
    tick();
    bytes = encode(message(), AS_SINGLE);
    const frame = webSocketFrame(bytes);
    // A reader that has not taken the one before gets the next one.
    for (const socket of sockets) if (socket.writableLength === 0) socket.write(frame);
  }, 1000);

  return {
    sessions: () => list.map(shown),
    /** Id of the session that publishes a stream; null when there is none. */
    publisherOf: (key) => list.find(({ role, stream }) => role === 'publisher' && stream === key)?.id ?? null,
    /** Ends a made-up session; false when there is none of that id. */
    kick(id) {
      const before = list.length;
      list = list.filter((session) => session.id !== id);
      return list.length < before;
    },
    answer: (response) => response.writeHead(200, { 'content-type': 'application/vnd.msgpack', 'cache-control': 'no-store' }).end(bytes),
    /** Takes over a socket whose upgrade was granted. */
    subscribe(request, socket) {
      socket.write(`${switchingProtocols(request)}Sec-WebSocket-Protocol: millstream.stats.v1\r\n\r\n`);
      socket.write(webSocketFrame(bytes));
      sockets.add(socket);
      const gone = () => sockets.delete(socket);
      socket.on('close', gone);
      socket.on('error', gone);
      socket.on('data', (data) => (data[0] & 0x0f) === 8 && socket.end());
    },
  };
}

/** Head of the answer to an upgrade (RFC 6455 §4.2.2), without the empty line at its end. */
export function switchingProtocols(request) {
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  return `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n`;
}

/** Binary WebSocket frame from server to client (RFC 6455 §5.2). */
export function webSocketFrame(bytes) {
  const long = bytes.length > 65535;
  const head = Buffer.alloc(bytes.length < 126 ? 2 : long ? 10 : 4);
  head[0] = 0x82;
  head[1] = bytes.length < 126 ? bytes.length : long ? 127 : 126;
  if (long) head.writeBigUInt64BE(BigInt(bytes.length), 2);
  else if (bytes.length >= 126) head.writeUInt16BE(bytes.length, 2);
  return Buffer.concat([head, bytes]);
}
