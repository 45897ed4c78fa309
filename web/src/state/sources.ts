/**
 * Channels and pulls as pages see them: asked for once a second while a page that shows them can be seen.
 *
 * Not part of the model, which every page polls. What is known stays when the server goes away; that it has
 * gone is the model's to say.
 */
import type { ApiClient } from '../api/client';
import type { Channel, Pull } from '../api/sources';
import { streamKey } from '../lib/urls';
import { PollLoop } from './poll-loop';
import { Store } from './store';

export interface SourcesView {
  /** By name. Null: not known yet, or not on this server. */
  channels: Channel[] | null;
  pulls: Pull[] | null;
  /** The server has answered; lists that are null then are of a server that has no such thing. */
  asked: boolean;
}

const POLL_MS = 1_000;

export class Sources {
  readonly store = new Store<SourcesView>({ channels: null, pulls: null, asked: false });
  readonly #client: Pick<ApiClient, 'channels' | 'pulls'>;
  readonly #loop: PollLoop;
  #users = 0;
  #seen = true;

  constructor(client: Pick<ApiClient, 'channels' | 'pulls'>) {
    this.#client = client;
    this.#loop = new PollLoop({ run: (signal) => this.#poll(signal), intervalMs: POLL_MS });
  }

  /** A page shows them; the function that is returned says that it does no more. */
  use(): () => void {
    this.#users += 1;
    this.#follow();
    let used = true;
    return () => {
      if (used) this.#users -= 1;
      used = false;
      this.#follow();
    };
  }

  /** Whether the page can be seen at all. */
  setSeen(seen: boolean): void {
    this.#seen = seen;
    this.#follow();
  }

  /** Asks again at once, for example after something was added. */
  refresh(): void {
    this.#loop.now();
  }

  #follow(): void {
    if (this.#users > 0 && this.#seen) this.#loop.start();
    else this.#loop.stop();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const [channels, pulls] = await Promise.all([this.#client.channels(signal), this.#client.pulls(signal)]);
    if (signal.aborted) return;
    this.store.set({ channels: byName(channels), pulls: byName(pulls), asked: true });
  }
}

function byName<T extends Channel | Pull>(list: T[] | null): T[] | null {
  return list && [...list].sort((a, b) => streamKey(a).localeCompare(streamKey(b)));
}
