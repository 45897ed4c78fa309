/**
 * Playback failures in words, and whether trying again can help.
 *
 * The names on the left are mpegts.js's error details; they are compared as text so that this file needs
 * neither the library nor a browser.
 */
import { always, type Trouble } from '../lib/trouble';
import { NO_FLV } from './transports';

export interface ErrorInfo {
  code?: number;
  msg?: string;
}

export function describeError(detail: string, info: ErrorInfo, webSocket: boolean): Trouble {
  switch (detail) {
    case 'HttpStatusCodeInvalid':
      return describeStatus(info.code ?? 0);
    case 'Exception':
    case 'ConnectingTimeout':
      // A browser does not tell why a WebSocket was refused: it may be that the stream is there by
      // other transports only.
      if (webSocket)
        return { ...always('The WebSocket connection could not be opened or was lost.'), elsewhere: 'absent' };
      return always('The server cannot be reached.');
    case 'EarlyEof':
    case 'UnrecoverableEarlyEof':
      return always('The connection was lost.');
    case 'FormatError':
      return { text: 'The data received is not a valid FLV stream.', retry: 'few', needsToken: false };
    case 'FormatUnsupported':
    case 'CodecUnsupported':
      return {
        text: `This player cannot show the stream's format${reason(info)}. Try VLC or ffplay with the addresses given.`,
        retry: 'never',
        needsToken: false,
        elsewhere: 'cannot',
      };
    case 'MediaMSEError':
      return {
        text: `The browser cannot decode this stream${reason(info)}.`,
        retry: 'few',
        needsToken: false,
      };
    default:
      return { text: `Playback failed (${detail})${reason(info)}.`, retry: 'few', needsToken: false };
  }
}

/** A refusal by HTTP. */
export function describeStatus(status: number): Trouble {
  switch (status) {
    case 401:
    case 403:
      return {
        text: 'The server does not let you play this stream without a valid token.',
        retry: 'never',
        needsToken: true,
      };
    case 404:
      return {
        ...always('Nobody publishes this stream right now. It will start as soon as somebody does.'),
        elsewhere: 'nobody',
      };
    case 406:
      return { ...always(NO_FLV), elsewhere: 'absent' };
    case 429:
    case 503:
      return always('The server accepts no more players at the moment.');
    case 502:
    case 504:
      return always('The server cannot be reached.');
    default:
      return always(`The server answered ${status}.`);
  }
}

/** The server closed the stream in an orderly way: publisher gone, session ended by hand, or shutdown. */
export function describeEnd(): Trouble {
  return always('The server ended this session.');
}

function reason(info: ErrorInfo): string {
  return info.msg ? `: ${info.msg.replace(/\.+$/, '')}` : '';
}
