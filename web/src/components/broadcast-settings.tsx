/**
 * What to publish and how: source, devices, size, codec, bit rate.
 */
import type { BroadcastState, PublishSettings } from '../rtc/broadcast';
import { LINES, type SourceKind } from '../rtc/capture';
import { usableCodecs, VIDEO_CODECS, type VideoCodec } from '../rtc/codecs';
import { useServices } from '../state/hooks';
import { Icon, type IconName } from './icons';

const SOURCES: { id: SourceKind; text: string; icon: IconName }[] = [
  { id: 'camera', text: 'Camera', icon: 'camera' },
  { id: 'screen', text: 'Screen', icon: 'screen' },
  { id: 'test', text: 'Test picture', icon: 'test' },
];

const BIT_RATES = [500_000, 1_000_000, 2_500_000, 4_000_000, 8_000_000] as const;

export function BroadcastSettings({ state, obstructed }: { state: BroadcastState; obstructed: boolean }) {
  const { broadcast } = useServices();
  const { settings } = state;
  const choose = (change: Partial<PublishSettings>) => broadcast.choose(change);
  const onAir = state.publish.phase !== 'idle';
  const codecs = usableCodecs(
    typeof RTCRtpSender === 'undefined' ? [] : (RTCRtpSender.getCapabilities?.('video')?.codecs ?? []),
  );
  return (
    <form
      class="broadcast-settings"
      aria-label="What to publish"
      onSubmit={(event) => event.preventDefault()}>
      <div class="sources" role="group" aria-label="Source">
        {SOURCES.map(({ id, text, icon }) => (
          <button
            key={id}
            type="button"
            class="source"
            aria-pressed={settings.source === id}
            disabled={obstructed && id !== 'test'}
            onClick={() => choose({ source: id })}
            data-testid={`source-${id}`}>
            <Icon name={icon} size={22} />
            <span>{text}</span>
          </button>
        ))}
      </div>
      {settings.source === 'camera' && <Devices state={state} />}
      <label class="switch">
        <input
          type="checkbox"
          checked={settings.audio}
          onChange={(event) => choose({ audio: event.currentTarget.checked })}
        />
        <span>{AUDIO_LABELS[settings.source]}</span>
      </label>
      <div class="broadcast-quality">
        <Choice
          label="Size"
          value={String(settings.lines)}
          onValue={(value) => choose({ lines: Number(value) })}
          options={LINES.map((lines) => [String(lines), `${lines}p`])}
        />
        <Choice
          label="Maximum bitrate"
          value={String(settings.videoBitsPerSecond)}
          onValue={(value) => choose({ videoBitsPerSecond: Number(value) })}
          options={BIT_RATES.map((rate) => [
            String(rate),
            rate < 1_000_000 ? `${rate / 1_000} kbit/s` : `${rate / 1_000_000} Mbit/s`,
          ])}
        />
        <Choice
          label="Codec"
          value={settings.codec}
          disabled={onAir}
          title={
            onAir
              ? 'Can be changed when nothing is published'
              : VIDEO_CODECS.find(({ id }) => id === settings.codec)?.remark
          }
          onValue={(value) => choose({ codec: value as VideoCodec | 'auto' })}
          options={[
            ['auto', 'Automatic'],
            ...VIDEO_CODECS.filter(({ id }) => codecs.includes(id)).map(
              ({ id, text }) => [id, text] as [string, string],
            ),
          ]}
        />
      </div>
    </form>
  );
}

const AUDIO_LABELS = {
  camera: 'Use the microphone',
  screen: 'With the screen’s audio, where the browser can',
  test: 'With a beep every second',
} as const;

/** Devices have names only after one of them was allowed. */
function Devices({ state }: { state: BroadcastState }) {
  const { broadcast } = useServices();
  const of = (kind: MediaDeviceKind, what: string): [string, string][] => [
    ['', 'Browser default'],
    ...state.devices
      .filter(
        (device) =>
          device.kind === kind && device.deviceId !== 'default' && device.deviceId !== 'communications',
      )
      .map((device, index): [string, string] => [device.deviceId, device.label || `${what} ${index + 1}`]),
  ];
  return (
    <div class="broadcast-devices">
      <Choice
        label="Camera"
        value={state.settings.cameraId}
        onValue={(cameraId) => broadcast.choose({ cameraId })}
        options={of('videoinput', 'Camera')}
      />
      <Choice
        label="Microphone"
        value={state.settings.microphoneId}
        disabled={!state.settings.audio}
        onValue={(microphoneId) => broadcast.choose({ microphoneId })}
        options={of('audioinput', 'Microphone')}
      />
    </div>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: [value: string, text: string][];
  onValue: (value: string) => void;
  disabled?: boolean;
  title?: string | undefined;
}

function Choice(props: ChoiceProps) {
  return (
    <label class="choice" title={props.title}>
      <span>{props.label}</span>
      <select
        value={props.value}
        disabled={props.disabled}
        onChange={(event) => props.onValue(event.currentTarget.value)}>
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
