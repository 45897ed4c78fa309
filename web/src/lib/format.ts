/**
 * Numbers as people read them. Pure functions; decimal (SI) units, because network rates are decimal.
 */

const SPACE = '\u00a0';
/** Made once: a live table formats thousands of numbers a second. */
const GROUPED = new Intl.NumberFormat('en-US');
/** Stands for a value that is not known. */
export const UNKNOWN = '–';

/** Three significant digits at most, never in exponent form. */
function short(value: number): string {
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

function scaled(value: number, units: readonly string[]): string {
  let rest = value;
  let index = 0;
  // 999.5 would print as "1000" in the smaller unit.
  while (rest >= 999.5 && index < units.length - 1) {
    rest /= 1000;
    index += 1;
  }
  const text = index === 0 ? rest.toFixed(0) : short(rest);
  return `${text}${SPACE}${units[index]}`;
}

function usable(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** `605 kbit/s` */
export function bitrate(bitsPerSecond: number | null | undefined): string {
  if (!usable(bitsPerSecond)) return UNKNOWN;
  return scaled(bitsPerSecond, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);
}

/** `12.4M`: a bit rate where there is no room for its unit. */
export function shortRate(bitsPerSecond: number | null | undefined): string {
  return usable(bitsPerSecond) ? scaled(bitsPerSecond, ['', 'k', 'M', 'G', 'T']).replace(SPACE, '') : UNKNOWN;
}

/** `1.25 MB` */
export function bytes(count: number | null | undefined): string {
  if (!usable(count)) return UNKNOWN;
  return scaled(count, ['B', 'kB', 'MB', 'GB', 'TB', 'PB']);
}

/** `12,345` */
export function count(value: number | null | undefined): string {
  if (!usable(value)) return UNKNOWN;
  return GROUPED.format(Math.round(value));
}

/** `42 s`, `3 min 05 s`, `2 h 05 min`, `4 d 07 h` */
export function duration(seconds: number | null | undefined): string {
  if (!usable(seconds)) return UNKNOWN;
  const whole = Math.floor(seconds);
  const part = (value: number) => String(value).padStart(2, '0');
  if (whole < 60) return `${whole}${SPACE}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}${SPACE}min ${part(whole % 60)}${SPACE}s`;
  if (whole < 86_400)
    return `${Math.floor(whole / 3600)}${SPACE}h ${part(Math.floor((whole % 3600) / 60))}${SPACE}min`;
  return `${Math.floor(whole / 86_400)}${SPACE}d ${part(Math.floor((whole % 86_400) / 3600))}${SPACE}h`;
}

/** `0:07`, `12:05`, `1:02:05`: a place in a film. */
export function playTime(ms: number | null | undefined): string {
  if (!usable(ms)) return UNKNOWN;
  const seconds = Math.floor(ms / 1000);
  const part = (value: number) => String(value % 60).padStart(2, '0');
  const minutes = Math.floor(seconds / 60);
  return seconds < 3600
    ? `${minutes}:${part(seconds)}`
    : `${Math.floor(minutes / 60)}:${part(minutes)}:${part(seconds)}`;
}

/** `850 ms`, `2.0 s` */
export function milliseconds(value: number | null | undefined): string {
  if (!usable(value)) return UNKNOWN;
  if (value < 1000) return `${Math.round(value)}${SPACE}ms`;
  return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}${SPACE}s`;
}

/** `0.6 ms`, `84 ms`: between two nodes, a tenth matters where they are close. */
export function roundTrip(ms: number | null | undefined): string {
  return usable(ms) && ms < 9.95 ? `${ms.toFixed(1)}${SPACE}ms` : milliseconds(ms);
}

/** `180 µs`, `1.24 ms` */
export function microseconds(value: number | null | undefined): string {
  if (!usable(value)) return UNKNOWN;
  if (value < 999.5) return `${Math.round(value)}${SPACE}µs`;
  if (value < 999_500) return `${short(value / 1000)}${SPACE}ms`;
  return `${short(value / 1_000_000)}${SPACE}s`;
}

/** `7 %`, and `0.4 %` below ten */
export function percent(value: number | null | undefined): string {
  if (!usable(value)) return UNKNOWN;
  return `${value < 9.95 && value > 0 ? value.toFixed(1) : value.toFixed(0)}${SPACE}%`;
}

/** `a third`, `half`, `40 %`: what `part` is of `part` and `rest` together. */
export function share(part: number, rest: number): string {
  const value = part / (part + rest);
  const near = (other: number) => Math.abs(value - other) < 0.02;
  if (near(1 / 2)) return 'half';
  if (near(1 / 3)) return 'a third';
  if (near(2 / 3)) return 'two thirds';
  if (near(1 / 4)) return 'a quarter';
  if (near(3 / 4)) return 'three quarters';
  return percent(100 * value);
}

/** `1280×720` */
export function resolution(width: number | null | undefined, height: number | null | undefined): string {
  if (!usable(width) || !usable(height) || width === 0 || height === 0) return UNKNOWN;
  return `${width}×${height}`;
}

/** `30 fps`, `29.97 fps` */
export function frameRate(value: number | null | undefined): string {
  if (!usable(value) || value === 0) return UNKNOWN;
  return `${Number(value.toFixed(2))}${SPACE}fps`;
}

/** `44.1 kHz` */
export function sampleRate(hertz: number | null | undefined): string {
  if (!usable(hertz) || hertz === 0) return UNKNOWN;
  return `${Number((hertz / 1000).toFixed(2))}${SPACE}kHz`;
}

/** `12:05:09`, by the clock of the person at the page. */
export function clockTime(ms: number): string {
  const time = new Date(ms);
  return [time.getHours(), time.getMinutes(), time.getSeconds()]
    .map((part) => String(part).padStart(2, '0'))
    .join(':');
}

/** `mono`, `stereo`, `6 channels` */
export function channels(value: number | null | undefined): string {
  if (!usable(value) || value === 0) return UNKNOWN;
  if (value === 1) return 'mono';
  if (value === 2) return 'stereo';
  return `${value} channels`;
}

/** `one player`, `3 players`: the number with the right form of the noun. */
/** `never`, `once`, `3 times` */
export function timesWords(value: number): string {
  if (value === 0) return 'never';
  return value === 1 ? 'once' : `${count(value)} times`;
}

export function plural(value: number, one: string, many: string): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
