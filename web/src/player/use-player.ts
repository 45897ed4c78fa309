/**
 * Ties a LivePlayer to a component: one player per video element, started again when the address changes.
 */
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { IDLE, LivePlayer, type PlayerState } from './live-player';
import { StatsSampler, type PlayerStats } from './stats';
import type { TrackHints } from './tracks';

export interface UsePlayer {
  video: RefObject<HTMLVideoElement | null>;
  player: LivePlayer | null;
  state: PlayerState;
  stats: PlayerStats | null;
}

const SAMPLE_MS = 500;

/** The library is large and only needed where a picture is shown. */
async function loadMpegts() {
  const { default: mpegts } = await import('mpegts.js');
  mpegts.LoggingControl.applyConfig({ enableVerbose: false, enableDebug: false, enableInfo: false });
  return mpegts;
}

export function usePlayer(url: string, hints: () => TrackHints): UsePlayer {
  const video = useRef<HTMLVideoElement>(null);
  const latestHints = useRef(hints);
  latestHints.current = hints;
  const [player, setPlayer] = useState<LivePlayer | null>(null);
  const [state, setState] = useState<PlayerState>(IDLE);
  const [stats, setStats] = useState<PlayerStats | null>(null);

  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    const created = new LivePlayer({
      video: element,
      load: loadMpegts,
      onState: setState,
      hints: () => latestHints.current(),
    });
    const sampler = new StatsSampler();
    const timer = setInterval(() => setStats(sampler.sample(element, performance.now())), SAMPLE_MS);
    setPlayer(created);
    return () => {
      clearInterval(timer);
      created.destroy();
    };
  }, []);

  useEffect(() => {
    if (player === null) return;
    // Another stream: its predecessor's last frame must not be shown as if it were this one's.
    video.current?.removeAttribute('poster');
    player.start(url);
  }, [player, url]);

  return { video, player, state, stats };
}
