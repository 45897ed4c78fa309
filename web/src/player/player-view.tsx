/**
 * The player: picture, overlay, controls, keyboard. Used on the overview, the stream page and the watch page.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../components/icons';
import { bitrate, count, frameRate, resolution, UNKNOWN } from '../lib/format';
import { playerUrl, streamKey, type StreamRef } from '../lib/urls';
import { useServices, useStore } from '../state/hooks';
import type { PlayerState } from './live-player';
import { PlayerControls } from './player-controls';
import { PlayerOverlay } from './player-overlay';
import type { PlayerStats } from './stats';
import { UNKNOWN_TRACKS, type TrackHints } from './tracks';
import { usePlayer } from './use-player';

export interface PlayerViewProps {
  stream: StreamRef;
  /** Play token that came with the page's address; one entered in the player counts more. */
  token?: string;
  /** Tracks the server reports, so the player does not wait for one that is not there. */
  hints?: () => TrackHints;
  /** Shows figures below the picture. */
  figures?: boolean;
}

const NO_HINTS = (): TrackHints => UNKNOWN_TRACKS;

export function PlayerView(props: PlayerViewProps) {
  const { preferences } = useServices();
  const transport = useStore(preferences.transport);
  const entered = useStore(preferences.playToken);
  const frame = useRef<HTMLDivElement>(null);
  const [muted, setMuted] = useState(true);
  const [volume, setVolume] = useState(0.8);
  const url = playerUrl(location.origin, props.stream, transport, entered ?? props.token);
  const { video, player, state, stats } = usePlayer(url, props.hints ?? NO_HINTS);

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
    const action = { k: playPause, m: () => setMuted(!muted), f: fullscreen }[event.key.toLowerCase()];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };

  return (
    <div class="player" data-phase={state.phase} data-testid="player" onKeyDown={onKey}>
      <div class="player-frame" ref={frame}>
        <video ref={video} muted playsInline aria-label={`Live picture of ${streamKey(props.stream)}`} onDblClick={fullscreen} />
        {state.phase === 'playing' && stats !== null && stats.width === 0 && stats.positionSeconds > 1 && (
          <div class="overlay overlay-soft">
            <Icon name="sound" size={44} />
            <span>{muted ? 'Sound only. Turn it on below.' : 'Sound only'}</span>
          </div>
        )}
        <PlayerOverlay state={state} onPlay={() => player?.resume()} onRetry={() => player?.retryNow()} onToken={(token) => preferences.playToken.set(token)} />
      </div>
      <PlayerControls
        state={state}
        muted={muted}
        volume={volume}
        transport={transport}
        behindLiveSeconds={stats?.behindLiveSeconds ?? null}
        onPlayPause={playPause}
        onMute={() => setMuted(!muted)}
        onVolume={(value) => {
          setVolume(value);
          setMuted(value === 0);
        }}
        onTransport={(value) => preferences.transport.set(value)}
        onFullscreen={fullscreen}
      />
      {props.figures === true && <PlayerFigures state={state} stats={stats} />}
    </div>
  );
}

function PlayerFigures({ state, stats }: { state: PlayerState; stats: PlayerStats | null }) {
  const showing = stats !== null && stats.width > 0;
  const figure = (name: string, stat: string, value: string) => (
    <div class="figure">
      <dt>{name}</dt>
      <dd data-stat={stat}>{value}</dd>
    </div>
  );
  return (
    <dl class="figures" aria-label="Playback figures">
      {figure('Picture', 'picture', showing ? resolution(stats.width, stats.height) : UNKNOWN)}
      {figure('Shown', 'fps', showing ? frameRate(Math.round(stats.framesPerSecond ?? 0)) : UNKNOWN)}
      {figure('Decoded', 'decoded', showing ? count(stats.framesDecoded) : UNKNOWN)}
      {figure('Dropped', 'dropped', showing ? count(stats.framesDropped) : UNKNOWN)}
      {figure('Buffer', 'buffer', showing && stats.behindLiveSeconds !== null ? `${stats.behindLiveSeconds.toFixed(2)} s` : UNKNOWN)}
      {figure('Speed', 'speed', showing ? `${stats.playbackRate.toFixed(1)}×` : UNKNOWN)}
      {figure('Received', 'received', bitrate(state.bytesPerSecond * 8))}
      {figure('Reconnects', 'reconnects', count(state.reconnects))}
    </dl>
  );
}
