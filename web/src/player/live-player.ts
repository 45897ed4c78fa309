/**
 * Keeps one live stream playing in one video element by FLV: opens it, watches over it, opens it again.
 *
 * mpegts.js turns FLV into what the browser decodes. This file decides when a connection counts as lost, what
 * to tell the person watching, and how long to wait before the next try.
 */
import type Mpegts from 'mpegts.js';
import { always } from '../lib/trouble';
import { PLAYER_CONFIG } from './config';
import { BasePlayer } from './base-player';
import { keepLastPicture } from './last-picture';
import { IDLE, type StreamPlayer, type StreamPlayerOptions } from './player';
import { bufferedEnd, nextRangeStart } from './stats';
import { Tracks, UNKNOWN_TRACKS, type TrackHints } from './tracks';
import { describeEnd, describeError, type ErrorInfo } from './words';

export interface LivePlayerOptions extends StreamPlayerOptions {
  load: () => Promise<typeof Mpegts>;
  /** Asked at every connection. */
  hints?: () => TrackHints;
}

/** Data missing for this long: say so. */
const SILENT_MS = 4_000;
/** Data missing for this long: the connection may be dead, open a new one. */
const DEAD_MS = 30_000;
/** Data arrives but the picture stands for this long: start over. */
const STUCK_MS = 6_000;
/** One track announced, and nothing to show for this long: the other track does not come. */
const FIRST_PICTURE_MS = 1_500;
/** `HTMLMediaElement.HAVE_CURRENT_DATA`: nothing to play on with. */
const HAVE_CURRENT_DATA = 2;
const SILENT = 'No data arrives. Waiting for the publisher.';
const WATCH_MS = 500;

export class LivePlayer extends BasePlayer<LivePlayerOptions> implements StreamPlayer {
  #url: string | null = null;
  #player: Mpegts.Player | null = null;
  /** Counts openings; late answers of an earlier one are ignored. */
  #generation = 0;
  #watchTimer: ReturnType<typeof setInterval> | null = null;
  #dataAtMs = 0;
  #dataEnd = 0;
  #moveAtMs = 0;
  #moveTime = 0;
  #openedAtMs = 0;
  #tracks = new Tracks();

