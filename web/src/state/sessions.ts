/**
 * Polling of the part of the session list that a page shows.
 *
 * Role and stream are filtered by the server, page by page. The API has no text search, so a search text makes this read
 * the list in windows up to a limit and filter here, less often.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiClient } from '../api/client';
import type { ApiError } from '../api/errors';
import type { Session, SessionPage, SessionQuery } from '../api/types';
import { PollLoop } from './poll-loop';

/** Sessions looked at when searching by text. */
export const SEARCH_SESSIONS_MAX = 5_000;
const SEARCH_WINDOW = 500;
const POLL_MS = 1_000;
const SEARCH_POLL_MS = 4_000;

export interface SessionsView extends SessionPage {
  /** The search stopped at its limit, so there may be more matches. */
  truncated: boolean;
}

export interface SessionsState {
  view: SessionsView | null;
  error: ApiError | null;
  /** Asks again at once. */
  refresh: () => void;
}

export function useSessions(client: ApiClient, query: SessionQuery, text: string): SessionsState {
  const [view, setView] = useState<SessionsView | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const loop = useRef<PollLoop | null>(null);
  const needle = text.trim().toLowerCase();
  const { stream, role, offset = 0, limit = 100 } = query;
  useEffect(() => {
    const poll = new PollLoop({
      run: async (signal) => {
        const next = await fetchView(client, { stream, role, offset, limit }, needle, signal);
        if (signal.aborted) return;
        setView(next);
        setError(null);
      },
      intervalMs: needle === '' ? POLL_MS : SEARCH_POLL_MS,
      onFailure: (failure) => setError(failure),
    });
    loop.current = poll;
    poll.start();
    return () => poll.stop();
  }, [client, stream, role, offset, limit, needle]);
  return { view, error, refresh: () => loop.current?.now() };
}

export async function fetchView(
  client: Pick<ApiClient, 'sessions'>,
  query: SessionQuery,
  needle: string,
  signal: AbortSignal,
): Promise<SessionsView> {
  if (needle === '') return { ...(await client.sessions(query, signal)), truncated: false };
  const matches: Session[] = [];
  let seen = 0;
  let total = 0;
  do {
    const window = await client.sessions({ ...query, offset: seen, limit: SEARCH_WINDOW }, signal);
    if (window.sessions.length === 0) break;
    matches.push(...window.sessions.filter((session) => sessionMatches(session, needle)));
    seen += window.sessions.length;
    total = window.total;
  } while (seen < total && seen < SEARCH_SESSIONS_MAX);
  const offset = query.offset ?? 0;
  return {
    sessions: matches.slice(offset, offset + (query.limit ?? matches.length)),
    total: matches.length,
    truncated: seen < total,
  };
}

/** Whether a lower-case text occurs in what the table shows of a session. */
export function sessionMatches(session: Session, needle: string): boolean {
  const texts = [session.id, session.address, session.stream, session.protocol, session.user_agent];
  return texts.some((text) => text?.toLowerCase().includes(needle));
}
