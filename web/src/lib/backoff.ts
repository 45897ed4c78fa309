/**
 * How long to wait before the next try: doubling, capped, slightly random so that a thousand open
 * players do not come back in the same millisecond after a restart.
 */

export interface Backoff {
  firstMs: number;
  capMs: number;
}

/**
 * Delay before try number `attempt` (1 is the first retry): `firstMs * 2^(attempt-1)`, at most `capMs`, times
 * a factor between 0.85 and 1.15. `random` gives values in 0..1.
 */
export function backoffDelay(backoff: Backoff, attempt: number, random: () => number = Math.random): number {
  const exponent = Math.min(Math.max(attempt, 1) - 1, 30);
  const base = Math.min(backoff.firstMs * 2 ** exponent, backoff.capMs);
  return Math.round(base * (0.85 + 0.3 * random()));
}
