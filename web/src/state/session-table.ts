/**
 * Filter and order of a table of sessions, and the statistics to fill it with.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Query, Sort } from '../stats/select';
import { anywhere, wordsOf } from '../stats/words';
import { useLive, useServices } from './hooks';
import type { LiveView } from './live-stats';
import { useSearch } from './sessions';

export interface SessionTable {
  view: LiveView;
  sort: Sort;
  descending: boolean;
  onSort: (sort: Sort) => void;
  /** The search for addresses stopped at its limit. */
  truncated: boolean;
}

/** Names sort from A on, numbers from the highest down. */
const ASCENDING_FIRST: readonly Sort[] = ['role', 'stream'];

export function useSessionTable(filter: Pick<Query, 'role' | 'stream' | 'text'>): SessionTable {
  const { client, live } = useServices();
  const view = useLive();
  const [{ sort, descending }, setSort] = useState<Pick<Query, 'sort' | 'descending'>>({
    sort: 'connected',
    descending: true,
  });
  const text = filter.text.trim().toLowerCase();
  const words = useMemo(() => anywhere(wordsOf(text)), [text]);
  const { role, stream } = filter;
  const { ids, truncated } = useSearch(
    client,
    { stream: stream || undefined, role: role || undefined },
    words,
  );
  useEffect(
    () => live.setQuery({ role, stream, text, ids, sort, descending }),
    [live, role, stream, text, ids, sort, descending],
  );
  const onSort = (next: Sort) =>
    setSort((now) => ({
      sort: next,
      descending: now.sort === next ? !now.descending : !ASCENDING_FIRST.includes(next),
    }));
  return { view, sort, descending, onSort, truncated };
}
