/**
 * Settings of mpegts.js for live playback.
 */
import type Mpegts from 'mpegts.js';

/**
 * Low delay without stutter: no stash in front of the demuxer, speed up by a tenth when more than a second
 * behind, jump when far behind (the burst of the GOP cache at the start), keep little that has been shown.
 * Transmuxing stays on the main thread: at a few Mbit/s it is cheap, and no `blob:` worker has to be allowed.
 */
export const PLAYER_CONFIG: Mpegts.Config = {
  enableWorker: false,
  enableStashBuffer: false,
  lazyLoad: false,
  liveBufferLatencyChasing: true,
  liveBufferLatencyMaxLatency: 2.5,
  liveBufferLatencyMinRemain: 0.6,
  liveSync: true,
  liveSyncMaxLatency: 1.2,
  liveSyncTargetLatency: 0.7,
  liveSyncPlaybackRate: 1.1,
  autoCleanupSourceBuffer: true,
  autoCleanupMaxBackwardDuration: 30,
  autoCleanupMinBackwardDuration: 10,
};
