/**
 * Ending one session: button, question, feedback.
 */
import { useState } from 'preact/hooks';
import { asApiError } from '../api/errors';
import type { Session } from '../api/types';
import { duration } from '../lib/format';
import { useServices } from '../state/hooks';
import { Confirm } from './confirm';

export function KickButton(props: { session: Session; onDone: () => void }) {
  const { client, model, toasts } = useServices();
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const { session } = props;
  const what = session.role === 'publisher' ? 'Publisher' : session.role === 'player' ? 'Player' : 'Connection';

  const kick = async () => {
    setBusy(true);
    try {
      await client.kick(session.id);
      toasts.show('good', `${what} ${session.address} was disconnected.`);
    } catch (cause) {
      const error = asApiError(cause);
      if (error.kind === 'not_found') toasts.show('good', `${what} ${session.address} had already left.`);
      else toasts.show('bad', `${what} ${session.address} was not disconnected: ${error.message}`);
    }
    setBusy(false);
    setAsking(false);
    props.onDone();
    model.refresh();
  };

  return (
    <>
      <button type="button" class="button button-small button-quiet-danger" onClick={() => setAsking(true)} aria-label={`Kick ${session.address}`}>
        Kick
      </button>
      {asking && (
        <Confirm title={`Disconnect this ${what.toLowerCase()}?`} action="Disconnect" busy={busy} onConfirm={() => void kick()} onCancel={() => setAsking(false)}>
          <p>
            <strong>{session.address}</strong> ({session.protocol}
            {session.stream === null ? '' : `, ${session.stream}`}), connected for {duration(session.connected_seconds)}.
          </p>
          <p class="muted">
            {session.role === 'publisher'
              ? 'All players of the stream lose their picture until somebody publishes it again.'
              : 'It may connect again at once; most players do.'}
          </p>
        </Confirm>
      )}
    </>
  );
}
