/**
 * Every connection to the server, filtered and in pages.
 */
import { useState } from 'preact/hooks';
import type { SessionRole } from '../api/types';
import { Pager } from '../components/pager';
import { Empty, PageHead, Panel } from '../components/pieces';
import { SessionsTable } from '../components/sessions-table';
import { count } from '../lib/format';
import { sessionsHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { useServices, useSnapshot, useTitle } from '../state/hooks';
import { SEARCH_SESSIONS_MAX, useSessions } from '../state/sessions';

const PAGE = 100;

export function SessionsPage(props: { stream: string; role: string }) {
  useTitle('Sessions');
  const { client } = useServices();
  const [text, setText] = useState('');
  const [offset, setOffset] = useState(0);
  const role = isRole(props.role) ? props.role : undefined;
  const query = { stream: props.stream || undefined, role, offset, limit: PAGE };
  const { view, error, refresh } = useSessions(client, query, text);
  // The list may have become shorter than the page we are on.
  if (view !== null && offset > 0 && offset >= view.total) setOffset(Math.max(0, Math.floor((view.total - 1) / PAGE) * PAGE));

  const filter = (change: { stream?: string; role?: string }) => {
    setOffset(0);
    location.hash = sessionsHref({ stream: props.stream, role: props.role, ...change });
  };
  const search = (value: string) => {
    setOffset(0);
    setText(value);
  };
  const filtered = text !== '' || props.stream !== '' || role !== undefined;

  return (
    <>
      <PageHead title="Sessions">
        <span class="muted" data-testid="session-total">{view === null ? '' : `${count(view.total)}${filtered ? ' match' : ' connected'}`}</span>
      </PageHead>
      <Panel title="Sessions" class="panel-bare-head">
        <Filters stream={props.stream} role={role ?? ''} text={text} onFilter={filter} onText={search} />
        {view === null && <p class="muted pad">{error === null ? 'Asking the server…' : error.message}</p>}
        {view?.truncated === true && (
          <p class="note">The search looked at the first {count(SEARCH_SESSIONS_MAX)} sessions only. Choose a stream or a role to narrow it down.</p>
        )}
        {view !== null && view.sessions.length === 0 && (
          <Empty title={filtered ? 'No session matches' : 'Nobody is connected'}>
            {filtered ? (
              <button type="button" class="button" onClick={() => { search(''); filter({ stream: '', role: '' }); }}>
                Show all sessions
              </button>
            ) : (
              <p>
                See <a href="#/publish">how to publish</a> a first stream.
              </p>
            )}
          </Empty>
        )}
        {view !== null && view.sessions.length > 0 && <SessionsTable sessions={view.sessions} onKicked={refresh} />}
        {view !== null && view.total > 0 && <Pager offset={offset} limit={PAGE} total={view.total} onOffset={setOffset} />}
      </Panel>
    </>
  );
}

interface FiltersProps {
  stream: string;
  role: string;
  text: string;
  onFilter: (change: { stream?: string; role?: string }) => void;
  onText: (text: string) => void;
}

function Filters(props: FiltersProps) {
  const { streams } = useSnapshot();
  const keys = (streams ?? []).map(streamKey);
  // A stream that has ended can still be the one filtered for.
  if (props.stream !== '' && !keys.includes(props.stream)) keys.push(props.stream);
  return (
    <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
      <label>
        <span>Role</span>
        <select value={props.role} onChange={(event) => props.onFilter({ role: event.currentTarget.value })}>
          <option value="">All roles</option>
          <option value="player">Players</option>
          <option value="publisher">Publishers</option>
          <option value="pending">Not decided yet</option>
        </select>
      </label>
      <label>
        <span>Stream</span>
        <select value={props.stream} onChange={(event) => props.onFilter({ stream: event.currentTarget.value })}>
          <option value="">All streams</option>
          {keys.map((key) => (
            <option key={key} value={key}>
              {key}
            </option>
          ))}
        </select>
      </label>
      <label class="grow">
        <span>Search</span>
        <input
          type="search"
          placeholder="Address, program, protocol, id"
          value={props.text}
          onInput={(event) => props.onText(event.currentTarget.value)}
        />
      </label>
    </form>
  );
}

function isRole(text: string): text is SessionRole {
  return text === 'publisher' || text === 'player' || text === 'pending';
}
