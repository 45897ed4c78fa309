/** Messages in, what the page shows out. */
import { expect, it } from 'vitest';
import { Engine } from '../src/stats/engine';
import { idAt } from '../src/stats/row';
import { SESSION_FIGURES, type Report } from '../src/stats/protocol';
import { ALL } from '../src/stats/select';
import { percentile, STREAM_FIGURES, TOTAL_FIGURES } from '../src/stats/summary';
import { aRow, packed, type SampleSession } from './stats-samples';

type FrameReport = Extract<Report, { kind: 'frame' }>;

class Page {
  readonly engine = new Engine(() => 0);
  sequence = 0;
  last!: FrameReport;

  message(rows: SampleSession[], change: Record<string, unknown> = {}): FrameReport {
    this.sequence += 1;
    const report = this.engine.message(packed(this.sequence, rows, change));
    if (report?.kind !== 'frame') throw new Error('a message makes a frame');
    this.last = report;
    return report;
  }

  ids(order = this.last.order): string[] {
    return [...order].map((row) => idAt(this.last.frame.message, row));
  }

  rates(): number[] {
    return [...(this.last.tracks.session?.track.values[SESSION_FIGURES.indexOf('bits_per_second')] ?? [])];
  }
}

it('sums up all sessions', () => {
  const page = new Page();
  const rows = [aRow('0-1', { role: 1, rtt: 5 }), aRow('0-2', { rtt: 10, loss: 2 }), aRow('0-3', { rtt: 40, loss: 1.9, queueMs: 1000 }), aRow('0-4', { queueMs: 999 })];
  const { frame, tracks } = page.message(rows);
  expect(frame.summary).toEqual({ sessions: 4, publishers: 1, players: 3, rttMedianMs: 10, rttP95Ms: 40, lossy: 1, behind: 1 });
  const total = (figure: (typeof TOTAL_FIGURES)[number]) => tracks.all.values[TOTAL_FIGURES.indexOf(figure)]![0];
  expect([total('bitsOut'), total('bitsIn'), total('sessions'), total('rttP95Ms')]).toEqual([9000, 500, 4, 40]);
});

it('keeps the history of a session, and of one that came later under the same slot only its own', () => {
  const page = new Page();
  page.message([aRow('0-1', { rate: 100 }), aRow('0-2')]);
  page.message([aRow('0-2'), aRow('0-3', { rate: 300 })]);
  page.engine.watch({ session: '0-3', stream: null });
  page.message([aRow('0-2'), aRow('0-3', { rate: 301 })]);
  expect(page.rates()).toEqual([300, 301]);
  page.engine.watch({ session: '0-1', stream: null });
  expect(page.message([aRow('0-2')]).tracks.session).toBeNull();
});

it('keeps the history of the session that is looked at when it ends', () => {
  const page = new Page();
  page.engine.watch({ session: '0-1', stream: null });
  page.message([aRow('0-1', { rate: 100 })]);
  expect(page.last.tracks.session?.present).toBe(true);
  page.message([aRow('0-2')]);
  expect(page.last.tracks.session?.present).toBe(false);
  expect(page.rates()).toEqual([100, Number.NaN]);
});

it('keeps figures of each stream, whether looked at or not', () => {
  const page = new Page();
  page.message([aRow('0-1', { rtt: 10 }), aRow('0-2', { rtt: 30 }), aRow('0-3', { stream: 'live/b', loss: 3 })]);
  const report = page.engine.watch({ session: null, stream: 'live/a' });
  if (report?.kind !== 'tracks') throw new Error('watching gives what is there');
  const figure = (name: (typeof STREAM_FIGURES)[number]) => report.tracks.stream?.track.values[STREAM_FIGURES.indexOf(name)]![0];
  expect(report.tracks.stream?.summary).toMatchObject({ sessions: 2, lossy: 0, rttMedianMs: 10 });
  expect([figure('rttMeanMs'), figure('lossy'), figure('players'), figure('bitsOut')]).toEqual([20, 0, 1, 9000]);
  page.engine.watch({ session: null, stream: 'live/nobody' });
  expect(page.message([aRow('0-1')]).tracks.stream).toBeNull();
});

it('gives rates for the rows that can be seen', () => {
  const page = new Page();
  page.message([aRow('0-1', { rate: 1 }), aRow('0-2', { rate: 5 })]);
  page.message([aRow('0-1', { rate: 2 })]);
  const report = page.engine.rows(['0-1', '0-2', 'nonsense']);
  expect(report.kind === 'sparks' && [...report.sparks].map(([id, values]) => [id, [...values]])).toEqual([['0-1', [1, 2]]]);
});

it('sorts again on a query, and not while held', () => {
  const page = new Page();
  page.engine.query({ ...ALL, sort: 'rate' });
  page.message([aRow('0-1', { rate: 1 }), aRow('0-2', { rate: 5 })]);
  expect(page.ids()).toEqual(['0-2', '0-1']);
  page.engine.hold(true);
  page.message([aRow('0-3', { rate: 99 }), aRow('0-1', { rate: 50 }), aRow('0-2', { rate: 5 })]);
  expect(page.ids()).toEqual(['0-2', '0-1', '0-3']);
  const released = page.engine.hold(false);
  expect(released?.kind === 'order' && page.ids(released.order)).toEqual(['0-3', '0-1', '0-2']);
});

it('takes the same message only once', () => {
  const page = new Page();
  page.message([aRow('0-1')]);
  expect(page.engine.message(packed(1, [aRow('0-1')]))).toBeNull();
  expect(page.message([aRow('0-1')]).tracks.all.timeMs).toHaveLength(2);
});

it('begins new histories when the server was restarted or its clock went back', () => {
  const page = new Page();
  page.message([aRow('0-1')]);
  page.message([aRow('0-1')]);
  expect(page.message([aRow('0-1')], { time_ms: 5 }).tracks.all.timeMs).toHaveLength(1);
  page.sequence = 0;
  page.engine.watch({ session: '0-1', stream: null });
  page.message([aRow('0-1', { rate: 7 })], { time_ms: 1_800_000_000_000 });
  expect(page.rates()).toEqual([7]);
});

it('a broken message changes nothing', () => {
  const page = new Page();
  page.message([aRow('0-1')]);
  expect(() => page.engine.message(packed(2, [aRow('0-1')], { version: 2 }))).toThrow();
  expect(page.message([aRow('0-1')]).tracks.all.timeMs).toHaveLength(2);
});

it('nearest-rank percentiles', () => {
  expect([percentile([], 50), percentile([1], 95), percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 95)]).toEqual([Number.NaN, 1, 2, 4]);
});
