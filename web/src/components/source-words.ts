/**
 * What a channel or a pull does, in a few words, the same on every page.
 */
import type { Channel, ChannelEvent, ChannelState, Pull, PullState, PushedStream } from '../api/sources';
import type { SrtSession } from '../api/types';
import { nameProblem, type StreamRef } from '../lib/urls';
import { clockTime, count, duration, milliseconds, plural } from '../lib/format';

export type Tone = 'live' | 'plain' | 'hollow' | 'bad';

export interface StateWords {
  text: string;
  tone: Tone;
  /** Longer, for who points at it. */
  title: string;
}

const CHANNEL_STATES: Record<ChannelState, StateWords> = {
  waiting: { text: 'Waiting', tone: 'hollow', title: 'Has not started yet' },
  opening: { text: 'Opening', tone: 'plain', title: 'Opening the next item' },
  playing: { text: 'Playing', tone: 'live', title: 'Playing' },
  retrying: { text: 'Retrying', tone: 'bad', title: 'No item can be played; retrying after a pause' },
  ended: { text: 'Ended', tone: 'hollow', title: 'Played to its end' },
};

const PULL_STATES: Record<PullState, StateWords> = {
  idle: { text: 'On demand', tone: 'hollow', title: 'Begins when somebody plays it' },
  connecting: { text: 'Connecting', tone: 'plain', title: 'Connecting to the source' },
  live: { text: 'Live', tone: 'live', title: 'Receiving the stream' },
  waiting: { text: 'Waiting', tone: 'bad', title: 'Retrying after a pause' },
};

const PUSH_STATES: Record<PullState, StateWords> = {
  idle: { text: 'Idle', tone: 'hollow', title: 'Begins when a stream that matches is published' },
  connecting: { text: 'Connecting', tone: 'plain', title: 'Connecting to the target' },
  live: { text: 'Live', tone: 'live', title: 'Sending the stream' },
  waiting: { text: 'Waiting', tone: 'bad', title: 'Retrying after a pause' },
};

/** A server that is newer than the console may have states that have no words here. */
const unknown = (state: string): StateWords => ({ text: state, tone: 'plain', title: state });

export function channelState({ state }: Pick<Channel, 'state'>): StateWords {
  return CHANNEL_STATES[state] ?? unknown(state);
}

export function pullState({ state }: Pick<Pull, 'state'>): StateWords {
  return PULL_STATES[state] ?? unknown(state);
}

/** Null: of a push without streams. */
export function pushState(stream: Pick<PushedStream, 'state'> | null): StateWords {
  const state = stream?.state ?? 'idle';
  return PUSH_STATES[state] ?? unknown(state);
}

/** Whether a pull is for all streams whose names fit. */
export function isPattern({ app, name }: StreamRef): boolean {
  return app.includes('*') || name.includes('*');
}

