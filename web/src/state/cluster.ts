/**
 * The cluster as pages see it: asked for once a second while a page that shows it can be seen.
 *
 * The directory forgets a node that has gone, so nodes that were there are remembered here for a while: who
 * looks at the map wants to see which one is missing.
 */
import type { ApiClient } from '../api/client';
import type { Cluster, ClusterNode, ClusterStream } from '../api/cluster';
import { compareNames } from '../lib/cluster-map';
import { SeriesMap } from './history';
import { PollLoop } from './poll-loop';
import { Shown } from './shown';
import { Store } from './store';

export interface ClusterView {
  /** Null: not known yet, or there is none. */
  cluster: Cluster | null;
  /** The server has answered; a cluster that is null then is none. */
  asked: boolean;
  /** Nodes that were there and are not any more. */
  gone: GoneNode[];
  /** Links, by node, on which frames were dropped within the last seconds. */
  dropping: ReadonlySet<string>;
  /** The stream that is looked at; null while none is, and when there is no such stream. */
  stream: ClusterStream | null;
}

export interface GoneNode {
  node: ClusterNode;
  /** When it was missing first, by this browser's clock. */
  atMs: number;
}

const POLL_MS = 1_000;
/** Streams that are listed; the others are found by searching. */
export const STREAMS_LISTED = 100;
/** How long a node that has gone is remembered. */
export const GONE_MS = 600_000;
/** Frames that were dropped count as trouble for so long. */
export const DROPPING_MS = 10_000;

type Client = Pick<ApiClient, 'cluster'>;

export class ClusterState extends Shown {
  readonly store = new Store<ClusterView>({
    cluster: null,
    asked: false,
    gone: [],
    dropping: new Set(),
    stream: null,
  });
  /** `sent:NODE` and `received:NODE`, bits per second. */
  readonly rates = new SeriesMap();
  readonly #client: Client;
  readonly #loop: PollLoop;
  readonly #now: () => number;
  /** Frames dropped on each link so far, and when that last grew. */
  #drops = new Map<string, { frames: number; atMs: number }>();
  #search = '';
  #stream = '';

  constructor(client: Client, now: () => number = Date.now) {
    super();
    this.#client = client;
    this.#now = now;
    this.#loop = new PollLoop({ run: (signal) => this.#poll(signal), intervalMs: POLL_MS });
  }

  /** Lists only streams with this in their name. */
  search(text: string): void {
    if (text === this.#search) return;
    this.#search = text;
    this.#loop.now();
  }

  /** Looks at a stream (`app/name`), listed or not; at none if empty. */
  select(stream: string): void {
    if (stream === this.#stream) return;
    this.#stream = stream;
    const listed = this.store.value.cluster?.streams.find((candidate) => candidate.stream === stream);
    this.store.update((view) => ({ ...view, stream: listed ?? null }));
    if (listed === undefined) this.#loop.now();
  }

  protected follow(shown: boolean): void {
    if (shown) this.#loop.start();
    else this.#loop.stop();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const query = { limit: STREAMS_LISTED, ...(this.#search === '' ? {} : { search: this.#search }) };
    const cluster = await this.#client.cluster(query, signal);
    const stream = await this.#selected(cluster, signal);
    if (signal.aborted) return;
    if (cluster === null) {
      this.store.update((view) => ({ ...view, cluster: null, asked: true, stream: null }));
      return;
    }
    this.rates.round(
      cluster.links.flatMap((link) => [
        [`sent:${link.node}`, link.sent.bits_per_second] as const,
        [`received:${link.node}`, link.received.bits_per_second] as const,
      ]),
    );
    cluster.nodes.sort((a, b) => compareNames(a.name, b.name));
    cluster.links.sort((a, b) => compareNames(a.node, b.node));
    const now = this.#now();
    const gone = this.#gone(cluster, now);
    this.store.set({ cluster, asked: true, gone, dropping: this.#dropping(cluster, now), stream });
  }

  async #selected(cluster: Cluster | null, signal: AbortSignal): Promise<ClusterStream | null> {
    if (cluster === null || this.#stream === '') return null;
    const listed = cluster.streams.find((stream) => stream.stream === this.#stream);
    if (listed !== undefined) return listed;
    const one = await this.#client.cluster({ stream: this.#stream, limit: 1 }, signal);
    return one?.streams[0] ?? null;
  }

  #gone(cluster: Cluster, now: number): GoneNode[] {
    const here = new Set(cluster.nodes.map((node) => node.name));
    const known = this.store.value;
    const before = known.cluster?.nodes ?? [];
    const missing = before.filter((node) => !here.has(node.name)).map((node) => ({ node, atMs: now }));
    return [...known.gone, ...missing].filter(
      ({ node, atMs }) => !here.has(node.name) && now - atMs < GONE_MS,
    );
  }

  #dropping(cluster: Cluster, now: number): ReadonlySet<string> {
    const drops = new Map<string, { frames: number; atMs: number }>();
    for (const { node, sent, received } of cluster.links) {
      const frames = sent.dropped_frames + received.dropped_frames;
      const before = this.#drops.get(node);
      // What was dropped before the page was opened is no trouble of now; a new connection counts from zero.
      const grew = before !== undefined && frames > before.frames;
      drops.set(node, { frames, atMs: grew ? now : (before?.atMs ?? -Infinity) });
    }
    this.#drops = drops;
    return new Set([...drops].filter(([, { atMs }]) => now - atMs < DROPPING_MS).map(([node]) => node));
  }
}
