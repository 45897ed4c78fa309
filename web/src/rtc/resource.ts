/**
 * The HTTP half of a WHIP or WHEP session: offer posted, answer read, candidates patched, session deleted
 * (RFC 9725).
 *
 * Knows nothing of RTCPeerConnection; `connection.ts` ties the two together.
 */
import { TroubleError } from '../lib/trouble';
import { describeRefusal, UNREACHABLE, type Role } from './errors';
import { extensionsOf, iceServersOf, type Extensions } from './link-header';

export interface Opened {
  resource: Resource;
  answer: string;
  iceServers: RTCIceServer[];
  /** Absolute, and of the endpoint's origin. */
  extensions: Extensions;
}

export interface OpenOptions {
  role: Role;
  /** Endpoint, e.g. `/whip/live/show`; absolute. */
  url: string;
  /** Sent as `Authorization: Bearer`; empty for none. */
  token: string;
  offer: string;
  fetch?: typeof fetch;
}

/** Milliseconds a request may take. */
const DEADLINE_MS = 8_000;
/** Longest answer read, in characters: an answer has a few kilobytes. */
const ANSWER_MAX = 200_000;

export class Resource {
  /** Null when the server did not say where the session is: then it ends by itself only. */
  readonly #url: string | null;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  #etag: string | null;
  #closed = false;

  private constructor(url: string | null, etag: string | null, token: string, fetcher: typeof fetch) {
    this.#url = url;
    this.#etag = etag;
    this.#token = token;
    this.#fetch = fetcher;
  }

  /** Posts the offer. Fails with a TroubleError. */
  static async open(options: OpenOptions): Promise<Opened> {
    const fetcher = options.fetch ?? ((input, init) => fetch(input, init));
    const response = await request(fetcher, options.url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/sdp',
        Accept: 'application/sdp',
        ...authorization(options.token),
      },
      body: options.offer,
    });
    if (response.status !== 201)
      throw new TroubleError(describeRefusal(options.role, await refusalOf(response)));
    const answer = await response.text();
    if (!answer.startsWith('v=0') || answer.length > ANSWER_MAX) {
      throw new TroubleError(
        describeRefusal(options.role, {
          status: response.status,
          code: '',
          message: 'the answer is not a session description',
          waitMs: null,
        }),
      );
    }
    const endpoint = response.url || options.url;
    const url = sessionUrl(response.headers.get('location'), endpoint);
    const resource = new Resource(url, response.headers.get('etag'), options.token, fetcher);
    const links = response.headers.get('link');
    const { layer, events } = extensionsOf(links);
    const extensions = { layer: sessionUrl(layer, endpoint), events: sessionUrl(events, endpoint) };
    return { resource, answer, iceServers: iceServersOf(links), extensions };
  }

  /** Whether candidates and restarts can be patched in. */
  get takesPatches(): boolean {
    return this.#url !== null && !this.#closed;
  }

  /** Sends candidates. True if the server took them; a refusal costs nothing but those candidates. */
  async trickle(fragment: string): Promise<boolean> {
    const response = await this.#patch(fragment, this.#etag);
    return response !== null && response.ok;
  }

  /**
   * Sends new ICE credentials; the server's own new ones, as a fragment, or null when it does not restart.
   */
  async restart(fragment: string): Promise<string | null> {
    // RFC 9725 §4.3.3: a restart matches whatever ICE session is the present one.
    const response = await this.#patch(fragment, '*');
    if (response === null || response.status !== 200) return null;
    this.#etag = response.headers.get('etag') ?? this.#etag;
    return response.text();
  }

  /** Ends the session on the server, once. `leaving`: the page goes away, the request has to outlive it. */
  close(leaving = false): void {
    if (this.#closed || this.#url === null) return;
    this.#closed = true;
    // Whether it arrives cannot be waited for; without it the server frees the session when consent ends.
    this.#fetch(this.#url, {
      method: 'DELETE',
      headers: authorization(this.#token),
      keepalive: leaving,
      cache: 'no-store',
    }).catch(() => undefined);
  }

  async #patch(fragment: string, match: string | null): Promise<Response | null> {
    if (!this.takesPatches || this.#url === null) return null;
    const headers: Record<string, string> = {
      'Content-Type': 'application/trickle-ice-sdpfrag',
      ...authorization(this.#token),
    };
    if (match !== null) headers['If-Match'] = match;
    try {
      return await request(this.#fetch, this.#url, { method: 'PATCH', headers, body: fragment });
    } catch {
      return null;
    }
  }
}

/**
 * Where the session is: `Location` against the endpoint. An address on another origin is not used: the token
 * must not go there, and the page's policy would refuse it anyway.
 */
export function sessionUrl(location: string | null, endpoint: string): string | null {
  if (location === null) return null;
  try {
    const url = new URL(location, endpoint);
    return url.origin === new URL(endpoint).origin ? url.href : null;
  } catch {
    return null;
  }
}

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110 §10.2.3); null when absent or unreadable. */
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header.trim())) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}

function authorization(token: string): Record<string, string> {
  return token === '' ? {} : { Authorization: `Bearer ${token}` };
}

async function request(fetcher: typeof fetch, url: string, init: RequestInit): Promise<Response> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), DEADLINE_MS);
  try {
    return await fetcher(url, { ...init, signal: deadline.signal, cache: 'no-store' });
  } catch {
    throw new TroubleError(UNREACHABLE);
  } finally {
    clearTimeout(timer);
  }
}

async function refusalOf(response: Response) {
  let [code, message] = ['', ''];
  try {
    const body = (await response.json()) as { error?: { code?: string; message?: string }; detail?: string };
    code = body.error?.code ?? '';
    message = body.error?.message ?? body.detail ?? '';
  } catch {
    // No body of ours: the status has to do.
  }
  return {
    status: response.status,
    code,
    message,
    waitMs: retryAfterMs(response.headers.get('retry-after'), Date.now()),
  };
}
