/**
 * The bar under the picture: play, sound, transport, full screen.
 */
import { Icon } from '../components/icons';
import type { Transport } from '../lib/urls';
import type { PlayerState } from './live-player';

export interface ControlsProps {
  state: PlayerState;
  muted: boolean;
  volume: number;
  transport: Transport;
  behindLiveSeconds: number | null;
  onPlayPause: () => void;
  onMute: () => void;
  onVolume: (volume: number) => void;
  onTransport: (transport: Transport) => void;
  onFullscreen: () => void;
}

export function PlayerControls(props: ControlsProps) {
  const paused = props.state.phase === 'paused' || props.state.phase === 'blocked';
  const silent = props.muted || props.volume === 0;
  return (
    <div class="controls">
      <button type="button" class="icon-button" onClick={props.onPlayPause} aria-label={paused ? 'Play' : 'Pause'} title={paused ? 'Play (k)' : 'Pause (k)'}>
        <Icon name={paused ? 'play' : 'pause'} />
      </button>
      <button type="button" class="icon-button" onClick={props.onMute} aria-label={silent ? 'Turn sound on' : 'Mute'} title={silent ? 'Turn sound on (m)' : 'Mute (m)'}>
        <Icon name={silent ? 'muted' : 'sound'} />
      </button>
      <input
        class="volume"
        type="range"
        min={0}
        max={1}
        step={0.05}
        value={silent ? 0 : props.volume}
        aria-label="Volume"
        onInput={(event) => props.onVolume(Number(event.currentTarget.value))}
      />
      <span class="behind" title="Between the picture and the newest data received">
        {props.state.phase === 'playing' && props.behindLiveSeconds !== null && (
          <>
            {props.behindLiveSeconds.toFixed(1)}&nbsp;s<span class="behind-words"> behind live</span>
          </>
        )}
      </span>
      <TransportChoice transport={props.transport} onTransport={props.onTransport} />
      <button type="button" class="icon-button" onClick={props.onFullscreen} aria-label="Full screen" title="Full screen (f)">
        <Icon name="fullscreen" />
      </button>
    </div>
  );
}

function TransportChoice(props: { transport: Transport; onTransport: (transport: Transport) => void }) {
  const choice = (value: Transport, text: string, title: string) => (
    <button
      type="button"
      class="segment"
      aria-pressed={props.transport === value}
      title={title}
      onClick={() => props.onTransport(value)}
      data-testid={`transport-${value}`}
    >
      {text}
    </button>
  );
  return (
    <div class="segments" role="group" aria-label="Transport">
      {choice('http', 'HTTP', 'FLV over one HTTP response')}
      {choice('ws', 'WS', 'FLV over a WebSocket')}
    </div>
  );
}
