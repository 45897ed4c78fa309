/**
 * Stand-in for a Millstream server, for work on the console without one.
 *
 *   node dev/mock-server.mjs [CLIP.flv] [--address 127.0.0.1] [--port 8080] [--sessions 2500] [--streams 6]
 *                            [--empty] [--deny 401|403] [--token-required] [--rtc] [--dist dist] [--no-websocket]
 *                            [--cluster NODES [--trouble] [--die SECONDS] [--cluster-streams 0] [--no-nats]]
 *
 * Plays CLIP.flv (H.264/AAC, begins with a key frame) in a loop and in real time as `demo/clock`, over
 * HTTP-FLV and WebSocket-FLV; without it there is no such stream. With --port 0 it takes a free one.
 * Everything else is made up: streams, sessions and workers whose figures move. Players of the clip are real
 * sessions and can be kicked. With --deny 401 the token is `secret`. Live statistics come over a WebSocket,
 * with --no-websocket only on request. With --rtc it takes WHIP and answers WHEP, by a Chromium in the
 * background; with --token-required as well, their token is `secret`. With --cluster it is a node among
 * others; --trouble puts some of their links into trouble, --die lets one go after a while.
 */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { makeCluster } from './mock-cluster.mjs';
import { startRtc } from './mock-rtc.mjs';
import { makeSources } from './mock-sources.mjs';
import { makeStats, switchingProtocols, webSocketFrame } from './mock-stats.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    address: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '8080' },
    sessions: { type: 'string', default: '14' },
    streams: { type: 'string', default: '4' },
    empty: { type: 'boolean', default: false },
    deny: { type: 'string' },
    'token-required': { type: 'boolean', default: false },
    rtc: { type: 'boolean', default: false },
    'no-websocket': { type: 'boolean', default: false },
    cluster: { type: 'string' },
    trouble: { type: 'boolean', default: false },
    die: { type: 'string', default: 'Infinity' },
    'cluster-streams': { type: 'string', default: '0' },
    'no-nats': { type: 'boolean', default: false },
    dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
  },
});
const TOKEN = 'secret';
const rtc = options.rtc ? await startRtc({ token: options['token-required'] ? TOKEN : null }) : null;
/** What is published by WHIP, looked up once a second. */
let rtcKeys = [];
if (rtc !== null) setInterval(async () => (rtcKeys = await rtc.keys().catch(() => [])), 1_000);
const startedAt = Date.now();
const uptime = () => Math.floor((Date.now() - startedAt) / 1000);

// --- the
// clip -------------------------------------------------------------------------------------------------

/** Splits an FLV file into tags `{ type, time, body, key, config }`. */
function readTags(file) {
  const tags = [];
  let at = file.readUInt32BE(5) + 4;
  while (at + 11 <= file.length) {
    const size = file.readUIntBE(at + 1, 3);
    const body = file.subarray(at + 11, at + 11 + size);
    const type = file[at];
    const video = type === 9;
    tags.push({
      type,
      time: file.readUIntBE(at + 4, 3) | (file[at + 7] << 24),
      body,
      key: video && body[0] >> 4 === 1 && body[1] !== 0,
      config: (video || type === 8) && body[1] === 0 && (video || body[0] >> 4 === 10),
    });
    at += 11 + size + 4;
  }
  return tags;
}

function writeTag(tag, time) {
  const out = Buffer.alloc(11 + tag.body.length + 4);
  out[0] = tag.type;
  out.writeUIntBE(tag.body.length, 1, 3);
  out.writeUIntBE(time & 0xffffff, 4, 3);
  out[7] = (time >>> 24) & 0xff;
  tag.body.copy(out, 11);
  out.writeUInt32BE(11 + tag.body.length, 11 + tag.body.length);
  return out;
}

const FILE_HEADER = Buffer.from([0x46, 0x4c, 0x56, 1, 5, 0, 0, 0, 9, 0, 0, 0, 0]);
/** Without a clip there is nothing to play. */
const silent = options.empty || positionals.length === 0;
const clip = silent ? [] : readTags(await readFile(positionals[0]));
const configs = clip.filter((tag) => tag.type === 18 || tag.config);
const frames = clip.filter((tag) => tag.type !== 18 && !tag.config);
const lastFrame = frames.findLast((tag) => tag.type === 9);
const loopMs = silent ? 0 : lastFrame.time + (lastFrame.time - frames.filter((tag) => tag.type === 9).at(-2).time);

