/** Stores, histories, preferences and the geometry of sparklines. */
import { describe, expect, it, vi } from 'vitest';
import { sparklinePath } from '../src/lib/sparkline-path';
import { Series, SeriesMap } from '../src/state/history';
import { Preferences, type KeyValue } from '../src/state/preferences';
import { Store } from '../src/state/store';

it('a store tells its readers of changes only', () => {
  const store = new Store(1);
  const listener = vi.fn();
  const stop = store.subscribe(listener);
  store.set(1);
  expect(listener).not.toHaveBeenCalled();
  store.set(2);
  expect(listener).toHaveBeenCalledTimes(1);
  stop();
  store.set(3);
  expect(listener).toHaveBeenCalledTimes(1);
});

it('a series keeps the newest samples', () => {
  const series = new Series(3);
  for (const value of [1, 2, Number.NaN, 4]) series.push(value);
  expect(series.samples).toEqual([2, 0, 4]);
});

it('series that get no sample are forgotten', () => {
  const map = new SeriesMap();
  map.round([['a', 1], ['b', 1]]);
  map.round([['a', 2]]);
  map.round([['a', 3], ['b', 3]]);
  expect(map.get('a')).toEqual([1, 2, 3]);
  expect(map.get('b')).toEqual([3]);
  expect(map.get('c')).toEqual([]);
});

describe('sparklines', () => {
  it('need four samples', () => expect(sparklinePath([5, 5, 5], 10, 100, 20).line).toBe(''));

  it('put the newest sample at the right edge and grow leftwards', () => {
    expect(sparklinePath([0, 0, 0, 0], 11, 100, 20).line).toBe('M70.0 20.0L80.0 20.0L90.0 20.0L100.0 20.0');
    expect(sparklinePath([9, 9, 0, 0], 2, 100, 20, 1).line).toBe('M0.0 20.0L100.0 20.0');
  });

  it('keep the highest sample inside the box and respect the ceiling', () => {
    const [top] = sparklinePath([0, 0, 100, 0], 2, 100, 20).line.slice(1).split('L').map((point) => Number(point.split(' ')[1]));
    expect(top).toBeGreaterThan(0);
    expect(sparklinePath([25, 25, 25, 25], 2, 100, 20, 100).line).toBe('M0.0 15.0L100.0 15.0');
  });
});

describe('preferences', () => {
  const memory = (values: Record<string, string> = {}): KeyValue & { values: Record<string, string> } => ({
    values,
    getItem: (key) => values[key] ?? null,
    setItem: (key, value) => void (values[key] = value),
    removeItem: (key) => void delete values[key],
  });

  it('keep theme and transport, and the token only in the tab', () => {
    const lasting = memory();
    const tab = memory();
    const first = new Preferences(lasting, tab);
    first.theme.set('light');
    first.transport.set('ws');
    first.token.set('secret');
    const second = new Preferences(lasting, memory());
    expect([second.theme.value, second.transport.value, second.token.value]).toEqual(['light', 'ws', null]);
    expect(JSON.stringify(lasting.values)).not.toContain('secret');
    expect(new Preferences(lasting, tab).token.value).toBe('secret');
    first.theme.set('system');
    expect(new Preferences(lasting, tab).theme.value).toBe('system');
  });

  it('work without storage', () => {
    const broken: KeyValue = {
      getItem: () => { throw new Error('forbidden'); },
      setItem: () => { throw new Error('full'); },
      removeItem: () => { throw new Error('forbidden'); },
    };
    const preferences = new Preferences(broken, null);
    preferences.theme.set('dark');
    preferences.token.set('t');
    expect(preferences.theme.value).toBe('dark');
  });
});
