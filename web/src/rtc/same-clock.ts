/**
 * Tells tabs of this browser what another of them publishes: what both see is timed by one clock.
 */

const KEY = 'millstream.on-air';
/** An entry older than this was left by a tab that is gone. */
const FRESH_MS = 4_000;

type Memory = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** Called once a second while on air with `app/name`; null when it is over. */
export function announceOnAir(
  key: string | null,
  nowMs = Date.now(),
  memory: Memory | null = browserMemory(),
): void {
  try {
    if (key === null) memory?.removeItem(KEY);
    else memory?.setItem(KEY, JSON.stringify([key, nowMs]));
  } catch {
    // Full or forbidden: other tabs then take the clock for another one.
  }
}

export function publishedHere(
  key: string,
  nowMs = Date.now(),
  memory: Memory | null = browserMemory(),
): boolean {
  try {
    const [known, at] = JSON.parse(memory?.getItem(KEY) ?? '[]') as [string?, number?];
    return known === key && typeof at === 'number' && Math.abs(nowMs - at) < FRESH_MS;
  } catch {
    return false;
  }
}

export function browserMemory(): Storage | null {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}