/** Real players: `{ id, send(Buffer), end(), … }`. */
const players = new Map();
let gop = [];
let next = 0;
let loops = 0;
setInterval(() => {
  if (silent) return;
  const now = Date.now() - startedAt;
  const batch = [];
  for (;;) {
    const tag = frames[next];
    const time = tag.time + loops * loopMs;
    if (time > now) break;
    const written = writeTag(tag, time);
    if (tag.key) gop = [];
    gop.push(written);
    batch.push(written);
    next += 1;
    if (next === frames.length) {
      next = 0;
      loops += 1;
    }
  }
  if (batch.length === 0) return;
  const bytes = Buffer.concat(batch);
  for (const player of players.values()) {
    player.send(bytes);
    player.bytes += bytes.length;
  }
}, 100);

/** Made-up sessions count from 1. */
let nextId = 1_000_000;
function addPlayer(protocol, request, send, end) {
  const player = { id: `0-${nextId++}`, protocol, send, end, bytes: 0, since: Date.now() };
  player.address = `${request.socket.remoteAddress}:${request.socket.remotePort}`;
  player.agent = request.headers['user-agent'] ?? null;
  players.set(player.id, player);
  player.send(Buffer.concat([FILE_HEADER, ...configs.map((tag) => writeTag(tag, 0)), ...gop]));
  return player;
}

// --- made-up
// figures ------------------------------------------------------------------------------------------

const wobble = (middle, seed) => middle * (1 + 0.12 * Math.sin(Date.now() / 3000 + seed) + 0.06 * Math.sin(Date.now() / 700 + seed * 3));
const KINDS = [
  ['live/main-stage', 'H.264', 'High', 1920, 1080, 50, 4.6e6, 'AAC', 48000, 412],
  ['live/backstage', 'H.265', 'Main', 1280, 720, 25, 1.7e6, 'AAC', 48000, 38],
  ['sport/court-2', 'AV1', 'Main', 2560, 1440, 59.94, 6.1e6, 'Opus', 48000, 97],
  ['radio/night', null, null, 0, 0, 0, 0, 'AAC', 44100, 15],
  ['live/rehearsal', 'H.264', 'Main', 1280, 720, 30, 2.2e6, null, 0, 0],
];

/** As simulcast has them. */
const LAYERS = [['q', 320, 180, 150e3, 2], ['h', 640, 360, 500e3, 5], ['f', 1280, 720, 1.7e6, 41]].map(
  ([name, width, height, bits_per_second, viewers]) => {
    const size = { width, height };
    return { name, spatial: null, temporal: null, ...size, bits_per_second, live: true, viewers };
  },
);

function streams(host) {
  const made = KINDS.slice(0, Math.max(0, Number(options.streams) - 1)).map(([key, codec, profile, width, height, rate, bits, audio, hertz, viewers], index) => {
    const waiting = key === 'live/rehearsal';
    const bitrate = waiting ? 0 : wobble(bits, index) + (audio ? 128e3 : 0);
    return stream(host, key, {
      state: waiting ? 'waiting' : 'live',
      video: codec && { codec, profile, level: '4.1', width, height, frame_rate: rate, bitrate_bits_per_second: wobble(bits, index), key_frame_interval_ms: 2000 },
      audio: audio && { codec: audio, profile: audio === 'AAC' ? 'LC' : null, sample_rate: hertz, channels: 2, bitrate_bits_per_second: 128e3 },
      bitrate,
      players: viewers,
      layers: index === 1 ? LAYERS : [],
      gop: waiting ? { frames: 0, bytes: 0, duration_ms: 0 } : { frames: Math.max(1, Math.round(rate * 1.4)), bytes: Math.round(bitrate / 6), duration_ms: 1400 },
      uptime: waiting ? 0 : uptime() + 4000 * (index + 1),
      ...BRIDGES[key]?.(rate),
    });
  });
  const clipBits = wobble(605e3, 9);
  const clock = silent ? [] : [
    stream(host, 'demo/clock', {
      state: 'live',
      video: { codec: 'H.264', profile: 'Main', level: '3.1', width: 1280, height: 720, frame_rate: 30, bitrate_bits_per_second: clipBits - 64e3, key_frame_interval_ms: 2000 },
      audio: { codec: 'AAC', profile: 'LC', sample_rate: 44100, channels: 2, bitrate_bits_per_second: 64e3 },
      bitrate: clipBits,
      players: players.size,
      gop: { frames: gop.length, bytes: gop.reduce((sum, tag) => sum + tag.length, 0), duration_ms: Math.round((gop.length / 73) * 1000) },
      uptime: uptime(),
      bridge: bridge(30),
    }),
  ];
  return [
    ...clock,
    ...rtcKeys.map((key) => rtcStream(host, key)),
    ...sources.onAir().map((source) => sourceStream(host, source)),
    ...made,
  ];
}

