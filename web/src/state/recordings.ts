/**
 * Recordings as pages see them: asked for while a page that shows them can be seen.
 *
 * Every two seconds only: what is recorded changes by the second, but a list may be of a thousand files.
 */
import type { ApiClient } from '../api/client';
import type { RecordingList, UploadTotals } from '../api/recordings';
import { PollLoop } from './poll-loop';
import { Shown } from './shown';
import { Store } from './store';

export interface RecordingsView {
  /** Null: not known yet, or the server has no such thing. */
  list: RecordingList | null;
  uploads: UploadTotals | null;
  /** The server has answered; a list that is null then is none. */
  asked: boolean;
}

const POLL_MS = 2_000;
/** Files that are listed at first, and further ones each time that somebody wants more. */
export const FILES_LISTED = 100;
/** What the server lists at most. */
export const FILES_MAX = 10_000;

type Client = Pick<ApiClient, 'recordings' | 'uploads'>;

export class RecordingsState extends Shown {
  readonly store = new Store<RecordingsView>({ list: null, uploads: null, asked: false });
  readonly #client: Client;
  readonly #loop: PollLoop;
  #search = '';
  #limit = FILES_LISTED;

  constructor(client: Client) {
    super();
    this.#client = client;
    this.#loop = new PollLoop({ run: (signal) => this.#poll(signal), intervalMs: POLL_MS });
  }

  /** Lists only files of streams with this in their name. */
  search(text: string): void {
    if (text === this.#search) return;
    this.#search = text;
    this.#limit = FILES_LISTED;
    this.#loop.now();
  }

  /** Lists further files. */
  more(): void {
    this.#limit = Math.min(FILES_MAX, 2 * this.#limit);
    this.#loop.now();
  }

  /** Asks again at once, for example after a file was removed. */
  refresh(): void {
    this.#loop.now();
  }

  protected follow(shown: boolean): void {
    if (shown) this.#loop.start();
    else this.#loop.stop();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const query = { search: this.#search, limit: this.#limit };
    const [list, uploads] = await Promise.all([
      this.#client.recordings(query, signal),
      this.#client.uploads(signal),
    ]);
    if (signal.aborted) return;
    this.store.set({ list, uploads, asked: true });
  }
}
