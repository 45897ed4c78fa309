/**
 * What the statistics do not carry of a session: address, program, totals. Asked for by id, for the few that
 * are seen.
 */
import type { ApiClient } from '../api/client';
import type { Session } from '../api/types';
import { Store } from './store';

/** Most ids in one question. */
export const IDS_MAX = 100;
/** Sessions remembered; the ones not looked at for longest go. */
const ENTRIES_MAX = 2_000;
/** Rows that fly by while scrolling are not asked for. */
const SETTLE_MS = 120;
/** A program's name may become known after the address. */
const FRESH_MS = 20_000;

interface Entry {
  /** Null when the server did not know it. */
  session: Session | null;
  askedAt: number;
}

export class SessionBook {
  /** Grows when something new is known. */
  readonly revision = new Store(0);
  readonly #client: Pick<ApiClient, 'sessionsByIds'>;
  readonly #clock: () => number;
  readonly #entries = new Map<string, Entry>();
  #wanted: readonly string[] = [];
  #timer: ReturnType<typeof setTimeout> | null = null;
  #asking = false;

  constructor(client: Pick<ApiClient, 'sessionsByIds'>, clock: () => number = () => performance.now()) {
    this.#client = client;
    this.#clock = clock;
  }

  get(id: string): Session | null {
    return this.#entries.get(id)?.session ?? null;
  }

  /** These are looked at now; what is not known of them is asked for soon. */
  want(ids: readonly string[]): void {
    this.#wanted = ids;
    this.#timer ??= setTimeout(() => void this.#ask(), SETTLE_MS);
  }

  async #ask(): Promise<void> {
    this.#timer = null;
    if (this.#asking) return;
    const now = this.#clock();
    const ids = this.#wanted
      .filter((id) => now - (this.#entries.get(id)?.askedAt ?? -Infinity) > FRESH_MS)
      .slice(0, IDS_MAX);
    if (ids.length === 0) return;
    this.#asking = true;
    try {
      this.#put(ids, await this.#client.sessionsByIds(ids), now);
    } catch {
      // The banner says that the server is away; the next look asks again.
    } finally {
      this.#asking = false;
    }
  }

  #put(ids: readonly string[], sessions: readonly Session[], askedAt: number): void {
    const found = new Map(sessions.map((session) => [session.id, session]));
    for (const id of ids) {
      const session = found.get(id) ?? this.get(id);
      // Deleted first, so that the map's order is that of the last look.
      this.#entries.delete(id);
      this.#entries.set(id, { session, askedAt });
    }
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= ENTRIES_MAX) break;
      this.#entries.delete(id);
    }
    this.revision.update((revision) => revision + 1);
  }
}
