/**
 * Which transports to try for a stream, in which order.
 */
import type { Transport } from './player';

/** What the server says it offers the stream by; null when it is not known. */
export interface Offered {
  rtc: boolean | null;
  flv: boolean | null;
  /** Why the server does not offer one of them, in its words; may be empty. */
  reason?: string;
}

/** Why FLV cannot be had of a stream that came by WebRTC. */
export const NO_FLV = 'This stream is published by WebRTC and cannot be played as FLV.';

/**
 * The chosen one first, then the other way (WebRTC, or FLV over HTTP). What the server does not offer is left
 * out, unless nothing would be left; HLS it makes of every stream.
 */
export function orderOf(preferred: Transport, offered: Offered): Transport[] {
  const order: Transport[] = preferred === 'rtc' ? ['rtc', 'http'] : [preferred, 'rtc'];
  const possible = order.filter((transport) =>
      transport === 'hls' || (transport === 'rtc' ? offered.rtc : offered.flv) !== false);
  return possible.length === 0 ? order : possible;
}

/**
 * Why another transport than the preferred one plays. What the server offers counts more than what the player
 * found out: a browser does not tell why a WebSocket was refused.
 */
export function fallbackWords(preferred: Transport, found: string, offered: Offered): string {
  if (preferred === 'hls') return found;
  const missing =
    preferred === 'rtc'
      ? offered.rtc === false && offered.flv === true
      : offered.flv === false && offered.rtc === true;
  if (!missing) return found;
  return offered.reason || (preferred === 'rtc' ? found : NO_FLV);
}
