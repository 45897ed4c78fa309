/**
 * All sessions, however many: a table of which only the rows near the view are made.
 *
 * Order and filter come with the message (stats/engine.ts). While the pointer or the keyboard is on the rows
 * they keep their order, so that what one is about to press does not move away.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { rowWindow, type RowWindow } from '../lib/row-window';
import { useServices, useStore } from '../state/hooks';
import type { LiveView } from '../state/live-stats';
import { idAt, type LiveSession } from '../stats/row';
import type { Sort } from '../stats/select';
import { KickDialog } from './kick';
import { SessionRow } from './session-row';

/** Narrower lists show cards. */
const CARDS_BELOW_PX = 640;
const ROW_PX = 54;
const CARD_PX = 126;

const COLUMNS: readonly { name: string; title: string; sort?: Sort; number?: boolean }[] = [
  { name: 'role', title: 'Role', sort: 'role' },
  { name: 'address', title: 'Address' },
  { name: 'stream', title: 'Stream', sort: 'stream' },
  { name: 'spark', title: 'Last minute' },
  { name: 'rate', title: 'Rate', sort: 'rate', number: true },
  { name: 'loss', title: 'Loss', sort: 'loss', number: true },
  { name: 'rtt', title: 'Round trip', sort: 'rtt', number: true },
  { name: 'queue', title: 'Queue, path', sort: 'queue', number: true },
  { name: 'dropped', title: 'Dropped', sort: 'dropped', number: true },
  { name: 'connected', title: 'Connected', sort: 'connected', number: true },
];

export interface SessionListProps {
  view: LiveView;
  sort: Sort;
  descending: boolean;
  onSort: (sort: Sort) => void;
  /** Id of the session whose details are shown. */
  selected: string | null;
  hrefOf: (id: string) => string;
  /** Leaves out the stream's name where it is the same in each row. */
  hideStream?: boolean;
}

export function SessionList(props: SessionListProps) {
  const { live, sessions: book } = useServices();
  useStore(book.revision);
  const [kicking, setKicking] = useState<LiveSession | null>(null);
  const { view } = props;
  const body = useRef<HTMLDivElement>(null);
  const { window: shown, cards } = useRowWindow(body, view.order.length);
  const message = view.frame?.message ?? null;
  const rows = message === null ? [] : [...view.order.subarray(shown.first, shown.end)];
  const ids = rows.map((row) => idAt(message!, row));
  useEffect(() => {
    live.watchRows(ids);
    book.want(ids);
  });
  useEffect(
    () => () => {
      live.watchRows([]);
      live.hold(false);
    },
    [live],
  );
  const height = cards ? CARD_PX : ROW_PX;

  return (
    <div
      class={`session-list${cards ? ' is-cards' : ''}${props.hideStream ? ' without-stream' : ''}`}
      role="table"
      aria-label="Sessions"
      aria-rowcount={view.order.length + 1}>
      {!cards && <Head {...props} />}
      <div
        class="session-rows"
        role="rowgroup"
        ref={body}
        style={{ height: `${view.order.length * height}px`, '--row-height': `${height}px` }}
        onPointerEnter={(event) => event.pointerType === 'mouse' && live.hold(true)}
        onPointerLeave={() => live.hold(false)}
        onFocusIn={(event) => (event.target as Element).matches(':focus-visible') && live.hold(true)}
        onFocusOut={() => live.hold(false)}>
        {rows.map((row, index) => {
          const id = ids[index]!;
          return (
            <SessionRow
              key={shown.first + index}
              index={shown.first + index}
              top={(shown.first + index) * height}
              message={message!}
              row={row}
              details={book.get(id)}
              samples={view.sparks.get(id)}
              selected={props.selected === id}
              href={props.hrefOf(id)}
              onKick={setKicking}
            />
          );
        })}
      </div>
      {kicking !== null && (
        <KickDialog
          session={kicking}
          address={book.get(kicking.id)?.address ?? null}
          onClose={() => setKicking(null)}
        />
      )}
    </div>
  );
}

function Head({ view, sort, descending, onSort }: SessionListProps) {
  return (
    <div class={`session-head${view.held ? ' is-held' : ''}`} role="row" aria-rowindex={1}>
      {COLUMNS.map((column) => {
        const sorted = column.sort === sort;
        return (
          <div
            key={column.name}
            class={`cell-${column.name}${column.number ? ' number' : ''}`}
            role="columnheader"
            aria-sort={!sorted ? undefined : descending ? 'descending' : 'ascending'}>
            {column.sort === undefined ? (
              <span class={column.name === 'spark' ? 'offscreen' : ''}>{column.title}</span>
            ) : (
              <button type="button" class="sort-button" onClick={() => onSort(column.sort!)}>
                {column.title}
                <span class="sort-mark" aria-hidden="true">
                  {sorted ? (descending ? '▾' : '▴') : ''}
                </span>
                {sorted && view.held && <span class="sort-held">order held</span>}
              </button>
            )}
          </div>
        );
      })}
      <div class="cell-action" role="columnheader">
        <span class="offscreen">Actions</span>
      </div>
    </div>
  );
}

/** Follows scrolling and sizes. The page itself scrolls, so the list has no scroll bar of its own. */
function useRowWindow(
  body: { current: HTMLDivElement | null },
  rows: number,
): { window: RowWindow; cards: boolean } {
  const [window_, setWindow] = useState<RowWindow>({ first: 0, end: 0 });
  const [cards, setCards] = useState(false);
  useEffect(() => {
    const element = body.current;
    if (element === null) return undefined;
    let due = 0;
    const look = () => {
      due = 0;
      const box = element.getBoundingClientRect();
      const narrow = box.width < CARDS_BELOW_PX;
      setCards(narrow);
      const next = rowWindow(box.top, innerHeight, narrow ? CARD_PX : ROW_PX, rows);
      setWindow((known) => (known.first === next.first && known.end === next.end ? known : next));
    };
    const soon = () => {
      if (due === 0) due = requestAnimationFrame(look);
    };
    look();
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    const size = new ResizeObserver(soon);
    size.observe(document.body);
    size.observe(element);
    return () => {
      cancelAnimationFrame(due);
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
      size.disconnect();
    };
  }, [body, rows]);
  return { window: { first: Math.min(window_.first, rows), end: Math.min(window_.end, rows) }, cards };
}
