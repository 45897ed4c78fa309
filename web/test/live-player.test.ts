/**
 * When the player gives up, tries again, jumps, and what it says. mpegts.js and the video element are played
 * by fakes.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type Mpegts from 'mpegts.js';
import { LivePlayer } from '../src/player/live-player';
import type { PlayerState } from '../src/player/player';
import { nextRangeStart, StatsSampler } from '../src/player/stats';
import { Tracks, UNKNOWN_TRACKS } from '../src/player/tracks';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

class FakeVideo extends EventTarget {
  currentTime = 0;
  playbackRate = 1;
  readyState = 0;
  videoWidth = 0;
  videoHeight = 0;
  ranges: [number, number][] = [];
  play = vi.fn(() => Promise.resolve());
  pause = vi.fn(() => void this.dispatchEvent(new Event('pause')));

  get buffered(): TimeRanges {
    return { length: this.ranges.length, start: (i) => this.ranges[i]?.[0] ?? 0, end: (i) => this.ranges[i]?.[1] ?? 0 };
  }

  /** A second of ordinary playback. */
  second(): void {
    const end = (this.ranges.at(-1)?.[1] ?? 0) + 1;
    this.ranges = [[0, end]];
    this.currentTime = end - 0.5;
  }
}

class FakePlayer {
  handlers = new Map<string, (...values: unknown[]) => void>();
  destroyed = false;
  destroyedEarly = false;
  constructor(readonly source: Mpegts.MediaDataSource) {}
  on(event: string, handler: (...values: unknown[]) => void): void {
    this.handlers.set(event, handler);
  }
  attachMediaElement(): void {}
  load(): void {}
  destroy(): void {
    this.destroyed = true;
  }
  async emit(event: string, ...values: unknown[]): Promise<void> {
    this.handlers.get(event)?.(...values);
    // mpegts.js hands its events on by microtasks, and what it does there is not for a player that
    // is destroyed.
    await Promise.resolve();
    this.destroyedEarly ||= this.destroyed;
    await vi.advanceTimersByTimeAsync(0);
  }
}

function setup(supported = true) {
  const video = new FakeVideo();
  const made: FakePlayer[] = [];
  const states: PlayerState[] = [];
  const events = { ERROR: 'error', LOADING_COMPLETE: 'end', METADATA_ARRIVED: 'metadata', STATISTICS_INFO: 'statistics' };
  const mpegts = {
    isSupported: () => supported,
    Events: events,
    createPlayer: (source: Mpegts.MediaDataSource) => {
      const player = new FakePlayer(source);
      made.push(player);
      return player;
    },
  } as unknown as typeof Mpegts;
  const player = new LivePlayer({
    video: video as unknown as HTMLVideoElement,
    load: () => Promise.resolve(mpegts),
    onState: (state) => states.push(state),
    random: () => 0.5,
  });
  const state = () => states.at(-1);
  const last = () => made.at(-1) as FakePlayer;
  const start = async (url = 'http://h/live/a.flv') => {
    player.start(url);
    await vi.advanceTimersByTimeAsync(0);
  };
  const playing = async (seconds = 1) => {
    video.dispatchEvent(new Event('playing'));
    for (let passed = 0; passed < seconds; passed += 1) {
      video.second();
      await vi.advanceTimersByTimeAsync(1_000);
    }
  };
  return { video, made, player, state, last, start, playing };
}

it('opens the stream and reports that it plays', async () => {
  const { state, last, start, playing, made } = setup();
  await start();
  expect(state()?.phase).toBe('connecting');
  expect(last().source).toMatchObject({ type: 'flv', isLive: true, url: 'http://h/live/a.flv' });
  await playing(20);
  expect(state()).toMatchObject({ phase: 'playing', message: '', reconnects: 0 });
  expect(made).toHaveLength(1);
});

it('connects again after the server ended the session, with growing delays', async () => {
  const { state, last, start, playing, made } = setup();
  await start();
  await playing(1);
  await last().emit('end');
  expect(made[0]?.destroyed).toBe(true);
  expect(state()).toMatchObject({ phase: 'retrying', message: 'The server ended this session.' });
  for (const delay of [1_000, 2_000, 4_000, 8_000, 8_000]) {
    const before = made.length;
    await vi.advanceTimersByTimeAsync(delay - 1);
    expect(made).toHaveLength(before);
    await vi.advanceTimersByTimeAsync(1);
    expect(made).toHaveLength(before + 1);
    await last().emit('error', 'NetworkError', 'HttpStatusCodeInvalid', { code: 404 });
    expect(state()?.message).toContain('Nobody publishes');
  }
  expect(state()?.reconnects).toBe(5);
});

