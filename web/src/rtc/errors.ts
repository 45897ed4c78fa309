/**
 * What goes wrong with WHIP and WHEP, in words, and whether trying again or another transport can help.
 */
import { always, never, type Trouble } from '../lib/trouble';

export type Role = 'publish' | 'play';

/** What the answer to a refused request says besides its status. */
export interface Refusal {
  status: number;
  /** `error.code` of the body; empty when there is none. */
  code: string;
  /** `error.message` of the body; empty when there is none. */
  message: string;
  /** `Retry-After` in milliseconds. */
  waitMs: number | null;
}

export function describeRefusal(role: Role, refusal: Refusal): Trouble {
  const trouble = byStatus(role, refusal);
  return refusal.waitMs === null ? trouble : { ...trouble, waitMs: refusal.waitMs };
}

function byStatus(role: Role, { status, code, message }: Refusal): Trouble {
  const publish = role === 'publish';
  const said = message === '' ? '' : ` The server says: ${sentence(message)}`;
  switch (status) {
    case 401:
    case 403:
      return {
        text: publish
          ? `The server does not let you publish here without a valid token.${said}`
          : 'The server does not let you play this stream without a valid token.',
        retry: 'never',
        needsToken: true,
      };
    case 404:
    case 405:
      return { ...never(`WebRTC is turned off on this server.${said}`), elsewhere: 'cannot' };
    case 406:
      if (publish) return never(`The server and this browser have no codec in common.${said}`);
      return { ...always(`This stream cannot be played by WebRTC here.${said}`), elsewhere: 'absent' };
    case 409:
      if (publish) return always(`Somebody else publishes this stream.${said}`);
      if (code === 'not_ready')
        return {
          ...always('The publisher has just started. Video will appear in a moment.'),
          elsewhere: 'nobody',
        };
      return {
        ...always('Nobody publishes this stream right now. It will start as soon as somebody does.'),
        elsewhere: 'nobody',
      };
    case 400:
    case 415:
    case 422:
      return { ...never(`The server did not accept this browser’s offer.${said}`), elsewhere: 'cannot' };
    case 429:
    case 503:
      return always(
        publish
          ? 'The server accepts no more publishers at the moment.'
          : 'The server accepts no more players at the moment.',
      );
    case 502:
    case 504:
      return always('The server cannot be reached.');
    default:
      return always(`The server answered ${status}.${said}`);
  }
}

export const UNREACHABLE = always('The server cannot be reached.');

export const NO_WEBRTC: Trouble = { ...never('This browser does not support WebRTC.'), elsewhere: 'cannot' };

export const NO_PATH: Trouble = {
  ...always(
    'No media path to the server: a firewall may block its media port, or the server announces an address that cannot be reached from here.',
  ),
  elsewhere: 'cannot',
};

export const LOST = always('The connection was lost.');

export const ENDED = always('The server ended this session.');

/** Why the browser gave no camera, microphone or screen. `what` is e.g. “the camera”. */
export function describeCaptureError(cause: unknown, what: string): string {
  const name = cause instanceof Error || cause instanceof DOMException ? cause.name : '';
  switch (name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return `The browser was not allowed to use ${what}. Allow it in the address bar (or in the system’s privacy settings) and try again.`;
    case 'NotFoundError':
      return `There is no ${what.replace(/^the /, '')} on this machine.`;
    case 'NotReadableError':
    case 'AbortError':
      return `${capital(what)} cannot be opened. Another program may be using it.`;
    case 'OverconstrainedError':
      return `${capital(what)} cannot deliver this resolution or was unplugged. Choose another one.`;
    default:
      return `${capital(what)} cannot be used${cause instanceof Error && cause.message ? `: ${sentence(cause.message)}` : '.'}`;
  }
}

function sentence(text: string): string {
  return `${text.replace(/[.\s]+$/, '')}.`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
