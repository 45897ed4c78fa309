/** Histories of things that come and go, within a limit of memory. */
import { expect, it } from 'vitest';
import { Recorder } from '../src/stats/recorder';
import { Slots } from '../src/stats/slots';

const round = (slots: Slots<string>, keys: string[], kept: string | null = null) => [...slots.round(keys.length, (row) => keys[row]!, kept)];

it('a thing keeps its slot while it is there, and another gets it afterwards', () => {
  const slots = new Slots<string>();
  expect(round(slots, ['a', 'b'])).toEqual([0, 1]);
  expect(round(slots, ['b', 'c'])).toEqual([1, 2]);
  expect(slots.get('a')).toBeNull();
  expect(round(slots, ['d', 'c', 'b'])).toEqual([0, 2, 1]);
  expect([slots.since(0), slots.since(1), slots.since(2)]).toEqual([3, 1, 2]);
  expect(slots.size).toBe(3);
});

it('the one that is kept has its slot after it has gone, and the same when it comes back', () => {
  const slots = new Slots<string>();
  round(slots, ['a', 'b']);
  expect(round(slots, ['c'], 'a')).toEqual([2]);
  expect(slots.get('a')).toBe(0);
  expect(round(slots, ['a', 'd'])).toEqual([0, 1]);
});

it('a thing that is listed twice has one slot', () => {
  const slots = new Slots<string>();
  expect(round(slots, ['a', 'a', 'b'])).toEqual([0, 0, 1]);
  expect(round(slots, [])).toEqual([]);
  expect(round(slots, ['x', 'y', 'z'])).toHaveLength(3);
  expect(new Set(round(slots, ['x', 'y', 'z'])).size).toBe(3);
});

it('gives the samples of one slot since its thing came', () => {
  const recorder = new Recorder(2);
  recorder.record(1000, 1, 1, Uint32Array.of(0), [[5], [50]]);
  recorder.record(2000, 2, 2, Uint32Array.of(1, 0), [[7, 6], [70, 60]]);
  recorder.record(3000, 3, 2, Uint32Array.of(1), [[8], [80]]);
  const first = recorder.track(0, 1);
  expect([...first.timeMs]).toEqual([1000, 2000, 3000]);
  expect(first.values.map((values) => [...values])).toEqual([[5, 6, Number.NaN], [50, 60, Number.NaN]]);
  expect([...recorder.track(0, 2).timeMs]).toEqual([2000, 3000]);
  expect([...recorder.newest(1, 1, 1, 2)]).toEqual([70, 80]);
  expect([...recorder.newest(1, 3, 0, 2)]).toEqual([8]);
  // Not there yet when the first was taken.
  expect(recorder.track(1, 1).values[0]![0]).toBeNaN();
});

it('holds so many samples', () => {
  const recorder = new Recorder(1, 3);
  for (let time = 1; time <= 5; time += 1) recorder.record(time, time, 1, Uint32Array.of(0), [[10 * time]]);
  expect([...recorder.track(0, 0).values[0]!]).toEqual([30, 40, 50]);
});

it('holds so many bytes, whatever the number of things', () => {
  const recorder = new Recorder(2, 100, 1_000);
  for (let time = 1; time <= 20; time += 1) {
    // 10 things, then 40: 80 and 320 bytes a sample.
    const size = time <= 10 ? 10 : 40;
    recorder.record(time, time, size, new Uint32Array(), [[], []]);
    expect(recorder.bytes).toBeLessThanOrEqual(1_000);
  }
  expect(recorder.length).toBe(3);
  expect(recorder.bytes).toBe(960);
  recorder.clear();
  expect([recorder.length, recorder.bytes]).toEqual([0, 0]);
});

it('memory that is used again carries nothing over', () => {
  const recorder = new Recorder(1, 1);
  recorder.record(1, 1, 2, Uint32Array.of(0, 1), [[5, 6]]);
  recorder.record(2, 2, 2, Uint32Array.of(1), [[7]]);
  expect([...recorder.track(0, 0).values[0]!]).toEqual([Number.NaN]);
});
