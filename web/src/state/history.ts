/**
 * The last couple of minutes of a measured value, for sparklines. Lives only in the browser.
 */

/** Samples kept per series: two minutes at one per second. */
export const HISTORY_SAMPLES_MAX = 120;

/** Fixed-length window of samples, oldest first. */
export class Series {
  readonly #samples: number[] = [];
  readonly #max: number;

  constructor(max: number = HISTORY_SAMPLES_MAX) {
    this.#max = max;
  }

  push(value: number): void {
    this.#samples.push(Number.isFinite(value) ? value : 0);
    if (this.#samples.length > this.#max) this.#samples.shift();
  }

  get samples(): readonly number[] {
    return this.#samples;
  }
}

/** Series by name. Those not fed in a round are forgotten, so names that come and go cost nothing. */
export class SeriesMap {
  #series = new Map<string, Series>();

  /** One round of samples: every name in `values` gets one, every other name is dropped. */
  round(values: Iterable<readonly [string, number]>): void {
    const next = new Map<string, Series>();
    for (const [name, value] of values) {
      const series = this.#series.get(name) ?? new Series();
      series.push(value);
      next.set(name, series);
    }
    this.#series = next;
  }

  get(name: string): readonly number[] {
    return this.#series.get(name)?.samples ?? [];
  }

  clear(): void {
    this.#series.clear();
  }
}
