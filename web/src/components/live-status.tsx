/**
 * Whether the figures are live, and if not, why and what happens next.
 */
import { bytes, milliseconds } from '../lib/format';
import { useServices, useSnapshot } from '../state/hooks';
import type { LiveView } from '../state/live-stats';
import type { Link } from '../stats/protocol';

/** A lamp with a word; stands in the head of the page. */
export function LiveLamp({ view }: { view: LiveView }) {
  const { link, frame } = view;
  const fine = link.state === 'live' || link.state === 'asking';
  const about =
    frame === null ? undefined : `${bytes(frame.bytes)} a second, read in ${milliseconds(frame.readMs)}`;
  return (
    <span
      class={`live-lamp ${fine ? 'is-live' : link.state === 'connecting' ? '' : 'is-lost'}`}
      role="status"
      data-testid="live"
      data-state={link.state}
      title={about}>
      {WORDS[link.state]}
    </span>
  );
}

const WORDS: Record<Link['state'], string> = {
  closed: 'Paused',
  connecting: 'Connecting',
  live: 'Live',
  asking: 'Live',
  lost: 'Reconnecting',
  refused: 'Not available',
};

/** A sentence where the lamp's word is not enough; nothing while all is well. */
export function LiveNote({ view }: { view: LiveView }) {
  const { live } = useServices();
  const { connection } = useSnapshot();
  const { link, frame } = view;
  // The banner says it once for everything that the server does not answer.
  if (link.state === 'lost' && connection.state === 'reconnecting') return null;
  if (link.state === 'asking')
    return (
      <p class="note" data-testid="live-note">
        Figures are polled once a second. {link.why}
      </p>
    );
  // The first failure is over before it could be read.
  if (link.state !== 'refused' && !(link.state === 'lost' && (link.failures > 1 || frame === null)))
    return null;
  return (
    <div class="note live-note" role="status" data-testid="live-note">
      <p>
        <b>{link.state === 'lost' ? 'Reconnecting.' : HEADS[link.kind]}</b> {link.why}{' '}
        {frame === null ? '' : 'Figures are the last ones received.'}
      </p>
      <button type="button" class="button button-small" onClick={() => live.retry()}>
        Try now
      </button>
    </div>
  );
}

const HEADS = {
  unauthorized: 'Live figures need a token.',
  forbidden: 'Live figures are not allowed from here.',
  absent: 'No live figures.',
  version: 'Live figures cannot be read. Reloading the page may help.',
} as const;
