/**
 * Addresses of the console's own pages: the part after `#`.
 *
 * Kept in the fragment so that the server answers one document for all of them.
 */
import {
  encodePath,
  parseStreamKey,
  streamKey,
  whepParameters,
  type StreamRef,
  type WhepParameters,
} from './urls';

export type Route =
  | { view: 'overview' }
  /** `session`: id of the session whose details are shown; empty for none. */
  | { view: 'stream'; stream: StreamRef; session: string }
  | { view: 'watch'; stream: StreamRef; token: string; asked: WhepParameters }
  | { view: 'sessions'; stream: string; role: string; session: string }
  | { view: 'sources' }
  /** `search`: part of `app/name` of the streams whose files are listed; empty for all. */
  | { view: 'recordings'; search: string }
  | { view: 'workers' }
  /** `stream`: `app/name` of the one whose tree is shown; empty for none. */
  | { view: 'cluster'; stream: string }
  | { view: 'publish' }
  | { view: 'unknown'; path: string };

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, '').replace(/^\/+/, '');
  const [path = '', query = ''] = splitOnce(text, '?');
  const [head = '', rest = ''] = splitOnce(path, '/');
  const parameters = new URLSearchParams(query);
  switch (head) {
    case '':
      return { view: 'overview' };
    case 'stream':
    case 'watch': {
      const stream = parseStreamKey(decode(rest));
      if (stream === null) return { view: 'unknown', path: text };
      if (head === 'stream') return { view: 'stream', stream, session: parameters.get('session') ?? '' };
      const token = parameters.get('token') ?? '';
      return { view: 'watch', stream, token, asked: whepParameters(parameters) };
    }
    case 'sessions':
      return {
        view: 'sessions',
        stream: parameters.get('stream') ?? '',
        role: parameters.get('role') ?? '',
        session: parameters.get('session') ?? '',
      };
    case 'sources':
      return { view: 'sources' };
    case 'recordings':
      return { view: 'recordings', search: parameters.get('search') ?? '' };
    case 'workers':
      return { view: 'workers' };
    case 'cluster':
      return { view: 'cluster', stream: parameters.get('stream') ?? '' };
    case 'publish':
      return { view: 'publish' };
    default:
      return { view: 'unknown', path: text };
  }
}

export function streamHref(stream: StreamRef, session = ''): string {
  return `#/stream/${encodePath(streamKey(stream))}${session ? `?session=${encodeURIComponent(session)}` : ''}`;
}

export function watchHref(stream: StreamRef, token = ''): string {
  return `#/watch/${encodePath(streamKey(stream))}${token ? `?token=${encodeURIComponent(token)}` : ''}`;
}

export function sessionsHref(filter: { stream?: string; role?: string; session?: string } = {}): string {
  const query = new URLSearchParams();
  if (filter.stream) query.set('stream', filter.stream);
  if (filter.role) query.set('role', filter.role);
  if (filter.session) query.set('session', filter.session);
  const text = query.toString();
  return `#/sessions${text ? `?${text}` : ''}`;
}

export function recordingsHref(search = ''): string {
  return `#/recordings${search ? `?search=${encodeURIComponent(search)}` : ''}`;
}

export function clusterHref(stream = ''): string {
  return `#/cluster${stream ? `?stream=${encodeURIComponent(stream)}` : ''}`;
}

function splitOnce(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

/** A broken percent-encoding is shown as it stands instead of failing the page. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
