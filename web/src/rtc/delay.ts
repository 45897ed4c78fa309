/**
 * How old the picture is that a viewer sees.
 *
 * Three ways, best first:
 * - `stamp`: the test picture carries the moment it was drawn, which is read back from what is on the screen;
 * - `capture`: the publisher's browser sends the moment of capture with the frames (RTP extension
 *   abs-capture-time);
 * - `network`: neither is there. Then only the way from the server to the screen is known: half a round trip
 *   and, measured by the browser, the time from a frame's arrival to its display. Camera, encoder and the
 *   publisher's network are missing.
 *
 * The first two compare two clocks. Within one browser they are the same, which makes it a measurement;
 * between two computers the difference of their clocks is part of the result.
 */
import { browserMemory, publishedHere } from './same-clock';
import { clockId, StampReader, type Stamp } from './stamp';

export type DelaySource = 'stamp' | 'capture' | 'network';

export interface Delay {
  source: DelaySource;
  milliseconds: number;
  /** Both moments were read from one clock. Always true for `network`. */
  sameClock: boolean;
}

/** One frame on the screen. */
export interface Sight {
  /** When it is, or will be, seen: milliseconds since 1970. */
  shownAtMs: number;
  stamp: Stamp | null;
  /** When it was captured: milliseconds since 1970, by the publisher's clock. */
  capturedAtMs: number | null;
  /** From the arrival of its last packet to display. */
  inBrowserMs: number | null;
  roundTripMs: number | null;
  /** The publisher is this browser. */
  publishedHere: boolean;
}

/** Beyond this a difference of clocks is more likely than a delay. */
const PLAUSIBLE_MS = 20_000;
/** A clock that is a little fast makes a delay negative; more than this is another clock. */
const EARLY_MS = 50;

export function delayOf(sight: Sight, ownClock: number): Delay | null {
  const { stamp, shownAtMs } = sight;
  if (stamp !== null && plausible(shownAtMs - stamp.timeMs)) {
    return {
      source: 'stamp',
      milliseconds: Math.max(0, shownAtMs - stamp.timeMs),
      sameClock: stamp.clock === ownClock,
    };
  }
  if (sight.capturedAtMs !== null && plausible(shownAtMs - sight.capturedAtMs)) {
    return {
      source: 'capture',
      milliseconds: Math.max(0, shownAtMs - sight.capturedAtMs),
      sameClock: sight.publishedHere,
    };
  }
  if (sight.inBrowserMs === null || sight.roundTripMs === null) return null;
  return { source: 'network', milliseconds: sight.inBrowserMs + sight.roundTripMs / 2, sameClock: true };
}

function plausible(milliseconds: number): boolean {
  return milliseconds > -EARLY_MS && milliseconds < PLAUSIBLE_MS;
}

/** Median of the last samples of the best source: a single late frame should not make the figure jump. */
export class DelayFilter {
  #samples: Delay[] = [];

