/**
 * Channels, pulls and pushes as pages see them: asked for once a second while a page that shows them can be
 * seen.
 *
 * Not part of the model, which every page polls. What is known stays when the server goes away; that it has
 * gone is the model's to say.
 */
import type { ApiClient } from '../api/client';
import type { Channel, Pull, Push } from '../api/sources';
import { streamKey } from '../lib/urls';
import { PollLoop } from './poll-loop';
import { Shown } from './shown';
import { Store } from './store';

export interface SourcesView {
  /** By name. Null: not known yet, or not on this server. */
  channels: Channel[] | null;
  pulls: Pull[] | null;
  /** In the order in which they were added. */
  pushes: Push[] | null;
  /** The server has answered; lists that are null then are of a server that has no such thing. */
  asked: boolean;
}

type Asks = Pick<ApiClient, 'channels' | 'pulls' | 'pushes'>;

const POLL_MS = 1_000;

export class Sources extends Shown {
  readonly store = new Store<SourcesView>({ channels: null, pulls: null, pushes: null, asked: false });
  readonly #client: Asks;
  readonly #loop: PollLoop;

  constructor(client: Asks) {
    super();
    this.#client = client;
    this.#loop = new PollLoop({ run: (signal) => this.#poll(signal), intervalMs: POLL_MS });
  }

  /** Asks again at once, for example after something was added. */
  refresh(): void {
    this.#loop.now();
  }

  protected follow(shown: boolean): void {
    if (shown) this.#loop.start();
    else this.#loop.stop();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const [channels, pulls, pushes] = await Promise.all([
      this.#client.channels(signal),
      this.#client.pulls(signal),
      this.#client.pushes(signal),
    ]);
    if (signal.aborted) return;
    this.store.set({ channels: byName(channels), pulls: byName(pulls), pushes, asked: true });
  }
}

function byName<T extends Channel | Pull>(list: T[] | null): T[] | null {
  return list && [...list].sort((a, b) => streamKey(a).localeCompare(streamKey(b)));
}
