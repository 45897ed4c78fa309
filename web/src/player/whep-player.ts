/**
 * Keeps one stream playing in one video element by WHEP: opens it, watches over it, opens it again.
 *
 * The browser decodes and keeps the delay small by itself. This file decides when a connection counts as
 * lost, what to tell the person watching, and how long to wait before the next try.
 */
import { always } from '../lib/trouble';
import { wantExtensions } from '../rtc/codecs';
import { Connection, type Link } from '../rtc/connection';
import type { Layers } from '../rtc/layers';
import { entries, FiguresSampler, type ConnectionFigures } from '../rtc/stats';
import { BasePlayer } from './base-player';
import { keepLastPicture } from './last-picture';
import { IDLE, type StreamPlayer, type StreamPlayerOptions } from './player';

type Connect = (
  options: ConstructorParameters<typeof Connection>[0],
) => Pick<Connection, 'open' | 'close' | 'peer'> & Partial<Pick<Connection, 'chooseLayer'>>;

export interface WhepPlayerOptions extends StreamPlayerOptions {
  connect?: Connect;
  /** Whether somebody publishes the stream; null when that cannot be told. Asked when nothing arrives. */
  live?: () => Promise<boolean | null>;
}

const WATCH_MS = 1_000;
/** Nothing arrives for this long: ask whether the publisher has left. */
const ASK_MS = 900;
/** Nothing arrives for this long: say so. The session stays, a publisher that comes back is seen at once. */
const SILENT_MS = 4_000;
/** Packets of a picture arrive but none is decoded for this long: start over. */
const STUCK_MS = 8_000;

const SILENT = 'No data arrives. Waiting for the publisher.';
const LEFT = 'The publisher has left. Waiting for it to come back.';

export class WhepPlayer extends BasePlayer<WhepPlayerOptions> implements StreamPlayer {
  #target: { url: string; token: string } | null = null;
  #connection: ReturnType<Connect> | null = null;
  #sampler = new FiguresSampler();
  #figures: ConnectionFigures | null = null;
  #layers: Layers | null = null;
  /** What the person chose; null for the server's choice. Kept for connections to come. */
  #layer: string | null = null;
  #watchTimer: ReturnType<typeof setInterval> | undefined;
  #packets = 0;
  #packetsAtMs = 0;
  /** The server says nobody publishes, and nothing has arrived since. */
  #left = false;
  #frames = 0;
  #framesAtMs = 0;