  constructor(options: LivePlayerOptions) {
    super(options);
    this.video.addEventListener('playing', this.#onPlaying);
    this.video.addEventListener('waiting', this.#onWaiting);
    this.video.addEventListener('pause', this.#onPause);
  }

  start(url: string): void {
    this.stop();
    this.#url = url;
    this.failures = 0;
    this.#tracks = new Tracks();
    this.#watchTimer = setInterval(() => this.#watch(), WATCH_MS);
    void this.#open();
  }

  stop(): void {
    this.#url = null;
    if (this.#watchTimer !== null) clearInterval(this.#watchTimer);
    this.#watchTimer = null;
    this.close();
    this.set({ ...IDLE });
  }

  destroy(): void {
    this.stop();
    this.video.removeEventListener('playing', this.#onPlaying);
    this.video.removeEventListener('waiting', this.#onWaiting);
    this.video.removeEventListener('pause', this.#onPause);
  }

  retryNow(): void {
    if (this.#url === null) return;
    this.failures = 0;
    this.reopen();
  }

  formatChanged(): void {
    if (this.#url === null) return;
    // What could not be played says nothing of what comes now.
    this.failures = 0;
    this.#tracks = new Tracks();
    if (this.state.phase === 'retrying' || this.state.phase === 'failed') this.reopen();
  }

  resume(): void {
    if (this.#player === null) {
      this.retryNow();
      return;
    }
    const end = bufferedEnd(this.video.buffered);
    if (end !== null && end - this.video.currentTime > 1) this.video.currentTime = end - 0.5;
    this.pausedSinceMs = null;
    this.#play();
  }

  async #open(): Promise<void> {
    const url = this.#url;
    if (url === null) return;
    const generation = ++this.#generation;
    this.set({ phase: 'connecting', message: '', needsToken: false, retryAtMs: null, bytesPerSecond: 0 });
    let mpegts: typeof Mpegts;
    try {
      mpegts = await this.options.load();
    } catch {
      if (generation === this.#generation) this.fail(always('The player could not be loaded.'));
      return;
    }
    if (generation !== this.#generation) return;
    if (!mpegts.isSupported()) {
      const text =
        'This browser has no Media Source Extensions, so it cannot play FLV. Try VLC or ffplay with the addresses given.';
      this.fail({ text, retry: 'never', needsToken: false, elsewhere: 'cannot' });
      return;
    }
    this.#attach(mpegts, url, generation);
  }

  #attach(mpegts: typeof Mpegts, url: string, generation: number): void {
    const webSocket = url.startsWith('ws');
    const source: Mpegts.MediaDataSource = { type: 'flv', isLive: true, cors: true, url };
    const tracks = this.#tracks.open(this.options.hints?.() ?? UNKNOWN_TRACKS);
    if (tracks.hasAudio !== null) source.hasAudio = tracks.hasAudio;
    if (tracks.hasVideo !== null) source.hasVideo = tracks.hasVideo;
    const player = mpegts.createPlayer(source, PLAYER_CONFIG);
    this.#player = player;
    const current = () => generation === this.#generation;
    // Closing is put off to a task of its own: this is the library's own call, and more of its
    // calls are queued as microtasks, which find nothing where a player was that is destroyed.
    const later = (close: () => void) => setTimeout(() => current() && close());
    player.on(mpegts.Events.ERROR, (_type: string, detail: string, info: ErrorInfo) => {
      if (current()) later(() => this.fail(describeError(detail, info ?? {}, webSocket)));
    });
    player.on(mpegts.Events.LOADING_COMPLETE, () => {
      if (current()) later(() => this.fail(describeEnd()));
    });
    player.on(mpegts.Events.METADATA_ARRIVED, (metadata: Record<string, unknown>) => {
      if (current() && this.#tracks.announce(metadata)) later(() => this.reopen(false));
    });
    player.on(mpegts.Events.STATISTICS_INFO, (statistics: { speed?: number }) => {
      if (current()) this.#measured((statistics.speed ?? 0) * 1024);
    });
    const now = this.now();
    this.#openedAtMs = now;
    this.#dataAtMs = now;
    this.#dataEnd = 0;
    this.#moveAtMs = now;
    this.#moveTime = -1;
    this.pausedSinceMs = null;
    player.attachMediaElement(this.video);
    player.load();
    this.#play();
  }

  #play(): void {
    const generation = this.#generation;
    this.play(() => generation === this.#generation);
  }

  #measured(bytesPerSecond: number): void {
    if (bytesPerSecond > 0) this.#dataAtMs = this.now();
    this.set({ bytesPerSecond });
  }

  protected reopen(counted = true): void {
    if (this.#url === null) return;
    this.close();
    if (counted) this.set({ reconnects: this.state.reconnects + 1 });
    void this.#open();
  }

  protected close(): void {
    this.#generation += 1;
    clearTimeout(this.retryTimer);
    this.playingSinceMs = null;
    const player = this.#player;
    this.#player = null;
    if (player === null) return;
    keepLastPicture(this.video);
    player.destroy();
  }

  readonly #onPlaying = (): void => {
    if (this.#player === null) return;
    this.playing();
  };

  readonly #onWaiting = (): void => {
    if (this.#player !== null && this.state.phase === 'playing')
      this.set({ phase: 'buffering', message: '' });
  };

  readonly #onPause = (): void => {
    // Tearing down a connection pauses the element as well; only a person's pause counts.
    if (this.#player !== null) this.paused();
  };

  /** Looks after the connection twice a second. */
  #watch(): void {
    if (this.#player === null) return;
    const now = this.now();
    const end = bufferedEnd(this.video.buffered);
    if (end !== null && end > this.#dataEnd) {
      this.#dataEnd = end;
      this.#dataAtMs = now;
    }
    if (this.video.currentTime !== this.#moveTime) {
      this.#moveTime = this.video.currentTime;
      this.#moveAtMs = now;
    }
    this.forgetFailures(now);
    switch (this.state.phase) {
      case 'paused':
        this.watchPaused(now);
        break;
      case 'connecting':
      case 'playing':
      case 'buffering':
      case 'waiting':
        this.#watchRunning(now);
        break;
      default:
    }
  }

  #watchRunning(now: number): void {
    const silent = now - this.#dataAtMs;
    const still = now - this.#moveAtMs;
    const hole = nextRangeStart(this.video.buffered, this.video.currentTime);
    const starved = this.video.readyState <= HAVE_CURRENT_DATA && now - this.#openedAtMs >= FIRST_PICTURE_MS;
    if (still > 1_000 && hole !== null) {
      this.video.currentTime = hole + 0.01;
    } else if (
      starved &&
      still >= FIRST_PICTURE_MS &&
      silent < FIRST_PICTURE_MS &&
      this.#tracks.suspectMissing()
    ) {
      this.reopen(false);
    } else if (silent > DEAD_MS) {
      this.reopen();
    } else if (
      silent > SILENT_MS &&
      still > SILENT_MS &&
      this.#dataEnd === 0 &&
      this.options.onTrouble?.({ ...always(SILENT), elsewhere: 'absent' }) === true
    ) {
      // Nothing at all came: the stream may be there by another transport, which its owner tries.
    } else if (silent > SILENT_MS && still > SILENT_MS) {
      this.set({ phase: 'waiting', message: SILENT });
    } else if (still > STUCK_MS && silent < STUCK_MS / 2) {
      if (this.video.readyState === 0) this.#tracks.guess();
      this.fail(always('Data arrives, but the picture stands still.'));
    }
  }
}
