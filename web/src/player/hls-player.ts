/**
 * Keeps one live stream playing in one video element by low-latency HLS.
 *
 * hls.js follows the playlists and keeps its distance from the live edge; this file decides when to begin again,
 * what to tell the person watching, and measures how far behind live the picture is.
 */
import type Hls from 'hls.js';
import type { ErrorData } from 'hls.js';
import { always, type Trouble } from '../lib/trouble';
import { BasePlayer } from './base-player';
import { keepLastPicture } from './last-picture';
import { IDLE, type StreamPlayer, type StreamPlayerOptions } from './player';
import { bufferedEnd } from './stats';
import { describeEnd, describeStatus } from './words';

export interface HlsPlayerOptions extends StreamPlayerOptions {
  load: () => Promise<typeof Hls>;
}

const WATCH_MS = 500;
/** The picture stands for this long while it should not: begin again. */
const STUCK_MS = 10_000;

export class HlsPlayer extends BasePlayer<HlsPlayerOptions> implements StreamPlayer {
  #url: string | null = null;
  #hls: Hls | null = null;
  /** Counts openings; late answers of an earlier one are ignored. */
  #generation = 0;
  #watchTimer: ReturnType<typeof setInterval> | null = null;
  #bytes = 0;
  #moveAtMs = 0;
  #moveTime = 0;
  #recovered = false;

  constructor(options: HlsPlayerOptions) {
    super(options);
    this.video.addEventListener('playing', this.#onPlaying);
    this.video.addEventListener('waiting', this.#onWaiting);
    this.video.addEventListener('pause', this.#onPause);
    this.video.addEventListener('ended', this.#onEnded);
  }

  /**
   * Seconds from the newest media that the server has to the picture: by media time, and the time since the playlist
   * last grew, so that no clock has to be right. Null while that is not known.
   */
  get behindSeconds(): number | null {
    const latency = this.#hls?.latency ?? 0;
    return latency > 0 ? latency : null;
  }

  start(url: string): void {
    this.stop();
    this.#url = url;
    this.failures = 0;
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
    this.video.removeEventListener('ended', this.#onEnded);
  }

  retryNow(): void {
    if (this.#url === null) return;
    this.failures = 0;
    this.reopen();
  }

  formatChanged(): void {
    // The playlist says so itself; only what has failed is tried again.
    if (this.state.phase === 'retrying' || this.state.phase === 'failed') this.retryNow();
  }

  resume(): void {
    if (this.#hls === null) {
      this.retryNow();
      return;
    }
    const live = this.#hls.liveSyncPosition;
    if (live !== null) this.video.currentTime = live;
    this.pausedSinceMs = null;
    this.#play();
  }

  async #open(): Promise<void> {
    const url = this.#url;
    if (url === null) return;
    const generation = ++this.#generation;
    const current = () => generation === this.#generation;
    this.set({ phase: 'connecting', message: '', needsToken: false, retryAtMs: null, bytesPerSecond: 0 });
    let Library: typeof Hls;
    try {
      Library = await this.options.load();
    } catch {
      if (current()) this.fail(always('The player could not be loaded.'));
      return;
    }
    if (!current()) return;
    if (!Library.isSupported()) {
      const text = 'This browser has no Media Source Extensions, so the console cannot play HLS in it.';
      this.fail({ text, retry: 'never', needsToken: false, elsewhere: 'cannot' });
      return;
    }
    // On the main thread, as with FLV: no `blob:` worker has to be allowed.
    const hls = new Library({ lowLatencyMode: true, enableWorker: false, backBufferLength: 30 });
    this.#hls = hls;
    this.#bytes = 0;
    this.#recovered = false;
    this.#moveAtMs = this.now();
    this.#moveTime = -1;
    this.pausedSinceMs = null;
    hls.on(Library.Events.ERROR, (_event, data) => {
      // Closing within the library's own call would pull the floor from under it.
      if (data.fatal) setTimeout(() => current() && this.#failed(hls, data));
    });
    hls.on(Library.Events.FRAG_LOADED, (_event, data) => {
      this.#bytes += data.payload.byteLength;
    });
    hls.loadSource(url);
    hls.attachMedia(this.video);
    this.#play();
  }

  #failed(hls: Hls, data: ErrorData): void {
    if (data.type === 'mediaError' && data.details !== 'manifestIncompatibleCodecsError' && !this.#recovered) {
      this.#recovered = true;
      hls.recoverMediaError();
      return;
    }
    this.fail(describeHlsError(data));
  }

  #play(): void {
    const generation = this.#generation;
    this.play(() => generation === this.#generation);
  }

  protected reopen(): void {
    if (this.#url === null) return;
    this.close();
    this.set({ reconnects: this.state.reconnects + 1 });
    void this.#open();
  }

  protected close(): void {
    this.#generation += 1;
    clearTimeout(this.retryTimer);
    this.playingSinceMs = null;
    const hls = this.#hls;
    this.#hls = null;
    if (hls === null) return;
    keepLastPicture(this.video);
    hls.destroy();
  }

  readonly #onPlaying = (): void => {
    if (this.#hls !== null) this.playing();
  };

  readonly #onWaiting = (): void => {
    if (this.#hls !== null && this.state.phase === 'playing') this.set({ phase: 'buffering', message: '' });
  };

  readonly #onPause = (): void => {
    // At its end and when it is torn down, the element pauses by itself.
    if (this.#hls !== null && !this.video.ended) this.paused();
  };

  readonly #onEnded = (): void => {
    if (this.#hls !== null) this.fail(describeEnd());
  };

  /**
   * A player begins behind where it should be, by the time that beginning takes. The library catches up only as
   * long as more than a second is buffered, which with short parts is more than there is.
   */
  #catchUp(hls: Hls): void {
    const [late, end] = [hls.latency - (hls.targetLatency ?? hls.latency), bufferedEnd(this.video.buffered)];
    const buffered = end === null ? 0 : end - this.video.currentTime;
    const isLate = late > CATCH_UP_FROM_SECONDS && buffered > CATCH_UP_BUFFER_SECONDS;
    this.video.playbackRate = isLate ? CATCH_UP_RATE : 1;
  }

  #watch(): void {
    if (this.#hls === null) return;
    const now = this.now();
    this.set({ bytesPerSecond: (this.#bytes * 1_000) / WATCH_MS });
    this.#bytes = 0;
    if (this.video.currentTime !== this.#moveTime) {
      this.#moveTime = this.video.currentTime;
      this.#moveAtMs = now;
    }
    this.#catchUp(this.#hls);
    this.forgetFailures(now);
    if (this.state.phase === 'paused') this.watchPaused(now);
    else if (this.state.phase !== 'blocked' && now - this.#moveAtMs > STUCK_MS)
      this.fail(always('The picture stands still.'));
  }
}

const CATCH_UP_RATE = 1.08;
const CATCH_UP_FROM_SECONDS = 0.15;
/** What has to stay in the buffer. */
const CATCH_UP_BUFFER_SECONDS = 0.4;

/** A failure of hls.js in words, and whether trying again can help. */
export function describeHlsError(data: Pick<ErrorData, 'type' | 'details' | 'response'>): Trouble {
  if (data.details === 'manifestIncompatibleCodecsError') {
    const text = "This browser cannot decode the stream's codecs.";
    return { text, retry: 'never', needsToken: false, elsewhere: 'cannot' };
  }
  if (data.type === 'networkError') return describeStatus(data.response?.code || 502);
  return { text: `Playback failed (${data.details}).`, retry: 'few', needsToken: false };
}