  constructor(options: WhepPlayerOptions) {
    super(options);
    this.video.addEventListener('playing', this.#onPlaying);
    this.video.addEventListener('pause', this.#onPause);
  }

  /** Of the last second; null while there is no connection. */
  get figures(): ConnectionFigures | null {
    return this.#figures;
  }

  get peer(): RTCPeerConnection | null {
    return this.#connection?.peer ?? null;
  }

  /** What there is to choose from; null while that is not known. */
  get layers(): Layers | null {
    return this.#layers;
  }

  /** What the person chose; null for the server's choice. */
  get layer(): string | null {
    return this.#layer;
  }

  chooseLayer(name: string | null): void {
    this.#layer = name;
    void this.#connection?.chooseLayer?.(name);
  }

  start(url: string, token = ''): void {
    this.stop();
    this.#target = { url, token };
    this.failures = 0;
    this.#watchTimer = setInterval(() => void this.#watch(), WATCH_MS);
    this.#open();
  }

  stop(): void {
    this.#target = null;
    clearInterval(this.#watchTimer);
    this.close();
    this.set({ ...IDLE });
  }

  destroy(): void {
    this.stop();
    this.video.removeEventListener('playing', this.#onPlaying);
    this.video.removeEventListener('pause', this.#onPause);
  }

  retryNow(): void {
    if (this.#target === null) return;
    this.failures = 0;
    this.reopen();
  }

  formatChanged(): void {
    if (this.#target === null) return;
    this.failures = 0;
    if (this.state.phase === 'retrying' || this.state.phase === 'failed') this.reopen();
  }

  resume(): void {
    if (this.#connection === null) return this.retryNow();
    this.pausedSinceMs = null;
    this.#play();
  }

  #open(): void {
    if (this.#target === null) return;
    this.set({ phase: 'connecting', message: '', needsToken: false, retryAtMs: null, bytesPerSecond: 0 });
    const connect = this.options.connect ?? ((options) => new Connection(options));
    const media = new MediaStream();
    const connection: ReturnType<Connect> = connect({
      role: 'play',
      ...this.#target,
      prepare: (peer) => this.#prepare(peer, media),
      onLink: (link) => connection === this.#connection && this.#linked(link),
      onLayers: (layers) => connection === this.#connection && this.#noteLayers(layers),
      onTrouble: (trouble) => connection === this.#connection && this.fail(trouble),
    });
    this.#connection = connection;
    this.#sampler = new FiguresSampler();
    [this.#packets, this.#frames] = [0, 0];
    this.#left = false;
    this.#packetsAtMs = this.#framesAtMs = this.now();
    void connection.open();
  }

  #prepare(peer: RTCPeerConnection, media: MediaStream): void {
    for (const kind of ['video', 'audio'])
      wantExtensions(peer.addTransceiver(kind, { direction: 'recvonly' }));
    peer.addEventListener('track', ({ track }) => {
      media.addTrack(track);
      if (this.video.srcObject === media) return;
      this.video.srcObject = media;
      this.#play();
    });
  }

  #play(): void {
    const connection = this.#connection;
    this.play(() => connection === this.#connection);
  }

  #noteLayers(layers: Layers): void {
    const first = this.#layers === null;
    this.#layers = layers;
    // A new connection begins with the server's choice.
    if (first && this.#layer !== null && layers.names.includes(this.#layer)) this.chooseLayer(this.#layer);
  }

  #linked(link: Link): void {
    if (link === 'interrupted' && this.showing) this.set({ phase: 'buffering', message: '' });
    if (link === 'connected') this.#packetsAtMs = this.#framesAtMs = this.now();
  }

  protected reopen(): void {
    this.close();
    this.set({ reconnects: this.state.reconnects + 1 });
    this.#open();
  }

  protected close(): void {
    clearTimeout(this.retryTimer);
    this.playingSinceMs = null;
    this.#figures = null;
    this.#layers = null;
    const connection = this.#connection;
    this.#connection = null;
    if (connection === null) return;
    connection.close();
    if (this.video.srcObject === null) return;
    keepLastPicture(this.video);
    this.video.srcObject = null;
  }

  readonly #onPlaying = (): void => {
    if (this.#connection === null) return;
    this.playing();
  };

  readonly #onPause = (): void => {
    // Taking the source away pauses the element as well; only a person's pause counts.
    if (this.#connection !== null) this.paused();
  };

  /** Looks after the connection once a second. */
  async #watch(): Promise<void> {
    const peer = this.peer;
    const stats = await peer?.getStats().catch(() => null);
    if (!stats || peer !== this.peer) return;
    const now = this.now();
    this.#figures = this.#sampler.sample(entries(stats), now);
    this.#note(this.#figures, now);
    this.set({ bytesPerSecond: (this.#figures.bitsPerSecond ?? 0) / 8 });
    this.forgetFailures(now);
    if (this.state.phase === 'paused') this.watchPaused(now);
    else if (peer?.connectionState === 'connected') this.#watchRunning(now);
  }

  #note({ video, audio }: ConnectionFigures, now: number): void {
    const packets = (video?.packets ?? 0) + (audio?.packets ?? 0);
    if (packets !== this.#packets) {
      this.#packets = packets;
      this.#left = false;
      this.#packetsAtMs = now;
    }
    const frames = video?.frames ?? 0;
    // Without packets of a picture no frame can be missing.
    if (frames !== this.#frames || (video?.bitsPerSecond ?? 0) === 0) {
      this.#frames = frames;
      this.#framesAtMs = now;
    }
  }

  #watchRunning(now: number): void {
    const { phase } = this.state;
    const silent = now - this.#packetsAtMs;
    if (silent >= ASK_MS && !this.#left) void this.#askWhetherLeft();
    if (silent > SILENT_MS || this.#left) {
      if (phase !== 'blocked') this.set({ phase: 'waiting', message: this.#left ? LEFT : SILENT });
    } else if (now - this.#framesAtMs > STUCK_MS) {
      const first = this.#frames === 0;
      this.fail({
        ...always('Data arrives, but the picture stands still.'),
        ...(first ? { elsewhere: 'cannot' as const } : {}),
      });
    } else if ((phase === 'waiting' || phase === 'buffering') && silent < WATCH_MS * 2) {
      this.set({ phase: 'playing', message: '' });
    }
  }

  async #askWhetherLeft(): Promise<void> {
    const [connection, packets] = [this.#connection, this.#packets];
    const live = await this.options.live?.().catch(() => null);
    if (live !== false || connection === null || connection !== this.#connection || packets !== this.#packets)
      return;
    this.#left = true;
    if (this.showing) this.set({ phase: 'waiting', message: LEFT });
  }
}
