/**
 * How far something has come, as a bar.
 */
export interface ProgressProps {
  /** Null: not known. */
  value: number | null;
  of: number | null;
  label: string;
}

export function Progress({ value, of, label }: ProgressProps) {
  const percent = value === null || of === null || of <= 0 ? 0 : Math.min(100, (100 * value) / of);
  return (
    <svg
      class="progress"
      viewBox="0 0 100 1"
      preserveAspectRatio="none"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={value === null ? undefined : Math.round(percent)}>
      <rect class="progress-fill" width={percent} height={1} />
    </svg>
  );
}
