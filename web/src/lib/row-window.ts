/**
 * Which rows of a long list are near what can be seen. Pure, so it can be tested without a browser.
 */

/** Rows made beyond what can be seen, above and below, so that scrolling meets them. */
const BEYOND = 6;
/** Lists up to this are made as a whole, so that searching in the page and printing it find all of them. */
const WHOLE_ROWS_MAX = 50;
/** The window moves in steps of so many rows, so that most movements change nothing. */
const STEP = 4;

export interface RowWindow {
  first: number;
  /** One past the last. */
  end: number;
}

/**
 * `top` is where the list begins, in pixels from the upper edge of the view (negative once scrolled past).
 */
export function rowWindow(top: number, viewHeight: number, rowHeight: number, rows: number): RowWindow {
  if (rows <= WHOLE_ROWS_MAX) return { first: 0, end: rows };
  const above = Math.floor(-top / rowHeight) - BEYOND;
  const below = Math.ceil((viewHeight - top) / rowHeight) + BEYOND;
  const first = Math.min(Math.max(0, above - (((above % STEP) + STEP) % STEP)), rows);
  const end = Math.min(rows, Math.max(first, Math.ceil(below / STEP) * STEP));
  return { first, end };
}
