/** What is said of bridges: cost over the last seconds, added delay, what is left out. */
import { expect, it } from 'vitest';
import type { BridgeInfo } from '../src/api/types';
import { bFramesWords, costWords, delayWords } from '../src/components/bridge-panel';
import { offered } from '../src/components/stream-words';
import { share } from '../src/lib/format';
import { BridgeCosts } from '../src/state/bridge-cost';
import { aStream } from './samples';

function aBridge(seconds: number, change: Partial<BridgeInfo> = {}): BridgeInfo {
  return {
    direction: 'rtmp_to_webrtc',
    running_seconds: seconds,
    video_frames: seconds * 30,
    packets: seconds * 120,
    audio_frames: seconds * 50,
    cpu_seconds: seconds * 0.004,
    transcoding_cpu_seconds: seconds * 0.01,
    video_latency_ms: 0.2,
    audio_latency_ms: 42,
    b_frames_dropped: 0,
    broken: 0,
    audio_dropped: 0,
    ...change,
  };
}

const plain = (text: string) => text.replaceAll('\u00a0', ' ');
const round = (costs: BridgeCosts, bridge: BridgeInfo | null) => costs.round([aStream('live/a', { bridge }), aStream('live/b')]);

it('takes the mean of the last seconds', () => {
  const costs = new BridgeCosts();
  expect(costs.of('live/a')).toBeNull();
  // Ten times as expensive until a second before the window.
  for (let at = 1; at <= 10; at += 1) round(costs, aBridge(at, { cpu_seconds: at <= 4 ? at * 0.04 : 0.16 + (at - 4) * 0.004 }));
  const cost = costs.of('live/a');
  expect(cost?.workerPercent).toBeCloseTo(0.4);
  expect(cost?.transcodingPercent).toBeCloseTo(1);
  expect([cost?.framesPerSecond, cost?.packetsPerSecond].map((rate) => Math.round(rate ?? 0))).toEqual([30, 120]);
  expect(costs.of('live/b')).toBeNull();
});

it('says something after the first answer already', () => {
  const costs = new BridgeCosts();
  round(costs, aBridge(2));
  expect(costs.of('live/a')?.workerPercent).toBeCloseTo(0.4);
  round(costs, aBridge(0));
  expect(costs.of('live/a')).toBeNull();
});

it('starts over with another bridge, and forgets one that has ended', () => {
  const costs = new BridgeCosts();
  round(costs, aBridge(100));
  round(costs, aBridge(1, { cpu_seconds: 0.02 }));
  expect(costs.of('live/a')?.workerPercent).toBeCloseTo(2);
  round(costs, aBridge(2, { direction: 'webrtc_to_rtmp', cpu_seconds: 0.1 }));
  expect(costs.of('live/a')?.workerPercent).toBeCloseTo(5);
  round(costs, null);
  expect(costs.of('live/a')).toBeNull();
});

it('has words for cost and delay', () => {
  const cost = { workerPercent: 0.31, transcodingPercent: 0.92, framesPerSecond: 30, packetsPerSecond: 121, droppedPerSecond: 0 };
  expect(plain(costWords(cost))).toBe('1.2 % of a core: 0.3 % worker, 0.9 % audio');
  expect(plain(costWords({ ...cost, transcodingPercent: 0 }))).toBe('0.3 % of a core');
  expect(costWords(null)).toBe('measuring…');
  expect(plain(delayWords(aBridge(2)))).toBe('0.2 ms video · 42 ms audio');
  expect(plain(delayWords(aBridge(2, { audio_frames: 0 })))).toBe('0.2 ms video');
  expect(delayWords(aBridge(0))).toBe('nothing has come through yet');
});

it('tells what B-frames cost viewers, and what to set', () => {
  const bridge = aBridge(10, { b_frames_dropped: 300 });
  const cost = { workerPercent: 0, transcodingPercent: 0, framesPerSecond: 10, packetsPerSecond: 0, droppedPerSecond: 20 };
  expect(bFramesWords(bridge, cost)).toMatch(/WebRTC players miss two thirds of the frames\. Set B-frames to 0/);
  expect(bFramesWords(bridge, null)).toContain('miss half of the frames');
  expect(bFramesWords(bridge, { ...cost, droppedPerSecond: 0 })).toMatch(/^B-frames were left out earlier\./);
});

it.each([
  [1, 1, 'half'],
  [1, 2, 'a third'],
  [3, 1, 'three quarters'],
  [1, 9, '10\u00a0%'],
])('%i beside %i is %s', (part, rest, words) => expect(share(part, rest)).toBe(words));

it('offers what has an address, and says why something has none', () => {
  const urls = { rtmp: 'rtmp://h/live/a', flv: 'http://h/live/a.flv', ws_flv: 'ws://h/live/a.flv', whep: '' };
  const stream = aStream('live/a', { urls, not_bridged: 'the stream has B-frames' });
  expect(offered(stream)).toEqual({ rtc: false, flv: true, reason: 'the stream has B-frames' });
  expect(offered({ ...stream, state: 'waiting' })).toEqual({ rtc: null, flv: null, reason: '' });
});
