/** Samples as rows of a chart, and which rows of a long list are made. */
import { describe, expect, it } from 'vitest';
import { aligned, chartRows, span } from '../src/lib/chart-rows';
import { rowWindow } from '../src/lib/row-window';

describe('chart rows', () => {
  it('have seconds, and null where nothing is known', () => {
    const rows = chartRows(Float64Array.of(1000, 2000, 3000), [{ values: Float32Array.of(1, Number.NaN, 3) }, { values: Float32Array.of(5, 6) }]);
    expect(rows).toEqual([[1, 2, 3], [1, null, 3], [5, 6, null]]);
  });

  it('have the newest of another series at their end', () => {
    const cases: [number[], number, number[]][] = [
      [[1, 2], 4, [Number.NaN, Number.NaN, 1, 2]], // it has begun later
      [[1, 2, 3], 2, [2, 3]], // or is held for longer
      [[1, 2], 0, []],
      [[], 1, [Number.NaN]],
    ];
    for (const [samples, times, expected] of cases) expect([...aligned(samples, times)]).toEqual(expected);
  });

  it('break where samples are missing', () => {
    expect(chartRows(Float64Array.of(1000, 2000, 9000), [{ values: Float32Array.of(1, 2, 3) }])).toEqual([[1, 2, 2.001, 9], [1, 2, null, 3]]);
    expect(chartRows(new Float64Array(), [{ values: new Float32Array() }])).toEqual([[], []]);
  });

  it.each([
    [[100_000], [40, 100]], // a first sample stands at the right edge of a minute
    [[100_000, 130_000], [70, 130]],
    [[100_000, 220_000], [100, 220]], // widens as samples come
    [[100_000, 900_000], [600, 900]], // up to five minutes
  ])('of %j show %j', (times, expected) => expect(span(Float64Array.from(times))).toEqual(expected));
});

describe('the rows that are made', () => {
  it.each([
    [100, 0, { first: 0, end: 0 }],
    [100, 10_000, { first: 0, end: 16 }], // below the head of the page: 10 rows fit, some more follow
    [100, 5, { first: 0, end: 5 }], // all there are
    [9000, 50, { first: 0, end: 50 }], // few: wherever they are
    [-50_000, 10_000, { first: 992, end: 1020 }],
    [-499_600, 10_000, { first: 9984, end: 10_000 }], // the end
    [-900_000, 10_000, { first: 10_000, end: 10_000 }], // the list has become shorter
    [5000, 10_000, { first: 0, end: 0 }], // far below
  ])('with its top at %i of %i rows', (top, rows, expected) => {
    expect(rowWindow(top, 600, 50, rows)).toEqual(expected);
  });

  it('always cover what can be seen, and not many more', () => {
    for (let top = 900; top > -600_000; top -= 137) {
      const { first, end } = rowWindow(top, 900, 54, 10_000);
      const [from, to] = [Math.max(0, Math.floor(-top / 54)), Math.min(10_000, Math.max(0, Math.ceil((900 - top) / 54)))];
      if (from >= to) continue;
      expect(first).toBeLessThanOrEqual(from);
      expect(end).toBeGreaterThanOrEqual(to);
      expect(end - first).toBeLessThan(40);
    }
  });
});
