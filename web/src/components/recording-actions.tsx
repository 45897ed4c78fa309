/**
 * What can be done with recordings: begin and end one, download and delete a file.
 */
import { useState } from 'preact/hooks';
import type { ApiClient } from '../api/client';
import { asApiError } from '../api/errors';
import type { RecordedFile } from '../api/recordings';
import { bytes } from '../lib/format';
import { streamKey, type StreamRef } from '../lib/urls';
import { useServices } from '../state/hooks';
import { Confirm } from './confirm';
import { Icon } from './icons';
import { downloadName } from './recording-words';
import { dayAndTime } from './source-words';

/** Begins to record a stream, or ends that. */
export function RecordButton(props: { stream: StreamRef; recorded: boolean; small?: boolean }) {
  const { client, model, recordings, toasts } = useServices();
  const [busy, setBusy] = useState(false);
  const key = streamKey(props.stream);
  const run = async () => {
    setBusy(true);
    try {
      if (props.recorded) await client.stopRecording(props.stream);
      else await client.startRecording(props.stream);
      toasts.show('good', props.recorded ? `The recording of ${key} has ended.` : `${key} is being recorded.`);
    } catch (cause) {
      const what = props.recorded ? `The recording of ${key} was not stopped` : `${key} is not recorded`;
      toasts.show('bad', `${what}: ${asApiError(cause).message}`);
    }
    setBusy(false);
    model.refresh();
    recordings.refresh();
  };
  return (
    <button
      type="button"
      class={`button record-button${props.small ? ' button-small' : ''}${props.recorded ? ' is-recording' : ''}`}
      disabled={busy}
      onClick={() => void run()}
      aria-label={props.recorded ? `Stop recording ${key}` : `Record ${key}`}>
      <span class="record-lamp" aria-hidden="true" />
      {props.recorded ? (props.small ? 'Stop' : 'Stop recording') : 'Record'}
    </button>
  );
}

/** Saves a file, by a link that needs no token. */
export async function download(client: ApiClient, file: RecordedFile): Promise<void> {
  const { url } = await client.recordingLink(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = downloadName(file);
  link.click();
}

export function DownloadButton({ file }: { file: RecordedFile }) {
  const { client, toasts } = useServices();
  const run = async () => {
    try {
      await download(client, file);
    } catch (cause) {
      toasts.show('bad', `${file.file} was not downloaded: ${asApiError(cause).message}`);
    }
  };
  return (
    <button
      type="button"
      class="button button-small"
      onClick={() => void run()}
      title={file.state === 'complete' ? undefined : 'What there is by now'}
      aria-label={`Download ${streamKey(file)} of ${file.file}`}>
      <Icon name="download" size={16} /> Download
    </button>
  );
}

export function DeleteRecording({ file }: { file: RecordedFile }) {
  const { client, recordings, toasts } = useServices();
  const [asks, setAsks] = useState(false);
  const [busy, setBusy] = useState(false);
  const remove = async () => {
    setBusy(true);
    try {
      await client.removeRecording(file);
      toasts.show('good', `${file.file} of ${streamKey(file)} was deleted.`);
    } catch (cause) {
      const error = asApiError(cause);
      if (error.kind === 'not_found') toasts.show('good', `${file.file} had already gone.`);
      else toasts.show('bad', `${file.file} was not deleted: ${error.message}`);
    }
    setBusy(false);
    setAsks(false);
    recordings.refresh();
  };
  const isSent = file.upload !== null;
  return (
    <>
      <button
        type="button"
        class="button button-small button-quiet-danger"
        disabled={file.state !== 'complete'}
        onClick={() => setAsks(true)}
        aria-label={`Delete ${streamKey(file)} of ${file.file}`}>
        Delete
      </button>
      {asks && (
        <Confirm
          title="Delete this recording?"
          action="Delete"
          busy={busy}
          onConfirm={() => void remove()}
          onCancel={() => setAsks(false)}>
          <p>
            <strong>{streamKey(file)}</strong>, {dayAndTime(file.start_ms, Date.now())}, {bytes(file.bytes)}
          </p>
          <p class="muted">
            {isSent && file.upload?.state === 'confirmed'
              ? 'Its copy in the store stays.'
              : isSent
                ? 'The store has not confirmed its upload: this may be the only copy.'
                : 'The file is removed from the disk of the server.'}
          </p>
        </Confirm>
      )}
    </>
  );
}
