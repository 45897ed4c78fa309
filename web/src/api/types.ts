/**
 * Shapes of the management API (`/api/v1`), as the server documents them in `/api/v1/openapi.json`.
 *
 * Field names carry their units. Nothing here decides how a value is shown: see lib/format.ts.
 */

/** What kind of server this is and how it can be reached. */
export interface ServerInfo {
  name: string;
  version: string;
  uptime_seconds: number;
  started_at: string;
  workers: number;
  /** Its name in its cluster; null on a single node, absent on older servers. */
  cluster_node?: string | null;
  /** `app/name` of the demo channel, when one runs. */
  demo_stream: string | null;
  endpoints: Endpoints;
  publish: { loopback_only: boolean; token_required: boolean };
  /** Whether streams can be recorded; absent on older servers. */
  recording?: boolean;
}

/** Base URLs by protocol; a protocol that is switched off has an empty list. */
export interface Endpoints {
  rtmp: string[];
  rtmps: string[];
  http: string[];
  https: string[];
  /** WHIP and WHEP without app and stream. Absent on servers without WebRTC. */
  whip?: string[];
  whep?: string[];
}

export interface VideoInfo {
  codec: string;
  profile: string | null;
  level: string | null;
  width: number | null;
  height: number | null;
  frame_rate: number | null;
  bitrate_bits_per_second: number;
  key_frame_interval_ms: number | null;
}

export interface AudioInfo {
  codec: string;
  profile: string | null;
  sample_rate: number | null;
  channels: number | null;
  bitrate_bits_per_second: number;
}

export interface PublisherInfo {
  session_id: string;
  address: string;
  protocol: string;
  connected_seconds: number;
}

/** A bridge between RTMP and WebRTC. Totals are since it started. */
export interface BridgeInfo {
  direction: 'rtmp_to_webrtc' | 'webrtc_to_rtmp';
  running_seconds: number;
  video_frames: number;
  packets: number;
  /** Audio frames transcoded. */
  audio_frames: number;
  cpu_seconds: number;
  transcoding_cpu_seconds: number;
  /** What it adds to the delay, median of the last second. */
  video_latency_ms: number;
  audio_latency_ms: number;
  b_frames_dropped: number;
  broken: number;
  audio_dropped: number;
}

export interface Stream {
  app: string;
  name: string;
  state: 'live' | 'waiting';
  /** Worker that has the publisher; null while there is none. */
  home_worker: number | null;
  publisher: PublisherInfo | null;
  uptime_seconds: number;
  video: VideoInfo | null;
  audio: AudioInfo | null;
  bitrate_bits_per_second: number;
  players: number;
  /** Viewers by HLS and DASH, who are no players; absent on older servers. */
  segment_viewers?: number;
  gop: { frames: number; bytes: number; duration_ms: number };
  bytes_in: number;
  /** Cues of SCTE 35 and private sections of MPEG-TS publishers; absent on older servers. */
  sections?: { cues: number; private: number };
  /** Whether it is being recorded; absent on older servers. */
  recorded?: boolean;
  /** Of the video of a WebRTC publisher, the least first; absent on older servers. */
  layers?: StreamLayer[];
  /**
   * What serves players of the other kind than the publisher; null while there are none. Absent on older
   * servers.
   */
  bridge?: BridgeInfo | null;
  /** What of the stream players of the other kind do not get, and why. */
  not_bridged?: string | null;
  /**
   * Empty where the protocol is off, or the stream cannot be played that way. The last three are absent on
   * older servers.
   */
  urls: { rtmp: string; flv: string; ws_flv: string; whep?: string; hls?: string; dash?: string };
}

/** What the server knows of a WebRTC session's connection. */
export interface RtcSession {
  state: string;
  transport: string | null;
  codecs: string[];
  packets: number;
  /** As the receiving side reports. */
  lost_packets: number;
  loss_percent: number | null;
  rtt_ms: number | null;
  jitter_ms: number | null;
  nacks: number;
  resent_packets: number;
  key_frame_requests: number;
  /** Of players with congestion control; absent on older servers. */
  path?: RtcPath | null;
}

/** An encoding, and the highest layers of it, if not all. */
export interface LayerName {
  name: string;
  spatial: number | null;
  temporal: number | null;
}

/** A layer that players of a stream can get. */
export interface StreamLayer extends LayerName {
  bits_per_second: number;
  /** It arrives at present. */
  live: boolean;
  width: number | null;
  height: number | null;
  viewers: number;
}

/** What the path of a player carries, and what it gets because of that. */
export interface RtcPath {
  state: 'ok' | 'no_reports';
  estimate_kbps: number;
  target_kbps: number;
  limit_kbps: number | null;
  /** Absent on older servers. */
  max_height?: number | null;
  queue_ms: number;
  probes: number;
  padding_bytes: number;
  times_behind: number;
  share: 'all' | 'key_frames' | 'audio_only';
  layer: LayerName | null;
  wanted_layer: LayerName | null;
  fixed: boolean;
  /** In words. */
  reason: string;
}

export type SessionRole = 'publisher' | 'player' | 'pending';

export interface Session {
  id: string;
  worker: number;
  role: SessionRole;
  protocol: string;
  stream: string | null;
  address: string;
  connected_seconds: number;
  bytes_in: number;
  bytes_out: number;
  bitrate_bits_per_second: number;
  queue_bytes: number;
  queue_ms: number;
  dropped_frames: number;
  user_agent: string | null;
  /** Null or absent for sessions of other protocols. */
  rtc?: RtcSession | null;
  /** The same. */
  srt?: SrtSession | null;
}

/** The connection of an SRT session, in the direction of its media. */
export interface SrtSession {
  packets: number;
  /** As the receiving side reports, before they were sent again. */
  lost_packets: number;
  retransmitted_packets: number;
  dropped_packets: number;
  late_packets: number;
  undecrypted_packets: number;
  rtt_ms: number | null;
  latency_ms: number;
  buffer_packets: number;
  buffer_bytes: number;
  buffer_ms: number;
  encrypted: boolean;
}

export interface SessionPage {
  sessions: Session[];
  total: number;
}

export interface Worker {
  index: number;
  core: number | null;
  sessions: number;
  publishers: number;
  players: number;
  load_percent: number;
  loop_time_us_p50: number;
  loop_time_us_p99: number;
  bytes_in_per_second: number;
  bytes_out_per_second: number;
  frames_in: number;
  writes: number;
  queue_drops: number;
  ring_drops: number;
  /** What the last snapshot of live statistics cost, and how many found no place. Absent on older servers. */
  stats_snapshot_us?: number;
  /** WHEP players that get less than all of their video. Absent on older servers. */
  rtc_players_thinned?: number;
  stats_snapshots_dropped?: number;
}

/** Which sessions to list. */
export interface SessionQuery {
  stream?: string | undefined;
  role?: SessionRole | undefined;
  offset?: number;
  limit?: number;
}
