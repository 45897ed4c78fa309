/**
 * Looking for sessions by what the statistics do not carry: address and program.
 *
 * The API has no text search, so the list is read in windows up to a limit, once for a text and now and then again.
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
  ids: readonly string[];
  /** The search stopped at its limit, so there may be more matches. */
  truncated: boolean;
}

const NONE: Found = { ids: [], truncated: false };

/** Ids of the sessions whose address or program has the text in it. */
export function useSearch(client: ApiClient, query: Pick<SessionQuery, 'stream' | 'role'>, text: string): Found {
  const [found, setFound] = useState<Found>(NONE);
  const needle = text.trim().toLowerCase();
  const { stream, role } = query;
  useEffect(() => {
    if (needle === '') {
      setFound(NONE);
      return undefined;
    }
    const poll = new PollLoop({
      run: async (signal) => {
        const next = await search(client, { stream, role }, needle, signal);
        if (!signal.aborted) setFound(next);
      },
      intervalMs: SEARCH_AGAIN_MS,
    });
    const settle = setTimeout(() => poll.start(), SETTLE_MS);
    return () => {
      clearTimeout(settle);
      poll.stop();
    };
  }, [client, stream, role, needle]);
  return found;
}

export async function search(client: Pick<ApiClient, 'sessions'>, query: Pick<SessionQuery, 'stream' | 'role'>, needle: string, signal: AbortSignal): Promise<Found> {
  const ids: string[] = [];
  let seen = 0;
  let total = 0;
  do {
    const window = await client.sessions({ ...query, offset: seen, limit: SEARCH_WINDOW }, signal);
    if (window.sessions.length === 0) break;
    ids.push(...window.sessions.filter((session) => sessionMatches(session, needle)).map(({ id }) => id));
    seen += window.sessions.length;
    total = window.total;
  } while (seen < total && seen < SEARCH_SESSIONS_MAX);
  return { ids, truncated: seen < total };
}

/** Whether a lower-case text occurs in a session's address or program. */
export function sessionMatches(session: Session, needle: string): boolean {
  return [session.address, session.user_agent].some((text) => text?.toLowerCase().includes(needle));
}