it('counts from the first delay again once it has played for a while', async () => {
  const { last, start, playing, made } = setup();
  await start();
  await last().emit('end');
  await vi.advanceTimersByTimeAsync(1_000);
  await playing(7);
  await last().emit('end');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(made).toHaveLength(3);
});

it('asks for a token instead of trying for ever', async () => {
  const { state, last, start, made } = setup();
  await start();
  await last().emit('error', 'NetworkError', 'HttpStatusCodeInvalid', { code: 401 });
  expect(state()).toMatchObject({ phase: 'failed', needsToken: true });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(made).toHaveLength(1);
});

it('gives up on a stream the browser cannot decode after a few tries', async () => {
  const { state, last, start, made } = setup();
  await start();
  for (let tries = 0; tries < 4; tries += 1) {
    await last().emit('error', 'MediaError', 'MediaMSEError', { msg: 'unsupported type' });
    await vi.advanceTimersByTimeAsync(10_000);
  }
  expect(made).toHaveLength(4);
  expect(state()).toMatchObject({ phase: 'failed', message: 'The browser cannot decode this stream: unsupported type.' });
});

it('destroys nothing within a call of the library, nor before what that has queued', async () => {
  const { last, start, made } = setup();
  for (const [event, ...values] of [['error', 'MediaError', 'MediaMSEError', {}], ['end']] as [string, ...unknown[]][]) {
    await start();
    const failing = last();
    await failing.emit(event, ...values);
    expect([failing.destroyed, failing.destroyedEarly]).toEqual([true, false]);
  }
  await start();
  await last().emit('metadata', { videocodecid: 7 });
  expect(made.at(-1)?.destroyed).toBe(false);
});

it('tries again at once when the stream has another format', async () => {
  const { player, state, last, start, playing, made } = setup();
  await start();
  for (let tries = 0; tries < 4; tries += 1) {
    await last().emit('error', 'MediaError', 'MediaMSEError', { msg: 'unsupported type' });
    await vi.advanceTimersByTimeAsync(10_000);
  }
  expect(state()?.phase).toBe('failed');
  player.formatChanged();
  await vi.advanceTimersByTimeAsync(0);
  expect(made).toHaveLength(5);
  await last().emit('error', 'MediaError', 'MediaMSEError', { msg: 'unsupported type' });
  expect(state()?.phase).toBe('retrying');
  player.formatChanged();
  await vi.advanceTimersByTimeAsync(0);
  expect(made).toHaveLength(6);
  await playing(1);
  player.formatChanged();
  await vi.advanceTimersByTimeAsync(10);
  expect(made, 'what plays goes on').toHaveLength(6);
});

it('says that it cannot work without Media Source Extensions', async () => {
  const { state, start, made } = setup(false);
  await start();
  expect(state()?.phase).toBe('failed');
  expect(made).toHaveLength(0);
});

it('ignores what an earlier connection still reports', async () => {
  const { state, start, made } = setup();
  await start();
  const old = made[0];
  await start('http://h/live/b.flv');
  await old?.emit('error', 'NetworkError', 'Exception', {});
  expect(state()?.phase).toBe('connecting');
});

