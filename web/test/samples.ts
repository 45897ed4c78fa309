/** Objects of the API for tests, with every field filled in. */
import type { Cluster, ClusterLink, ClusterNode, ClusterStream, LinkDirection } from '../src/api/cluster';
import type { RecordedFile, RecordingList } from '../src/api/recordings';
import type { Channel, Pull, PushedStream } from '../src/api/sources';
import type { Session, Stream, Worker } from '../src/api/types';
import { parseStreamKey } from '../src/lib/urls';

export function aStream(key: string, change: Partial<Stream> = {}): Stream {
  const { app, name } = parseStreamKey(key) ?? { app: '', name: key };
  return {
    app,
    name,
    state: 'live',
    home_worker: 0,
    publisher: null,
    uptime_seconds: 60,
    video: null,
    audio: null,
    bitrate_bits_per_second: 0,
    players: 0,
    gop: { frames: 0, bytes: 0, duration_ms: 0 },
    bytes_in: 0,
    urls: { rtmp: '', flv: '', ws_flv: '' },
    ...change,
  };
}

export function aRecordedFile(change: Partial<RecordedFile> = {}): RecordedFile {
  return {
    app: 'live',
    name: 'mill',
    file: '20261127T190500.123Z.mp4',
    path: 'live/mill/20261127T190500.123Z.mp4',
    directory: '/srv/recordings',
    state: 'complete',
    start: '2026-11-27T19:05:00.123Z',
    start_ms: 1_795_806_300_123,
    duration_ms: 60_000,
    bytes: 15_000_000,
    format: 'mp4',
    upload: null,
    ...change,
  };
}

export function aRecordingList(files: RecordedFile[] = []): RecordingList {
  return {
    enabled: true,
    active: [],
    directories: [
      {
        path: '/srv/recordings',
        failure: null,
        too_slow: false,
        queued_bytes: 0,
        files: files.length,
        bytes: 0,
        free_bytes: null,
        lost_fragments: 0,
      },
    ],
    files,
    files_total: files.length,
  };
}

export function aSession(id: string, change: Partial<Session> = {}): Session {
  return {
    id,
    worker: 0,
    role: 'player',
    protocol: 'rtmp',
    stream: null,
    address: '127.0.0.1:1',
    connected_seconds: 0,
    bytes_in: 0,
    bytes_out: 0,
    bitrate_bits_per_second: 0,
    queue_bytes: 0,
    queue_ms: 0,
    dropped_frames: 0,
    user_agent: null,
    ...change,
  };
}

export function aWorker(index: number, change: Partial<Worker> = {}): Worker {
  return {
    index,
    core: null,
    sessions: 0,
    publishers: 0,
    players: 0,
    load_percent: 0,
    loop_time_us_p50: 0,
    loop_time_us_p99: 0,
    bytes_in_per_second: 0,
    bytes_out_per_second: 0,
    frames_in: 0,
    writes: 0,
    queue_drops: 0,
    ring_drops: 0,
    ...change,
  };
}

export function aChannel(key: string, change: Partial<Channel> = {}): Channel {
  const { app, name } = parseStreamKey(key) ?? { app: '', name: key };
  return {
    app,
    name,
    source: 'api',
    state: 'opening',
    since: '2026-01-01T00:00:00Z',
    items: [],
    loop: true,
    start: null,
    item: null,
    position_ms: null,
    duration_ms: null,
    next: null,
    next_ready: false,
    loops: 0,
    items_played: 0,
    items_failed: 0,
    pauses: 0,
    behind_ms: 0,
    retry_in_ms: null,
    events: [],
    ...change,
  };
}

export function aPull(key: string, change: Partial<Pull> = {}): Pull {
  const { app, name } = parseStreamKey(key) ?? { app: '', name: key };
  return {
    app,
    name,
    source: 'api',
    url: 'rtmp://origin.example.org/live/show',
    on_demand: false,
    state: 'connecting',
    since: '2026-01-01T00:00:00Z',
    attempts: 1,
    failures: 0,
    reconnects: 0,
    last_error: null,
    last_error_at: null,
    retry_in_ms: null,
    bytes: 0,
    bitrate_bits_per_second: 0,
    ...change,
  };
}

export function aPushed(key: string, change: Partial<PushedStream> = {}): PushedStream {
  const { app, name } = parseStreamKey(key) ?? { app: '', name: key };
  return {
    app,
    name,
    url: 'rtmp://backup.example.org/live/show',
    state: 'connecting',
    since: '2026-01-01T00:00:00Z',
    attempts: 1,
    failures: 0,
    reconnects: 0,
    last_error: null,
    last_error_at: null,
    retry_in_ms: null,
    not_carried: null,
    bytes: 0,
    bitrate_bits_per_second: 0,
    frames: 0,
    frames_left_out: 0,
    ...change,
  };
}

export function aNode(name: string, change: Partial<ClusterNode> = {}): ClusterNode {
  return {
    name,
    region: 'fra',
    version: '0.1.0',
    relay_tcp: '',
    relay_udp: '',
    http: '',
    load: { players: 0, streams: 0, cpu_percent: 0, egress_bits_per_second: 0 },
    draining: false,
    reachable: true,
    ...change,
  };
}

export function aDirection(change: Partial<LinkDirection> = {}): LinkDirection {
  return {
    streams: 0,
    bytes: 0,
    bits_per_second: 0,
    frames: 0,
    dropped_frames: 0,
    packets: 0,
    packets_per_second: 0,
    repaired_packets: 0,
    given_up_packets: 0,
    loss_percent: null,
    ...change,
  };
}

export function aLink(node: string, change: Partial<ClusterLink> = {}): ClusterLink {
  return {
    node,
    state: 'up',
    state_seconds: 60,
    last_problem: null,
    round_trip_ms: 1,
    packets_heard: true,
    sent: aDirection(),
    received: aDirection(),
    ...change,
  };
}

/** Node `a` of a cluster of these; the others are linked. */
export function aCluster(names: readonly string[], change: Partial<Cluster> = {}): Cluster {
  return {
    node: 'a',
    directory: {
      heard: true,
      settled: true,
      server_version: '2.10.22',
      last_problem: null,
      ignored: 0,
      messages_in: 0,
      messages_out: 0,
    },
    nodes: names.map((name) => aNode(name)),
    links: names.filter((name) => name !== 'a').map((name) => aLink(name)),
    streams: [],
    streams_total: 0,
    streams_by_home: { here: 0, fetched: 0, elsewhere: 0 },
    ...change,
  };
}

export function aSpread(stream: string, home: string, edges: [node: string, parent: string][] = []): ClusterStream {
  return { stream, lane: 'frames', codecs: [], home, edges: edges.map(([node, parent]) => ({ node, parent })) };
}
