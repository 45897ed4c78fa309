/**
 * Live statistics as pages see them: one message a second from the thread in stats/, and what to ask of it.
 *
 * The connection is open while a page wants it and can be seen, and a while longer, so that going from page
 * to page or a look at another tab leaves no hole in the charts.
 */
import type { Frame, Link, Report, Request, Sparks, Tracks, Watched } from '../stats/protocol';
import { NOTHING_WATCHED } from '../stats/protocol';
import { ALL, type Query } from '../stats/select';
import { Shown } from './shown';
import { Store } from './store';

/** Rows that fly by while scrolling get no lines. */
const ROWS_SETTLE_MS = 80;
/** How long the connection stays after the last page that shows it. */
const LINGER_MS = 60_000;

export interface LiveView {
  link: Link;
  /** The newest message; it stays when the connection is lost. */
  frame: Frame | null;
  /** Rows of the message that are listed, in order. */
  order: Uint32Array;
  tracks: Tracks | null;
  sparks: Sparks;
  /** Rows keep their order although their figures change. */
  held: boolean;
}

/** What of a Worker is used. */
export interface Thread {
  postMessage(request: Request): void;
  onmessage: ((event: MessageEvent<Report>) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
}

export interface LiveStatsOptions {
  startThread: () => Thread;
  /** Origin of the server, e.g. `https://host:8443`. */
  origin: string;
  token: Store<string | null>;
}

export class LiveStats extends Shown {
  readonly store = new Store<LiveView>({
    link: { state: 'closed' },
    frame: null,
    order: new Uint32Array(),
    tracks: null,
    sparks: new Map(),
    held: false,
  });
  readonly #options: LiveStatsOptions;
  #thread: Thread | null = null;
  #connected = false;
  #linger: ReturnType<typeof setTimeout> | null = null;
  #query: Query = ALL;
  #watched: Watched = NOTHING_WATCHED;
  #rows: readonly string[] = [];
  #rowsDue: ReturnType<typeof setTimeout> | null = null;
  #held = false;

  constructor(options: LiveStatsOptions) {
    super();
    this.#options = options;
    options.token.subscribe(() => this.#connected && this.#connect());
  }

  setQuery(query: Query): void {
    if (sameQuery(query, this.#query)) return;
    this.#query = query;
    this.#thread?.postMessage({ kind: 'query', query });
  }

  /** Keeps the rows in their order while somebody points at one. */
  hold(held: boolean): void {
    if (held === this.#held) return;
    this.#held = held;
    this.store.update((view) => ({ ...view, held }));
    this.#thread?.postMessage({ kind: 'hold', held });
  }

  watch(change: Partial<Watched>): void {
    const watched = { ...this.#watched, ...change };
    if (watched.session === this.#watched.session && watched.stream === this.#watched.stream) return;
    this.#watched = watched;
    this.#thread?.postMessage({ kind: 'watch', watched });
  }

  /** Ids of the sessions whose rows can be seen. */
  watchRows(ids: readonly string[]): void {
    if (sameTexts(ids, this.#rows)) return;
    this.#rows = ids;
    this.#rowsDue ??= setTimeout(() => {
      this.#rowsDue = null;
      this.#thread?.postMessage({ kind: 'rows', ids: this.#rows });
    }, ROWS_SETTLE_MS);
  }

  /** Tries again at once. */
  retry(): void {
    if (this.#connected) this.#connect();
  }

  protected follow(shown: boolean): void {
    if (shown) {
      if (this.#linger !== null) clearTimeout(this.#linger);
      this.#linger = null;
      if (!this.#connected) this.#connect();
    } else if (this.#connected && this.#linger === null) {
      this.#linger = setTimeout(() => this.#disconnect(), LINGER_MS);
    }
  }

  #connect(): void {
    this.#thread ??= this.#start();
    this.#connected = true;
    const { origin, token } = this.#options;
    const url = `${origin}/api/v1/stats`;
    this.#thread.postMessage({
      kind: 'connect',
      socketUrl: `${url.replace(/^http/, 'ws')}/stream`,
      url,
      token: token.value,
    });
  }

  #disconnect(): void {
    this.#linger = null;
    this.#connected = false;
    this.#thread?.postMessage({ kind: 'disconnect' });
  }

  #start(): Thread {
    const thread = this.#options.startThread();
    thread.onmessage = ({ data }) => this.#take(data);
    thread.onerror = (event) => {
      const why = event.message || 'The part of the console that reads statistics could not be loaded.';
      this.store.update((view) => ({ ...view, link: { state: 'refused', kind: 'version', why } }));
    };
    thread.postMessage({ kind: 'query', query: this.#query });
    thread.postMessage({ kind: 'watch', watched: this.#watched });
    return thread;
  }

  #take(report: Report): void {
    switch (report.kind) {
      case 'link':
        return this.store.update((view) => ({ ...view, link: report.link }));
      case 'frame':
        return this.store.update((view) => ({
          ...view,
          frame: report.frame,
          order: report.order,
          tracks: report.tracks,
          sparks: report.sparks,
        }));
      case 'order':
        return this.store.update((view) => ({ ...view, order: report.order }));
      case 'tracks':
        return this.store.update((view) => ({ ...view, tracks: report.tracks }));
      case 'sparks':
        return this.store.update((view) => ({ ...view, sparks: report.sparks }));
    }
  }
}

function sameQuery(a: Query, b: Query): boolean {
  const { ids, ...rest } = a;
  return (
    sameIds(ids, b.ids) && (Object.keys(rest) as (keyof typeof rest)[]).every((name) => a[name] === b[name])
  );
}

function sameIds(a: Query['ids'], b: Query['ids']): boolean {
  return a.size === b.size && [...a].every(([word, ids]) => sameTexts(ids, b.get(word) ?? []));
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index]);
}
