/**
 * Recorded files, the newest first: of which stream, from when, how long, and where else they are.
 */
import type { RecordedFile } from '../api/recordings';
import { bytes, playTime } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { Icon } from './icons';
import { Badge } from './pieces';
import { DeleteRecording, DownloadButton } from './recording-actions';
import { cannotPlay, recordedState, uploadState, uploadWords } from './recording-words';
import { dayAndTime } from './source-words';

export interface RecordingsTableProps {
  files: readonly RecordedFile[];
  /** Whether uploads are worth a column. */
  uploads: boolean;
  onPlay: (file: RecordedFile) => void;
}

export function RecordingsTable({ files, uploads, onPlay }: RecordingsTableProps) {
  return (
    <table class={`table table-recordings${uploads ? ' has-uploads' : ''}`}>
      <caption class="offscreen">Recordings</caption>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col">Begin</th>
          <th scope="col" class="number">
            Length
          </th>
          <th scope="col" class="number">
            Size
          </th>
          {uploads && <th scope="col">Upload</th>}
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {files.map((file) => (
          <Row key={`${file.directory}/${file.path}`} file={file} uploads={uploads} onPlay={onPlay} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ file, uploads, onPlay }: Omit<RecordingsTableProps, 'files'> & { file: RecordedFile }) {
  const key = streamKey(file);
  const reason = cannotPlay(file);
  return (
    <tr data-recording={`${key}/${file.file}`}>
      <td data-label="Stream" class="cell-name">
        <a href={streamHref(file)} class="stream-name">
          <span class="stream-app">{file.app}/</span>
          {file.name}
        </a>
        {file.state !== 'complete' && <Badge {...recordedState(file)} />}
      </td>
      <td data-label="Begin">
        <span title={file.file}>{dayAndTime(file.start_ms, Date.now())}</span>
      </td>
      <td data-label="Length" class="number">
        {playTime(file.duration_ms)}
      </td>
      <td data-label="Size" class="number">
        {bytes(file.bytes)}
      </td>
      {uploads && (
        <td data-label="Upload" class="cell-trouble">
          {file.upload === null ? <span class="muted">–</span> : <Badge {...uploadState(file.upload.state)} />}
          {uploadWords(file) !== '' && (
            <span class="sub" title={file.upload?.reason ?? undefined}>
              {uploadWords(file)}
            </span>
          )}
        </td>
      )}
      <td class="action">
        <div class="row-actions">
          {file.state === 'in_progress' ? (
            <a class="button button-small" href={streamHref(file)} aria-label={`Watch ${key} live`}>
              <Icon name="play" size={15} /> Live
            </a>
          ) : (
            <button
              type="button"
              class="button button-small"
              disabled={reason !== null}
              title={reason ?? undefined}
              onClick={() => onPlay(file)}
              aria-label={`Play ${key} of ${file.file}`}>
              <Icon name="play" size={15} /> Play
            </button>
          )}
          <DownloadButton file={file} />
          <DeleteRecording file={file} />
        </div>
      </td>
    </tr>
  );
}
