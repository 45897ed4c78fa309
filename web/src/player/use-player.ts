/**
 * Ties players to a component: one video element, whichever transport carries the stream, started again when
 * the stream, the choice of transport or the token changes.
 */
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { DelayMeter, type Delay } from '../rtc/delay';
import type { ConnectionFigures } from '../rtc/stats';
import { AutoPlayer, type AutoState } from './auto-player';
import { LivePlayer } from './live-player';
import {
  IDLE,
  type PlayerState,
  type Source,
  type StreamPlayer,
  type StreamPlayerOptions,
  type Transport,
} from './player';
import { StatsSampler, type PlayerStats } from './stats';
import type { TrackHints } from './tracks';
import { WhepPlayer } from './whep-player';

export interface UsePlayer {
  video: RefObject<HTMLVideoElement | null>;
  player: AutoPlayer | null;
  state: AutoState;
  stats: PlayerStats | null;
  /** Of the WebRTC connection, when that is what plays. */
  figures: ConnectionFigures | null;
  delay: Delay | null;
}

const SAMPLE_MS = 500;

/** The library is large and only needed where FLV is shown. */
async function loadMpegts() {
  const { default: mpegts } = await import('mpegts.js');
  mpegts.LoggingControl.applyConfig({ enableVerbose: false, enableDebug: false, enableInfo: false });
  return mpegts;
}

interface Samples {
  stats: PlayerStats | null;
  figures: ConnectionFigures | null;
  delay: Delay | null;
}

const NO_SAMPLES: Samples = { stats: null, figures: null, delay: null };

/** What the page knows of the stream and players may ask for. */
export interface Advice {
  hints: () => TrackHints;
  /** Whether somebody publishes the stream; null when that cannot be told. */
  live: () => Promise<boolean | null>;
}

/**
 * `key` is `app/name`; `sources` are asked at every round, `identity` says when they have to be asked again.
 */
export function usePlayer(key: string, identity: string, sources: () => Source[], advice: Advice): UsePlayer {
  const video = useRef<HTMLVideoElement>(null);
  const latest = useRef({ sources, advice });
  latest.current = { sources, advice };
  const [made, setMade] = useState<{ key: string; player: AutoPlayer } | null>(null);
  // Until the next drawing the player is that of the stream before: it has been stopped and must
  // not be started again.
  const player = made?.key === key ? made.player : null;
  const [state, setState] = useState<AutoState>({ ...IDLE, transport: 'rtc', fallback: '' });
  const [samples, setSamples] = useState<Samples>(NO_SAMPLES);

  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    const created = new AutoPlayer({
      make: (transport, onState, onTrouble) =>
        makePlayer(element, transport, onState, onTrouble, () => latest.current.advice),
      sources: () => latest.current.sources(),
      onState: setState,
    });
    const sampler = new StatsSampler();
    const whep = () => (created.player instanceof WhepPlayer ? created.player : null);
    const meter = new DelayMeter(element, key, () => ({
      peer: whep()?.peer ?? null,
      roundTripMs: whep()?.figures?.roundTripMs ?? null,
    }));
    const timer = setInterval(() => {
      setSamples({
        stats: sampler.sample(element, performance.now()),
        figures: whep()?.figures ?? null,
        delay: meter.delay,
      });
    }, SAMPLE_MS);
    setMade({ key, player: created });
    return () => {
      clearInterval(timer);
      meter.stop();
      created.stop();
    };
  }, [key]);

  useEffect(() => {
    if (player === null) return;
    // Another stream: its predecessor's last frame must not be shown as if it were this one's.
    video.current?.removeAttribute('poster');
    player.start();
  }, [player, key, identity]);

  return { video, player, state, ...samples };
}

function makePlayer(
  video: HTMLVideoElement,
  transport: Transport,
  onState: (state: PlayerState) => void,
  onTrouble: NonNullable<StreamPlayerOptions['onTrouble']>,
  advice: () => Advice,
): StreamPlayer {
  if (transport === 'rtc') return new WhepPlayer({ video, onState, onTrouble, live: () => advice().live() });
  return new LivePlayer({ video, onState, onTrouble, hints: () => advice().hints(), load: loadMpegts });
}
