/**
 * What bridges cost at present, from totals that are asked for once a second.
 *
 * CPU of one second is small and counted in steps, so the mean of some seconds is taken.
 */
import type { BridgeInfo, Stream } from '../api/types';
import { streamKey } from '../lib/urls';

/** Answers that are looked back on. */
const WINDOW = 6;

/** Shares of one core, in percent, and what goes through in a second. */
export interface BridgeCost {
  workerPercent: number;
  transcodingPercent: number;
  framesPerSecond: number;
  packetsPerSecond: number;
  droppedPerSecond: number;
}

export class BridgeCosts {
  #bridges = new Map<string, BridgeInfo[]>();

  /** One answer of the server. Bridges that are not in it are forgotten. */
  round(streams: readonly Stream[]): void {
    const next = new Map<string, BridgeInfo[]>();
    for (const stream of streams) {
      const bridge = stream.bridge ?? null;
      if (bridge === null) continue;
      const key = streamKey(stream);
      const known = this.#bridges.get(key) ?? [];
      const last = known.at(-1);
      // A bridge that started again, perhaps the other way, has nothing to do with the one before.
      const same =
        last !== undefined &&
        last.direction === bridge.direction &&
        last.running_seconds <= bridge.running_seconds;
      next.set(key, [...(same ? known : []), bridge].slice(-WINDOW));
    }
    this.#bridges = next;
  }

  /**
   * The mean of the last seconds, or since the beginning when that is not long ago; null while nothing can be
   * said.
   */
  of(key: string): BridgeCost | null {
    const samples = this.#bridges.get(key) ?? [];
    const [first, last] = [samples[0], samples.at(-1)];
    if (first === undefined || last === undefined) return null;
    const since = first === last ? null : first;
    const seconds = last.running_seconds - (since?.running_seconds ?? 0);
    if (seconds <= 0) return null;
    const rate = (total: (bridge: BridgeInfo) => number) =>
      (total(last) - (since === null ? 0 : total(since))) / seconds;
    return {
      workerPercent: 100 * rate((bridge) => bridge.cpu_seconds),
      transcodingPercent: 100 * rate((bridge) => bridge.transcoding_cpu_seconds),
      framesPerSecond: rate((bridge) => bridge.video_frames),
      packetsPerSecond: rate((bridge) => bridge.packets),
      droppedPerSecond: rate((bridge) => bridge.b_frames_dropped),
    };
  }

  clear(): void {
    this.#bridges.clear();
  }
}
