/**
 * Small stable numbers for things that come and go, so that histories are plain arrays.
 *
 * A thing keeps its slot as long as it is in each round; then the slot is given to another. `since` tells the
 * two apart.
 */

export class Slots<K> {
  #slotOf = new Map<K, number>();
  readonly #free: number[] = [];
  /** Round in which a slot was given out; by slot. */
  readonly #since: number[] = [];
  #round = 0;

  /**
   * One round: `count` things, the key of each by its row. Returns the slot of each row. Things that are not
   * in the round lose their slot, but `kept`, if it is one of them, does not.
   */
  round(count: number, keyOf: (row: number) => K, kept: K | null = null): Uint32Array<ArrayBuffer> {
    this.#round += 1;
    const slots = new Uint32Array(count);
    const next = new Map<K, number>();
    const before = this.#slotOf;
    for (let row = 0; row < count; row += 1) {
      const key = keyOf(row);
      const known = before.get(key) ?? next.get(key);
      const slot = known ?? this.#fresh();
      if (known !== undefined) before.delete(key);
      next.set(key, slot);
      slots[row] = slot;
    }
    // What is left came no more.
    for (const [key, slot] of before) {
      if (key === kept) next.set(key, slot);
      else this.#free.push(slot);
    }
    this.#slotOf = next;
    return slots;
  }

  get(key: K): number | null {
    return this.#slotOf.get(key) ?? null;
  }

  /** Round in which the slot's present thing first came. */
  since(slot: number): number {
    return this.#since[slot] ?? 0;
  }

  /** Rounds so far. */
  get rounds(): number {
    return this.#round;
  }

  /** One more than the highest slot ever given out. */
  get size(): number {
    return this.#since.length;
  }

  #fresh(): number {
    const slot = this.#free.pop() ?? this.#since.length;
    this.#since[slot] = this.#round;
    return slot;
  }
}
