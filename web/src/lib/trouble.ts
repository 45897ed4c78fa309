/**
 * Why playing or publishing does not work right now, and what to do about it.
 */

export interface Trouble {
  /** One or two sentences for the person at the page. */
  text: string;
  /** `always`: keep trying. `few`: give up after a few tries. `never`: it cannot work. */
  retry: 'always' | 'few' | 'never';
  /** A token may open this stream. */
  needsToken: boolean;
  /**
   * Whether another transport may do better. `absent`: the stream is not there by this one; it may be by
   * another, and may come back. `cannot`: this browser or network cannot use this transport for this stream.
   * `nobody`: there is no such stream at present, by whatever transport.
   */
  elsewhere?: 'absent' | 'cannot' | 'nobody';
  /** The server asked not to be tried again before this many milliseconds have passed. */
  waitMs?: number;
}

/** Keep trying. */
export function always(text: string): Trouble {
  return { text, retry: 'always', needsToken: false };
}

/** It cannot work; trying again is left to the person. */
export function never(text: string): Trouble {
  return { text, retry: 'never', needsToken: false };
}

/** A Trouble that is thrown. */
export class TroubleError extends Error {
  readonly trouble: Trouble;

  constructor(trouble: Trouble) {
    super(trouble.text);
    this.name = 'TroubleError';
    this.trouble = trouble;
  }
}

/** What was thrown as Trouble; anything unknown is worth a few tries. */
export function troubleOf(cause: unknown): Trouble {
  if (cause instanceof TroubleError) return cause.trouble;
  const text = cause instanceof Error ? cause.message : String(cause);
  return { text, retry: 'few', needsToken: false };
}
