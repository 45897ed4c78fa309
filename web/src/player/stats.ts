/**
 * What the video element can tell about playback, sampled about twice a second.
 */

export interface PlayerStats {
  /** `currentTime` of the element. */
  positionSeconds: number;
  /** Seconds of media that have arrived and are yet to be shown. */
  bufferedSeconds: number | null;
  /** How far the picture is behind: by the buffer, or as a player of HLS knows it. */
  behindLiveSeconds: number | null;
  width: number;
  height: number;
  framesDecoded: number;
  framesDropped: number;
  /** Decoded frames per second since the last sample. */
  framesPerSecond: number | null;
  playbackRate: number;
}

/** The part of a video element that is read; lets tests stand in for it. */
export interface ReadableVideo {
  currentTime: number;
  playbackRate: number;
  videoWidth: number;
  videoHeight: number;
  buffered: TimeRanges;
  getVideoPlaybackQuality(): { totalVideoFrames: number; droppedVideoFrames: number };
}

export class StatsSampler {
  #frames = 0;
  #atMs: number | null = null;
  #rate: number | null = null;

  sample(video: ReadableVideo, nowMs: number, behindSeconds: number | null = null): PlayerStats {
    const quality = video.getVideoPlaybackQuality();
    const frames = quality.totalVideoFrames;
    const elapsed = this.#atMs === null ? 0 : nowMs - this.#atMs;
    if (this.#atMs === null || frames < this.#frames) {
      // First sample, or a new connection began counting from zero.
      this.#remember(frames, nowMs);
      this.#rate = null;
    } else if (elapsed >= 900) {
      const rate = ((frames - this.#frames) * 1000) / elapsed;
      this.#rate = this.#rate === null ? rate : this.#rate * 0.5 + rate * 0.5;
      this.#remember(frames, nowMs);
    }
    const end = bufferedEnd(video.buffered);
    const bufferedSeconds = end === null ? null : Math.max(0, end - video.currentTime);
    return {
      positionSeconds: video.currentTime,
      bufferedSeconds,
      behindLiveSeconds: behindSeconds ?? bufferedSeconds,
      width: video.videoWidth,
      height: video.videoHeight,
      framesDecoded: frames,
      framesDropped: quality.droppedVideoFrames,
      framesPerSecond: this.#rate,
      playbackRate: video.playbackRate,
    };
  }

  #remember(frames: number, nowMs: number): void {
    this.#frames = frames;
    this.#atMs = nowMs;
  }
}

/** End of the last buffered range in seconds; null when nothing is buffered. */
export function bufferedEnd(buffered: TimeRanges): number | null {
  return buffered.length === 0 ? null : buffered.end(buffered.length - 1);
}

/**
 * Where to jump when playback stands at the edge of a hole: the start of the first buffered range after
 * `time`. Null when there is none.
 */
export function nextRangeStart(buffered: TimeRanges, time: number): number | null {
  for (let index = 0; index < buffered.length; index += 1) {
    const start = buffered.start(index);
    if (start > time + 0.01) return start;
  }
  return null;
}
