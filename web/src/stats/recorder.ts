/**
 * The last minutes of some figures of many things: one array per figure and second, indexed by slot.
 *
 * Time is the outer index, so recording a second is a few sequential writes and growth never copies. Memory
 * is limited: with more things the oldest seconds are given up sooner.
 */

/** Longest time looked back, in samples: five minutes at one a second. */
export const SAMPLES_MAX = 300;
/**
 * Bytes one recorder holds. 10,000 sessions with six figures use 240 kB a second and are kept for the full
 * five minutes.
 */
export const RECORDER_BYTES_MAX = 72_000_000;

interface Sample {
  timeMs: number;
  round: number;
  columns: Float32Array<ArrayBuffer>[];
}

/** Times in milliseconds and, for each figure, values of those times; NaN where there is none. */
export interface Track {
  timeMs: Float64Array<ArrayBuffer>;
  values: Float32Array<ArrayBuffer>[];
}

export class Recorder {
  readonly #figures: number;
  readonly #samplesMax: number;
  readonly #bytesMax: number;
  readonly #samples: Sample[] = [];
  #bytes = 0;
  #spare: Float32Array<ArrayBuffer>[] = [];

  constructor(figures: number, samplesMax = SAMPLES_MAX, bytesMax = RECORDER_BYTES_MAX) {
    this.#figures = figures;
    this.#samplesMax = samplesMax;
    this.#bytesMax = bytesMax;
  }

  /**
   * One sample of all figures. `slots` has the slot of each row, all below `size`; `figures` one column of
   * rows each. `round` is the round of the slots, which grows.
   */
  record(
    timeMs: number,
    round: number,
    size: number,
    slots: Uint32Array,
    figures: ArrayLike<number>[],
  ): void {
    const bytes = size * this.#figures * Float32Array.BYTES_PER_ELEMENT;
    while (
      this.#samples.length > 0 &&
      (this.#samples.length >= this.#samplesMax || this.#bytes + bytes > this.#bytesMax)
    )
      this.#forgetOldest();
    const columns = figures.map((figure) => {
      const column = this.#column(size);
      for (let row = 0; row < slots.length; row += 1) column[slots[row]!] = figure[row]!;
      return column;
    });
    this.#samples.push({ timeMs, round, columns });
    this.#bytes += bytes;
    this.#spare = [];
  }

  /** What is held of one slot since `round`, at most the newest `samples`. */
  track(slot: number, round: number, samples = this.#samplesMax): Track {
    let first = Math.max(0, this.#samples.length - samples);
    while (first < this.#samples.length && this.#samples[first]!.round < round) first += 1;
    const held = this.#samples.slice(first);
    return {
      timeMs: Float64Array.from(held, (sample) => sample.timeMs),
      values: Array.from({ length: this.#figures }, (_, figure) =>
        Float32Array.from(held, ({ columns }) => columns[figure]![slot] ?? Number.NaN),
      ),
    };
  }

  /** The newest `samples` values of one figure, oldest first. */
  newest(slot: number, round: number, figure: number, samples: number): Float32Array<ArrayBuffer> {
    let first = Math.max(0, this.#samples.length - samples);
    while (first < this.#samples.length && this.#samples[first]!.round < round) first += 1;
    const values = new Float32Array(this.#samples.length - first);
    for (let at = first; at < this.#samples.length; at += 1)
      values[at - first] = this.#samples[at]!.columns[figure]![slot] ?? Number.NaN;
    return values;
  }

  get length(): number {
    return this.#samples.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  clear(): void {
    this.#samples.length = 0;
    this.#bytes = 0;
    this.#spare = [];
  }

  #column(size: number): Float32Array<ArrayBuffer> {
    const at = this.#spare.findIndex((column) => column.length === size);
    const column = at < 0 ? new Float32Array(size) : this.#spare.splice(at, 1)[0]!;
    return column.fill(Number.NaN);
  }

  #forgetOldest(): void {
    const oldest = this.#samples.shift();
    if (oldest === undefined) return;
    for (const column of oldest.columns) this.#bytes -= column.byteLength;
    this.#spare = oldest.columns;
  }
}
