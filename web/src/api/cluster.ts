/**
 * Shapes of the cluster: nodes, this node's links, and who feeds whom with which stream.
 *
 * As documented in `/api/v1/openapi.json`. Everything is as the node sees it that was asked.
 */

export interface Cluster {
  /** Name of the node that was asked. */
  node: string;
  directory: DirectoryHealth;
  /** Those that live, by name, the node itself among them. */
  nodes: ClusterNode[];
  /** Links of the node to each of the others. */
  links: ClusterLink[];
  /** A page of the streams of all nodes. */
  streams: ClusterStream[];
  /** Streams that match, on all pages. */
  streams_total: number;
  /** Published here; elsewhere, and fetched here; elsewhere, and not fetched. */
  streams_by_home: { here: number; fetched: number; elsewhere: number };
}

/** The directory that all nodes share by NATS. */
export interface DirectoryHealth {
  /** NATS answers. While it does not, what was known last counts. */
  heard: boolean;
  /** All that the node has to say is written there. */
  settled: boolean;
  server_version: string;
  last_problem: string | null;
  ignored: number;
  messages_in: number;
  messages_out: number;
}

export interface ClusterNode {
  name: string;
  region: string;
  version: string;
  /** `HOST:PORT` for other nodes. */
  relay_tcp: string;
  relay_udp: string;
  /** URL for players; empty if it has none. */
  http: string;
  load: { players: number; streams: number; cpu_percent: number; egress_bits_per_second: number };
  draining: boolean;
  /** The node that was asked has a link to it, or is it. */
  reachable: boolean;
}

export interface ClusterLink {
  /** The other node. */
  node: string;
  state: 'up' | 'down';
  state_seconds: number;
  /** Why there is no connection, or why the last one ended. */
  last_problem: string | null;
  round_trip_ms: number | null;
  /** Datagrams of the other node come. */
  packets_heard: boolean;
  sent: LinkDirection;
  received: LinkDirection;
}

/** Totals are since the link was connected, rates are of the last second. */
export interface LinkDirection {
  streams: number;
  bytes: number;
  bits_per_second: number;
  frames: number;
  /** Left out up to a key frame because the link was too slow. */
  dropped_frames: number;
  packets: number;
  packets_per_second: number;
  repaired_packets: number;
  given_up_packets: number;
  /** Lost on the way, repaired or not; null while no packets are sent. */
  loss_percent: number | null;
}

export interface ClusterStream {
  /** `app/name` */
  stream: string;
  lane: 'frames' | 'packets';
  codecs: string[];
  /** Node of its publisher. */
  home: string;
  edges: StreamEdge[];
}

/** A node that fetches the stream from another. */
export interface StreamEdge {
  node: string;
  parent: string;
}

/** Which streams of the cluster to list. */
export interface ClusterQuery {
  /** `app/name` */
  stream?: string;
  /** Part of `app/name`. */
  search?: string;
  limit?: number;
}
