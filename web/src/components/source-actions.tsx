/**
 * Skipping an item of a channel, and removing a channel, a pull or a push: buttons, question and feedback.
 */
import { useState } from 'preact/hooks';
import { asApiError } from '../api/errors';
import type { Channel, Pull, Push, SourceOrigin } from '../api/sources';
import { streamKey } from '../lib/urls';
import { useServices } from '../state/hooks';
import { Confirm } from './confirm';
import { Icon } from './icons';
import { canSkip } from './source-words';

export function SkipButton({ channel }: { channel: Channel }) {
  const { client, sources, toasts } = useServices();
  const [busy, setBusy] = useState(false);
  const key = streamKey(channel);
  const skip = async () => {
    setBusy(true);
    try {
      await client.skip(channel);
      toasts.show('good', `Channel ${key} goes on with its next item.`);
    } catch (cause) {
      toasts.show('bad', `Channel ${key} did not skip: ${asApiError(cause).message}`);
    }
    setBusy(false);
    sources.refresh();
  };
  return (
    <button
      type="button"
      class="button button-small"
      disabled={busy || !canSkip(channel)}
      onClick={() => void skip()}
      aria-label={`Skip to the next item of ${key}`}>
      <Icon name="next" size={16} /> Skip
    </button>
  );
}

export function RemoveChannel({ channel, onRemoved }: { channel: Channel; onRemoved?: () => void }) {
  const { client } = useServices();
  return (
    <Remove
      what="channel"
      name={streamKey(channel)}
      source={channel.source}
      remove={() => client.removeChannel(channel)}
      onRemoved={onRemoved}>
      Its stream ends, and playback stops for all players.
    </Remove>
  );
}

export function RemovePull({ pull, onRemoved }: { pull: Pull; onRemoved?: () => void }) {
  const { client } = useServices();
  return (
    <Remove
      what="pull"
      name={streamKey(pull)}
      source={pull.source}
      remove={() => client.removePull(pull)}
      onRemoved={onRemoved}>
      The stream is no longer pulled, and playback stops for all players.
    </Remove>
  );
}

export function RemovePush({ push }: { push: Push }) {
  const { client } = useServices();
  return (
    <Remove
      what="push"
      name={push.stream}
      source={push.source}
      remove={() => client.removePush(push.id)}
      onRemoved={undefined}>
      Its streams are no longer sent on; here they go on.
    </Remove>
  );
}

interface RemoveProps {
  what: 'channel' | 'pull' | 'push';
  name: string;
  source: SourceOrigin;
  remove: () => Promise<void>;
  onRemoved: (() => void) | undefined;
  /** What it means for players. */
  children: string;
}

function Remove(props: RemoveProps) {
  const { model, sources, toasts } = useServices();
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const name = `${props.what} ${props.name}`;
  const Name = name.charAt(0).toUpperCase() + name.slice(1);
  const remove = async () => {
    setBusy(true);
    try {
      await props.remove();
      toasts.show('good', `${Name} was removed.`);
      props.onRemoved?.();
    } catch (cause) {
      const error = asApiError(cause);
      if (error.kind === 'not_found') toasts.show('good', `${Name} had already gone.`);
      else toasts.show('bad', `${Name} was not removed: ${error.message}`);
    }
    setBusy(false);
    setAsks(false);
    sources.refresh();
    model.refresh();
  };
  return (
    <>
      <button
        type="button"
        class="button button-small button-quiet-danger"
        onClick={() => setAsks(true)}
        aria-label={`Remove ${name}`}>
        Remove
      </button>
      {asks && (
        <Confirm
          title={`Remove this ${props.what}?`}
          action="Remove"
          busy={busy}
          onConfirm={() => void remove()}
          onCancel={() => setAsks(false)}>
          <p>
            <strong>{props.name}</strong>
          </p>
          <p class="muted">{props.children}</p>
          {props.source === 'configuration' && (
            <p class="muted">
              It is in the server’s configuration and will be back after a restart.
            </p>
          )}
        </Confirm>
      )}
    </>
  );
}
