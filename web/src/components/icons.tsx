/**
 * The few drawings the console needs, as inline SVG that takes the text's colour.
 */
import type { ComponentChildren } from 'preact';

const PATHS = {
  overview: 'M3 4h8v7H3zM13 4h8v4h-8zM13 10h8v10h-8zM3 13h8v7H3z',
  sessions:
    'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 19c0-3 2.5-5 6-5s6 2 6 5M16 11a2.5 2.5 0 1 0-1-4.8M16 14c3.4 0 6 1.8 6 5',
  sources: 'M3 5h12M3 10h9M3 15h7M14 12.5v8l6.500-4z',
  recordings: 'M12 20.500a8.500 8.500 0 1 0 0-17 8.500 8.500 0 0 0 0 17zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z',
  workers: 'M6 6h12v12H6zM10 10h4v4h-4zM9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4',
  cluster:
    'M12 9.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM5 19.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM19 19.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM10.800 9.200 6.300 14.800M13.200 9.200l4.500 5.600M7.500 17h9',
  publish: 'M12 15V4M7 8.5 12 3.5l5 5M4 14v5a1.5 1.5 0 0 0 1.5 1.5h13A1.5 1.5 0 0 0 20 19v-5',
  play: 'M7 4.5v15l13-7.5z',
  pause: 'M7 5v14M17 5v14',
  audio: 'M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4.2 4.2 0 0 1 0 6M18.3 6.2a8.2 8.2 0 0 1 0 11.6',
  muted: 'M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM16 9.5l5 5M21 9.5l-5 5',
  fullscreen: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
  download: 'M12 4v11M7 10.500l5 5 5-5M4 19.500h16',
  copy: 'M9 9h11v11H9zM15 9V4H4v11h5',
  next: 'M5 5v14l10-7zM18.500 5v14',
  check: 'm5 12.5 4.5 4.5L19 7.5',
  close: 'M6 6l12 12M18 6 6 18',
  sun: 'M12 16.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.8 1.8M17.2 17.2 19 19M5 19l1.8-1.8M17.2 6.8 19 5',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z',
  system: 'M3 4.5h18v12H3zM9 20.5h6M12 16.5v4',
  external: 'M14 4h6v6M20 4l-9 9M18 13.5V20H4V6h6.5',
  microphone:
    'M12 15a3.5 3.5 0 0 0 3.5-3.5v-5a3.5 3.5 0 1 0-7 0v5A3.5 3.5 0 0 0 12 15zM5.5 11.5a6.5 6.5 0 0 0 13 0M12 18v3.5',
  microphoneOff:
    'M15.5 11v-4.500a3.5 3.5 0 0 0-6.800-1.200M8.500 8.500v3a3.5 3.5 0 0 0 5.500 2.900M5.5 11.5a6.5 6.5 0 0 0 10.600 5M18.300 13.100a6.500 6.500 0 0 0 .200-1.600M12 18v3.5M3.500 3.500l17 17',
  camera: 'M3 7h11.500v10H3zM14.500 11l6-3.500v9l-6-3.500',
  cameraOff: 'M8 7h6.500v6M14.500 11l6-3.500v9l-3-1.700M14.500 17H3V7h1.500M3.500 3.500l17 17',
  screen: 'M3 4.5h18v12H3zM9 20.5h6M12 16.5v4',
  test: 'M3 5h18v14H3zM8 5v14M12.500 5v14M17 5v14',
  back: 'M14.5 5.5 8 12l6.5 6.5',
  forward: 'M9.5 5.5 16 12l-6.5 6.5',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon(props: { name: IconName; size?: number }) {
  const size = props.size ?? 20;
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[props.name]} fill={props.name === 'play' ? 'currentColor' : 'none'} />
    </svg>
  );
}

/** A mill wheel over water. */
export function Logo(props: { size?: number; children?: ComponentChildren }) {
  const size = props.size ?? 28;
  return (
    <svg class="logo" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <circle class="logo-wheel" cx="16" cy="14" r="8.2" />
      <path class="logo-wheel" d="M16 2.6v22.8M6.1 8.3l19.8 11.4M25.9 8.3 6.1 19.7" />
      <path class="logo-water" d="M2.5 26.6c3.4-2.8 5.6-2.8 9 0s5.6 2.8 9 0 5.6-2.8 9 0" />
    </svg>
  );
}
