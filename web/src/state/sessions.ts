/**
 * Looking for sessions by what the statistics do not carry: address and program.
 *
 * The API has no text search, so the list is read in windows up to a limit, once for a text and now and then
 * again.
 */
import { useEffect, useState } from 'preact/hooks';
import type { ApiClient } from '../api/client';
import type { Session, SessionQuery } from '../api/types';
import { PollLoop } from './poll-loop';

/** Sessions looked at when searching by text. */
export const SEARCH_SESSIONS_MAX = 20_000;
const SEARCH_WINDOW = 1_000;
const SEARCH_AGAIN_MS = 10_000;
/** Typing is not searched letter by letter. */
const SETTLE_MS = 300;

export interface Found {
  /** By word, ids of the sessions it fits. */
  ids: ReadonlyMap<string, readonly string[]>;
  /** The search stopped at its limit, so there may be more matches. */
  truncated: boolean;
}

const NONE: Found = { ids: new Map(), truncated: false };

/** For each word, in lower case, the sessions whose address or program has it in it. */
export function useSearch(
  client: ApiClient,
  query: Pick<SessionQuery, 'stream' | 'role'>,
  words: readonly string[],
): Found {
  const [found, setFound] = useState<Found>(NONE);
  const { stream, role } = query;
  useEffect(() => {
    if (words.length === 0) {
      setFound(NONE);
      return undefined;
    }
    const poll = new PollLoop({
      run: async (signal) => {
        const next = await search(client, { stream, role }, words, signal);
        if (!signal.aborted) setFound(next);
      },
      intervalMs: SEARCH_AGAIN_MS,
    });
    const settle = setTimeout(() => poll.start(), SETTLE_MS);
    return () => {
      clearTimeout(settle);
      poll.stop();
    };
  }, [client, stream, role, words]);
  return found;
}

export async function search(
  client: Pick<ApiClient, 'sessions'>,
  query: Pick<SessionQuery, 'stream' | 'role'>,
  words: readonly string[],
  signal: AbortSignal,
): Promise<Found> {
  const ids = new Map<string, string[]>(words.map((word) => [word, []]));
  let seen = 0;
  let total = 0;
  do {
    const window = await client.sessions({ ...query, offset: seen, limit: SEARCH_WINDOW }, signal);
    if (window.sessions.length === 0) break;
    for (const session of window.sessions) {
      for (const [word, matching] of ids) if (sessionMatches(session, word)) matching.push(session.id);
    }
    seen += window.sessions.length;
    total = window.total;
  } while (seen < total && seen < SEARCH_SESSIONS_MAX);
  return { ids, truncated: seen < total };
}

/** Whether a lower-case text occurs in a session's address or program. */
export function sessionMatches(session: Session, needle: string): boolean {
  return [session.address, session.user_agent].some((text) => text?.toLowerCase().includes(needle));
}
