/**
 * ICE servers that a WHIP or WHEP endpoint names in `Link` headers (RFC 9725 §4.6).
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
  for (const link of splitOutside(header ?? '', ',')) {
    const [target = '', ...parameters] = splitOutside(link, ';');
    const url = /^<(.*)>$/.exec(target.trim())?.[1] ?? '';
    const values = new Map(parameters.map(parameter));
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