  add(delay: Delay): Delay {
    if (this.#samples[0]?.source !== delay.source || this.#samples[0].sameClock !== delay.sameClock)
      this.#samples = [];
    this.#samples.push(delay);
    if (this.#samples.length > SAMPLES) this.#samples.shift();
    const sorted = this.#samples.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b);
    return { ...delay, milliseconds: sorted[Math.floor(sorted.length / 2)] ?? delay.milliseconds };
  }
}

const SAMPLES = 9;
/** Reading a stamp copies a strip of the picture; a few a second are plenty. */
const SAMPLE_MS = 250;
/** From the NTP era (1900) to 1970, in milliseconds. */
const NTP_EPOCH_MS = 2_208_988_800_000;
const VIDEO_CLOCK_PER_MS = 90;

/** Not in TypeScript's library yet. */
interface CaptureTimed {
  rtpTimestamp?: number;
  captureTimestamp?: number;
}

/** Watches what a video element shows. */
export class DelayMeter {
  readonly #video: HTMLVideoElement;
  readonly #key: string;
  readonly #connection: () => { peer: RTCPeerConnection | null; roundTripMs: number | null };
  readonly #stamps = new StampReader();
  readonly #clock = clockId(browserMemory());
  readonly #filter = new DelayFilter();
  #handle = 0;
  #sampledAtMs = 0;
  #delay: Delay | null = null;
  #delayAtMs = 0;

  constructor(
    video: HTMLVideoElement,
    key: string,
    connection: () => { peer: RTCPeerConnection | null; roundTripMs: number | null },
  ) {
    this.#video = video;
    this.#key = key;
    this.#connection = connection;
    this.#next();
  }

  /** Null while nothing is shown. */
  get delay(): Delay | null {
    return performance.now() - this.#delayAtMs < 3_000 ? this.#delay : null;
  }

  stop(): void {
    this.#video.cancelVideoFrameCallback?.(this.#handle);
  }

  #next(): void {
    // Not in every browser; then there is no figure.
    this.#handle = this.#video.requestVideoFrameCallback?.((now, frame) => this.#shown(now, frame)) ?? 0;
  }

  #shown(now: number, frame: VideoFrameCallbackMetadata): void {
    this.#next();
    if (now - this.#sampledAtMs < SAMPLE_MS) return;
    this.#sampledAtMs = now;
    const { peer, roundTripMs } = this.#connection();
    const [wallMs, clockMs] = [Date.now(), performance.now()];
    const shownAtMs = wallMs + Math.max(0, frame.expectedDisplayTime - clockMs);
    const sight: Sight = {
      shownAtMs,
      stamp: this.#stamps.read(this.#video, wallMs),
      capturedAtMs: peer === null ? null : capturedAt(peer, frame.rtpTimestamp),
      inBrowserMs:
        frame.receiveTime === undefined ? null : Math.max(0, frame.expectedDisplayTime - frame.receiveTime),
      roundTripMs,
      publishedHere: publishedHere(this.#key),
    };
    const delay = delayOf(sight, this.#clock);
    if (delay === null) return;
    this.#delay = this.#filter.add(delay);
    this.#delayAtMs = clockMs;
  }
}

/** Capture time of the frame with this RTP timestamp, by the publisher's clock. */
function capturedAt(peer: RTCPeerConnection, rtpTimestamp: number | undefined): number | null {
  const receiver = peer.getReceivers().find(({ track }) => track.kind === 'video');
  const timed = receiver?.getSynchronizationSources()[0] as CaptureTimed | undefined;
  if (timed?.captureTimestamp === undefined || timed.rtpTimestamp === undefined || rtpTimestamp === undefined)
    return null;
  return captureTime(timed.captureTimestamp, timed.rtpTimestamp, rtpTimestamp);
}

/**
 * `captureTimestamp` (NTP milliseconds) belongs to `known`; the frame shown, `shown`, is a little older or
 * younger.
 */
export function captureTime(captureTimestamp: number, known: number, shown: number): number {
  // Differences of 32-bit timestamps that wrap.
  const apart = (shown - known) | 0;
  return captureTimestamp - NTP_EPOCH_MS + apart / VIDEO_CLOCK_PER_MS;
}

/** What to call it and how far to trust it. */
export function delayWords(delay: Delay): { name: string; remark: string } {
  if (delay.source === 'network') {
    return {
      name: 'Server to screen, estimated',
      remark:
        'Estimated: half the round trip, plus the time from arrival to display as the browser measures it. Camera, encoder and the publisher’s network come on top.',
    };
  }
  const how =
    delay.source === 'stamp'
      ? 'the moment drawn into the test picture is read back from the screen'
      : 'the publisher’s browser sends the moment of capture with each frame';
  if (delay.sameClock)
    return {
      name: 'Glass to glass, measured',
      remark: `Measured: ${how}; both moments by this computer’s clock.`,
    };
  return {
    name: 'Delay (two clocks)',
    remark: `Glass to glass, by two clocks: ${how}; the difference between that computer’s clock and this one’s is part of the figure.`,
  };
}
