/**
 * What the management API tells of one stream, for pages that must also work where that API is closed.
 */
import type { ApiClient } from '../api/client';
import { asApiError } from '../api/errors';
import type { Stream } from '../api/types';
import type { StreamRef } from '../lib/urls';
import { Store } from './store';

export class StreamFacts {
  /** Undefined while it is not known, null when the server knows no such stream. */
  readonly store = new Store<Stream | null | undefined>(undefined);
  readonly #client: Pick<ApiClient, 'stream'>;
  readonly #stream: StreamRef;
  /** The API is not for this viewer; asking again would only be refused again. */
  #refused = false;
  #asking: Promise<void> | null = null;

  constructor(client: Pick<ApiClient, 'stream'>, stream: StreamRef) {
    this.#client = client;
    this.#stream = stream;
  }

  /** Asks once more, unless the API has refused. Never fails: an answer that does not come leaves nothing known. */
  async ask(): Promise<Stream | null | undefined> {
    if (this.#refused) return undefined;
    this.#asking ??= this.#once().finally(() => (this.#asking = null));
    await this.#asking;
    return this.store.value;
  }

  /** Whether somebody publishes it now; null when that cannot be told. */
  async live(): Promise<boolean | null> {
    const stream = await this.ask();
    return stream === undefined ? null : stream?.state === 'live';
  }

  async #once(): Promise<void> {
    try {
      this.store.set(await this.#client.stream(this.#stream));
    } catch (cause) {
      this.#refused = ['unauthorized', 'forbidden'].includes(asApiError(cause).kind);
      this.store.set(undefined);
    }
  }
}
