/**
 * Typed access to the management API on the origin the console was loaded from.
 *
 * Every call has a deadline, sends the token when there is one, and fails with an ApiError. Polling and
 * what to do after a failure are decided in state/.
 */
import type { StreamRef } from '../lib/urls';
import type { Cluster, ClusterQuery } from './cluster';
import { ApiError, kindOfStatus } from './errors';
import type { RecordingList, RecordingQuery, RecordingRef, UploadTotals } from './recordings';
import type { Channel, NewChannel, NewPull, NewPush, Pull, Push } from './sources';
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
  async stream(stream: StreamRef, signal?: AbortSignal): Promise<Stream | null> {
    return this.#ifKnown(this.#json<Stream>('GET', `/streams/${pathOf(stream)}`, signal));
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
    const answer = await this.#json<SessionPage>(
      'GET',
      `/sessions?ids=${ids.map(encodeURIComponent).join(',')}`,
      signal,
    );
    return list(answer.sessions, 'sessions');
  }

  /** Ends one session. A session that is already gone fails with kind `not_found`. */
  async kick(id: string): Promise<void> {
    await this.#request('DELETE', `/sessions/${encodeURIComponent(id)}`);
  }

  /** Null when the server is a single node. */
  async cluster(query: ClusterQuery, signal?: AbortSignal): Promise<Cluster | null> {
    const parts = new URLSearchParams();
    if (query.stream) parts.set('stream', query.stream);
    if (query.search) parts.set('search', query.search);
    if (query.limit !== undefined) parts.set('limit', String(query.limit));
    const answer = await this.#ifKnown(this.#json<Cluster>('GET', `/cluster?${parts}`, signal));
    if (answer !== null) list(answer.nodes, 'nodes');
    return answer;
  }

  /** Null when the server is one that knows no channels. */
  async channels(signal?: AbortSignal): Promise<Channel[] | null> {
    const answer = await this.#ifKnown(this.#json<{ channels: Channel[] }>('GET', '/channels', signal));
    return answer === null ? null : list(answer.channels, 'channels');
  }

  /** Null when the server is one that knows no pulls. */
  async pulls(signal?: AbortSignal): Promise<Pull[] | null> {
    const answer = await this.#ifKnown(this.#json<{ pulls: Pull[] }>('GET', '/pulls', signal));
    return answer === null ? null : list(answer.pulls, 'pulls');
  }

  /** Null when the server is one that knows no pushes. */
  async pushes(signal?: AbortSignal): Promise<Push[] | null> {
    const answer = await this.#ifKnown(this.#json<{ pushes: Push[] }>('GET', '/pushes', signal));
    return answer === null ? null : list(answer.pushes, 'pushes');
  }

  async addChannel(channel: NewChannel): Promise<void> {
    await this.#request('POST', '/channels', undefined, channel);
  }

  async addPull(pull: NewPull): Promise<void> {
    await this.#request('POST', '/pulls', undefined, pull);
  }

  async addPush(push: NewPush): Promise<void> {
    await this.#request('POST', '/pushes', undefined, push);
  }

  async removeChannel(stream: StreamRef): Promise<void> {
    await this.#request('DELETE', `/channels/${pathOf(stream)}`);
  }

  async removePull(stream: StreamRef): Promise<void> {
    await this.#request('DELETE', `/pulls/${pathOf(stream)}`);
  }

  async removePush(id: number): Promise<void> {
    await this.#request('DELETE', `/pushes/${id}`);
  }

  /** Goes on with the channel's next item. */
  async skip(stream: StreamRef): Promise<void> {
    await this.#request('POST', `/channels/${pathOf(stream)}/skip`);
  }

  /** Null when the server is one that knows no recordings. */
  async recordings(query: RecordingQuery, signal?: AbortSignal): Promise<RecordingList | null> {
    const parts = new URLSearchParams();
    if (query.search) parts.set('search', query.search);
    if (query.limit !== undefined) parts.set('limit', String(query.limit));
    const answer = await this.#ifKnown(this.#json<RecordingList>('GET', `/recordings?${parts}`, signal));
    if (answer !== null) list(answer.files, 'files');
    return answer;
  }

  async startRecording({ app, name }: StreamRef): Promise<void> {
    await this.#request('POST', '/recordings', undefined, { app, name });
  }

  async stopRecording(stream: StreamRef): Promise<void> {
    await this.#request('DELETE', `/recordings/${pathOf(stream)}`);
  }

  async removeRecording(recording: RecordingRef): Promise<void> {
    await this.#request('DELETE', `/recordings/${pathOf(recording)}/${encodeURIComponent(recording.file)}`);
  }

  /** A URL by which the browser itself may read a file, for an hour: it carries no token. */
  async recordingLink(recording: RecordingRef): Promise<{ url: string; valid_seconds: number }> {
    const path = `/recordings/${pathOf(recording)}/${encodeURIComponent(recording.file)}/link`;
    const link = await this.#json<{ url: string; valid_seconds: number }>('POST', path);
    return { ...link, url: this.#base.replace(/\/api\/v1$/, '') + link.url };
  }

  /** How far uploads are, without most of their files. Null when the server is one that knows none. */
  async uploads(signal?: AbortSignal): Promise<UploadTotals | null> {
    return this.#ifKnown(this.#json<UploadTotals>('GET', '/uploads?limit=1', signal));
  }

  async #ifKnown<T>(answer: Promise<T>): Promise<T | null> {
    try {
      return await answer;
    } catch (cause) {
      if (cause instanceof ApiError && cause.kind === 'not_found') return null;
      throw cause;
    }
  }

  async #json<T>(method: string, path: string, signal?: AbortSignal): Promise<T> {
    const response = await this.#request(method, path, signal);
    try {
      return (await response.json()) as T;
    } catch {
      throw new ApiError('server', `The answer to ${path} is not JSON.`, response.status);
    }
  }

  async #request(method: string, path: string, signal?: AbortSignal, body?: object): Promise<Response> {
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), this.#deadlineMs);
    const stop = () => deadline.abort();
    signal?.addEventListener('abort', stop);
    const headers: Record<string, string> = { Accept: 'application/json' };
    const token = this.#token();
    if (token) headers['Authorization'] = `Bearer ${token}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let response: Response;
    try {
      const content = body === undefined ? {} : { body: JSON.stringify(body) };
      response = await this.#fetch(this.#base + path, {
        method,
        headers,
        signal: deadline.signal,
        cache: 'no-store',
        ...content,
      });
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

/** The stream as two segments; a `/` in its app is `%2F`. */
function pathOf({ app, name }: StreamRef): string {
  return `${encodeURIComponent(app)}/${encodeURIComponent(name)}`;
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
