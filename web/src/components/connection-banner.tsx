/**
 * Says that what is shown is old because the server does not answer. Lies over the page's lower edge, so
 * nothing moves and no title is covered.
 */
import { useServices, useSnapshot } from '../state/hooks';

/** A single missed poll is not worth a word. */
const QUIET_FAILURES = 1;

export function ConnectionBanner() {
  const { live, model } = useServices();
  const { connection, server } = useSnapshot();
  const lost =
    connection.state === 'reconnecting' && (connection.failures > QUIET_FAILURES || server === null);
  return (
    <div
      class={`connection-banner${lost ? ' is-lost' : ''}`}
      role="status"
      data-testid="connection"
      data-state={connection.state}>
      {lost && connection.state === 'reconnecting' && (
        <>
          <span class="spinner" aria-hidden="true" />
          <span>
            <b>Reconnecting.</b> {connection.message}{' '}
            {server === null ? '' : 'Figures are the last ones received.'}
          </span>
          <button type="button" class="button button-small" onClick={() => (model.refresh(), live.retry())}>
            Try now
          </button>
        </>
      )}
    </div>
  );
}