function rtcStream(host, key) {
  const made = stream(host, key, {
    state: 'live',
    video: { codec: 'H.264', profile: null, level: null, width: null, height: null, frame_rate: null, bitrate_bits_per_second: 0, key_frame_interval_ms: null },
    audio: { codec: 'Opus', profile: null, sample_rate: 48000, channels: 2, bitrate_bits_per_second: 0 },
    bitrate: 0, players: 0, gop: { frames: 0, bytes: 0, duration_ms: 0 }, uptime: 1,
  });
  return { ...made, publisher: { ...made.publisher, protocol: 'whip' }, bridge: null };
}

/** What a channel or a pull brings. */
function sourceStream(host, { app, name, protocol }) {
  const made = stream(host, `${app}/${name}`, {
    state: 'live',
    video: { codec: 'H.264', profile: 'High', level: '4.0', width: 1920, height: 1080, frame_rate: 25, bitrate_bits_per_second: wobble(2e6, 5), key_frame_interval_ms: 2000 },
    audio: { codec: 'AAC', profile: 'LC', sample_rate: 48000, channels: 2, bitrate_bits_per_second: 128e3 },
    bitrate: wobble(2.1e6, 5), players: 3, gop: { frames: 40, bytes: 400_000, duration_ms: 1600 }, uptime: uptime() + 60,
  });
  return { ...made, publisher: { ...made.publisher, protocol } };
}

/** A bridge that has run since this server began; `dropped`: B-frames for each frame that is left. */
function bridge(rate, dropped = 0) {
  const seconds = (Date.now() - startedAt) / 1000;
  const packets = Math.round(seconds * rate * 4);
  return {
    direction: 'rtmp_to_webrtc', running_seconds: seconds, video_frames: Math.round((seconds * rate) / (1 + dropped)), packets, audio_frames: Math.round(seconds * 50),
    cpu_seconds: packets * 25e-6, transcoding_cpu_seconds: seconds * wobble(0.009, rate), video_latency_ms: wobble(0.2, rate), audio_latency_ms: wobble(42, rate),
    b_frames_dropped: Math.round((seconds * rate * dropped) / (1 + dropped)), broken: 0, audio_dropped: 0,
  };
}

/** What bridges meet: B-frames, audio that is not bridged, a stream that is not bridged at all. */
const BRIDGES = {
  'live/main-stage': (rate) => ({ bridge: bridge(rate, 2) }),
  'live/backstage': () => ({ not_bridged: 'the stream is published by RTMP, and bridges to WebRTC are off for this application', whep: false }),
  'sport/court-2': (rate) => ({ bridge: { ...bridge(rate), audio_frames: 0, transcoding_cpu_seconds: 0 }, not_bridged: 'the audio is AC-3, which is not bridged' }),
};

function stream(host, key, { state, video, audio, bitrate, players: count, gop: held, layers = [], uptime: seconds, bridge: bridged = null, not_bridged = null, whep = true }) {
  const [app, name] = key.split('/');
  const hostname = host.split(':')[0];
  return {
    app, name, state, home_worker: 0, video, audio, players: count, gop: held, layers,
    uptime_seconds: seconds,
    publisher: state === 'live' ? { session_id: stats.publisherOf(key) ?? '0-0', address: '127.0.0.1:40112', protocol: 'rtmp', connected_seconds: seconds } : null,
    bitrate_bits_per_second: Math.round(bitrate),
    bytes_in: Math.round((seconds * bitrate) / 8),
    bridge: bridged,
    not_bridged,
    urls: { rtmp: `rtmp://${hostname}:1935/${key}`, flv: `http://${host}/${key}.flv`, ws_flv: `ws://${host}/${key}.flv`, whep: rtc !== null && whep ? `http://${host}/whep/${key}` : '' },
  };
}

