/** Polling: pace, back-off, and that stopping really stops. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ApiError } from '../src/api/errors';
import { backoffDelay } from '../src/lib/backoff';
import { PollLoop } from '../src/state/poll-loop';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const middle = () => 0.5;

it('asks once per interval and never twice at a time', async () => {
  let open = 0;
  let most = 0;
  const run = vi.fn(async () => {
    open += 1;
    most = Math.max(most, open);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    open -= 1;
  });
  const loop = new PollLoop({ run, intervalMs: 1_000 });
  loop.start();
  loop.start();
  await vi.advanceTimersByTimeAsync(3 * 3_500);
  expect(run).toHaveBeenCalledTimes(4);
  expect(most).toBe(1);
  loop.stop();
});

it('waits longer after each failure, up to five seconds, and starts over after a success', async () => {
  let failing = true;
  const delays: number[] = [];
  const run = vi.fn(async () => {
    if (failing) throw new ApiError('unreachable', 'gone');
  });
  const loop = new PollLoop({ run, intervalMs: 1_000, random: middle, onFailure: (_error, _failures, delay) => delays.push(delay) });
  loop.start();
  await vi.advanceTimersByTimeAsync(13_000);
  expect(delays).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
  failing = false;
  await vi.advanceTimersByTimeAsync(5_000);
  failing = true;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(delays.at(-1)).toBe(1_000);
  loop.stop();
});

it('asks rarely after a refusal', async () => {
  const run = vi.fn(() => Promise.reject(new ApiError('forbidden', 'no')));
  const loop = new PollLoop({ run, intervalMs: 1_000 });
  loop.start();
  await vi.advanceTimersByTimeAsync(14_000);
  expect(run).toHaveBeenCalledTimes(1);
  loop.now();
  expect(run).toHaveBeenCalledTimes(2);
  loop.stop();
});

it('ignores the outcome of a request that was stopped', async () => {
  const onFailure = vi.fn();
  const onSuccess = vi.fn();
  const run = async (signal: AbortSignal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    throw new ApiError('unreachable', 'stopped');
  };
  const loop = new PollLoop({ run, intervalMs: 1_000, onFailure, onSuccess });
  loop.start();
  loop.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(onFailure).not.toHaveBeenCalled();
  expect(onSuccess).not.toHaveBeenCalled();
});

it('spreads retries by fifteen percent around a doubling delay', () => {
  const backoff = { firstMs: 1_000, capMs: 8_000 };
  expect([1, 2, 3, 4, 5, 1000].map((attempt) => backoffDelay(backoff, attempt, middle))).toEqual([1000, 2000, 4000, 8000, 8000, 8000]);
  expect(backoffDelay(backoff, 1, () => 0)).toBe(850);
  expect(backoffDelay(backoff, 1, () => 1)).toBe(1150);
  expect(backoffDelay(backoff, 0, middle)).toBe(1000);
});
