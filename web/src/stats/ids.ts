/**
 * Ids of sessions: `worker-serial` as the management API writes them, and as keys of maps.
 */

/** Below it, a serial and a worker together are an exact number. */
const EXACT_SERIAL = 2 ** 37;

export type SessionKey = number | string;

export function sessionId(worker: number, serial: number): string {
  return `${worker}-${serial}`;
}

/** A key that is a number whenever it can be: making ten thousand texts a second is not needed. */
export function sessionKey(worker: number, serial: number): SessionKey {
  return serial < EXACT_SERIAL ? serial * 65_536 + worker : sessionId(worker, serial);
}

/** Key of an id as text; null when it is not one. */
export function keyOfId(id: string): SessionKey | null {
  const match = /^(\d{1,5})-(\d{1,15})$/.exec(id);
  return match === null ? null : sessionKey(Number(match[1]), Number(match[2]));
}
