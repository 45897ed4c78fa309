/** Numbers as people read them. */
import { describe, expect, it } from 'vitest';
import * as format from '../src/lib/format';

const plain = (text: string) => text.replaceAll('\u00a0', ' ');

describe('bitrate', () => {
  it.each([
    [0, '0 bit/s'],
    [999, '999 bit/s'],
    [999.6, '1.00 kbit/s'], // would round to 1000 in the smaller unit
    [605_000, '605 kbit/s'],
    [999_499, '999 kbit/s'],
    [999_500, '1.00 Mbit/s'],
    [2_414_000, '2.41 Mbit/s'],
    [12_000_000_000, '12.0 Gbit/s'],
    [null, '–'],
    [undefined, '–'],
    [Number.NaN, '–'],
    [-1, '–'],
  ])('%s is %s', (value, text) => expect(plain(format.bitrate(value))).toBe(text));
});

describe('a place in a film', () => {
  it.each([
    [0, '0:00'],
    [7_999, '0:07'],
    [725_000, '12:05'],
    [3_600_000, '1:00:00'],
    [360_725_000, '100:12:05'],
    [null, '–'],
  ])('%s ms is %s', (value, text) => expect(format.playTime(value)).toBe(text));
});

describe('duration', () => {
  it.each([
    [0, '0 s'],
    [59.9, '59 s'],
    [60, '1 min 00 s'],
    [3599, '59 min 59 s'],
    [3600, '1 h 00 min'],
    [86_399, '23 h 59 min'],
    [86_400, '1 d 00 h'],
    [4 * 86_400 + 7 * 3600, '4 d 07 h'],
  ])('%s is %s', (value, text) => expect(plain(format.duration(value))).toBe(text));
});

describe('small units', () => {
  it.each([
    [format.milliseconds(850), '850 ms'],
    [format.milliseconds(2000), '2.0 s'],
    [format.milliseconds(12_400), '12 s'],
    [format.microseconds(180), '180 µs'],
    [format.microseconds(1240), '1.24 ms'],
    [format.microseconds(2_500_000), '2.50 s'],
    [format.percent(0), '0 %'],
    [format.percent(0.42), '0.4 %'],
    [format.percent(9.96), '10 %'],
    [format.percent(100), '100 %'],
    [format.bytes(1_250_000), '1.25 MB'],
    [format.count(12_345), '12,345'],
    [format.frameRate(29.97002), '29.97 fps'],
    [format.frameRate(30), '30 fps'],
    [format.frameRate(0), '–'],
    [format.sampleRate(44_100), '44.1 kHz'],
    [format.resolution(1280, 720), '1280×720'],
    [format.resolution(0, 720), '–'],
    [format.channels(1), 'mono'],
    [format.channels(2), 'stereo'],
    [format.channels(6), '6 channels'],
    [format.plural(1, 'player', 'players'), '1 player'],
    [format.timesWords(0), 'never'],
    [format.timesWords(1), 'once'],
    [format.timesWords(2), '2 times'],
    [format.plural(0, 'player', 'players'), '0 players'],
  ])('%s', (got, expected) => expect(plain(got)).toBe(expected));
});
