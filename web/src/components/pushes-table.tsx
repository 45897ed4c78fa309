/**
 * The list of pushes: which streams go where, whether they arrive, how much, what was left out, and what
 * went wrong.
 */
import type { Push, PushedStream } from '../api/sources';
import { bitrate, bytes, plural } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { Badge } from './pieces';
import { RemovePush } from './source-actions';
import { errorWords, linkWords, pushState, srtWords } from './source-words';

export function PushesTable({ pushes }: { pushes: readonly Push[] }) {
  return (
    <table class="table table-pushes">
      <caption class="offscreen">Pushes</caption>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col">To</th>
          <th scope="col" class="number">
            Rate
          </th>
          <th scope="col" class="number">
            Sent
          </th>
          <th scope="col">Connection</th>
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {pushes.map((push) =>
          push.streams.length === 0 ? (
            <Waiting key={push.id} push={push} />
          ) : (
            push.streams.map((stream, index) => (
              <Row
                key={`${push.id} ${streamKey(stream)}`}
                push={push}
                stream={stream}
                isFirst={index === 0}
              />
            ))
          ),
        )}
      </tbody>
    </table>
  );
}

/** One that matches no stream. */
function Waiting({ push }: { push: Push }) {
  return (
    <tr data-push={push.stream}>
      <td data-label="Stream" class="cell-name">
        <span class="stream-name">{push.stream}</span>
        <Badge {...pushState(null)} />
      </td>
      <td data-label="To" class="cell-item">
        <code>{push.url}</code>
      </td>
      <td data-label="Rate" class="number">
        {bitrate(null)}
      </td>
      <td data-label="Sent" class="number">
        {bytes(0)}
      </td>
      <td data-label="Connection" class="cell-trouble">
        no stream that matches is published
      </td>
      <td class="action">
        <div class="row-actions">
          <RemovePush push={push} />
        </div>
      </td>
    </tr>
  );
}

function Row({ push, stream, isFirst }: { push: Push; stream: PushedStream; isFirst: boolean }) {
  const key = streamKey(stream);
  const dropped = droppedWords(stream);
  return (
    <tr data-push={key}>
      <td data-label="Stream" class="cell-name">
        <a href={streamHref(stream)} class="stream-name">
          <span class="stream-app">{stream.app}/</span>
          {stream.name}
        </a>
        <Badge {...pushState(stream)} />
        {push.stream !== key && <span class="sub">of {push.stream}</span>}
      </td>
      <td data-label="To" class="cell-item">
        <code>{stream.url}</code>
      </td>
      <td data-label="Rate" class="number">
        {bitrate(stream.state === 'live' ? stream.bitrate_bits_per_second : null)}
      </td>
      <td data-label="Sent" class="number">
        {bytes(stream.bytes)}
      </td>
      <td data-label="Connection" class="cell-trouble">
        <span class={stream.state === 'waiting' ? 'warn' : ''}>{linkWords(stream)}</span>
        {stream.srt && <span class="sub">{srtWords(stream.srt)}</span>}
        {stream.last_error !== null && (
          <span class="sub" title={stream.last_error}>
            {errorWords(stream, Date.now())}
          </span>
        )}
        {dropped !== '' && (
          <span class="sub warn" title="The target was too slow for them, or cannot carry them">
            {dropped}
          </span>
        )}
        {stream.not_carried !== null && <span class="sub">{stream.not_carried}</span>}
      </td>
      <td class="action">
        <div class="row-actions">{isFirst && <RemovePush push={push} />}</div>
      </td>
    </tr>
  );
}

/** `4 frames left out`; empty if there are none. */
export function droppedWords(stream: PushedStream): string {
  return stream.frames_left_out === 0 ? '' : `${plural(stream.frames_left_out, 'frame', 'frames')} left out`;
}
