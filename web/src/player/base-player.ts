/**
 * What players of every transport share: their state, their failures and how they try again, and a person's
 * pause.
 */
import { backoffDelay } from '../lib/backoff';
import type { Trouble } from '../lib/trouble';
import { IDLE, type PlayerState, type StreamPlayerOptions } from './player';

/** Playing for this long makes the next failure count as the first. */
const STABLE_MS = 5_000;
/** Paused for this long: give the connection back to the server. */
const PAUSED_MAX_MS = 20_000;
const TRIES_MAX_FEW = 3;
const RETRY = { firstMs: 1_000, capMs: 8_000 };

export abstract class BasePlayer<Options extends StreamPlayerOptions> {
  protected readonly options: Options;
  protected readonly video: HTMLVideoElement;
  protected failures = 0;
  protected retryTimer: ReturnType<typeof setTimeout> | undefined;
  protected playingSinceMs: number | null = null;
  protected pausedSinceMs: number | null = null;
  #state: PlayerState = IDLE;

  constructor(options: Options) {
    this.options = options;
    this.video = options.video;
  }

  get state(): PlayerState {
    return this.#state;
  }

  pause(): void {
    this.video.pause();
  }

  /** Gives the connection up. */
  protected abstract close(): void;
  /** Opens a new connection in place of this one. */
  protected abstract reopen(): void;

  protected fail(trouble: Trouble): void {
    this.failures += 1;
    this.close();
    if (this.options.onTrouble?.(trouble) === true) return;
    const { text: message, needsToken } = trouble;
    if (trouble.retry === 'never' || (trouble.retry === 'few' && this.failures > TRIES_MAX_FEW)) {
      this.set({ phase: 'failed', message, needsToken, retryAtMs: null, bytesPerSecond: 0 });
      return;
    }
    const delay = Math.max(backoffDelay(RETRY, this.failures, this.options.random), trouble.waitMs ?? 0);
    const retryAtMs = this.now() + delay;
    this.set({ phase: 'retrying', message, needsToken: false, retryAtMs, bytesPerSecond: 0 });
    this.retryTimer = setTimeout(() => this.reopen(), delay);
  }

  /** Plays what the element has, as long as `current` connection is the one that began. */
  protected play(current: () => boolean): void {
    this.video.play().catch((cause: unknown) => {
      // Other reasons (a new source was set meanwhile) report themselves in other ways.
      const refused = cause instanceof DOMException && cause.name === 'NotAllowedError';
      if (refused && current())
        this.set({ phase: 'blocked', message: 'The browser waits for a click before it plays.' });
    });
  }

  /** The element plays. */
  protected playing(): void {
    this.playingSinceMs ??= this.now();
    this.pausedSinceMs = null;
    this.set({ phase: 'playing', message: '' });
  }

  /** The element was paused; only a person's pause counts. */
  protected paused(): void {
    if (!this.showing) return;
    this.pausedSinceMs = this.now();
    this.set({ phase: 'paused', message: '' });
  }

  protected get showing(): boolean {
    return this.state.phase === 'playing' || this.state.phase === 'buffering' || this.state.phase === 'waiting';
  }

  protected forgetFailures(now: number): void {
    if (this.playingSinceMs !== null && now - this.playingSinceMs > STABLE_MS) this.failures = 0;
  }

  protected watchPaused(now: number): void {
    if (this.pausedSinceMs === null || now - this.pausedSinceMs < PAUSED_MAX_MS) return;
    this.close();
    this.set({ bytesPerSecond: 0 });
  }

  protected set(change: Partial<PlayerState>): void {
    this.#state = { ...this.#state, ...change };
    this.options.onState(this.#state);
  }

  protected now(): number {
    return (this.options.now ?? Date.now)();
  }
}
