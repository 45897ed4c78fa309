/**
 * Samples as rows of a chart. Pure, so it can be tested without a browser.
 */

export interface ChartLine {
  /** One value a sample; NaN where none is known. */
  values: Float32Array;
}

/** Samples further apart than this are not joined: there were none in between. */
const GAP_MS = 3_500;
/** Shortest and longest time a chart shows, in seconds. */
const SPAN_MIN = 60;
const SPAN_MAX = 300;

/** The newest samples of another series, one for each time of a chart; what is not known is NaN. */
export function aligned(samples: readonly number[], times: number): Float32Array {
  const values = new Float32Array(times).fill(Number.NaN);
  const newest = times === 0 ? [] : samples.slice(-times);
  values.set(newest, times - newest.length);
  return values;
}

/** Seconds since 1970, and the values of each line; null breaks a line. */
export function chartRows(timeMs: Float64Array, lines: readonly ChartLine[]): (number | null)[][] {
  const rows: (number | null)[][] = Array.from({ length: lines.length + 1 }, () => []);
  timeMs.forEach((time, index) => {
    const before = timeMs[index - 1];
    if (before !== undefined && time - before > GAP_MS) {
      rows[0]!.push((before + 1) / 1000);
      for (let line = 1; line < rows.length; line += 1) rows[line]!.push(null);
    }
    rows[0]!.push(time / 1000);
    lines.forEach(({ values }, line) => {
      const value = values[index] ?? Number.NaN;
      rows[line + 1]!.push(Number.isFinite(value) ? value : null);
    });
  });
  return rows;
}

/**
 * From and to in seconds: ends at the newest sample, and widens as samples come, so that the first minute is
 * not a dot.
 */
export function span(timeMs: Float64Array): [number, number] {
  const last = (timeMs.at(-1) ?? 0) / 1000;
  const held = last - (timeMs[0] ?? 0) / 1000;
  return [last - Math.min(SPAN_MAX, Math.max(SPAN_MIN, held)), last];
}
