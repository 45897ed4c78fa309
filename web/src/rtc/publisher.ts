/**
 * Keeps one MediaStream published by WHIP: connects, notices the end, connects again.
 */
import { backoffDelay } from '../lib/backoff';
import type { Trouble } from '../lib/trouble';
import { preferredCodecs, wantExtensions, type VideoCodec } from './codecs';
import { Connection, type Link } from './connection';
import { withStartBitrate, withStereo } from './sdp';

export type PublishPhase = 'idle' | 'connecting' | 'live' | 'interrupted' | 'retrying' | 'failed';

export interface PublishState {
  phase: PublishPhase;
  /** What is going on, in words; empty while all is well. */
  message: string;
  needsToken: boolean;
  /** When the next try begins (`Date.now()` scale); only in phase `retrying`. */
  retryAtMs: number | null;
  /** When this session went on air. */
  liveSinceMs: number | null;
  reconnects: number;
}

export interface PublishTarget {
  /** WHIP endpoint of the stream, absolute. */
  url: string;
  token: string;
  codec: VideoCodec | 'auto';
  /** Most the video may take. */
  videoBitsPerSecond: number;
}

export interface PublisherOptions {
  onState: (state: PublishState) => void;
  connect?: (
    options: ConstructorParameters<typeof Connection>[0],
  ) => Pick<Connection, 'open' | 'close' | 'peer'>;
  random?: () => number;
  now?: () => number;
}

const RETRY = { firstMs: 1_000, capMs: 10_000 };
/** On air for this long makes the next failure count as the first. */
const STABLE_MS = 10_000;
const TRIES_MAX_FEW = 3;
/** Part of the most that is sent in the first seconds, before the network has shown what it can carry. */
const START_SHARE = 0.6;
const START_MAX = 1_500_000;

export const OFF_AIR: PublishState = {
  phase: 'idle',
  message: '',
  needsToken: false,
  retryAtMs: null,
  liveSinceMs: null,
  reconnects: 0,
};

/** What the button says that ends publishing: there is nothing to stop while nothing is sent. */
export function stopLabel(phase: PublishPhase): string {
  return phase === 'failed' || phase === 'retrying' ? 'Cancel' : 'Stop publishing';
}

export class Publisher {
  readonly #options: PublisherOptions;
  #state = OFF_AIR;
  #target: PublishTarget | null = null;
  #stream: MediaStream | null = null;
  #connection: Pick<Connection, 'open' | 'close' | 'peer'> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  get state(): PublishState {
    return this.#state;
  }

  get peer(): RTCPeerConnection | null {
    return this.#connection?.peer ?? null;
  }

  /** Publishes `stream` from now on, until `stop`. The tracks stay the caller's. */
  start(target: PublishTarget, stream: MediaStream): void {
    this.stop();
    this.#target = target;
    this.#stream = stream;
    this.#failures = 0;
    this.#open();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#target = null;
    this.#stream = null;
    this.#connection?.close();
    this.#connection = null;
    this.#set(OFF_AIR);
  }

  /**
   * Sends other tracks from now on. Without a new negotiation when there is a track of each kind for each now
   * sent.
   */
  async replace(stream: MediaStream): Promise<void> {
    if (this.#target === null) return;
    this.#stream = stream;
    const senders = this.peer?.getSenders().filter((sender) => sender.track !== null) ?? [];
    const kinds = (tracks: (MediaStreamTrack | null)[]) =>
      tracks
        .map((track) => track?.kind)
        .sort()
        .join();
    if (senders.length > 0 && kinds(senders.map(({ track }) => track)) === kinds(stream.getTracks())) {
      const next = (sender: RTCRtpSender) =>
        stream.getTracks().find(({ kind }) => kind === sender.track?.kind) ?? null;
      await Promise.all(senders.map((sender) => sender.replaceTrack(next(sender))));
    } else if (this.#connection !== null) {
      this.#connection.close();
      this.#open();
    }
  }

  /** Changes the ceiling of the video's bit rate, on air or not. */
  async limit(videoBitsPerSecond: number): Promise<void> {
    if (this.#target === null) return;
    this.#target = { ...this.#target, videoBitsPerSecond };
    const sender = this.peer?.getSenders().find(({ track }) => track?.kind === 'video');
    if (sender === undefined) return;
    const parameters = sender.getParameters();
    for (const encoding of parameters.encodings) encoding.maxBitrate = videoBitsPerSecond;
    await sender.setParameters(parameters).catch(() => undefined);
  }

  #open(): void {
    const target = this.#target;
    const stream = this.#stream;
    if (target === null || stream === null) return;
    this.#set({ phase: 'connecting', message: '', needsToken: false, retryAtMs: null, liveSinceMs: null });
    const connect = this.#options.connect ?? ((options) => new Connection(options));
    const connection = connect({
      role: 'publish',
      url: target.url,
      token: target.token,
      prepare: (peer) => addTracks(peer, stream, target),
      // Opus is sent in stereo only if the answer asks for it.
      adapt: (answer) =>
        withStartBitrate(withStereo(answer), Math.min(START_MAX, target.videoBitsPerSecond * START_SHARE)),
      onLink: (link) => connection === this.#connection && this.#linked(link),
      onTrouble: (trouble) => connection === this.#connection && this.#failed(trouble),
    });
    this.#connection = connection;
    void connection.open();
  }

  #linked(link: Link): void {
    if (link === 'interrupted')
      this.#set({ phase: 'interrupted', message: 'The connection is interrupted. Trying to repair it.' });
    if (link === 'connected')
      this.#set({ phase: 'live', message: '', liveSinceMs: this.#state.liveSinceMs ?? this.#now() });
  }

  #failed(trouble: Trouble): void {
    this.#connection = null;
    const { liveSinceMs } = this.#state;
    this.#failures = liveSinceMs !== null && this.#now() - liveSinceMs > STABLE_MS ? 1 : this.#failures + 1;
    if (trouble.retry === 'never' || (trouble.retry === 'few' && this.#failures > TRIES_MAX_FEW)) {
      this.#set({
        phase: 'failed',
        message: trouble.text,
        needsToken: trouble.needsToken,
        retryAtMs: null,
        liveSinceMs: null,
      });
      return;
    }
    const delay = Math.max(backoffDelay(RETRY, this.#failures, this.#options.random), trouble.waitMs ?? 0);
    this.#set({
      phase: 'retrying',
      message: trouble.text,
      retryAtMs: this.#now() + delay,
      liveSinceMs: null,
    });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#reopen(), delay);
  }

  #reopen(): void {
    clearTimeout(this.#timer);
    this.#set({ reconnects: this.#state.reconnects + 1 });
    this.#open();
  }

  #set(change: Partial<PublishState>): void {
    this.#state = { ...this.#state, ...change };
    this.#options.onState(this.#state);
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }
}

function addTracks(peer: RTCPeerConnection, stream: MediaStream, target: PublishTarget): void {
  for (const track of [...stream.getAudioTracks(), ...stream.getVideoTracks()]) {
    const video = track.kind === 'video';
    const transceiver = peer.addTransceiver(track, {
      direction: 'sendonly',
      streams: [stream],
      ...(video ? { sendEncodings: [{ maxBitrate: target.videoBitsPerSecond }] } : {}),
    });
    wantExtensions(transceiver);
    if (!video) continue;
    const capabilities = RTCRtpSender.getCapabilities('video')?.codecs;
    // Missing in old browsers; then theirs is the choice.
    if (capabilities !== undefined)
      transceiver.setCodecPreferences?.(preferredCodecs(capabilities, target.codec));
  }
}
