/**
 * A moment drawn into a picture and read back from it: a strip of black and white cells.
 *
 * It goes through camera-side queue, encoder, network, server, jitter buffer, decoder and screen like any
 * other picture, so the age of what is read is the real delay. Cells are large and carry a checksum:
 * compression and scaling do not matter, and a damaged strip is no answer rather than a wrong one.
 *
 * ```text
 * cell  0..7   10110010 (finds the strip, and tells black from white)
 *       8..23  clock: who drew it, so that a reader knows whether it has the same clock
 *      24..55  milliseconds since 1970, modulo 2^32
 *      56..63  checksum over cells 8..55
 * ```
 */

export const STAMP_CELLS = 64;
/** Height of the strip, as part of the picture's height; it lies at the top and is as wide as the picture. */
export const STAMP_HEIGHT = 1 / 20;

const SYNC = 0b1011_0010;
const WRAP = 2 ** 32;

export interface Stamp {
  /** 16 bits that stand for the clock the time was read from. */
  clock: number;
  /** Milliseconds since 1970. */
  timeMs: number;
}

/** The cells, true for white. */
export function stampCells(stamp: Stamp): boolean[] {
  const time = Math.floor(stamp.timeMs) % WRAP;
  const bytes = [
    SYNC,
    (stamp.clock >>> 8) & 0xff,
    stamp.clock & 0xff,
    (time >>> 24) & 0xff,
    (time >>> 16) & 0xff,
    (time >>> 8) & 0xff,
    time & 0xff,
  ];
  bytes.push(checksum(bytes.slice(1)));
  return bytes.flatMap((byte) => Array.from({ length: 8 }, (_, bit) => ((byte >> (7 - bit)) & 1) === 1));
}

/**
 * Reads cells back from the brightness (0..255) of each cell's middle. `nowMs` completes the time, which has
 * to lie within 24 days of it. Null when it is no stamp or a damaged one.
 */
export function readStamp(brightness: ArrayLike<number>, nowMs: number): Stamp | null {
  if (brightness.length !== STAMP_CELLS) return null;
  const threshold = (average(brightness, (bit) => bit === 1) + average(brightness, (bit) => bit === 0)) / 2;
  const bytes: number[] = [];
  for (let at = 0; at < STAMP_CELLS; at += 8) {
    let byte = 0;
    for (let bit = 0; bit < 8; bit += 1)
      byte = (byte << 1) | ((brightness[at + bit] ?? 0) > threshold ? 1 : 0);
    bytes.push(byte);
  }
  const [sync, ...body] = bytes;
  const sum = body.pop();
  if (sync !== SYNC || sum !== checksum(body)) return null;
  const [clockHigh = 0, clockLow = 0, a = 0, b = 0, c = 0, d = 0] = body;
  const low = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
  // The nearest moment to now with these low 32 bits.
  const timeMs = low + WRAP * Math.round((nowMs - low) / WRAP);
  return { clock: (clockHigh << 8) | clockLow, timeMs };
}

/** Mean brightness of the sync cells that are one (white) or zero (black). */
function average(brightness: ArrayLike<number>, wanted: (bit: number) => boolean): number {
  let total = 0;
  let cells = 0;
  for (let bit = 0; bit < 8; bit += 1) {
    if (!wanted((SYNC >> (7 - bit)) & 1)) continue;
    total += brightness[bit] ?? 0;
    cells += 1;
  }
  return total / cells;
}

/** CRC-8 with polynomial 0x07. */
function checksum(bytes: readonly number[]): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 0x07) & 0xff : (crc << 1) & 0xff;
  }
  return crc;
}

/** Reads the strip out of what a video element shows at this moment. */
export class StampReader {
  readonly #canvas = document.createElement('canvas');
  readonly #context: CanvasRenderingContext2D | null;

  constructor() {
    this.#canvas.width = STAMP_CELLS * 4;
    this.#canvas.height = 4;
    this.#context = this.#canvas.getContext('2d', { willReadFrequently: true });
  }

  read(video: HTMLVideoElement, nowMs: number): Stamp | null {
    const { videoWidth: width, videoHeight: height } = video;
    if (width === 0 || this.#context === null) return null;
    const strip = height * STAMP_HEIGHT;
    // The middle of the strip: its edges are smeared.
    this.#context.drawImage(
      video,
      0,
      strip * 0.35,
      width,
      strip * 0.3,
      0,
      0,
      this.#canvas.width,
      this.#canvas.height,
    );
    const { data } = this.#context.getImageData(0, 1, this.#canvas.width, 1);
    const brightness = Array.from({ length: STAMP_CELLS }, (_, cell) => {
      const at = (cell * 4 + 1) * 4;
      return ((data[at + 1] ?? 0) + (data[at + 5] ?? 0)) / 2;
    });
    return readStamp(brightness, nowMs);
  }
}

const CLOCK_KEY = 'millstream.clock';

/**
 * This browser's clock as 16 bits: the same in all its tabs, another one elsewhere (but for one in 65536).
 */
export function clockId(
  storage: Pick<Storage, 'getItem' | 'setItem'> | null,
  random: () => number = Math.random,
): number {
  const known = Number(storage?.getItem(CLOCK_KEY) ?? Number.NaN);
  if (Number.isInteger(known) && known >= 0 && known < 65_536) return known;
  const made = Math.floor(random() * 65_536);
  try {
    storage?.setItem(CLOCK_KEY, String(made));
  } catch {
    // Full or forbidden: this tab alone knows it.
  }
  return made;
}
