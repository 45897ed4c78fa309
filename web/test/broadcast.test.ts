/** Trying again after a refusal. The publisher's connection and the source are played by fakes. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { always, never } from '../src/lib/trouble';
import { Broadcast } from '../src/rtc/broadcast';
import type { Capture } from '../src/rtc/capture';
import type { Connection } from '../src/rtc/connection';
import { Publisher, stopLabel } from '../src/rtc/publisher';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Options = ConstructorParameters<typeof Connection>[0];

async function onAir() {
  const opened: Options[] = [];
  const connect = (options: Options) => {
    opened.push(options);
    return { open: async () => undefined, close: () => undefined, peer: null };
  };
  const broadcast = new Broadcast((onState) => new Publisher({ onState, connect: connect as never, random: () => 0.5 }));
  const stream = { getAudioTracks: () => [], getVideoTracks: () => [], getTracks: () => [] } as unknown as MediaStream;
  const capture = { source: broadcast.store.value.settings.source, stream, remark: '', stop: () => undefined } as unknown as Capture;
  broadcast.store.update((state) => ({ ...state, capture }));
  broadcast.choose({ token: 'wrong' });
  await broadcast.start('http://h/whip/live/show');
  const last = () => opened.at(-1) as Options;
  return { broadcast, opened, last };
}

const refused = { ...never('A token is required.'), needsToken: true };

it('sends the token that was entered after the refusal', async () => {
  const { broadcast, opened, last } = await onAir();
  expect(last()).toMatchObject({ token: 'wrong' });
  last().onTrouble(refused);
  expect(broadcast.store.value.publish).toMatchObject({ phase: 'failed', needsToken: true });
  broadcast.choose({ token: ' right ' });
  await broadcast.retryNow('http://h/whip/live/show');
  expect(opened).toHaveLength(2);
  expect(last()).toMatchObject({ token: 'right', url: 'http://h/whip/live/show' });
  expect(broadcast.store.value.publish).toMatchObject({ phase: 'connecting', needsToken: false });
  broadcast.stop();
});

it('publishes under the name that was chosen after somebody else had the first', async () => {
  const { broadcast, opened, last } = await onAir();
  last().onTrouble(always('Somebody else publishes this stream.'));
  expect(broadcast.store.value.publish.phase).toBe('retrying');
  broadcast.choose({ name: 'other' });
  await broadcast.retryNow('http://h/whip/live/other');
  expect(last().url).toBe('http://h/whip/live/other');
  expect(broadcast.store.value.key).toBe('live/other');
  await vi.advanceTimersByTimeAsync(60_000);
  expect(opened).toHaveLength(2); // the try that was planned is not made as well
  broadcast.stop();
});

it('leaves a connection alone that is being made or stands', async () => {
  const { broadcast, opened, last } = await onAir();
  await broadcast.retryNow('http://h/whip/live/show');
  last().onLink('connected');
  await broadcast.retryNow('http://h/whip/live/show');
  expect(opened).toHaveLength(1);
  broadcast.stop();
});

it('offers to stop only what is being sent', () => {
  expect(['connecting', 'live', 'interrupted', 'retrying', 'failed'].map((phase) => stopLabel(phase as never))).toEqual([
    'Stop publishing', 'Stop publishing', 'Stop publishing', 'Cancel', 'Cancel',
  ]);
});
