/**
 * A small line of recent values without axes. Decorative: the current value always stands beside it in text.
 */
import { sparklinePath } from '../lib/sparkline-path';

const WIDTH = 120;
const HEIGHT = 32;

export interface SparklineProps {
  samples: readonly number[];
  /** Samples that fill the whole width. */
  slots?: number;
  tone?: 'out' | 'in' | 'load' | 'plain';
  /** Least upper end of the scale, in the samples' unit. */
  ceiling?: number;
  tall?: boolean;
}

export function Sparkline({
  samples,
  slots = 60,
  tone = 'plain',
  ceiling = 0,
  tall = false,
}: SparklineProps) {
  const { line, area } = sparklinePath(samples, slots, WIDTH, HEIGHT, ceiling);
  return (
    <svg
      class={`sparkline tone-${tone}${tall ? ' sparkline-tall' : ''}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true">
      <path class="sparkline-base" d={`M0 ${HEIGHT}H${WIDTH}`} />
      <path class="sparkline-area" d={area} />
      <path class="sparkline-line" d={line} />
    </svg>
  );
}
