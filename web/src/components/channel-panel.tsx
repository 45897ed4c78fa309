/**
 * On the page of a stream: the channel or pull that it comes from, with the playlist and what has happened.
 */
import type { Channel, Pull } from '../api/sources';
import { bytes, count, playTime, plural, UNKNOWN } from '../lib/format';
import { streamKey, type StreamRef } from '../lib/urls';
import { useSources } from '../state/hooks';
import { positionWords } from './channels-table';
import { Badge, Fact, Panel } from './pieces';
import { Progress } from './progress';
import { connectionWords } from './pulls-table';
import { RemoveChannel, RemovePull, SkipButton } from './source-actions';
import {
  behindWords,
  channelState,
  dayAndTime,
  errorWords,
  eventWords,
  isTrouble,
  itemName,
  placeWords,
  pullState,
  waitWords,
} from './source-words';

/** Nothing for a stream that somebody publishes. */
export function SourcePanel({ stream }: { stream: StreamRef }) {
  const { channels, pulls } = useSources();
  const key = streamKey(stream);
  const channel = channels?.find((candidate) => streamKey(candidate) === key);
  const pull = pulls?.find((candidate) => streamKey(candidate) === key);
  if (channel !== undefined) return <ChannelPanel channel={channel} />;
  return pull === undefined ? null : <PullPanel pull={pull} />;
}

function ChannelPanel({ channel }: { channel: Channel }) {
  const aside = (
    <div class="row-actions">
      <SkipButton channel={channel} />
      <RemoveChannel channel={channel} />
    </div>
  );
  return (
    <Panel title="Channel" class="channel" aside={aside}>
      <div class="channel-now">
        <Badge {...channelState(channel)} />
        <span>{placeWords(channel)}</span>
        <span class="muted">
          {[positionWords(channel) || waitWords(channel, Date.now()), kindWords(channel)]
            .filter(Boolean)
            .join(' · ')}
        </span>
        {behindWords(channel) !== '' && (
          <span class={channel.start === null ? 'muted' : 'warn'}>{behindWords(channel)}</span>
        )}
      </div>
      <Playlist channel={channel} />
      {channel.events.length > 0 && <Events channel={channel} />}
    </Panel>
  );
}

function kindWords(channel: Channel): string {
  const parts = [channel.loop ? 'in a loop' : 'once'];
  if (channel.start !== null)
    parts.push(`as if begun at ${dayAndTime(Date.parse(channel.start), Date.now())}`);
  if (channel.items_failed > 0) parts.push(plural(channel.items_failed, 'item failed', 'items failed'));
  if (channel.pauses > 0) parts.push(`late ${plural(channel.pauses, 'time', 'times')}`);
  return parts.join(' · ');
}

function Playlist({ channel }: { channel: Channel }) {
  return (
    <ol class="playlist" aria-label="Playlist">
      {channel.items.map((item, index) => {
        const here = index === channel.item;
        const next = index === channel.next && !here;
        return (
          <li key={index} class={here ? 'is-here' : ''} aria-current={here ? 'true' : undefined}>
            <span class="playlist-number">{index + 1}</span>
            <div class="playlist-item">
              <span title={item.location}>{itemName(item.location)}</span>
              {item.last_error !== null && <span class="sub warn">{item.last_error}</span>}
              {here && channel.duration_ms !== null && (
                <Progress value={channel.position_ms} of={channel.duration_ms} label="Position" />
              )}
            </div>
            <span class="muted">{next ? (channel.next_ready ? 'next, ready' : 'next') : ''}</span>
            <span class="playlist-time">
              {item.duration_ms === null ? UNKNOWN : playTime(item.duration_ms)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

/** Newest first: what has just gone wrong is what one looks for. */
function Events({ channel }: { channel: Channel }) {
  const now = Date.now();
  return (
    <details class="events">
      <summary>{plural(channel.events.length, 'event', 'events')}</summary>
      <ul>
        {channel.events.toReversed().map((event, index) => (
          <li key={index}>
            <time class="muted" dateTime={event.at}>
              {dayAndTime(Date.parse(event.at), now)}
            </time>
            <span class={isTrouble(event) ? 'warn' : ''}>{eventWords(channel, event)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function PullPanel({ pull }: { pull: Pull }) {
  return (
    <Panel title="Pull" class="channel" aside={<RemovePull pull={pull} />}>
      <dl class="facts facts-wide">
        <Fact name="State">
          <Badge {...pullState(pull)} /> {connectionWords(pull)}
        </Fact>
        <Fact name="From">
          <code>{pull.url}</code>
        </Fact>
        <Fact name="Received">{bytes(pull.bytes)}</Fact>
        <Fact name="Failed attempts">{count(pull.failures)}</Fact>
        <Fact name="Last error">{errorWords(pull, Date.now()) ?? 'none'}</Fact>
      </dl>
    </Panel>
  );
}