function realSessions() {
  return [...players.values()].map((player) => ({
    id: player.id, worker: 0, role: 'player', protocol: player.protocol, stream: 'demo/clock', address: player.address,
    connected_seconds: Math.floor((Date.now() - player.since) / 1000), bytes_in: 410, bytes_out: player.bytes,
    bitrate_bits_per_second: Math.round(wobble(605e3, 9)), queue_bytes: 0, queue_ms: 0, dropped_frames: 0, user_agent: player.agent,
  }));
}

const stats = makeStats({
  sessions: options.empty ? 0 : Number(options.sessions),
  workers: 2,
  kinds: KINDS.slice(0, 4).map(([key, , , , , , bits]) => [key, bits || 128e3]),
  real: () => (options.empty ? [] : realSessions()),
});
const sources = makeSources({ empty: options.empty });
const cluster = options.cluster === undefined ? null : makeCluster({ nodes: Number(options.cluster), trouble: options.trouble, die: Number(options.die), streams: Number(options['cluster-streams']), silent: options['no-nats'] });
const sessions = () => [...realSessions(), ...stats.sessions()];

function workers() {
  return [0, 1].map((index) => ({
    index, core: index, sessions: 280 + index, publishers: 2, players: 278 + index, load_percent: wobble(index === 0 ? 31 : 17, index),
    loop_time_us_p50: Math.round(wobble(90, index)), loop_time_us_p99: Math.round(wobble(640, index + 2)),
    bytes_in_per_second: wobble(8e5, index), bytes_out_per_second: wobble(index === 0 ? 7.4e7 : 4.1e7, index + 4),
    frames_in: uptime() * 260, writes: uptime() * 5200, stats_snapshots_dropped: 0,
    stats_snapshot_us: Math.round(wobble(12, index) + options.sessions * 0.03),
    rtc_players_thinned: index, queue_drops: index === 1 ? 3 : 0, ring_drops: 0,
  }));
}

// ---
// HTTP -----------------------------------------------------------------------------------------------------

const fail = (status, code, message) => ({ status, body: { error: { code, message } } });

/**
 * What the management API answers to those it does not serve. A browser's WebSocket has its token in a
 * subprotocol.
 */
function refusal(request) {
  if (options.deny === '403') return fail(403, 'loopback_only', 'The management API is open to this machine only.');
  const given = [request.headers.authorization, ...(request.headers['sec-websocket-protocol'] ?? '').split(/, */)];
  const wanted = [`Bearer ${TOKEN}`, `bearer.${Buffer.from(TOKEN).toString('base64url')}`];
  if (options.deny === '401' && !given.some((token) => wanted.includes(token))) return fail(401, 'token_required', 'A management token is required.');
  return null;
}

