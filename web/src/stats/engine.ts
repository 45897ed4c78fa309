/**
 * Messages in, what the page shows out: histories, summary, filter and order.
 *
 * Runs in the thread behind the page and knows neither of threads nor of sockets; the caller passes bytes and
 * requests and sends on what comes back.
 */
import { keyOfId, sessionKey, type SessionKey } from './ids';
import { readMessage, type Message } from './message';
import {
  NOTHING_WATCHED,
  SESSION_FIGURES,
  SPARK_SAMPLES,
  type Report,
  type Sparks,
  type Tracks,
  type Watched,
} from './protocol';
import { Recorder } from './recorder';
import { ALL, filter, holdOrder, select, type Query } from './select';
import { Slots } from './slots';
import {
  STREAM_FIGURES,
  streamFigures,
  summarise,
  TOTAL_FIGURES,
  totalFigures,
  type Summary,
} from './summary';

/** Where the one row of totals stands. */
const TOTALS_SLOT = 0;
const RATE_FIGURE = SESSION_FIGURES.indexOf('bits_per_second');

export class Engine {
  readonly #clock: () => number;
  readonly #slots = new Slots<SessionKey>();
  readonly #streamSlots = new Slots<string>();
  readonly #sessions = new Recorder(SESSION_FIGURES.length);
  readonly #streams = new Recorder(STREAM_FIGURES.length);
  readonly #totals = new Recorder(TOTAL_FIGURES.length);
  #query: Query = ALL;
  #held = false;
  #watched: Watched = NOTHING_WATCHED;
  #seen: readonly string[] = [];
  #message: Message | null = null;
  /** Slot of each row of the message. */
  #rows: Uint32Array<ArrayBuffer> = new Uint32Array();
  #order: Uint32Array<ArrayBuffer> = new Uint32Array();

  /** `clock` gives milliseconds, for the time that reading takes. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * Takes one message; null when it is the one before again. Fails with MessageError, and then nothing has
   * changed.
   */
  message(bytes: Uint8Array): Report | null {
    const begun = this.#clock();
    const message = readMessage(bytes);
    const last = this.#message;
    if (last !== null && message.sequence === last.sequence && message.timeMs === last.timeMs) return null;
    // Numbers of sessions start over with the server, and its clock may have been set: neither
    // belongs to what was before.
    if (last !== null && (message.sequence <= last.sequence || message.timeMs <= last.timeMs)) this.#forget();
    const before = this.#orderInSlots();
    this.#message = message;
    const summary = summarise(message);
    this.#record(message, summary);
    this.#order = this.#held
      ? holdOrder(before, this.#rows, filter(message, this.#query))
      : select(message, this.#query);
    const frame = { message, summary, bytes: bytes.length, readMs: this.#clock() - begun };
    return {
      kind: 'frame',
      frame,
      order: this.#order,
      tracks: this.#tracks(message),
      sparks: this.#sparks(),
    };
  }

  query(query: Query): Report | null {
    this.#query = query;
    return this.#reorder();
  }

  hold(held: boolean): Report | null {
    this.#held = held;
    return held ? null : this.#reorder();
  }

  watch(watched: Watched): Report | null {
    this.#watched = watched;
    return this.#message === null ? null : { kind: 'tracks', tracks: this.#tracks(this.#message) };
  }

  rows(ids: readonly string[]): Report {
    this.#seen = ids;
    return { kind: 'sparks', sparks: this.#sparks() };
  }

  #reorder(): Report | null {
    if (this.#message === null) return null;
    this.#order = select(this.#message, this.#query);
    return { kind: 'order', order: this.#order };
  }

  #record(message: Message, summary: Summary): void {
    const { sessions, streams, timeMs } = message;
    const kept = this.#watched.session === null ? null : keyOfId(this.#watched.session);
    this.#rows = this.#slots.round(
      sessions.serial.length,
      (row) => sessionKey(sessions.worker[row]!, sessions.serial[row]!),
      kept,
    );
    const figures = SESSION_FIGURES.map((figure) => sessions[figure]);
    this.#sessions.record(timeMs, this.#slots.rounds, this.#slots.size, this.#rows, figures);
    const streamRows = this.#streamSlots.round(streams.name.length, (row) => streams.name[row]!);
    this.#streams.record(
      timeMs,
      this.#streamSlots.rounds,
      this.#streamSlots.size,
      streamRows,
      streamFigures(message),
    );
    const totals = totalFigures(message, summary).map((value) => [value]);
    this.#totals.record(timeMs, this.#slots.rounds, 1, Uint32Array.of(TOTALS_SLOT), totals);
  }

  #tracks(message: Message): Tracks {
    return {
      all: this.#totals.track(TOTALS_SLOT, 0),
      session: this.#sessionTrack(),
      stream: this.#streamTrack(message),
    };
  }

  #sessionTrack(): Tracks['session'] {
    const id = this.#watched.session;
    const key = id === null ? null : keyOfId(id);
    const slot = key === null ? null : this.#slots.get(key);
    if (id === null || slot === null) return null;
    return {
      id,
      present: this.#rows.includes(slot),
      track: this.#sessions.track(slot, this.#slots.since(slot)),
    };
  }

  #streamTrack(message: Message): Tracks['stream'] {
    const name = this.#watched.stream;
    const slot = name === null ? null : this.#streamSlots.get(name);
    if (name === null || slot === null) return null;
    const summary = summarise(message, message.streams.name.indexOf(name));
    return { name, summary, track: this.#streams.track(slot, this.#streamSlots.since(slot)) };
  }

  #sparks(): Sparks {
    const sparks = new Map<string, Float32Array<ArrayBuffer>>();
    for (const id of this.#seen) {
      const key = keyOfId(id);
      const slot = key === null ? null : this.#slots.get(key);
      if (slot !== null)
        sparks.set(id, this.#sessions.newest(slot, this.#slots.since(slot), RATE_FIGURE, SPARK_SAMPLES));
    }
    return sparks;
  }

  #orderInSlots(): Uint32Array<ArrayBuffer> {
    return this.#order.map((row) => this.#rows[row]!);
  }

  #forget(): void {
    this.#sessions.clear();
    this.#streams.clear();
    this.#totals.clear();
  }
}
