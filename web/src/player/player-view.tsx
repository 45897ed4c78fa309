/**
 * The player: picture, overlay, controls, keyboard. Used on the overview, the stream page and the watch page.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../components/icons';
import { playerUrl, streamKey, type StreamRef, type WhepParameters } from '../lib/urls';
import { useServices, useStore } from '../state/hooks';
import type { Source, Transport } from './player';
import { PlayerControls } from './player-controls';
import { PlayerFigures } from './player-figures';
import { PlayerOverlay } from './player-overlay';
import { fallbackWords, orderOf, type Offered } from './transports';
import { UNKNOWN_TRACKS, type TrackHints } from './tracks';
import { usePlayer } from './use-player';

export interface PlayerViewProps {
  stream: StreamRef;
  /** Play token that came with the page's address; one entered in the player counts more. */
  token?: string;
  /** What the page's address asks of WHEP. */
  asked?: WhepParameters;
  /** Tracks the server reports, so the player does not wait for one that is not there. */
  hints?: () => TrackHints;
  /** By which transports the server offers the stream, as far as is known. */
  offered?: () => Offered;
  /**
   * Tracks and codecs the server reports, in any words; what could not be played is tried again when they
   * change.
   */
  format?: string | undefined;
  /** Whether somebody publishes the stream, null when that cannot be told; asked when nothing arrives. */
  live?: () => Promise<boolean | null>;
  /** Shows figures below the picture. */
  figures?: boolean;
}

const NO_HINTS = (): TrackHints => UNKNOWN_TRACKS;
const CANNOT_TELL = async () => null;
const PLAYED_BY = { rtc: 'Played by WebRTC', hls: 'Played as HLS', http: 'Played as FLV', ws: 'Played as FLV' };
const NOT_KNOWN = (): Offered => ({ rtc: null, flv: null, reason: '' });

export function PlayerView(props: PlayerViewProps) {
  const { preferences } = useServices();
  const preferred = useStore(preferences.transport);
  const entered = useStore(preferences.playToken);
  const frame = useRef<HTMLDivElement>(null);
  const [muted, setMuted] = useState(true);
  const [volume, setVolume] = useState(0.8);
  const token = entered ?? props.token ?? '';
  const sources = (): Source[] =>
    orderOf(preferred, (props.offered ?? NOT_KNOWN)()).map((transport) => ({
      transport,
      token,
      url: playerUrl(location.origin, props.stream, transport, token, props.asked),
    }));
  const advice = { hints: props.hints ?? NO_HINTS, live: props.live ?? CANNOT_TELL };
  const { video, player, state, stats, figures, delay, layers } = usePlayer(
    streamKey(props.stream),
    `${preferred} ${token} ${JSON.stringify(props.asked ?? {})}`,
    sources,
    advice,
  );
  const format = useRef(props.format);
  useEffect(() => {
    if (format.current !== props.format) player?.formatChanged();
    format.current = props.format;
  }, [player, props.format]);
  const fallback =
    state.transport === preferred
      ? ''
      : fallbackWords(preferred, state.fallback, (props.offered ?? NOT_KNOWN)());
  const choose = (transport: Transport) => {
    // Choosing again what was chosen already means: try it once more.
    if (transport === preferred) player?.start();
    else preferences.transport.set(transport);
  };

  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    element.muted = muted;
    element.volume = volume;
  }, [muted, volume, video]);

  const playPause = () => {
    if (state.phase === 'paused' || state.phase === 'blocked') player?.resume();
    else if (state.phase === 'playing' || state.phase === 'buffering') player?.pause();
    else player?.retryNow();
  };
  const fullscreen = () => {
    if (document.fullscreenElement !== null) void document.exitFullscreen();
    else void frame.current?.requestFullscreen?.().catch(() => undefined);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLInputElement) return;
    if (event.target instanceof HTMLSelectElement) return;
    const action = { k: playPause, m: () => setMuted(!muted), f: fullscreen }[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };

  return (
    <div class="player" data-phase={state.phase} data-testid="player" onKeyDown={onKey}>
      <div class="player-frame" ref={frame}>
        <video
          ref={video}
          muted
          playsInline
          aria-label={`Live picture of ${streamKey(props.stream)}`}
          onDblClick={fullscreen}
        />
        {state.phase === 'playing' && stats !== null && stats.width === 0 && stats.positionSeconds > 1 && (
          <div class="overlay overlay-soft">
            <Icon name="audio" size={44} />
            <span>{muted ? 'Audio only. Unmute below.' : 'Audio only'}</span>
          </div>
        )}
        <PlayerOverlay
          state={state}
          onPlay={() => player?.resume()}
          onRetry={() => player?.retryNow()}
          onToken={(token) => preferences.playToken.set(token)}
        />
      </div>
      <PlayerControls
        state={state}
        muted={muted}
        volume={volume}
        transport={state.transport}
        preferred={preferred}
        delay={delay}
        layers={layers}
        behindLiveSeconds={stats?.behindLiveSeconds ?? null}
        onPlayPause={playPause}
        onMute={() => setMuted(!muted)}
        onVolume={(value) => {
          setVolume(value);
          setMuted(value === 0);
        }}
        onTransport={choose}
        onFullscreen={fullscreen}
      />
      {fallback !== '' && state.phase === 'playing' && (
        <p class="fallback" role="status" data-testid="fallback">
          {PLAYED_BY[state.transport]}, because: {fallback}
        </p>
      )}
      {props.figures === true && (
        <PlayerFigures state={state} stats={stats} figures={figures} delay={delay} />
      )}
    </div>
  );
}
