/**
 * Addresses of streams: where to play, where to publish, and the commands to paste into a terminal.
 *
 * Pure functions of their arguments. Media is fetched from the console's own origin (the policy allows no
 * other); what people copy uses the endpoints the server reports.
 */
import type { Endpoints } from '../api/types';
import type { Transport } from '../player/player';

/** A stream's address inside the server. An app may contain `/`, a name may not. */
export interface StreamRef {
  app: string;
  name: string;
}

/** `app/name` */
export function streamKey(stream: StreamRef): string {
  return `${stream.app}/${stream.name}`;
}

/** The last `/` divides app and name; null when either part is missing. */
export function parseStreamKey(key: string): StreamRef | null {
  const clean = key.trim().replace(/^\/+|\/+$/g, '');
  const cut = clean.lastIndexOf('/');
  if (cut <= 0 || cut === clean.length - 1) return null;
  return { app: clean.slice(0, cut), name: clean.slice(cut + 1) };
}

/** Percent-encodes each segment and keeps the `/` between them. */
export function encodePath(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/');
}

/**
 * What a viewer may ask of WHEP in the page's address, which hands it on: the server's address as the viewer
 * reaches it, the highest pictures and the most bits per second.
 */
export const WHEP_PARAMETERS = ['eip', 'max_height', 'max_bitrate'] as const;
export type WhepParameters = Partial<Record<(typeof WHEP_PARAMETERS)[number], string>>;

/** Those that have a value. */
export function whepParameters(parameters: URLSearchParams): WhepParameters {
  const given = WHEP_PARAMETERS.map((name) => [name, parameters.get(name)] as const);
  return Object.fromEntries(given.filter(([, value]) => value));
}

/**
 * URL the built-in player fetches; `origin` is the page's own, e.g. `https://host:8443`. WHEP has its token
 * in a header; `asked` is for WHEP alone.
 */
export function playerUrl(
  origin: string,
  stream: StreamRef,
  transport: Transport,
  token?: string,
  asked: WhepParameters = {},
): string {
  if (transport === 'rtc') {
    const query = new URLSearchParams(asked).toString();
    return `${endpointUrl(`${origin}/whep`, stream)}${query ? `?${query}` : ''}`;
  }
  const base = transport === 'ws' ? origin.replace(/^http/, 'ws') : origin;
  const query = token ? `?token=${encodeURIComponent(token)}` : '';
  const extension = transport === 'hls' ? 'm3u8' : 'flv';
  return `${base}/${encodePath(streamKey(stream))}.${extension}${query}`;
}

/** Everything a publisher has to type. */
export interface PublishTarget {
  /** OBS "Server". */
  server: string;
  /** OBS "Stream key". */
  key: string;
  /** Server and key in one, for ffmpeg. */
  url: string;
}

export function publishTarget(base: string, stream: StreamRef, token: string): PublishTarget {
  const server = `${base.replace(/\/+$/, '')}/${stream.app}`;
  const key = token === '' ? stream.name : `${stream.name}?token=${encodeURIComponent(token)}`;
  return { server, key, url: `${server}/${key}` };
}

/** WHIP or WHEP endpoint of a stream; `base` ends in `/whip` or `/whep`. */
export function endpointUrl(base: string, stream: StreamRef): string {
  return `${base.replace(/\/+$/, '')}/${encodePath(streamKey(stream))}`;
}

/** Base URLs that accept RTMP, from the server if known, else guessed from the page's host. */
export function publishBases(endpoints: Endpoints | null, hostname: string): string[] {
  const known = endpoints ? [...endpoints.rtmp, ...endpoints.rtmps] : [];
  return known.length > 0 ? known : [`rtmp://${hostname}:1935`];
}

/** One word of a POSIX shell command; quoted only when it has to be. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Publishes a test picture with a tone; needs nothing but ffmpeg. */
export function ffmpegTestCommand(url: string): string {
  return [
    'ffmpeg -re',
    '-f lavfi -i testsrc2=size=1280x720:rate=30',
    '-f lavfi -i sine=frequency=440',
    '-c:v libx264 -preset veryfast -tune zerolatency',
    '-pix_fmt yuv420p -b:v 1500k -g 60',
    '-c:a aac -b:a 128k',
    `-f flv ${shellWord(url)}`,
  ].join(' \\\n  ');
}

/** Publishes a file in real time, in a loop, without encoding it again. */
export function ffmpegFileCommand(url: string): string {
  return `ffmpeg -re -stream_loop -1 -i video.mp4 -c copy -f flv ${shellWord(url)}`;
}

/** Publishes a test picture with a tone by WHIP; takes ffmpeg 8 or later. */
export function ffmpegWhipCommand(url: string, token: string): string {
  return [
    'ffmpeg -re',
    '-f lavfi -i testsrc2=size=1280x720:rate=30',
    '-f lavfi -i sine=frequency=440',
    '-c:v libx264 -profile:v baseline -preset veryfast -tune zerolatency',
    '-pix_fmt yuv420p -b:v 1500k -g 60 -bf 0',
    '-c:a libopus -ar 48000 -ac 2 -b:a 96k',
    `-f whip ${token === '' ? '' : `-authorization ${shellWord(token)} `}${shellWord(url)}`,
  ].join(' \\\n  ');
}

/** Publishes a test picture with a tone by WHIP; takes GStreamer's gst-plugins-rs. */
export function gstreamerWhipCommand(url: string, token: string): string {
  return [
    `gst-launch-1.0 whipclientsink name=whip signaller::whip-endpoint=${shellWord(url)}${token === '' ? '' : ` signaller::auth-token=${shellWord(token)}`}`,
    'videotestsrc is-live=true ! video/x-raw,width=1280,height=720,framerate=30/1 ! whip.',
    'audiotestsrc is-live=true ! audio/x-raw,rate=48000,channels=2 ! whip.',
  ].join(' \\\n  ');
}

export function ffplayCommand(url: string): string {
  return `ffplay -fflags nobuffer ${shellWord(url)}`;
}

export function vlcCommand(url: string): string {
  return `vlc --network-caching=300 ${shellWord(url)}`;
}

/** What makes an app or stream name unusable; null when it is fine. Same rules as the server's. */
export function nameProblem(text: string, allowSlash: boolean): string | null {
  if (text === '') return 'Must not be empty.';
  if (new TextEncoder().encode(text).length > 255) return 'Must be at most 255 bytes.';
  // Control characters, NUL included.
  if (/[\u0000-\u001f\u007f]/.test(text)) return 'Must not contain control characters.';
  if (text.includes('?')) return 'Must not contain “?”: that begins the token.';
  if (!allowSlash && text.includes('/')) return 'Must not contain “/”.';
  if (text.startsWith('/') || text.endsWith('/')) return 'Must not begin or end with “/”.';
  if (text.split('/').includes('..')) return 'Must not contain “..” as a part.';
  return null;
}
