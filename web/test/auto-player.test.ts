/** Which transport plays, and when another takes over. The players are fakes that fail on command. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { always, never, type Trouble } from '../src/lib/trouble';
import { AutoPlayer, type AutoState } from '../src/player/auto-player';
import { IDLE, type PlayerState, type Source, type StreamPlayer, type Transport } from '../src/player/player';
import { fallbackWords, NO_FLV, orderOf } from '../src/player/transports';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const absent: Trouble = { ...always('Nobody publishes this stream.'), elsewhere: 'absent' };
const nobody: Trouble = { ...always('Nobody publishes this stream.'), elsewhere: 'nobody' };
const cannot: Trouble = { ...always('No media path.'), elsewhere: 'cannot' };

class FakePlayer implements StreamPlayer {
  started: string[] = [];
  destroyed = false;
  retries = 0;
  constructor(
    readonly transport: Transport,
    readonly set: (state: PlayerState) => void,
    readonly trouble: (trouble: Trouble) => boolean,
  ) {}
  start(url: string): void {
    this.started.push(url);
  }
  stop(): void {}
  destroy(): void {
    this.destroyed = true;
  }
  retryNow(): void {
    this.retries += 1;
  }
  changes = 0;
  formatChanged(): void {
    this.changes += 1;
  }
  pause(): void {}
  resume(): void {}
  plays(): void {
    this.set({ ...IDLE, phase: 'playing' });
  }
}

function setup(order: Transport[] = ['rtc', 'http']) {
  const made: FakePlayer[] = [];
  const states: AutoState[] = [];
  let sources: Source[] = order.map((transport) => ({ transport, url: `u:${transport}`, token: '' }));
  const player = new AutoPlayer({
    make: (transport, set, trouble) => {
      const fake = new FakePlayer(transport, set, trouble);
      made.push(fake);
      return fake;
    },
    sources: () => sources,
    onState: (state) => states.push(state),
    random: () => 0.5,
  });
  player.start();
  const offer = (next: Transport[]) => (sources = next.map((transport) => ({ transport, url: `u:${transport}`, token: '' })));
  const transports = () => made.map(({ transport }) => transport);
  return { player, made, states, offer, transports, last: () => made.at(-1) as FakePlayer, state: () => states.at(-1) as AutoState };
}

it('plays by the first and stays there', () => {
  const { last, state, transports } = setup();
  last().plays();
  expect(transports()).toEqual(['rtc']);
  expect(state()).toMatchObject({ phase: 'playing', transport: 'rtc', fallback: '' });
});

it('tries what was ruled out again when the stream has another format', () => {
  const { player, last, transports } = setup();
  last().trouble(cannot);
  player.formatChanged();
  expect(last().changes).toBe(1);
  last().trouble(absent);
  expect(transports()).toEqual(['rtc', 'http']);
  vi.advanceTimersByTime(1_000);
  expect(transports()).toEqual(['rtc', 'http', 'rtc']);
  player.stop();
  player.formatChanged();
  expect(transports()).toHaveLength(3);
});

it('takes the other at once when the first cannot, and says why', () => {
  const { made, last, state } = setup();
  expect(last().trouble(cannot)).toBe(true);
  expect(made[0]?.destroyed).toBe(true);
  last().plays();
  expect(last().started).toEqual(['u:http']);
  expect(state()).toMatchObject({ phase: 'playing', transport: 'http', fallback: 'No media path.' });
});

it('leaves troubles that the other could not help with to the player', () => {
  const { last, transports } = setup();
  expect(last().trouble(always('The connection was lost.'))).toBe(false);
  expect(last().trouble({ ...never('Token.'), needsToken: true })).toBe(false);
  expect(transports()).toEqual(['rtc']);
});

it('looks for an absent stream by each in turn, with pauses that grow', async () => {
  const { last, state, transports } = setup();
  last().trouble(absent);
  expect(last().trouble(absent)).toBe(true);
  expect(state()).toMatchObject({ phase: 'retrying', message: 'Nobody publishes this stream.' });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(transports()).toEqual(['rtc', 'http', 'rtc']);
  last().trouble(absent);
  last().trouble(absent);
  await vi.advanceTimersByTimeAsync(1_999);
  expect(transports()).toHaveLength(4);
  await vi.advanceTimersByTimeAsync(1);
  expect(transports()).toHaveLength(5);
  last().plays();
  expect(state()).toMatchObject({ phase: 'playing', transport: 'rtc', reconnects: 2, fallback: '' });
});

it('lets the preferred one wait for a stream that nobody publishes', () => {
  const { last, transports } = setup();
  expect(last().trouble(nobody)).toBe(false); // it tries again by itself
  expect(transports()).toEqual(['rtc']);
});

it('comes back to the preferred one when another finds that nobody publishes', async () => {
  const { last, state, transports } = setup(['http', 'rtc']);
  last().trouble(absent);
  expect(last().trouble(nobody)).toBe(true);
  expect(state()).toMatchObject({ phase: 'retrying', message: 'Nobody publishes this stream.' });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(transports()).toEqual(['http', 'rtc', 'http']);
});

it('waits by the next one where the preferred one cannot', () => {
  const { last, transports } = setup();
  last().trouble(cannot);
  expect(last().trouble(nobody)).toBe(false);
  expect(transports()).toEqual(['rtc', 'http']);
});

it('waits as long as the server asks', async () => {
  const { last, transports } = setup();
  last().trouble(absent);
  last().trouble({ ...absent, waitMs: 6_000 });
  await vi.advanceTimersByTimeAsync(5_999);
  expect(transports()).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(transports()).toHaveLength(3);
});

it('does not come back to one that cannot, until the person asks', () => {
  const { player, last, transports } = setup();
  last().trouble(cannot);
  expect(last().trouble(absent)).toBe(false); // the only one left looks after itself
  expect(transports()).toEqual(['rtc', 'http']);
  player.start();
  expect(transports()).toEqual(['rtc', 'http', 'rtc']);
});

it('asks for the sources again in each round', async () => {
  const { last, offer, transports } = setup();
  last().trouble(absent);
  last().trouble(absent);
  offer(['http']);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(transports().at(-1)).toBe('http');
});

it('retries at once on request, and stops for good', async () => {
  const { player, last, made, transports } = setup();
  last().trouble(absent);
  last().trouble(absent);
  player.retryNow();
  expect(transports()).toHaveLength(3);
  player.retryNow();
  expect(last().retries).toBe(1);
  player.stop();
  expect(made.every(({ destroyed }) => destroyed)).toBe(true);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(transports()).toHaveLength(3);
});

it('ignores what a player reports that was replaced', () => {
  const { made, last, state } = setup();
  last().trouble(cannot);
  last().plays();
  made[0]?.set({ ...IDLE, phase: 'failed' });
  expect(made[0]?.trouble(cannot)).toBe(false);
  expect(state().phase).toBe('playing');
});

describe('order of transports', () => {
  it.each([
    ['rtc', null, null, ['rtc', 'http']],
    ['ws', null, null, ['ws', 'rtc']],
    ['rtc', false, true, ['http']],
    ['http', true, false, ['rtc']],
    ['rtc', false, false, ['rtc', 'http']], // nothing known to work: try
  ] as const)('%s, WebRTC %s, FLV %s', (preferred, rtc, flv, order) => expect(orderOf(preferred, { rtc, flv })).toEqual(order));
});

describe('why another transport plays', () => {
  it.each([
    ['rtc', 'No media path.', { rtc: true, flv: true }, 'No media path.'],
    ['rtc', '', { rtc: false, flv: true, reason: 'the stream has B-frames' }, 'the stream has B-frames'],
    ['ws', 'It broke.', { rtc: true, flv: false, reason: '' }, NO_FLV],
    ['ws', 'It broke.', { rtc: true, flv: false, reason: 'bridges are off' }, 'bridges are off'],
    ['http', 'No such codec.', { rtc: true, flv: true, reason: 'the audio is not bridged' }, 'No such codec.'], // of the other way
    ['rtc', 'Refused.', { rtc: null, flv: null }, 'Refused.'],
  ] as const)('%s, found: %s', (preferred, found, offered, words) => expect(fallbackWords(preferred, found, offered)).toBe(words));
});