/** What a person calls a file: the last part of its address, without what stands behind a `?`. */
export function itemName(location: string): string {
  const path = location.replace(/[?#].*$/s, '').replace(/\/+$/, '');
  const last = path.slice(path.lastIndexOf('/') + 1) || location;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** `2 of 5`, and how often all have been played */
export function placeWords(channel: Channel): string {
  const place =
    channel.item === null
      ? plural(channel.items.length, 'item', 'items')
      : `${channel.item + 1} of ${channel.items.length}`;
  return channel.loops === 0 ? place : `${place}, round ${count(channel.loops + 1)}`;
}

/** What a channel that shows no item waits for; empty when that is not known. */
export function waitWords(channel: Channel, now: number): string {
  const next = channel.next === null ? undefined : channel.items[channel.next];
  if (channel.state === 'opening' && next !== undefined) return `opening ${itemName(next.location)}`;
  if (channel.state === 'waiting' && channel.start !== null) {
    const start = Date.parse(channel.start);
    if (start > now) return `starts in ${duration((start - now) / 1000)}, at ${dayAndTime(start, now)}`;
  }
  return channel.state === 'ended' ? 'played to its end' : retryWords(channel.retry_in_ms);
}

/**
 * `4.3 s behind schedule`; of a channel without a start, what its pauses have come to. Empty for what nobody
 * sees.
 */
export function behindWords(channel: Channel): string {
  if (channel.behind_ms < BEHIND_MS_MIN) return '';
  return `${milliseconds(channel.behind_ms)} ${channel.start === null ? 'late in all' : 'behind schedule'}`;
}

/** Whether there is an item that can be left: one that plays, or one that is waited for. */
export function canSkip(channel: Channel): boolean {
  return channel.state === 'playing' || (channel.state === 'opening' && channel.next !== null);
}

/** The connection of a pull or a push, whose state is not `idle`. */
export type Link = Pick<Pull, 'state' | 'since' | 'attempts' | 'reconnects' | 'retry_in_ms'>;

/** `3 attempts, retrying in 4 s`, `attempt 4`, `for 2 min 05 s, 2 reconnects` */
export function linkWords(link: Link, now = Date.now()): string {
  if (link.state === 'live') {
    const since = `for ${duration(Math.max(0, (now - Date.parse(link.since)) / 1000))}`;
    return link.reconnects === 0 ? since : `${since}, ${plural(link.reconnects, 'reconnect', 'reconnects')}`;
  }
  if (link.state !== 'waiting') {
    return link.attempts <= 1 ? 'first attempt' : `attempt ${count(link.attempts)}`;
  }
  const attempts = link.attempts === 0 ? '' : plural(link.attempts, 'attempt', 'attempts');
  return [attempts, retryWords(link.retry_in_ms)].filter(Boolean).join(', ');
}

/** `SRT: round trip 12 ms, 3 of 4,000 packets lost, 2 sent again, 0 given up, 120 ms in the buffer` */
export function srtWords(srt: SrtSession | null | undefined): string {
  if (!srt) return '';
  const words = [
    srt.rtt_ms === null ? '' : `round trip ${milliseconds(srt.rtt_ms)}`,
    `${count(srt.lost_packets)} of ${count(srt.packets)} packets lost`,
    `${count(srt.retransmitted_packets)} sent again`,
    `${count(srt.dropped_packets)} given up`,
    `${milliseconds(srt.buffer_ms)} in the buffer`,
  ];
  return `SRT: ${words.filter(Boolean).join(', ')}`;
}

/** Why a pull or a push failed last; with the time, once that is over. */
export function errorWords(
  pull: Pick<Pull, 'state' | 'last_error' | 'last_error_at'>,
  now: number,
): string | null {
  if (pull.last_error === null || pull.state !== 'live') return pull.last_error;
  return `${pull.last_error_at === null ? 'earlier' : dayAndTime(Date.parse(pull.last_error_at), now)}: ${pull.last_error}`;
}

export function retryWords(ms: number | null): string {
  return ms === null ? '' : `retrying in ${duration(Math.ceil(ms / 1000))}`;
}

/** `12:05:09` today, with the date on other days; by the clock of the person at the page. */
export function dayAndTime(ms: number, now: number): string {
  const [day, today] = [new Date(ms), new Date(now)];
  const two = (value: number) => String(value).padStart(2, '0');
  const date = `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
  return day.toDateString() === today.toDateString() ? clockTime(ms) : `${date} ${clockTime(ms)}`;
}

/**
 * Events that a person should look at; frames that came late and items that were skipped by hand are none of
 * them.
 */
export function isTrouble({ kind }: ChannelEvent): boolean {
  return kind === 'broken' || kind === 'interrupted' || kind === 'nothing_to_play';
}

/** What happened, and with which file. */
export function eventWords(channel: Channel, event: ChannelEvent): string {
  const item = event.item === null ? undefined : channel.items[event.item];
  return item === undefined ? event.message : `${itemName(item.location)}: ${event.message}`;
}

/** What went wrong last, as far as the server remembers. */
export function lastTrouble(channel: Channel): string | null {
  // That nothing can be played says less than why the last of them could not.
  const event =
    channel.events.findLast((candidate) => isTrouble(candidate) && candidate.kind !== 'nothing_to_play') ??
    channel.events.findLast(isTrouble);
  if (event !== undefined) return eventWords(channel, event);
  const item = channel.items.find((candidate) => candidate.last_error !== null);
  return item === undefined ? null : `${itemName(item.location)}: ${item.last_error}`;
}

/** Lines of a text as a playlist: blanks at the ends and empty lines do not count. */
export function itemsOf(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** What the server says of an item, `items[1]`, as the form has it: `line 3`. */
export function lineWords(message: string, text: string): string {
  const lines = text.split('\n').flatMap((line, index) => (line.trim() === '' ? [] : [index + 1]));
  return message.replace(/\bitems\[(\d+)\]/g, (said, index: string) =>
    lines[Number(index)] === undefined ? said : `line ${lines[Number(index)]}`,
  );
}

/** `Europe/Berlin, UTC+02:00`: how the clock of the person at the page counts, at that time. */
export function zoneWords(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const offset = `UTC${minutes < 0 ? '\u2212' : '+'}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone === undefined || zone === 'UTC' ? offset : `${zone}, ${offset}`;
}

/** What is wrong with an item; null when it may be tried. The server has the last word. */
export function itemProblem(location: string): string | null {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(location)?.[1]?.toLowerCase();
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https')
    return `${scheme}: is not possible; http, https, or a file of the server.`;
  if (scheme !== undefined && !URL.canParse(location)) return `${location} is no address.`;
  return null;
}

/** Less is not worth a word: it passes with the next item. */
const BEHIND_MS_MIN = 100;

const PULL_SCHEMES = ['http', 'https', 'rtmp', 'rtmps', 'rtsp', 'rtsps', 'srt', 'udp', 'whep', 'wheps'];
const PUSH_SCHEMES = ['rtmp', 'rtmps', 'rtsp', 'rtsps', 'srt', 'udp', 'whip', 'whips'];

/** What is wrong with the address of a pull; of a pattern, names have to stand in it. */
export function pullProblem(url: string, pattern = false): string | null {
  const wrong = addressProblem(url, PULL_SCHEMES);
  if (wrong !== null || !pattern || url.includes('{stream}')) return wrong;
  return 'Needs {stream}, where the name of the stream is to stand.';
}

/** What is wrong with the address of a push. */
export function pushProblem(url: string): string | null {
  return addressProblem(url, PUSH_SCHEMES);
}

function addressProblem(url: string, schemes: readonly string[]): string | null {
  const listed = `${schemes.slice(0, -1).join(', ')} or ${schemes.at(-1)}`;
  if (url === '') return 'Must not be empty.';
  const scheme = /^([a-z][a-z0-9+.-]*):\/\/./i.exec(url)?.[1]?.toLowerCase();
  if (scheme === undefined) return `Begins with ${listed}, and ://.`;
  return schemes.includes(scheme) ? null : `${scheme} is not possible; ${listed}.`;
}

/** Whether an address is that of an endpoint of WebRTC: only those take a token. */
export function takesToken(url: string): boolean {
  return /^(whep|whip)s?:\/\//i.test(url.trim());
}

/** The token for an address, or none. */
export function tokenOf(url: string, token: string): string | null {
  return takesToken(url) && token !== '' ? token : null;
}

/** What is wrong with the pattern of a push, `app/stream`. */
export function patternProblem(pattern: string): string | null {
  const wrong = nameProblem(pattern, true);
  if (wrong !== null || pattern.includes('/') || pattern.includes('*')) return wrong;
  return 'Has the form app/stream; * stands for any characters.';
}
