/**
 * Lines over the last minutes, drawn by uPlot, with the values at the pointer, or the newest, above them.
 *
 * Charts on one page share the pointer's time. uPlot is loaded with the first chart.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { chartRows, span, type ChartLine } from '../lib/chart-rows';
import { clockTime } from '../lib/format';

export type Tone = 'out' | 'in' | 'load' | 'plain' | 'bad';

export interface Line extends ChartLine {
  label: string;
  tone: Tone;
}

export interface LiveChartProps {
  title: string;
  timeMs: Float64Array;
  lines: readonly Line[];
  format: (value: number) => string;
  /** Least upper end of the scale. */
  ceiling: number;
}

const SYNC = 'millstream';
const COLOURS = { out: '--out', in: '--in', load: '--accent-text', plain: '--plain', bad: '--bad' } as const;

export function LiveChart(props: LiveChartProps) {
  // uPlot's lines are fixed once it is made.
  return <Chart key={props.lines.map(({ label }) => label).join()} {...props} />;
}

function Chart(props: LiveChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [hovered, setHovered] = useState<number | null>(null);

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    let gone = false;
    const size = new ResizeObserver(() => plot.current?.setSize(sizeOf(element)));
    void import('uplot').then(({ default: Plot }) => {
      if (gone) return;
      plot.current = new Plot(optionsOf(element, latest, setHovered), dataOf(latest.current), element);
      size.observe(element);
    });
    return () => {
      gone = true;
      size.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => void plot.current?.setData(dataOf(props)), [props.timeMs]);

  const rows = plot.current?.data[0]?.length ?? 0;
  const at = hovered === null || hovered >= rows ? null : hovered;
  return (
    <figure class="chart" aria-label={props.title}>
      <figcaption class="chart-head">
        <span class="chart-title">{props.title}</span>
        <span class="chart-time muted">
          {at === null ? '' : clockTime(1000 * (plot.current?.data[0][at] ?? 0))}
        </span>
      </figcaption>
      <ul class="chart-legend">
        {props.lines.map((line, index) => (
          <li key={line.label} class={`tone-${line.tone}`}>
            <span class="chart-key" aria-hidden="true" />
            <span class="chart-label">{line.label}</span>
            <span class="chart-value">{props.format(valueAt(line, plot.current, index, at))}</span>
          </li>
        ))}
      </ul>
      <div class="chart-box" ref={box} aria-hidden="true" />
    </figure>
  );
}

function valueAt(line: Line, plot: uPlot | null, index: number, at: number | null): number {
  if (at === null) return line.values.at(-1) ?? Number.NaN;
  return plot?.data[index + 1]?.[at] ?? Number.NaN;
}

function dataOf({ timeMs, lines }: LiveChartProps): uPlot.AlignedData {
  return chartRows(timeMs, lines) as uPlot.AlignedData;
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: Math.max(120, element.clientWidth), height: element.clientHeight };
}

/** Colours are read when something is drawn, so a change of theme shows with the next message. */
function optionsOf(
  element: HTMLElement,
  latest: { current: LiveChartProps },
  onHover: (index: number | null) => void,
): uPlot.Options {
  const colour = (name: string) => getComputedStyle(element).getPropertyValue(name).trim();
  const grid = { stroke: () => colour('--line'), width: 1 };
  const axis = {
    stroke: () => colour('--muted'),
    font: `11px ${colour('--sans') || 'sans-serif'}`,
    grid,
    ticks: { show: false },
  };
  return {
    ...sizeOf(element),
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      sync: { key: SYNC },
      drag: { setScale: false, x: false, y: false },
      points: { size: 6 },
    },
    scales: {
      x: { time: true, range: () => span(latest.current.timeMs) },
      y: { range: (_plot, _low, high) => [0, Math.max(latest.current.ceiling, (high ?? 0) * 1.08)] },
    },
    axes: [
      {
        ...axis,
        size: 24,
        space: 74,
        values: (plot, times) => times.map((time) => (hasRoom(plot, time) ? clockTime(1000 * time) : '')),
      },
      {
        ...axis,
        size: 66,
        space: 24,
        values: (_plot, values) => values.map((value) => (value === 0 ? '0' : latest.current.format(value))),
      },
    ],
    series: [{}, ...latest.current.lines.map((line, index) => seriesOf(colour, line, index === 0))],
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
  };
}

/** Whether a time stands far enough from the right edge to be written. */
function hasRoom(plot: uPlot, time: number): boolean {
  return plot.valToPos(time, 'x') < plot.bbox.width / devicePixelRatio - 22;
}

/** Only the first line is filled below: two areas on each other would be read as a sum. */
function seriesOf(colour: (name: string) => string, { label, tone }: Line, filled: boolean): uPlot.Series {
  const stroke = () => colour(COLOURS[tone]);
  const fill = filled ? { fill: () => `color-mix(in srgb, ${stroke()} 12%, transparent)` } : {};
  return { label, stroke, ...fill, width: 1.6, points: { show: false }, spanGaps: false };
}