function api(method, path, query, request, content) {
  const refused = refusal(request);
  if (refused !== null) return refused;
  const host = request.headers.host;
  if (path === '/server') {
    return { body: {
      name: 'Millstream', version: '0.1.0', uptime_seconds: uptime(), started_at: new Date(startedAt).toISOString(), workers: 2,
      cluster_node: cluster?.node ?? null, demo_stream: silent ? null : 'demo/clock',
      endpoints: { rtmp: [`rtmp://${host.split(':')[0]}:1935`], rtmps: [], http: [`http://${host}`], https: [],
        whip: rtc === null ? [] : [`http://${host}/whip`], whep: rtc === null ? [] : [`http://${host}/whep`] },
      publish: { loopback_only: !options['token-required'], token_required: options['token-required'] },
    } };
  }
  if (path === '/streams') return { body: { streams: options.empty ? [] : streams(host) } };
  if (path === '/cluster') return cluster === null ? fail(404, 'not_found', 'this server is not part of a cluster') : { body: cluster.answer(query) };
  if (path === '/workers') return { body: { workers: workers() } };
  if (path === '/sessions') {
    let list = options.empty ? [] : sessions();
    const ids = query.get('ids')?.split(',');
    if (ids) list = list.filter((session) => ids.includes(session.id));
    if (query.get('stream')) list = list.filter((session) => session.stream === query.get('stream'));
    if (query.get('role')) list = list.filter((session) => session.role === query.get('role'));
    const offset = Number(query.get('offset') ?? 0);
    return { body: { sessions: list.slice(offset, offset + Number(query.get('limit') ?? 100)), total: list.length } };
  }
  const kick = /^\/sessions\/(.+)$/.exec(path);
  if (kick && method === 'DELETE') {
    const id = decodeURIComponent(kick[1]);
    const player = players.get(id);
    if (player === undefined && !stats.kick(id)) return fail(404, 'not_found', `There is no session ${id}.`);
    player?.end();
    players.delete(id);
    return { status: 204 };
  }
  const source = sources.answer(method, path, content);
  if (source !== null) return source;
  return fail(404, 'not_found', `There is nothing at ${path}.`);
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.md': 'text/markdown' };
const POLICY =
  "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; connect-src 'self' ws: wss:; style-src 'self' 'unsafe-inline'; img-src 'self' data:";

async function serveFile(path, response) {
  const file = join(options.dist, normalize(path === '/' ? '/index.html' : path));
  try {
    const body = await readFile(file);
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY });
    response.end(body);
  } catch {
    response.writeHead(404).end('not found');
  }
}

async function answer(url, request, response) {
  let content = '';
  for await (const piece of request) content += piece;
  const { status = 200, body } = api(request.method, url.pathname.slice(7), url.searchParams, request, content === '' ? {} : JSON.parse(content));
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

const server = createServer((request, response) => {
  const url = new URL(request.url, 'http://mock');
  if (url.pathname.startsWith('/api/v1/')) {
    if (url.pathname === '/api/v1/stats' && refusal(request) === null) return stats.answer(response);
    void answer(url, request, response);
  } else if (/^\/(whip|whep|rtc)\//.test(url.pathname)) {
    if (rtc === null) response.writeHead(404).end();
    else if (url.pathname.endsWith('/demo/clock')) response.writeHead(406, { 'content-type': 'application/json' }).end(JSON.stringify(fail(406, 'not_playable', 'this stand-in has no bridges: play the stream by RTMP or FLV').body));
    else void rtc.handle(request, response, url.pathname);
  } else if (url.pathname === '/demo/clock.flv' && !silent) {
    response.writeHead(200, { 'content-type': 'video/x-flv', 'cache-control': 'no-store' });
    const player = addPlayer('http-flv', request, (bytes) => response.write(bytes), () => response.end());
    response.on('close', () => players.delete(player.id));
  } else if (url.pathname.endsWith('.flv')) {
    response.writeHead(404).end();
  } else {
    void serveFile(url.pathname, response);
  }
});

server.on('upgrade', (request, socket) => {
  const path = request.url.split('?')[0];
  if (path === '/api/v1/stats/stream') {
    const status = options['no-websocket'] ? '400 Bad Request' : refusal(request)?.status;
    return status === undefined ? stats.subscribe(request, socket) : socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`);
  }
  if (path !== '/demo/clock.flv' || silent) return socket.end('HTTP/1.1 404 Not Found\r\n\r\n');
  socket.write(`${switchingProtocols(request)}\r\n`);
  const player = addPlayer('ws-flv', request, (bytes) => socket.write(webSocketFrame(bytes)), () => socket.end(Buffer.from([0x88, 0])));
  socket.on('close', () => players.delete(player.id));
  socket.on('error', () => players.delete(player.id));
  // A close frame is all a player ever sends; reading it lets the socket end.
  socket.on('data', (data) => (data[0] & 0x0f) === 8 && socket.end());
});

// The browser in the background has to go as well.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void Promise.resolve(rtc?.close()).finally(() => process.exit(0)));

server.listen(Number(options.port), options.address, () => console.log(`mock server on http://${options.address}:${server.address().port}/`));
