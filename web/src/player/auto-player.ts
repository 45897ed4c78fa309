/**
 * Plays a stream by the transport that is preferred, and by another when that one cannot.
 *
 * A round tries the sources in order. A transport that this browser or network cannot use is left out until
 * the person asks again; a stream that is merely absent is looked for by every other transport, because it
 * may be published in a way that only those can play. One that nobody publishes is waited for by the
 * preferred transport.
 */
import { backoffDelay } from '../lib/backoff';
import type { Trouble } from '../lib/trouble';
import { IDLE, type PlayerState, type Source, type StreamPlayer, type Transport } from './player';

export interface AutoState extends PlayerState {
  transport: Transport;
  /** Why it is not the preferred one; empty when it is, or when nothing is known against it. */
  fallback: string;
}

export interface AutoPlayerOptions {
  make: (
    transport: Transport,
    onState: (state: PlayerState) => void,
    onTrouble: (trouble: Trouble) => boolean,
  ) => StreamPlayer;
  /** In order of preference, never empty; asked at the beginning of each round. */
  sources: () => Source[];
  onState: (state: AutoState) => void;
  now?: () => number;
  random?: () => number;
}

const RETRY = { firstMs: 1_000, capMs: 8_000 };

export class AutoPlayer {
  readonly #options: AutoPlayerOptions;
  #state: AutoState = { ...IDLE, transport: 'rtc', fallback: '' };
  #player: StreamPlayer | null = null;
  #transport: Transport = 'rtc';
  /** What is left of the present round. */
  #queue: Source[] = [];
  /** Transports that cannot be used, and why. */
  #ruledOut = new Map<Transport, string>();
  /** What the preferred transport said in this round. */
  #fallback = '';
  #failures = 0;
  #reconnects = 0;
  #running = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: AutoPlayerOptions) {
    this.#options = options;
  }

  /** The player at work; null between two rounds. */
  get player(): StreamPlayer | null {
    return this.#player;
  }

  /** Plays `sources()` from now on; forgets what was learned about transports. */
  start(): void {
    this.stop();
    this.#running = true;
    this.#ruledOut.clear();
    this.#failures = 0;
    this.#reconnects = 0;
    this.#round();
  }

  stop(): void {
    this.#running = false;
    clearTimeout(this.#timer);
    this.#drop();
    this.#report({ ...IDLE });
  }

  retryNow(): void {
    if (!this.#running) return;
    this.#failures = 0;
    this.#ruledOut.clear();
    if (this.#player === null) this.#round();
    else this.#player.retryNow();
  }

  /**
   * The stream has other tracks or codecs than before: transports that could not carry it are tried again.
   */
  formatChanged(): void {
    if (!this.#running) return;
    this.#failures = 0;
    this.#ruledOut.clear();
    if (this.#player === null) this.#round();
    else this.#player.formatChanged();
  }

  pause(): void {
    this.#player?.pause();
  }

  resume(): void {
    if (this.#player === null) this.retryNow();
    else this.#player.resume();
  }

  #round(): void {
    clearTimeout(this.#timer);
    const [preferred] = this.#options.sources();
    this.#fallback = (preferred && this.#ruledOut.get(preferred.transport)) ?? '';
    this.#queue = this.#usable();
    // With everything ruled out there is nothing left but to start over.
    if (this.#queue.length === 0) this.#queue = this.#options.sources();
    this.#next();
  }

  #usable(): Source[] {
    return this.#options.sources().filter(({ transport }) => !this.#ruledOut.has(transport));
  }

  #next(): void {
    const source = this.#queue.shift();
    if (source === undefined) return;
    this.#drop();
    this.#transport = source.transport;
    const current = () => this.#player === player;
    const player: StreamPlayer = this.#options.make(
      source.transport,
      (state) => current() && this.#follow(state),
      (trouble) => current() && this.#trouble(trouble),
    );
    this.#player = player;
    player.start(source.url, source.token);
  }

  #drop(): void {
    const player = this.#player;
    this.#player = null;
    player?.destroy();
  }

  #follow(state: PlayerState): void {
    if (state.phase === 'playing') this.#failures = 0;
    this.#report({ ...state, reconnects: state.reconnects + this.#reconnects });
  }

  #trouble(trouble: Trouble): boolean {
    if (trouble.elsewhere === undefined) return false;
    if (trouble.elsewhere === 'nobody') return this.#nobody(trouble);
    if (trouble.elsewhere === 'cannot') this.#ruledOut.set(this.#transport, trouble.text);
    const [preferred] = this.#options.sources();
    if (preferred?.transport === this.#transport) this.#fallback = trouble.text;
    if (this.#queue.length > 0) {
      this.#next();
      return true;
    }
    const left = this.#usable();
    // The only one left looks after itself.
    if (left.length === 0 || (left.length === 1 && left[0]?.transport === this.#transport)) return false;
    this.#wait(trouble);
    return true;
  }

  /** The stream is yet to come: the preferred transport waits for it, another one gives the turn back. */
  #nobody(trouble: Trouble): boolean {
    if (this.#usable()[0]?.transport === this.#transport) return false;
    this.#wait(trouble);
    return true;
  }

  /** All have been tried: a pause, then all of them again. */
  #wait(trouble: Trouble): void {
    this.#failures += 1;
    this.#reconnects += 1;
    this.#drop();
    const delay = Math.max(backoffDelay(RETRY, this.#failures, this.#options.random), trouble.waitMs ?? 0);
    const retryAtMs = (this.#options.now ?? Date.now)() + delay;
    this.#report({
      ...IDLE,
      phase: 'retrying',
      message: trouble.text,
      retryAtMs,
      reconnects: this.#reconnects,
    });
    this.#timer = setTimeout(() => this.#round(), delay);
  }

  #report(state: PlayerState): void {
    const preferred = this.#running ? this.#options.sources()[0]?.transport : undefined;
    this.#state = {
      ...state,
      transport: this.#transport,
      fallback: preferred === this.#transport ? '' : this.#fallback,
    };
    this.#options.onState(this.#state);
  }
}
