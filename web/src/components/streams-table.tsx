/**
 * The live list of streams: what is on air, in which format, at which rate, for how many players.
 */
import type { Stream } from '../api/types';
import { bitrate, bytes, count, duration, milliseconds, UNKNOWN } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { useServices } from '../state/hooks';
import { StateBadge } from './pieces';
import { Sparkline } from './sparkline';
import { audioWords, videoWords } from './stream-words';

export interface StreamsTableProps {
  streams: readonly Stream[];
  /** `app/name` of the stream shown in the preview. */
  shown: string | null;
  onShow: (key: string) => void;
}

export function StreamsTable(props: StreamsTableProps) {
  return (
    <table class="table table-streams">
      <caption class="offscreen">Streams</caption>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col">Format</th>
          <th scope="col" class="number">
            Bitrate
          </th>
          <th scope="col" class="wide-only">
            <span class="offscreen">Bitrate of the last minute</span>
          </th>
          <th scope="col" class="number">
            Players
          </th>
          <th scope="col" class="number">
            GOP
          </th>
          <th scope="col" class="number">
            Up
          </th>
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.streams.map((stream) => (
          <Row
            key={streamKey(stream)}
            stream={stream}
            shown={props.shown === streamKey(stream)}
            onShow={props.onShow}
          />
        ))}
      </tbody>
    </table>
  );
}

function Row({ stream, shown, onShow }: { stream: Stream; shown: boolean; onShow: (key: string) => void }) {
  const { model } = useServices();
  const key = streamKey(stream);
  return (
    <tr data-stream={key} class={shown ? 'is-shown' : ''}>
      <td data-label="Stream" class="cell-name">
        <a href={streamHref(stream)} class="stream-name">
          <span class="stream-app">{stream.app}/</span>
          {stream.name}
        </a>
        <StateBadge state={stream.state} />
      </td>
      <td data-label="Format">
        <span data-testid="video-words">{videoWords(stream)}</span>
        <span class="sub">{audioWords(stream)}</span>
      </td>
      <td data-label="Bitrate" class="number">
        {bitrate(stream.bitrate_bits_per_second)}
      </td>
      <td class="wide-only cell-spark">
        <Sparkline samples={model.streamRates.get(key)} tone="in" ceiling={1000} />
      </td>
      <td data-label="Players" class="number">
        {count(stream.players)}
      </td>
      <td data-label="GOP" class="number">
        {milliseconds(stream.video?.key_frame_interval_ms)}
        <span class="sub">{stream.gop.frames === 0 ? '' : `${bytes(stream.gop.bytes)} held`}</span>
      </td>
      <td data-label="Up" class="number">
        {stream.state === 'live' ? duration(stream.uptime_seconds) : UNKNOWN}
      </td>
      <td class="action">
        <button
          type="button"
          class="button button-small"
          aria-pressed={shown}
          onClick={() => onShow(key)}
          aria-label={`Show ${key} in the preview`}>
          {shown ? 'Shown' : 'Show'}
        </button>
      </td>
    </tr>
  );
}
