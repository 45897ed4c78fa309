/** Filter and order of the sessions. */
import { describe, expect, it } from 'vitest';
import { readMessage } from '../src/stats/message';
import { cardFigures, idAt, sessionAt } from '../src/stats/row';
import { ALL, filter, holdOrder, select, SORTS, type Query } from '../src/stats/select';
import { anywhere, TEXT_MAX, wordsOf } from '../src/stats/words';
import { aRow, packed } from './stats-samples';

const message = readMessage(
  packed(1, [
    aRow('0-1', { role: 1, stream: 'live/b', rate: 50, rtt: 30 }),
    aRow('0-2', { stream: 'live/a', rate: 10, rtt: 10 }),
    aRow('1-3', { stream: 'Sport/Final', protocol: 1, rate: 20 }),
    aRow('1-14', { role: 0, stream: null, rate: 0, rtt: 20 }),
  ]),
);
const list = (query: Partial<Query>) => [...select(message, { ...ALL, ...query })].map((row) => idAt(message, row));

describe('order', () => {
  it.each([
    ['rate', true, ['0-1', '1-3', '0-2', '1-14']],
    ['rate', false, ['1-14', '0-2', '1-3', '0-1']],
    ['rtt', false, ['0-2', '1-14', '0-1', '1-3']], // not known comes last
    ['rtt', true, ['0-1', '1-14', '0-2', '1-3']], // both ways
    ['stream', false, ['1-3', '0-2', '0-1', '1-14']],
    ['stream', true, ['0-1', '0-2', '1-3', '1-14']],
    ['role', false, ['1-14', '0-1', '0-2', '1-3']], // then by protocol
    ['loss', true, ['0-1', '0-2', '1-3', '1-14']], // all equal: the message's order
  ] as const)('by %s, descending: %s', (sort, descending, ids) => expect(list({ sort, descending })).toEqual(ids));

  it.each(SORTS)('by %s has each row once', (sort) => {
    for (const descending of [true, false]) expect(list({ sort, descending }).sort()).toEqual(['0-1', '0-2', '1-14', '1-3']);
  });
});

describe('filter', () => {
  it.each([
    [{ role: 'publisher' }, ['0-1']],
    [{ stream: 'live/a' }, ['0-2']],
    [{ stream: 'live/gone' }, []],
    [{ stream: 'live/b', role: 'player' }, []],
    [{ text: 'final' }, ['1-3']],
    [{ text: 'whep' }, ['1-3']],
    [{ text: 'pending' }, ['1-14']],
    [{ text: '1-1' }, ['1-14']],
    [{ text: '4' }, []], // an id is known by its beginning
    [{ text: 'live  RTMP' }, ['0-1', '0-2']],
    [{ text: 'final rtmp' }, []],
    [{ text: 'role:player worker:0' }, ['0-2']],
    [{ text: 'ROLE:publisher' }, ['0-1']],
    [{ text: 'worker:1 stream:sport protocol:whep' }, ['1-3']],
    [{ text: 'stream:rtmp' }, []], // a protocol, and no stream
    [{ text: 'protocol:live' }, []],
    [{ text: 'stream:' }, ['0-1', '0-2', '1-3']],
    [{ text: 'worker:' }, []],
    [{ text: 'mood:fine' }, []], // no such field: part of a name
    [{ text: '192.0.2', ids: new Map([['192.0.2', ['0-2', '1-14', 'broken']]]) }, ['0-2', '1-14']],
    [{ text: 'final', ids: new Map([['final', ['0-2']]]), role: 'player' }, ['0-2', '1-3']],
    [{ text: '192.0.2 whep', ids: new Map([['192.0.2', ['0-2', '1-3']]]) }, ['1-3']],
    [{ text: '192.0.2 vlc', ids: new Map([['192.0.2', ['0-2', '1-3']], ['vlc', ['0-1', '0-2']]]) }, ['0-2']],
    [{ text: '', ids: new Map([['x', ['0-2']]]) }, ['0-1', '0-2', '1-3', '1-14']],
  ] as const)('%j', (query, ids) => {
    expect([...filter(message, { ...ALL, ...query })].map((row) => idAt(message, row))).toEqual(ids);
  });
});

it('only words without a field are looked for in addresses and programs, each once', () => {
  expect(anywhere(wordsOf(' VLC 127.0.0.1:1935 role:player vlc '))).toEqual(['vlc', '127.0.0.1:1935']);
  expect(wordsOf('a '.repeat(200))).toHaveLength(TEXT_MAX / 2);
});

describe('a card', () => {
  const rows = readMessage(
    packed(1, [
      aRow('0-1', { protocol: 1, rtt: 3, loss: 0 }),
      aRow('0-2'),
      aRow('0-3', { rtt: 5 }),
      aRow('0-4', { role: 1 }),
      aRow('0-5', { role: 0, stream: null }),
    ]),
  );
  it.each([
    ['a viewer by WebRTC', 0, ['rate', 'loss', 'rtt']],
    ['a player by TCP', 1, ['rate', 'queue', 'dropped']],
    ['one whose round trip is known', 2, ['rate', 'queue', 'rtt']],
    ['a publisher', 3, ['rate', 'connected']],
    ['one that has not decided', 4, ['rate', 'connected']],
  ] as const)('of %s shows what is known of it', (_, row, figures) => expect(cardFigures(sessionAt(rows, row))).toEqual(figures));
});

it('held rows keep their places; those that are new come last', () => {
  // Slot 7 has left, slots 4 and 9 have come.
  const slots = Uint32Array.of(9, 3, 4, 5);
  const order = holdOrder(Uint32Array.of(5, 7, 3), slots, Uint32Array.of(0, 1, 2, 3));
  expect([...order]).toEqual([3, 1, 0, 2]);
});

it('held rows that match no more go', () => {
  expect([...holdOrder(Uint32Array.of(1, 0), Uint32Array.of(0, 1), Uint32Array.of(1))]).toEqual([1]);
});

it('sorts ten thousand rows as a plain sort does', () => {
  const rows = Array.from({ length: 10_000 }, (_, index) => aRow(`0-${index + 1}`, { rate: (index * 7919) % 1009 }));
  const many = readMessage(packed(1, rows));
  const expected = rows.map((_, index) => index).sort((a, b) => rows[b]!.rate - rows[a]!.rate || a - b);
  expect([...select(many, { ...ALL, sort: 'rate' })]).toEqual(expected);
});
