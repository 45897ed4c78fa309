/**
 * Keeps messages coming: by WebSocket, or one by one where that does not open, and again after a failure.
 *
 * A browser does not say why a WebSocket was refused, so the one-shot address is asked: its status tells, and
 * its body is the same message. What is in a message is not known here.
 */
import { ApiError, asApiError, kindOfStatus } from '../api/errors';
import { backoffDelay } from '../lib/backoff';
import { MessageError } from './message';
import type { Link } from './protocol';

/**
 * Subprotocol of the WebSocket; a token goes along as a second one, because browsers cannot send it in a
 * header.
 */
export const SUBPROTOCOL = 'millstream.stats.v1';
/** First is the registered name (RFC 6838 registry), second what was used before there was one. */
const ACCEPT = 'application/vnd.msgpack, application/msgpack';
/** Longest time for opening, and for an answer. */
const OPEN_MS = 10_000;
/** A WebSocket that has been silent for so long is dead; the server sends once a second. */
const SILENCE_MS = 8_000;
const ASK_EVERY_MS = 1_000;
/** While messages are asked for one by one, the WebSocket is tried again this often. */
const SOCKET_AGAIN_MS = 30_000;
const BACKOFF = { firstMs: 1_000, capMs: 10_000 };
/** A refusal does not heal by itself; asking again is only for the case that the configuration changes. */
const REFUSED_AGAIN_MS = 15_000;

/** What of a WebSocket is used. */
export interface Socket {
  binaryType: BinaryType;
  onmessage: ((event: MessageEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
  close(): void;
}

export interface LinkOptions {
  open: (url: string, protocols: string[]) => Socket;
  fetch: typeof fetch;
  /** Milliseconds of a clock that only goes forward. */
  clock: () => number;
  /** Takes a message; fails with MessageError when it is none. */
  onMessage: (bytes: Uint8Array) => void;
  onLink: (link: Link) => void;
  random?: () => number;
}

export interface Target {
  socketUrl: string;
  /** The one-shot address. */
  url: string;
  token: string | null;
}

export class StatsLink {
  readonly #options: LinkOptions;
  #socket: Socket | null = null;
  #abort: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #failures = 0;
  /** When the WebSocket was last tried. */
  #triedAt = 0;
  #link: Link = { state: 'closed' };

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  connect(target: Target): void {
    this.#stop();
    this.#failures = 0;
    this.#say({ state: 'connecting' });
    this.#open(target);
  }

  disconnect(): void {
    this.#stop();
    this.#say({ state: 'closed' });
  }

  #open(target: Target): void {
    this.#triedAt = this.#options.clock();
    let socket: Socket;
    try {
      socket = this.#options.open(target.socketUrl, protocolsOf(target.token));
    } catch {
      void this.#ask(target);
      return;
    }
    this.#socket = socket;
    socket.binaryType = 'arraybuffer';
    let heard = false;
    const ended = (why: string) => {
      if (this.#socket !== socket) return;
      this.#stop();
      if (heard) this.#lost(target, why);
      else void this.#ask(target);
    };
    socket.onmessage = ({ data }: MessageEvent<unknown>) => {
      if (this.#socket !== socket || !(data instanceof ArrayBuffer)) return;
      heard = true;
      this.#after(SILENCE_MS, () => ended('The server sends nothing any more.'));
      if (this.#deliver(target, new Uint8Array(data))) this.#say({ state: 'live' });
    };
    socket.onclose = ({ code }) =>
      ended(code === 1001 ? 'The server is stopping.' : 'The connection was lost.');
    this.#after(OPEN_MS, () => ended('The server did not answer in time.'));
  }

  /** Asks for one message: to learn why the WebSocket does not open, and to have the figures all the same. */
  async #ask(target: Target): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#after(OPEN_MS, () => abort.abort());
    try {
      const bytes = await this.#fetchMessage(target, abort.signal);
      if (this.#abort !== abort) return;
      this.#stop();
      if (!this.#deliver(target, bytes)) return;
      this.#say({
        state: 'asking',
        why: 'The WebSocket cannot be opened: a proxy may not let it through, or there are too many readers.',
      });
      const again = this.#options.clock() - this.#triedAt >= SOCKET_AGAIN_MS;
      this.#after(ASK_EVERY_MS, () => (again ? this.#open(target) : void this.#ask(target)));
    } catch (cause) {
      if (this.#abort !== abort) return;
      this.#stop();
      this.#failed(target, asApiError(cause));
    }
  }

  async #fetchMessage(target: Target, signal: AbortSignal): Promise<Uint8Array> {
    const headers: Record<string, string> = { Accept: ACCEPT };
    if (target.token !== null) headers['Authorization'] = `Bearer ${target.token}`;
    let response: Response;
    try {
      response = await this.#options.fetch(target.url, { headers, signal, cache: 'no-store' });
    } catch {
      throw new ApiError(
        'unreachable',
        `The server ${signal.aborted ? 'did not answer in time' : 'cannot be reached'}.`,
      );
    }
    if (!response.ok)
      throw new ApiError(kindOfStatus(response.status), await reasonOf(response), response.status);
    return new Uint8Array(await response.arrayBuffer());
  }

  /** Whether the message was one. */
  #deliver(target: Target, bytes: Uint8Array): boolean {
    try {
      this.#options.onMessage(bytes);
      this.#failures = 0;
      return true;
    } catch (cause) {
      if (!(cause instanceof MessageError)) throw cause;
      this.#stop();
      if (cause.version === null) this.#lost(target, cause.message);
      else this.#refused(target, 'version', cause.message);
      return false;
    }
  }

  #failed(target: Target, error: ApiError): void {
    const { kind, message } = error;
    if (kind === 'unauthorized' || kind === 'forbidden') this.#refused(target, kind, message);
    else if (kind === 'not_found') this.#refused(target, 'absent', 'This server has no live statistics.');
    else this.#lost(target, message);
  }

  #refused(target: Target, kind: 'unauthorized' | 'forbidden' | 'absent' | 'version', why: string): void {
    this.#say({ state: 'refused', kind, why });
    this.#after(REFUSED_AGAIN_MS, () => this.#open(target));
  }

  #lost(target: Target, why: string): void {
    this.#failures += 1;
    const retryInMs = backoffDelay(BACKOFF, this.#failures, this.#options.random);
    this.#say({ state: 'lost', failures: this.#failures, retryInMs, why });
    this.#after(retryInMs, () => this.#open(target));
  }

  #after(ms: number, then: () => void): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(then, ms);
  }

  /** Ends what is under way; nothing is heard of it any more. */
  #stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#abort?.abort();
    this.#abort = null;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #say(link: Link): void {
    if (link.state === this.#link.state && link.state === 'live') return;
    this.#link = link;
    this.#options.onLink(link);
  }
}

/** `bearer.` and the token in base64url (RFC 4648 §5), which has only characters a subprotocol may have. */
export function protocolsOf(token: string | null): string[] {
  if (token === null) return [SUBPROTOCOL];
  const text = String.fromCharCode(...new TextEncoder().encode(token));
  return [SUBPROTOCOL, `bearer.${btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')}`];
}

async function reasonOf(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: { message?: string } };
    if (body.error?.message) return body.error.message;
  } catch {
    // Not an error body of ours: the status has to do.
  }
  return `The server answered ${response.status}.`;
}
