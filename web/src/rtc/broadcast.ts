/**
 * What this browser publishes: the opened source, the connection, and figures. One for the whole console, so
 * that it stays on air while one looks at other pages.
 */
import { streamKey } from '../lib/urls';
import { Store } from '../state/store';
import { capture, type Capture, type CaptureOptions } from './capture';
import type { VideoCodec } from './codecs';
import { OFF_AIR, Publisher, type PublishState } from './publisher';
import { announceOnAir } from './same-clock';
import { entries, FiguresSampler, type ConnectionFigures } from './stats';

/** What the person chose on the publish page; kept while the console is open. */
export interface PublishSettings extends CaptureOptions {
  app: string;
  name: string;
  token: string;
  codec: VideoCodec | 'auto';
  videoBitsPerSecond: number;
}

export interface BroadcastState {
  settings: PublishSettings;
  /** The source that is open: what the preview shows and what is, or would be, sent. */
  capture: Capture | null;
  /** The browser is being asked for it. */
  opening: boolean;
  /** Why the source is not there. */
  problem: string;
  devices: MediaDeviceInfo[];
  /** Audio is muted, video is hidden. */
  muted: boolean;
  covered: boolean;
  /** `app/name`, from the moment publishing was asked for. */
  key: string | null;
  publish: PublishState;
  figures: ConnectionFigures | null;
}

const FIGURES_MS = 1_000;
/** Settings that need the source to be opened again. */
const REOPENING = ['source', 'cameraId', 'microphoneId', 'lines', 'framesPerSecond', 'audio'] as const;

const SETTINGS: PublishSettings = {
  app: 'live',
  name: 'show',
  token: '',
  source: 'camera',
  cameraId: '',
  microphoneId: '',
  lines: 720,
  framesPerSecond: 30,
  audio: true,
  codec: 'auto',
  videoBitsPerSecond: 2_500_000,
};

const NOTHING: BroadcastState = {
  settings: SETTINGS,
  capture: null,
  opening: false,
  problem: '',
  devices: [],
  muted: false,
  covered: false,
  key: null,
  publish: OFF_AIR,
  figures: null,
};

export class Broadcast {
  readonly store = new Store<BroadcastState>(NOTHING);
  readonly #publisher: Publisher;
  #sampler = new FiguresSampler();
  #timer: ReturnType<typeof setInterval> | undefined;
  /** Counts requests for a source; a late answer to an earlier one is closed again. */
  #asked = 0;

  constructor(
    publisher: (onState: (state: PublishState) => void) => Publisher = (onState) =>
      new Publisher({ onState }),
  ) {
    this.#publisher = publisher((publish) => this.#set({ publish }));
  }

  /**
   * Changes settings. What is open or on air follows: another source or device is opened in its place,
   * another bit rate is set; another codec or name counts from the next start.
   */
  choose(change: Partial<PublishSettings>): void {
    const before = this.store.value.settings;
    this.#set({ settings: { ...before, ...change } });
    if (change.videoBitsPerSecond !== undefined) void this.#publisher.limit(change.videoBitsPerSecond);
    const reopen = REOPENING.some((name) => change[name] !== undefined && change[name] !== before[name]);
    if (reopen && this.store.value.capture !== null) void this.open();
    else if (reopen) this.#set({ problem: '' });
  }

  /**
   * Opens the chosen source for the preview; on air it takes the place of the one before. False if it cannot
   * be had.
   */
  async open(): Promise<boolean> {
    const options = this.store.value.settings;
    const asked = ++this.#asked;
    this.#set({ opening: true, problem: '' });
    let opened: Capture;
    try {
      opened = await capture(options);
    } catch (cause) {
      if (asked === this.#asked)
        this.#set({ opening: false, problem: cause instanceof Error ? cause.message : String(cause) });
      return false;
    }
    if (asked !== this.#asked) {
      opened.stop();
      return false;
    }
    const before = this.store.value.capture;
    this.#set({ opening: false, capture: opened, problem: opened.remark });
    this.#enable();
    for (const track of opened.stream.getVideoTracks())
      track.addEventListener('ended', () => this.#sourceEnded(opened));
    if (this.onAir) await this.#publisher.replace(opened.stream);
    before?.stop();
    await this.listDevices();
    return true;
  }

  /** Closes the source, and the broadcast with it. */
  close(): void {
    this.#asked += 1;
    this.stop();
    this.store.value.capture?.stop();
    this.#set({ capture: null, opening: false, problem: '' });
  }

  /**
   * Publishes to `url`, the WHIP endpoint of the chosen app and stream. Opens the source first if need be.
   */
  async start(url: string): Promise<void> {
    const { capture: open, settings } = this.store.value;
    if ((open === null || open.source !== settings.source) && !(await this.open())) return;
    const { capture: opened } = this.store.value;
    if (opened === null) return;
    this.#sampler = new FiguresSampler();
    this.#set({ key: streamKey(settings), figures: null, problem: opened.remark });
    this.#publisher.start({ ...settings, url, token: settings.token.trim() }, opened.stream);
    clearInterval(this.#timer);
    this.#timer = setInterval(() => void this.#sample(), FIGURES_MS);
    globalThis.addEventListener?.('beforeunload', askBeforeLeaving);
  }

  stop(): void {
    clearInterval(this.#timer);
    globalThis.removeEventListener?.('beforeunload', askBeforeLeaving);
    this.#publisher.stop();
    announceOnAir(null);
    this.#set({ key: null, figures: null });
  }

  /** Tries again at once with the settings as they are now: another token or name may be what was missing. */
  async retryNow(url: string): Promise<void> {
    const { phase } = this.store.value.publish;
    if (phase === 'failed' || phase === 'retrying') await this.start(url);
  }

  mute(muted: boolean): void {
    this.#set({ muted });
    this.#enable();
  }

  cover(covered: boolean): void {
    this.#set({ covered });
    this.#enable();
  }

  get onAir(): boolean {
    return this.store.value.publish.phase !== 'idle';
  }

  /** Names are empty until the person has allowed one device. */
  async listDevices(): Promise<void> {
    const devices = await navigator.mediaDevices?.enumerateDevices().catch(() => []);
    this.#set({ devices: (devices ?? []).filter(({ deviceId }) => deviceId !== '') });
  }

  #enable(): void {
    const { capture: open, muted, covered } = this.store.value;
    // A track that is not enabled sends silence or black: viewers keep their connection.
    open?.stream.getAudioTracks().forEach((track) => (track.enabled = !muted));
    open?.stream.getVideoTracks().forEach((track) => (track.enabled = !covered));
  }

  #sourceEnded(ended: Capture): void {
    if (this.store.value.capture !== ended) return;
    const text =
      ended.source === 'screen'
        ? 'Sharing of the screen was ended.'
        : 'The camera was unplugged or taken away.';
    this.close();
    this.#set({ problem: text });
  }

  async #sample(): Promise<void> {
    const { key, publish } = this.store.value;
    announceOnAir(publish.phase === 'live' ? key : null);
    const peer = this.#publisher.peer;
    if (peer === null) return;
    const stats = await peer.getStats().catch(() => null);
    if (stats === null || this.#publisher.peer !== peer) return;
    this.#set({ figures: this.#sampler.sample(entries(stats), performance.now()) });
  }

  #set(change: Partial<BroadcastState>): void {
    this.store.update((state) => ({ ...state, ...change }));
  }
}

/** The browser asks in its own words whether to leave. */
function askBeforeLeaving(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
