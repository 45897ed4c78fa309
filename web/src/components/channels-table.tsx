/**
 * The list of channels: what each plays, how far it is, what comes, and what went wrong.
 */
import type { Channel } from '../api/sources';
import { count, playTime, UNKNOWN } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { Badge } from './pieces';
import { Progress } from './progress';
import { RemoveChannel, SkipButton } from './source-actions';
import { behindWords, channelState, itemName, lastTrouble, placeWords, waitWords } from './source-words';

export function ChannelsTable({ channels }: { channels: readonly Channel[] }) {
  return (
    <table class="table table-channels">
      <caption class="offscreen">Channels</caption>
      <thead>
        <tr>
          <th scope="col">Channel</th>
          <th scope="col">Plays</th>
          <th scope="col">Position</th>
          <th scope="col">Next</th>
          <th scope="col">Errors</th>
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {channels.map((channel) => (
          <Row key={streamKey(channel)} channel={channel} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ channel }: { channel: Channel }) {
  const item = channel.item === null ? null : channel.items[channel.item];
  const next = channel.next === null ? null : channel.items[channel.next];
  const wait = waitWords(channel, Date.now());
  const trouble = lastTrouble(channel);
  return (
    <tr data-channel={streamKey(channel)}>
      <td data-label="Channel" class="cell-name">
        <a href={streamHref(channel)} class="stream-name">
          <span class="stream-app">{channel.app}/</span>
          {channel.name}
        </a>
        <Badge {...channelState(channel)} />
      </td>
      <td data-label="Plays" class="cell-item">
        <span title={item?.location} data-testid="item">
          {item ? itemName(item.location) : wait || 'nothing at present'}
        </span>
        <span class="sub">{placeWords(channel)}</span>
      </td>
      <td data-label="Position" class="cell-position">
        {channel.duration_ms !== null && (
          <Progress
            value={channel.position_ms}
            of={channel.duration_ms}
            label={`Position of ${streamKey(channel)}`}
          />
        )}
        <span class="sub">{positionWords(channel)}</span>
        {behindWords(channel) !== '' && (
          <span class={`sub${channel.start === null ? '' : ' warn'}`}>{behindWords(channel)}</span>
        )}
      </td>
      <td data-label="Next" class="cell-next">
        <span title={next?.location}>{next ? itemName(next.location) : UNKNOWN}</span>
        <span class="sub">{next ? (channel.next_ready ? 'ready' : 'not opened yet') : ''}</span>
      </td>
      <td data-label="Errors" class="cell-trouble">
        <span class={channel.items_failed > 0 ? 'warn' : ''}>
          {channel.items_failed === 0 ? 'none' : count(channel.items_failed)}
        </span>
        {trouble !== null && (
          <span class="sub" title={trouble}>
            {trouble}
          </span>
        )}
      </td>
      <td class="action">
        <div class="row-actions">
          <SkipButton channel={channel} />
          <RemoveChannel channel={channel} />
        </div>
      </td>
    </tr>
  );
}

/** `1:05 of 3:20` */
export function positionWords(channel: Channel): string {
  if (channel.position_ms === null) return '';
  const position = playTime(channel.position_ms);
  return channel.duration_ms === null ? position : `${position} of ${playTime(channel.duration_ms)}`;
}
