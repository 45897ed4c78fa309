/**
 * Geometry of a sparkline: samples to SVG path data. Pure, so it can be tested without a browser.
 */

export interface SparklinePath {
  line: string;
  area: string;
}

/** Fewer would be a stray mark rather than a line. */
const SAMPLES_MIN = 4;

/**
 * Places the newest sample at the right edge and one step per sample to the left, so that a short history
 * grows leftwards instead of being stretched. The scale starts at zero; `ceiling` is its least upper end.
 */
export function sparklinePath(
  samples: readonly number[],
  slots: number,
  width: number,
  height: number,
  ceiling = 0,
): SparklinePath {
  if (samples.length < SAMPLES_MIN) return { line: '', area: '' };
  const shown = samples.slice(-slots);
  // A little air above the highest sample keeps the stroke inside the box.
  const top = Math.max(ceiling, Math.max(...shown) * 1.08, Number.EPSILON);
  const step = width / (slots - 1);
  const left = width - step * (shown.length - 1);
  const points = shown.map((value, index) => {
    const x = left + index * step;
    const y = height - (Math.max(0, value) / top) * height;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = `M${points.join('L')}`;
  return { line, area: `${line}L${width.toFixed(1)} ${height}L${left.toFixed(1)} ${height}Z` };
}
