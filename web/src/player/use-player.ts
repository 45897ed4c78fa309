/**
 * Ties players to a component: one video element, whichever transport carries the stream, started again when
 * the stream, the choice of transport or the token changes.
 */
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { DelayMeter, type Delay } from '../rtc/delay';
import type { Layers } from '../rtc/layers';
import type { ConnectionFigures } from '../rtc/stats';
import { AutoPlayer, type AutoState } from './auto-player';
import { HlsPlayer } from './hls-player';
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
  layers: LayerMenu | null;
}

/** Layers to choose from. */
export interface LayerMenu {
  layers: Layers;
  /** What the person chose; null for the server's choice. */
  chosen: string | null;
  choose: (name: string | null) => void;
}

const SAMPLE_MS = 500;

/** The libraries are large, and each is only needed where its format is shown. */
async function loadMpegts() {
  const { default: mpegts } = await import('mpegts.js');
  mpegts.LoggingControl.applyConfig({ enableVerbose: false, enableDebug: false, enableInfo: false });
  return mpegts;
}

async function loadHls() {
  return (await import('hls.js')).default;
}

interface Samples {
  stats: PlayerStats | null;
  figures: ConnectionFigures | null;
  delay: Delay | null;
  layers: LayerMenu | null;
}

const NO_SAMPLES: Samples = { stats: null, figures: null, delay: null, layers: null };

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
    const behind = () => (created.player instanceof HlsPlayer ? created.player.behindSeconds : null);
    const meter = new DelayMeter(element, key, () => ({
      peer: whep()?.peer ?? null,
      roundTripMs: whep()?.figures?.roundTripMs ?? null,
    }));
    const timer = setInterval(() => {
      setSamples({
        stats: sampler.sample(element, performance.now(), behind()),
        figures: whep()?.figures ?? null,
        delay: meter.delay,
        layers: layerMenu(whep()),
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

function layerMenu(player: WhepPlayer | null): LayerMenu | null {
  if (player === null || player.layers === null) return null;
  return { layers: player.layers, chosen: player.layer, choose: (name) => player.chooseLayer(name) };
}

function makePlayer(
  video: HTMLVideoElement,
  transport: Transport,
  onState: (state: PlayerState) => void,
  onTrouble: NonNullable<StreamPlayerOptions['onTrouble']>,
  advice: () => Advice,
): StreamPlayer {
  if (transport === 'rtc') return new WhepPlayer({ video, onState, onTrouble, live: () => advice().live() });
  if (transport === 'hls') return new HlsPlayer({ video, onState, onTrouble, load: loadHls });
  return new LivePlayer({ video, onState, onTrouble, hints: () => advice().hints(), load: loadMpegts });
}
