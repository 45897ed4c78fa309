/**
 * One row of the list of sessions, or one card on narrow screens.
 */
import { Component } from 'preact';
import type { Session } from '../api/types';
import { bitrate, bytes, count, duration, milliseconds, percent, UNKNOWN } from '../lib/format';
import { streamHref } from '../lib/routes';
import { parseStreamKey } from '../lib/urls';
import type { Message } from '../stats/message';
import { SPARK_SAMPLES } from '../stats/protocol';
import { cardFigures, hasQueue, sessionAt, type CardFigure, type LiveSession } from '../stats/row';
import { BEHIND_MS, LOSSY_PERCENT } from '../stats/summary';
import { pathFigure } from './layer-words';
import { Sparkline } from './sparkline';

export const ROLE_WORDS = { publisher: 'Publisher', player: 'Player', pending: 'Connecting' } as const;

export interface SessionRowProps {
  /** Place in the whole list, from 0. */
  index: number;
  /** Place from the upper edge of the list, in pixels. */
  top: number;
  message: Message;
  /** Row of the message. */
  row: number;
  /** What the management API knows besides; comes a moment later. */
  details: Session | null;
  samples: Float32Array | undefined;
  selected: boolean;
  href: string;
  onKick: (session: LiveSession) => void;
}

/**
 * Drawn again only when something of it has changed: scrolling brings new rows and leaves the others alone.
 */
export class SessionRow extends Component<SessionRowProps> {
  override shouldComponentUpdate(next: SessionRowProps): boolean {
    return (Object.keys(next) as (keyof SessionRowProps)[]).some((name) => next[name] !== this.props[name]);
  }

  override render() {
    return <Row {...this.props} />;
  }
}

function Row(props: SessionRowProps) {
  const { details } = props;
  const session = sessionAt(props.message, props.row);
  const stream = session.stream === null ? null : parseStreamKey(session.stream);
  const onCard = cardFigures(session);
  return (
    <div
      class={`session-row${props.selected ? ' is-selected' : ''}`}
      role="row"
      aria-rowindex={props.index + 2}
      data-session={session.id}
      style={{ top: `${props.top}px` }}
      onClick={(event) => openRow(event, props.href)}>
      <div class="cell-role" role="cell">
        <span class={`role role-${session.role}`}>{ROLE_WORDS[session.role]}</span>
        <span class="sub">{session.protocol}</span>
      </div>
      <div class="cell-address" role="cell">
        <a class="mono session-link" href={props.href} aria-label={`Details of session ${session.id}`}>
          {details?.address ?? session.id}
        </a>
        <span class="sub" title={details?.user_agent ?? undefined}>
          {details?.user_agent ?? `session ${session.id}`}
        </span>
      </div>
      <div class="cell-stream" role="cell" title={session.stream ?? undefined}>
        {stream === null ? (
          <span class="muted">{session.stream ?? 'none yet'}</span>
        ) : (
          <a href={streamHref(stream)}>{session.stream}</a>
        )}
      </div>
      <div class="cell-spark" role="cell" aria-hidden="true">
        <Sparkline
          samples={known(props.samples)}
          slots={SPARK_SAMPLES}
          tone={session.role === 'publisher' ? 'in' : 'out'}
          ceiling={1000}
        />
      </div>
      <Figure
        name="rate"
        onCard={onCard}
        label="Rate"
        value={bitrate(session.bitsPerSecond)}
        sub={`${count(session.packetsPerSecond)} packets/s`}
      />
      <Figure
        name="loss"
        onCard={onCard}
        label="Loss"
        value={percent(session.lossPercent)}
        sub={Number.isNaN(session.lossPercent) ? '' : `${count(session.lostPackets)} lost`}
        warn={session.lossPercent >= LOSSY_PERCENT}
      />
      <Figure
        name="rtt"
        onCard={onCard}
        label="Round trip"
        value={milliseconds(session.rttMs)}
        sub={Number.isNaN(session.jitterMs) ? '' : `jitter ${milliseconds(session.jitterMs)}`}
      />
      <Figure
        name="queue"
        onCard={onCard}
        label={details?.rtc?.path ? 'Path' : 'Queue'}
        {...queueOf(session, details)}
        warn={session.queueMs >= BEHIND_MS || isThinned(details)}
      />
      <Figure
        name="dropped"
        onCard={onCard}
        label="Dropped"
        value={count(session.droppedFrames)}
        sub=""
        warn={session.droppedFrames > 0}
      />
      <Figure
        name="connected"
        onCard={onCard}
        label="Connected"
        value={duration(session.connectedSeconds)}
        sub=""
      />
      <div class="cell-action" role="cell">
        <button
          type="button"
          class="button button-small button-quiet-danger"
          onClick={() => props.onKick(session)}
          aria-label={`Kick ${details?.address ?? session.id}`}>
          Kick
        </button>
      </div>
    </div>
  );
}

function Figure(props: {
  name: CardFigure;
  onCard: readonly CardFigure[];
  label: string;
  value: string;
  sub: string;
  warn?: boolean;
}) {
  return (
    <div
      class={`cell-${props.name} number${props.warn ? ' warn' : ''}${props.onCard.includes(props.name) ? ' on-card' : ''}`}
      role="cell"
      data-label={props.label}>
      {props.value}
      <span class="sub">{props.sub}</span>
    </div>
  );
}

/** Where the queue of other players would be, players of WebRTC have a path. */
function queueOf(session: LiveSession, details: Session | null): { value: string; sub: string } {
  if (details?.rtc?.path) return pathFigure(details.rtc.path);
  if (!hasQueue(session)) return { value: UNKNOWN, sub: '' };
  if (session.queueBytes === 0) return { value: 'empty', sub: '' };
  return { value: milliseconds(session.queueMs), sub: bytes(session.queueBytes) };
}

function isThinned(details: Session | null): boolean {
  const path = details?.rtc?.path;
  return path !== null && path !== undefined && (path.share !== 'all' || path.state !== 'ok');
}

function known(samples: Float32Array | undefined): number[] {
  return samples === undefined ? [] : Array.from(samples, (value) => (Number.isNaN(value) ? 0 : value));
}

/** A click anywhere in the row but on its links and buttons opens the details; marking text does not. */
function openRow(event: MouseEvent, href: string): void {
  if ((event.target as Element).closest('a, button') !== null || getSelection()?.isCollapsed === false)
    return;
  location.hash = href;
}
