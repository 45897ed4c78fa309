/**
 * Rows of sessions with their kick buttons; on narrow screens each row becomes a card.
 */
import type { Session } from '../api/types';
import { bitrate, bytes, count, duration, milliseconds, percent, UNKNOWN } from '../lib/format';
import { streamHref } from '../lib/routes';
import { parseStreamKey } from '../lib/urls';
import { KickButton } from './kick';

const ROLE_WORDS = { publisher: 'Publisher', player: 'Player', pending: 'Connecting' } as const;

export interface SessionsTableProps {
  sessions: readonly Session[];
  /** Leaves out the stream's name where it is the same in each row. */
  hideStream?: boolean;
  onKicked: () => void;
}

export function SessionsTable(props: SessionsTableProps) {
  return (
    <table class="table table-sessions">
      <caption class="offscreen">Sessions</caption>
      <thead>
        <tr>
          <th scope="col">Role</th>
          <th scope="col">Address</th>
          {!props.hideStream && <th scope="col">Stream</th>}
          <th scope="col" class="number">Rate</th>
          <th scope="col" class="number">Transferred</th>
          <th scope="col" class="number">Queue or path</th>
          <th scope="col" class="number">Dropped</th>
          <th scope="col" class="number">Connected</th>
          <th scope="col">
            <span class="offscreen">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.sessions.map((session) => (
          <Row key={session.id} session={session} hideStream={props.hideStream === true} onKicked={props.onKicked} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ session, hideStream, onKicked }: { session: Session; hideStream: boolean; onKicked: () => void }) {
  const sent = session.role === 'publisher' ? session.bytes_in : session.bytes_out;
  const stream = session.stream === null ? null : parseStreamKey(session.stream);
  return (
    <tr data-session={session.id}>
      <td data-label="Role">
        <span class={`role role-${session.role}`}>{ROLE_WORDS[session.role]}</span>
        <span class="sub">{session.protocol}</span>
      </td>
      <td data-label="Address">
        <span class="mono">{session.address}</span>
        <span class="sub ellipsis" title={session.user_agent ?? undefined}>
          {session.user_agent ?? `worker ${session.worker}, session ${session.id}`}
        </span>
      </td>
      {!hideStream && (
        <td data-label="Stream">
          {stream === null ? <span class="muted">{session.stream ?? 'none yet'}</span> : <a href={streamHref(stream)}>{session.stream}</a>}
        </td>
      )}
      <td data-label="Rate" class="number">{bitrate(session.bitrate_bits_per_second)}</td>
      <td data-label="Transferred" class="number">{bytes(sent)}</td>
      <td data-label="Queue or path" class="number">
        <Queue session={session} />
      </td>
      <td data-label="Dropped" class={`number${session.dropped_frames > 0 ? ' warn' : ''}`}>{count(session.dropped_frames)}</td>
      <td data-label="Connected" class="number">{duration(session.connected_seconds)}</td>
      <td class="action">
        <KickButton session={session} onDone={onKicked} />
      </td>
    </tr>
  );
}

/** What waits for a player; WebRTC has no queue but a path whose state is known. */
function Queue({ session }: { session: Session }) {
  if (session.rtc) {
    const { rtt_ms: roundTrip, loss_percent: loss } = session.rtc;
    return (
      <>
        <span title="Round trip">{milliseconds(roundTrip)}</span>
        <span class={`sub${(loss ?? 0) >= 5 ? ' warn' : ''}`}>{loss === null ? session.rtc.state : `${percent(loss)} lost`}</span>
      </>
    );
  }
  if (session.role !== 'player') return <span class="muted">{UNKNOWN}</span>;
  if (session.queue_bytes === 0) return <span class="muted">empty</span>;
  return (
    <>
      {milliseconds(session.queue_ms)}
      <span class="sub">{bytes(session.queue_bytes)}</span>
    </>
  );
}
