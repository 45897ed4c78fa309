/**
 * Ending one session: question and feedback.
 */
import { useState } from 'preact/hooks';
import { asApiError } from '../api/errors';
import { duration } from '../lib/format';
import { useServices } from '../state/hooks';
import type { LiveSession } from '../stats/row';
import { Confirm } from './confirm';

export interface KickDialogProps {
  session: LiveSession;
  /** Its address, when known. */
  address: string | null;
  onClose: () => void;
}

export function KickDialog({ session, address, onClose }: KickDialogProps) {
  const { client, model, toasts } = useServices();
  const [busy, setBusy] = useState(false);
  const what =
    session.role === 'publisher' ? 'Publisher' : session.role === 'player' ? 'Player' : 'Connection';
  const name = address ?? session.id;

  const kick = async () => {
    setBusy(true);
    try {
      await client.kick(session.id);
      toasts.show('good', `${what} ${name} was kicked.`);
    } catch (cause) {
      const error = asApiError(cause);
      if (error.kind === 'not_found') toasts.show('good', `${what} ${name} had already left.`);
      else toasts.show('bad', `${what} ${name} was not kicked: ${error.message}`);
    }
    onClose();
    model.refresh();
  };

  return (
    <Confirm
      title={`Kick this ${what.toLowerCase()}?`}
      action="Kick"
      busy={busy}
      onConfirm={() => void kick()}
      onCancel={onClose}>
      <p>
        <strong>{name}</strong> ({session.protocol}
        {session.stream === null ? '' : `, ${session.stream}`}), connected for{' '}
        {duration(session.connectedSeconds)}.
      </p>
      <p class="muted">
        {session.role === 'publisher'
          ? 'Playback stops for all players until the stream is published again.'
          : 'It may reconnect at once; most players do.'}
      </p>
    </Confirm>
  );
}
