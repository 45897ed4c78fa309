/**
 * What a WHIP or WHEP endpoint names in `Link` headers: ICE servers (RFC 9725 §4.6) and extensions of WHEP
 * (draft-ietf-wish-whep).
 */

/** ICE servers taken at most; more would only slow gathering down. */
const SERVERS_MAX = 8;

/**
 * Reads `<stun:host>; rel="ice-server", <turn:host?transport=udp>; rel="ice-server"; username="u";
 * credential="c"`, as `fetch` joins several headers. Links of other relations, and addresses that are not
 * STUN or TURN, are left out.
 */
export function iceServersOf(header: string | null): RTCIceServer[] {
  const servers: RTCIceServer[] = [];
  for (const { url, values } of linksOf(header)) {
    if (!values.get('rel')?.split(/\s+/).includes('ice-server') || !/^(stun|stuns|turn|turns):/i.test(url))
      continue;
    const server: RTCIceServer = { urls: url };
    const username = values.get('username');
    const credential = values.get('credential');
    if (username !== undefined) server.username = username;
    if (credential !== undefined) server.credential = credential;
    // A TURN server without credentials makes the browser refuse the whole list.
    if (/^turns?:/i.test(url) && (username === undefined || credential === undefined)) continue;
    if (servers.length < SERVERS_MAX) servers.push(server);
  }
  return servers;
}

/** Where layers are chosen and events are read; null for what the server does not have. */
export interface Extensions {
  layer: string | null;
  events: string | null;
}

const EXTENSION = 'urn:ietf:params:whep:ext:core:';

/** Extensions of WHEP, with their addresses as they stand. */
export function extensionsOf(header: string | null): Extensions {
  const links = linksOf(header);
  const named = (name: string) =>
    links.find(({ values }) => values.get('rel')?.split(/\s+/).includes(EXTENSION + name))?.url ?? null;
  return { layer: named('layer'), events: named('server-sent-events') };
}

function linksOf(header: string | null): { url: string; values: Map<string, string> }[] {
  return splitOutside(header ?? '', ',').map((link) => {
    const [target = '', ...parameters] = splitOutside(link, ';');
    return { url: /^<(.*)>$/.exec(target.trim())?.[1] ?? '', values: new Map(parameters.map(parameter)) };
  });
}

function parameter(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 0) return [text.trim().toLowerCase(), ''];
  const value = text.slice(at + 1).trim();
  const quoted = /^"(.*)"$/s.exec(value)?.[1];
  return [
    text.slice(0, at).trim().toLowerCase(),
    quoted === undefined ? value : quoted.replace(/\\(.)/gs, '$1'),
  ];
}

/** Splits at `mark`, but not inside `<…>` or `"…"`. */
function splitOutside(text: string, mark: string): string[] {
  const parts: string[] = [];
  let part = '';
  let inside: '' | '<' | '"' = '';
  for (let at = 0; at < text.length; at += 1) {
    const letter = text.charAt(at);
    if (inside === '"' && letter === '\\') {
      part += letter + text.charAt(at + 1);
      at += 1;
      continue;
    }
    if (inside === '' && letter === mark) {
      parts.push(part);
      part = '';
      continue;
    }
    if (inside === '' && (letter === '<' || letter === '"')) inside = letter;
    else if ((inside === '<' && letter === '>') || (inside === '"' && letter === '"')) inside = '';
    part += letter;
  }
  parts.push(part);
  return parts;
}
