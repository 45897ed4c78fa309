/**
 * The list of pulls: from where, whether it comes, how much, and what went wrong.
 */
import type { Pull } from '../api/sources';
import { bitrate, bytes } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { Badge } from './pieces';
import { RemovePull } from './source-actions';
import { errorWords, isPattern, linkWords, pullState, srtWords } from './source-words';

export function PullsTable({ pulls }: { pulls: readonly Pull[] }) {
  return (
    <table class="table table-pulls">
      <caption class="offscreen">Pulls</caption>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col">From</th>
          <th scope="col" class="number">
            Rate
          </th>
          <th scope="col" class="number">
            Received
          </th>
          <th scope="col">Connection</th>
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {pulls.map((pull) => (
          <Row key={streamKey(pull)} pull={pull} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ pull }: { pull: Pull }) {
  return (
    <tr data-pull={streamKey(pull)}>
      <td data-label="Stream" class="cell-name">
        {isPattern(pull) ? (
          <span class="stream-name">{streamKey(pull)}</span>
        ) : (
          <a href={streamHref(pull)} class="stream-name">
            <span class="stream-app">{pull.app}/</span>
            {pull.name}
          </a>
        )}
        <Badge {...pullState(pull)} />
      </td>
      <td data-label="From" class="cell-item">
        <code>{pull.url}</code>
      </td>
      <td data-label="Rate" class="number">
        {bitrate(pull.state === 'live' ? pull.bitrate_bits_per_second : null)}
      </td>
      <td data-label="Received" class="number">
        {bytes(pull.bytes)}
      </td>
      <td data-label="Connection" class="cell-trouble">
        <span class={pull.state === 'waiting' ? 'warn' : ''}>{connectionWords(pull)}</span>
        {pull.srt && <span class="sub">{srtWords(pull.srt)}</span>}
        {pull.last_error !== null && (
          <span class="sub" title={pull.last_error}>
            {errorWords(pull, Date.now())}
          </span>
        )}
      </td>
      <td class="action">
        <div class="row-actions">
          <RemovePull pull={pull} />
        </div>
      </td>
    </tr>
  );
}

/** `3 attempts, retrying in 4 s`, `attempt 4`, `for 2 min 05 s, 2 reconnects` */
export function connectionWords(pull: Pull, now = Date.now()): string {
  if (pull.state === 'idle') return isPattern(pull) ? 'for any name that fits' : 'nobody plays it';
  return linkWords(pull, now);
}
