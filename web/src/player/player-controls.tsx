/**
 * The bar under the picture: play, audio, transport, full screen.
 */
import { Icon } from '../components/icons';
import { bitrate, milliseconds } from '../lib/format';
import { delayWords, type Delay } from '../rtc/delay';
import type { PlayerState, Transport } from './player';
import type { LayerMenu } from './use-player';

export interface ControlsProps {
  state: PlayerState;
  muted: boolean;
  volume: number;
  /** At work now. */
  transport: Transport;
  /** What the person chose. */
  preferred: Transport;
  /** Of FLV: between the picture and the newest data. Of HLS: and the newest that the server has. */
  behindLiveSeconds: number | null;
  /** Of WebRTC. */
  delay: Delay | null;
  /** Of WebRTC. */
  layers: LayerMenu | null;
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
      <button
        type="button"
        class="icon-button"
        onClick={props.onPlayPause}
        aria-label={paused ? 'Play' : 'Pause'}
        title={paused ? 'Play (k)' : 'Pause (k)'}>
        <Icon name={paused ? 'play' : 'pause'} />
      </button>
      <button
        type="button"
        class="icon-button"
        onClick={props.onMute}
        aria-label={silent ? 'Unmute' : 'Mute'}
        title={silent ? 'Unmute (m)' : 'Mute (m)'}>
        <Icon name={silent ? 'muted' : 'audio'} />
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
      <Behind {...props} />
      <LayerChoice {...props} />
      <TransportChoice {...props} />
      <button
        type="button"
        class="icon-button"
        onClick={props.onFullscreen}
        aria-label="Full screen"
        title="Full screen (f)">
        <Icon name="fullscreen" />
      </button>
    </div>
  );
}

/** How far the picture is behind, as well as it is known. */
function Behind({ state, transport, behindLiveSeconds, delay }: ControlsProps) {
  if (state.phase !== 'playing') return <span class="behind" />;
  if (transport === 'rtc') {
    if (delay === null) return <span class="behind" />;
    const { name, remark } = delayWords(delay);
    return (
      <span class="behind" title={`${name}. ${remark}`}>
        {(delay.source === 'network' || !delay.sameClock) && '≈ '}
        {milliseconds(delay.milliseconds)}
        <span class="behind-words">
          {' '}
          {delay.source === 'network' ? 'from server to screen' : 'behind reality'}
        </span>
      </span>
    );
  }
  return (
    <span class="behind" title={transport === 'hls' ? HLS_BEHIND : 'Between the picture and the newest data received'}>
      {behindLiveSeconds !== null && (
        <>
          {behindLiveSeconds.toFixed(1)}&nbsp;s<span class="behind-words"> behind live</span>
        </>
      )}
    </span>
  );
}

/** Which layer of the picture; shown only where there is a choice. */
function LayerChoice({ transport, layers: menu }: ControlsProps) {
  if (transport !== 'rtc' || menu === null || menu.layers.names.length < 2) return null;
  const { names, rates, heights, current } = menu.layers;
  const words = (name: string) =>
    [
      name,
      heights.has(name) ? `${heights.get(name)}p` : null,
      rates.has(name) ? bitrate(rates.get(name)!) : null,
    ]
      .filter(Boolean)
      .join(', ');
  const auto = menu.chosen === null && current !== null ? `auto (${current})` : 'auto';
  return (
    <select
      class="layer-choice"
      aria-label="Layer of the picture"
      title="Layer of the picture: auto takes what the connection carries"
      data-testid="layer-choice"
      value={menu.chosen ?? ''}
      onChange={({ currentTarget: { value } }) => menu.choose(value === '' ? null : value)}>
      <option value="">{auto}</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {words(name)}
        </option>
      ))}
    </select>
  );
}

export const HLS_BEHIND = 'Between the picture and the newest that the server has';

const CHOICES: { transport: Transport; text: string; title: string }[] = [
  { transport: 'rtc', text: 'WebRTC', title: 'WHEP: shortest delay' },
  { transport: 'hls', text: 'LL-HLS', title: 'Low-latency HLS: what phones and caches play' },
  { transport: 'http', text: 'HTTP', title: 'FLV over one HTTP response: passes every proxy' },
  { transport: 'ws', text: 'WS', title: 'FLV over a WebSocket' },
];

function TransportChoice({ transport, preferred, onTransport }: ControlsProps) {
  return (
    <div class="segments" role="group" aria-label="Transport">
      {CHOICES.map((choice) => (
        <button
          key={choice.transport}
          type="button"
          class={`segment${preferred === choice.transport && preferred !== transport ? ' is-preferred' : ''}`}
          aria-pressed={transport === choice.transport}
          title={choice.title}
          onClick={() => onTransport(choice.transport)}
          data-testid={`transport-${choice.transport}`}>
          {choice.text}
        </button>
      ))}
    </div>
  );
}
