/**
 * Runs a request over and over: once per interval while it succeeds, with back-off while it fails.
 *
 * Never two at a time. Stopping aborts the request under way, and its outcome is then ignored.
 */
import { asApiError, type ApiError } from '../api/errors';
import { backoffDelay } from '../lib/backoff';

export interface PollLoopOptions {
  run: (signal: AbortSignal) => Promise<void>;
  intervalMs: number;
  /** Called after each failure with the number of failures in a row and the delay before the next try. */
  onFailure?: (error: ApiError, failures: number, retryInMs: number) => void;
  onSuccess?: () => void;
  random?: () => number;
}

/** Longest pause between two tries, in milliseconds. */
const RETRY_CAP_MS = 5_000;
/** A refusal does not heal by itself; asking again is only for the case that the configuration changes. */
const REFUSED_RETRY_MS = 15_000;

export class PollLoop {
  readonly #options: PollLoopOptions;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #abort: AbortController | null = null;
  #failures = 0;
  #running = false;

  constructor(options: PollLoopOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#running) return;
    this.#running = true;
    void this.#turn();
  }

  stop(): void {
    this.#running = false;
    this.#cancel();
  }

  /** Asks at once instead of at the next turn. */
  now(): void {
    if (!this.#running) return;
    this.#cancel();
    void this.#turn();
  }

  #cancel(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#abort?.abort();
    this.#abort = null;
  }

  async #turn(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    let delay = this.#options.intervalMs;
    try {
      await this.#options.run(abort.signal);
      if (abort.signal.aborted) return;
      this.#failures = 0;
      this.#options.onSuccess?.();
    } catch (cause) {
      if (abort.signal.aborted) return;
      const error = asApiError(cause);
      this.#failures += 1;
      delay = retryDelay(error, this.#failures, this.#options);
      this.#options.onFailure?.(error, this.#failures, delay);
    }
    this.#timer = setTimeout(() => void this.#turn(), delay);
  }
}

function retryDelay(error: ApiError, failures: number, options: PollLoopOptions): number {
  if (error.kind === 'forbidden' || error.kind === 'unauthorized') return REFUSED_RETRY_MS;
  return backoffDelay({ firstMs: options.intervalMs, capMs: RETRY_CAP_MS }, failures, options.random);
}
