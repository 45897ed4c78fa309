/**
 * Typed access to the management API on the origin the console was loaded from.
 *
 * Every call has a deadline, sends the token when there is one, and fails with an ApiError. Polling and
 * what to do after a failure are decided in state/.
 */
import type { StreamRef } from '../lib/urls';
import { ApiError, kindOfStatus } from './errors';
import type { ServerInfo, Session, SessionPage, SessionQuery, Stream, Worker } from './types';

export interface ClientOptions {
  /** Prefix of every path; empty for same origin. */
  base?: string;
  /** Read before each request, so a token entered later counts at once. */
  token?: () => string | null;
  /** Milliseconds a request may take. */
  deadlineMs?: number;
  fetch?: typeof fetch;
}

export class ApiClient {
  readonly #base: string;
  readonly #token: () => string | null;
  readonly #deadlineMs: number;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions = {}) {
    this.#base = `${options.base ?? ''}/api/v1`;
    this.#token = options.token ?? (() => null);
    this.#deadlineMs = options.deadlineMs ?? 5_000;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  server(signal?: AbortSignal): Promise<ServerInfo> {
    return this.#json<ServerInfo>('GET', '/server', signal);
  }

  async streams(signal?: AbortSignal): Promise<Stream[]> {
    const answer = await this.#json<{ streams: Stream[] }>('GET', '/streams', signal);
    return list(answer.streams, 'streams');
  }

  /** One stream; null when the server knows none of this name. */
  async stream({ app, name }: StreamRef, signal?: AbortSignal): Promise<Stream | null> {
    try {
      return await this.#json<Stream>('GET', `/streams/${encodeURIComponent(app)}/${encodeURIComponent(name)}`, signal);
    } catch (cause) {
      if (cause instanceof ApiError && cause.kind === 'not_found') return null;
      throw cause;
    }
  }

  async workers(signal?: AbortSignal): Promise<Worker[]> {
    const answer = await this.#json<{ workers: Worker[] }>('GET', '/workers', signal);
    return list(answer.workers, 'workers');
  }

  async sessions(query: SessionQuery, signal?: AbortSignal): Promise<SessionPage> {
    const answer = await this.#json<SessionPage>('GET', `/sessions${sessionQueryString(query)}`, signal);
    const sessions = list(answer.sessions, 'sessions');
    return { sessions, total: typeof answer.total === 'number' ? answer.total : sessions.length };
  }

  /** The named sessions, as far as they are there. */
  async sessionsByIds(ids: readonly string[], signal?: AbortSignal): Promise<Session[]> {
    const answer = await this.#json<SessionPage>('GET', `/sessions?ids=${ids.map(encodeURIComponent).join(',')}`, signal);
    return list(answer.sessions, 'sessions');
  }

  /** Ends one session. A session that is already gone fails with kind `not_found`. */
  async kick(id: string): Promise<void> {
    await this.#request('DELETE', `/sessions/${encodeURIComponent(id)}`);
  }

  async #json<T>(method: string, path: string, signal?: AbortSignal): Promise<T> {
    const response = await this.#request(method, path, signal);
    try {
      return (await response.json()) as T;
    } catch {
      throw new ApiError('server', `The answer to ${path} is not JSON.`, response.status);
    }
  }

  async #request(method: string, path: string, signal?: AbortSignal): Promise<Response> {
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), this.#deadlineMs);
    const stop = () => deadline.abort();
    signal?.addEventListener('abort', stop);
    const headers: Record<string, string> = { Accept: 'application/json' };
    const token = this.#token();
    if (token) headers['Authorization'] = `Bearer ${token}`;
    let response: Response;
    try {
      response = await this.#fetch(this.#base + path, { method, headers, signal: deadline.signal, cache: 'no-store' });
    } catch {
      const reason = deadline.signal.aborted ? 'did not answer in time' : 'cannot be reached';
      throw new ApiError('unreachable', `The server ${reason}.`);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** `?stream=…&role=…&offset=…&limit=…` with only the parts that are set. */
export function sessionQueryString(query: SessionQuery): string {
  const parts = new URLSearchParams();
  if (query.stream) parts.set('stream', query.stream);
  if (query.role) parts.set('role', query.role);
  if (query.offset) parts.set('offset', String(query.offset));
  if (query.limit) parts.set('limit', String(query.limit));
  const text = parts.toString();
  return text === '' ? '' : `?${text}`;
}

async function errorOf(response: Response): Promise<ApiError> {
  const kind = kindOfStatus(response.status);
  let message = `The server answered ${response.status}${response.statusText ? ` ${response.statusText}` : ''}.`;
  let code: string | null = null;
  try {
    const body = (await response.json()) as { error?: { code?: string; message?: string } };
    if (body.error?.message) message = body.error.message;
    code = body.error?.code ?? null;
  } catch {
    // Not an error body of ours (a proxy's page, or nothing): the status line has to do.
  }
  return new ApiError(kind, message, response.status, code);
}

function list<T>(value: T[] | undefined, what: string): T[] {
  if (!Array.isArray(value)) throw new ApiError('server', `The answer has no list of ${what}.`);
  return value;
}
