/**
 * How a link of the cluster does, in one word for colours and a few for people.
 */
import type { ClusterLink } from '../api/cluster';
import { duration, percent, roundTrip } from './format';

/** `troubled`: it works, and somebody should look at it. */
export type LinkHealth = 'good' | 'troubled' | 'down';

/** Loss from which repairs cost more than a little. */
export const LOSSY_PERCENT = 1;
/** Round trip from which something is wrong: between any two places of the earth it is less. */
export const SLOW_MS = 400;

export interface LinkReport {
  health: LinkHealth;
  /** What is wrong, worst first; empty while all is well. */
  remarks: string[];
}

/** `dropping`: frames were left out within the last seconds, not only some time before. */
export function linkReport(link: ClusterLink, dropping: boolean): LinkReport {
  if (link.state === 'down')
    return { health: 'down', remarks: [`no connection for ${duration(link.state_seconds)}`] };
  const loss = Math.max(link.sent.loss_percent ?? 0, link.received.loss_percent ?? 0);
  const remarks = [
    !link.packets_heard && 'no packets come through',
    dropping && 'too slow, frames are dropped',
    loss >= LOSSY_PERCENT && `${percent(loss)} lost`,
    (link.round_trip_ms ?? 0) >= SLOW_MS && `round trip ${roundTrip(link.round_trip_ms)}`,
  ].filter((remark) => remark !== false);
  return { health: remarks.length > 0 ? 'troubled' : 'good', remarks };
}
