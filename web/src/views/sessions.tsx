/**
 * Every connection to the server, live: charts over all of them, a table of each, and one in full.
 */
import { useState } from 'preact/hooks';
import type { SessionRole } from '../api/types';
import { LiveChart } from '../components/live-chart';
import { LiveLamp, LiveNote } from '../components/live-status';
import { Empty, PageHead, Panel } from '../components/pieces';
import { SessionList } from '../components/session-list';
import { SessionPanel } from '../components/session-panel';
import { bitrate, count, milliseconds, plural } from '../lib/format';
import { aligned } from '../lib/chart-rows';
import { sessionsHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { useServices, useSnapshot, useTitle } from '../state/hooks';
import { useSessionTable, type SessionTable } from '../state/session-table';
import { SEARCH_SESSIONS_MAX } from '../state/sessions';
import type { Tracks } from '../stats/protocol';
import { SORTS, type Sort } from '../stats/select';
import { TEXT_MAX } from '../stats/words';
import { BEHIND_MS, LOSSY_PERCENT, TOTAL_FIGURES, type TotalFigure } from '../stats/summary';

export function SessionsPage(props: { stream: string; role: string; session: string }) {
  useTitle('Sessions');
  const [text, setText] = useState('');
  const role = isRole(props.role) ? props.role : '';
  const table = useSessionTable({ role, stream: props.stream, text });
  const { view } = table;
  const here = { stream: props.stream, role };
  const filter = (change: { stream?: string; role?: string }) => {
    location.hash = sessionsHref({ ...here, ...change, session: props.session });
  };
  const filtered = text !== '' || props.stream !== '' || role !== '';
  const showAll = () => {
    setText('');
    filter({ stream: '', role: '' });
  };

  return (
    <>
      <PageHead title="Sessions">
        <Totals table={table} filtered={filtered} />
        <LiveLamp view={view} />
      </PageHead>
      <LiveNote view={view} />
      {view.tracks !== null && <Overall tracks={view.tracks} />}
      <div class={`with-panel${props.session === '' ? '' : ' is-open'}`}>
        <Panel title="Sessions" class="panel-bare-head">
          <Filters
            stream={props.stream}
            role={role}
            text={text}
            table={table}
            onFilter={filter}
            onText={setText}
          />
          {table.truncated && (
            <p class="note">
              The search for addresses and programs looked at the first {count(SEARCH_SESSIONS_MAX)} sessions
              only. Choose a stream or a role to narrow it down.
            </p>
          )}
          {view.frame === null && view.link.state === 'connecting' && (
            <p class="muted pad">Loading…</p>
          )}
          {view.frame !== null && view.order.length === 0 && (
            <NoSessions filtered={filtered} searched={text !== ''} onAll={showAll} />
          )}
          {view.order.length > 0 && (
            <SessionList
              {...table}
              selected={props.session || null}
              hrefOf={(id) => sessionsHref({ ...here, session: id })}
            />
          )}
        </Panel>
        {props.session !== '' && (
          <SessionPanel
            key={props.session}
            view={view}
            id={props.session}
            onClose={() => (location.hash = sessionsHref(here))}
          />
        )}
      </div>
    </>
  );
}

function Totals({ table: { view }, filtered }: { table: SessionTable; filtered: boolean }) {
  if (view.frame === null) return null;
  const { sessions } = view.frame.summary;
  return (
    <span class="muted" data-testid="session-total">
      {filtered
        ? `${count(view.order.length)} of ${count(sessions)}`
        : plural(sessions, 'session', 'sessions')}
    </span>
  );
}

/** Charts over all sessions. */
function Overall({ tracks: { all } }: { tracks: Tracks }) {
  const { model } = useServices();
  const values = (figure: TotalFigure) => all.values[TOTAL_FIGURES.indexOf(figure)]!;
  return (
    <section class="panel chart-row" aria-label="All sessions">
      <LiveChart
        title="Traffic"
        timeMs={all.timeMs}
        format={bitrate}
        ceiling={1000}
        lines={[
          { label: 'Out', tone: 'out', values: values('bitsOut') },
          { label: 'In', tone: 'in', values: values('bitsIn') },
        ]}
      />
      <LiveChart
        title="Round trip"
        timeMs={all.timeMs}
        format={milliseconds}
        ceiling={20}
        lines={[
          { label: '95 % below', tone: 'plain', values: values('rttP95Ms') },
          { label: '50 % below', tone: 'load', values: values('rttMedianMs') },
        ]}
      />
      <LiveChart
        title="In trouble"
        timeMs={all.timeMs}
        format={count}
        ceiling={5}
        lines={[
          { label: `Lose ≥ ${LOSSY_PERCENT} %`, tone: 'bad', values: values('lossy') },
          { label: `Behind ≥ ${BEHIND_MS / 1000} s`, tone: 'load', values: values('behind') },
          {
            label: 'Thinned',
            tone: 'plain',
            values: aligned(model.totals.get('thinned'), all.timeMs.length),
          },
        ]}
      />
    </section>
  );
}

function NoSessions({
  filtered,
  searched,
  onAll,
}: {
  filtered: boolean;
  searched: boolean;
  onAll: () => void;
}) {
  return (
    <Empty title={filtered ? 'No session matches' : 'Nobody is connected'}>
      {filtered ? (
        <>
          {searched && <p>{SEARCH_RULE}</p>}
          <button type="button" class="button" onClick={onAll}>
            Show all sessions
          </button>
        </>
      ) : (
        <p>
          See <a href="#/publish">how to publish</a> a first stream.
        </p>
      )}
    </Empty>
  );
}

interface FiltersProps {
  stream: string;
  role: string;
  text: string;
  table: SessionTable;
  onFilter: (change: { stream?: string; role?: string }) => void;
  onText: (text: string) => void;
}

function Filters(props: FiltersProps) {
  const { streams } = useSnapshot();
  const keys = (streams ?? []).map(streamKey);
  // A stream that has ended can still be the one filtered for.
  if (props.stream !== '' && !keys.includes(props.stream)) keys.push(props.stream);
  return (
    <form class="filters filters-sessions" role="search" onSubmit={(event) => event.preventDefault()}>
      <label>
        <span>Role</span>
        <select value={props.role} onChange={(event) => props.onFilter({ role: event.currentTarget.value })}>
          <option value="">All roles</option>
          <option value="player">Players</option>
          <option value="publisher">Publishers</option>
          <option value="pending">Pending</option>
        </select>
      </label>
      <label>
        <span>Stream</span>
        <select
          value={props.stream}
          onChange={(event) => props.onFilter({ stream: event.currentTarget.value })}>
          <option value="">All streams</option>
          {keys.map((key) => (
            <option key={key} value={key}>
              {key}
            </option>
          ))}
        </select>
      </label>
      <SortField table={props.table} />
      <label class="grow">
        <span>Search</span>
        <input
          type="search"
          maxLength={TEXT_MAX}
          placeholder="Address, program, stream, protocol, id"
          title={SEARCH_RULE}
          value={props.text}
          onInput={(event) => props.onText(event.currentTarget.value)}
        />
      </label>
    </form>
  );
}

const SEARCH_RULE =
  'Lists sessions that match all words. Put role:, stream:, protocol: or worker: before a word to search that field only.';

const SORT_WORDS: Record<Sort, string> = {
  role: 'Role',
  stream: 'Stream',
  rate: 'Rate',
  packets: 'Packets per second',
  loss: 'Loss',
  rtt: 'Round trip',
  jitter: 'Jitter',
  queue: 'Queue',
  dropped: 'Dropped frames',
  connected: 'Time connected',
};

/** For orders that have no column, and for cards, which have no columns at all. */
function SortField({ table: { view, sort, descending, onSort } }: { table: SessionTable }) {
  const [now, other] = descending ? ['Highest first', 'lowest first'] : ['Lowest first', 'highest first'];
  return (
    <div class="sort-field">
      <label>
        <span>{view.held ? 'Order, held' : 'Order'}</span>
        <select value={sort} onChange={(event) => onSort(event.currentTarget.value as Sort)}>
          {SORTS.map((name) => (
            <option key={name} value={name}>
              {SORT_WORDS[name]}
            </option>
          ))}
        </select>
      </label>
      <button
        type="button"
        class="button"
        onClick={() => onSort(sort)}
        aria-label={`${now}. Change to ${other}.`}
        title={now}>
        {descending ? '▾' : '▴'}
      </button>
    </div>
  );
}

function isRole(text: string): text is SessionRole {
  return text === 'publisher' || text === 'player' || text === 'pending';
}