describe('watching over a connection', () => {
  it('says that it waits when nothing arrives, then opens a new connection', async () => {
    const { state, start, playing, made } = setup();
    await start();
    await playing(1);
    await vi.advanceTimersByTimeAsync(6_000);
    expect(state()).toMatchObject({ phase: 'waiting', message: 'No data arrives. Waiting for the publisher.' });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(made).toHaveLength(2);
  });

  it('jumps over a hole in the stream', async () => {
    const { video, start, playing } = setup();
    await start();
    await playing(2);
    video.ranges = [[0, 2], [7, 8]];
    video.currentTime = 2;
    await vi.advanceTimersByTimeAsync(2_000);
    expect(video.currentTime).toBeCloseTo(7.01);
  });

  it('starts over when data arrives but the picture stands, leaving out a track that may be missing', async () => {
    const { state, start, last, made } = setup();
    await start();
    for (let passed = 0; passed < 14 && made.length === 1; passed += 1) {
      await last().emit('statistics', { speed: 70 });
      await vi.advanceTimersByTimeAsync(500);
      if (state()?.phase === 'retrying') await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(made).toHaveLength(2);
    expect(last().source).toMatchObject({ hasAudio: false, hasVideo: true });
  });

  it('does not wait long for audio that the metadata does not announce', async () => {
    const { start, state, last, made } = setup();
    await start();
    await last().emit('metadata', { videocodecid: 7, width: 640 });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(made).toHaveLength(1);
    await last().emit('statistics', { speed: 70 });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(made).toHaveLength(2);
    expect(last().source).toMatchObject({ hasAudio: false, hasVideo: true });
    expect(state()?.reconnects).toBe(0);
    await last().emit('metadata', { videocodecid: 7, width: 640 });
    await vi.advanceTimersByTimeAsync(3_000);
    expect(made).toHaveLength(2);
  });

  it('keeps audio that comes although the metadata does not announce it', async () => {
    const { video, start, last, playing, made } = setup();
    await start();
    await last().emit('metadata', { videocodecid: 7 });
    video.readyState = 4;
    await playing(5);
    expect(made).toHaveLength(1);
  });

  it('takes up audio that a later publisher brings', async () => {
    const { video, start, last, playing, made } = setup();
    await start();
    await last().emit('metadata', { videocodecid: 7 });
    await vi.advanceTimersByTimeAsync(1_000);
    await last().emit('statistics', { speed: 70 });
    await vi.advanceTimersByTimeAsync(1_000);
    video.readyState = 4;
    await playing(2);
    await last().emit('metadata', { videocodecid: 7, audiocodecid: 10 });
    await vi.advanceTimersByTimeAsync(0);
    expect(made).toHaveLength(3);
    expect(last().source).toMatchObject({ hasAudio: true, hasVideo: true });
  });
});

describe('pausing', () => {
  it('resumes at the live edge', async () => {
    const { video, player, state, start, playing } = setup();
    await start();
    await playing(3);
    player.pause();
    expect(state()?.phase).toBe('paused');
    video.ranges = [[0, 12]];
    player.resume();
    expect(video.currentTime).toBe(11.5);
  });

  it('gives the connection back after a while and opens a new one on resume', async () => {
    const { player, state, start, playing, made } = setup();
    await start();
    await playing(1);
    player.pause();
    await vi.advanceTimersByTimeAsync(25_000);
    expect(made[0]?.destroyed).toBe(true);
    expect(state()?.phase).toBe('paused');
    player.resume();
    await vi.advanceTimersByTimeAsync(0);
    expect(made).toHaveLength(2);
  });
});

it('stops for good', async () => {
  const { player, last, start, made } = setup();
  await start();
  await last().emit('end');
  player.destroy();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(made).toHaveLength(1);
});

describe('figures', () => {
  it('counts frames per second between samples and starts over with a new connection', () => {
    const video = new FakeVideo();
    let frames = 0;
    const readable = Object.assign(video, { getVideoPlaybackQuality: () => ({ totalVideoFrames: frames, droppedVideoFrames: 1 }) });
    const sampler = new StatsSampler();
    expect(sampler.sample(readable, 0).framesPerSecond).toBeNull();
    frames = 30;
    video.ranges = [[0, 2]];
    video.currentTime = 1.25;
    expect(sampler.sample(readable, 1_000)).toMatchObject({ framesPerSecond: 30, framesDropped: 1, behindLiveSeconds: 0.75 });
    frames = 2;
    expect(sampler.sample(readable, 2_000).framesPerSecond).toBeNull();
  });

  it('finds the next buffered range', () => {
    const video = new FakeVideo();
    video.ranges = [[0, 2], [7, 8]];
    expect(nextRangeStart(video.buffered, 2)).toBe(7);
    expect(nextRangeStart(video.buffered, 7)).toBeNull();
  });
});

describe('tracks', () => {
  it('prefers what was learned to what the server says, and tries one after the other at last', () => {
    const tracks = new Tracks();
    expect(tracks.open({ hasAudio: false, hasVideo: true })).toEqual({ hasAudio: false, hasVideo: true });
    expect(tracks.announce({ width: 1, audiocodecid: 10 })).toBe(true);
    expect(tracks.open({ hasAudio: false, hasVideo: true })).toEqual({ hasAudio: true, hasVideo: true });
    expect(tracks.suspectMissing()).toBe(false); // no metadata on this connection yet
    const seen = [1, 2, 3, 4].map(() => {
      tracks.guess();
      return tracks.open(UNKNOWN_TRACKS);
    });
    expect(seen.map(({ hasAudio, hasVideo }) => [hasAudio, hasVideo])).toEqual([[false, true], [true, false], [null, null], [false, true]]);
    expect(tracks.announce({ width: 1, audiocodecid: 10 })).toBe(false); // it may be the metadata that is wrong
  });
});
