/** What the WebRTC player says when nothing arrives. Connection and video element are played by fakes. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { PlayerState } from '../src/player/player';
import { WhepPlayer } from '../src/player/whep-player';

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('MediaStream', class {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

class FakeVideo extends EventTarget {
  srcObject: unknown = null;
  play = () => Promise.resolve();
  pause(): void {}
}

async function setup(live: () => Promise<boolean | null>) {
  const video = new FakeVideo();
  const states: PlayerState[] = [];
  const received = { packets: 0 };
  const report = () => ({ id: 'V', type: 'inbound-rtp', kind: 'video', packetsReceived: received.packets, framesDecoded: received.packets, bytesReceived: received.packets * 1_000 });
  const peer = { connectionState: 'connected', getStats: async () => new Map([['V', report()]]) } as unknown as RTCPeerConnection;
  const asked = vi.fn(live);
  const player = new WhepPlayer({
    video: video as unknown as HTMLVideoElement,
    onState: (state) => states.push(state),
    connect: () => ({ open: async () => undefined, close: () => undefined, peer }),
    live: asked,
  });
  player.start('http://h/whep/live/a');
  video.dispatchEvent(new Event('playing'));
  const second = async (packets: number) => {
    received.packets += packets;
    await vi.advanceTimersByTimeAsync(1_000);
  };
  for (let passed = 0; passed < 3; passed += 1) await second(30);
  return { asked, second, state: () => states.at(-1) as PlayerState };
}

it('does not ask about the publisher while packets arrive', async () => {
  const { asked, state } = await setup(async () => false);
  expect(asked).not.toHaveBeenCalled();
  expect(state().phase).toBe('playing');
});

it('says after a second of silence that the publisher has left, and plays on when it is back', async () => {
  const { asked, second, state } = await setup(async () => false);
  await second(0);
  expect(state()).toMatchObject({ phase: 'waiting', message: expect.stringContaining('publisher has left') });
  await second(0);
  expect(state()).toMatchObject({ phase: 'waiting', message: expect.stringContaining('publisher has left') });
  expect(asked).toHaveBeenCalledTimes(1);
  await second(30);
  expect(state()).toMatchObject({ phase: 'playing', message: '' });
});

it.each([
  ['the stream is live', async () => true],
  ['it cannot be told', async () => null],
  ['asking fails', () => Promise.reject(new Error('gone'))],
])('waits longer before it says anything when %s', async (_, live) => {
  const { second, state } = await setup(live);
  for (let passed = 0; passed < 3; passed += 1) await second(0);
  expect(state().phase).toBe('playing');
  await second(0);
  await second(0);
  expect(state()).toMatchObject({ phase: 'waiting', message: expect.stringContaining('No data arrives') });
});

it('takes no notice of an answer that comes after new packets', async () => {
  let answer: (live: boolean) => void = () => undefined;
  const { second, state } = await setup(() => new Promise((resolve) => (answer = resolve)));
  await second(0);
  await second(30);
  answer(false);
  await vi.advanceTimersByTimeAsync(0);
  expect(state().phase).toBe('playing');
});
