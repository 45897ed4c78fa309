/** What of the server's statistics is taken, and what is refused. */
import { encode } from '@msgpack/msgpack';
import { describe, expect, it } from 'vitest';
import { MessageError, messageOf, readMessage } from '../src/stats/message';
import { findSession, hasQueue, sessionAt } from '../src/stats/row';
import { aRow, packed, plainMessage } from './stats-samples';

const ROWS = [aRow('0-1', { role: 1, rate: 2_000_000 }), aRow('1-7', { stream: null, role: 0, protocol: 1, loss: 1.5, rtt: 20 })];

it('becomes columns, and rows of them', () => {
  const message = readMessage(packed(5, ROWS));
  expect(message).toMatchObject({ sequence: 5, timeMs: 1_700_000_005_000, intervalMs: 1000, protocols: ['rtmp', 'whep'] });
  expect([...message.sessions.stream]).toEqual([0, -1]);
  expect(sessionAt(message, 0)).toMatchObject({ id: '0-1', role: 'publisher', protocol: 'rtmp', stream: 'live/a', bitsPerSecond: 2_000_000, lossPercent: Number.NaN });
  expect(findSession(message, '1-7')).toMatchObject({ role: 'pending', protocol: 'whep', stream: null, lossPercent: 1.5, rttMs: 20 });
  for (const id of ['1-8', '7', 'x', '']) expect(findSession(message, id), id).toBeNull();
});

it('is read from JSON as well, where null stands for not known', () => {
  const json = JSON.parse(JSON.stringify(plainMessage(1, ROWS))) as unknown;
  expect(sessionAt(messageOf(json), 0).rttMs).toBeNaN();
  expect(sessionAt(messageOf(json), 1).rttMs).toBe(20);
});

it('may have keys that are not known', () => {
  expect(readMessage(packed(1, ROWS, { moon_phase: [1, 2] })).sequence).toBe(1);
});

it('keeps serials up to the largest exact', () => {
  const serial = 2 ** 48 - 1;
  expect(findSession(readMessage(packed(1, [aRow('65535-1'), aRow(`65535-${serial}`)])), `65535-${serial}`)?.worker).toBe(65_535);
});

it.each([
  ['player', 'rtmp', true],
  ['player', 'ws-flv', true],
  ['player', 'whep', false], // packets do not wait
  ['publisher', 'rtmp', false],
  ['pending', 'rtmp', false],
] as const)('a %s by %s has a queue: %s', (role, protocol, expected) => expect(hasQueue({ role, protocol })).toBe(expected));

describe('is refused', () => {
  const sessions = plainMessage(1, ROWS).sessions;
  it.each([
    ['another version', { version: 2 }],
    ['no version', { version: undefined }],
    ['columns of different lengths', { sessions: { ...sessions, rtt_ms: [1] } }],
    ['a column that is missing', { sessions: { ...sessions, rtt_ms: undefined } }],
    ['texts among numbers', { sessions: { ...sessions, rtt_ms: ['1', '2'] } }],
    ['a stream that is not there', { sessions: { ...sessions, stream: [0, 1] } }],
    ['a protocol that is not there', { sessions: { ...sessions, protocol: [0, 2] } }],
    ['a role that is not known', { sessions: { ...sessions, role: [0, 3] } }],
    ['a group that is a list', { streams: [] }],
    ['a name that is a number', { protocols: ['rtmp', 1] }],
    ['a time that is no number', { time_ms: 'now' }],
  ])('%s', (_what, change) => {
    expect(() => readMessage(packed(1, ROWS, change))).toThrow(MessageError);
  });

  it('with the version, when that is why', () => {
    try {
      readMessage(packed(1, ROWS, { version: 9 }));
      expect.unreachable();
    } catch (error) {
      expect((error as MessageError).version).toBe(9);
    }
  });

  it('when it ends too soon, wherever', () => {
    const whole = packed(1, ROWS);
    for (let length = 0; length < whole.length; length += 1) expect(() => readMessage(whole.subarray(0, length)), String(length)).toThrow(MessageError);
  });

  it.each([['a number', 7], ['nothing', null], ['a list', [1]], ['a text', 'x']])('%s', (_what, value) => expect(() => readMessage(encode(value))).toThrow(MessageError));
});
