/**
 * Steps through a long list in pages.
 */
import { count } from '../lib/format';
import { Icon } from './icons';

export interface PagerProps {
  offset: number;
  limit: number;
  total: number;
  onOffset: (offset: number) => void;
}

export function Pager({ offset, limit, total, onOffset }: PagerProps) {
  const last = Math.max(0, Math.floor((total - 1) / limit) * limit);
  const from = total === 0 ? 0 : offset + 1;
  const to = Math.min(total, offset + limit);
  return (
    <nav class="pager" aria-label="Pages">
      <span class="pager-range">
        {count(from)}–{count(to)} of {count(total)}
      </span>
      <button type="button" class="icon-button" disabled={offset === 0} onClick={() => onOffset(Math.max(0, offset - limit))} aria-label="Previous page">
        <Icon name="back" />
      </button>
      <button type="button" class="icon-button" disabled={offset >= last} onClick={() => onOffset(offset + limit)} aria-label="Next page">
        <Icon name="forward" />
      </button>
    </nav>
  );
}
