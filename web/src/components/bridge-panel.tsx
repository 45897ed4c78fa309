/**
 * The bridge of a stream: which way it goes, what it costs and adds, and what it cannot carry.
 */
import type { BridgeInfo, Stream } from '../api/types';
import { count, duration, frameRate, milliseconds, percent, plural, share } from '../lib/format';
import { streamKey } from '../lib/urls';
import type { BridgeCost } from '../state/bridge-cost';
import { useServices } from '../state/hooks';
import { Fact, Panel } from './pieces';

const DIRECTIONS: Record<BridgeInfo['direction'], { title: string; remark: string }> = {
  rtmp_to_webrtc: { title: 'Bridge: RTMP to WebRTC', remark: 'Shared by all WebRTC players.' },
  webrtc_to_rtmp: { title: 'Bridge: WebRTC to RTMP', remark: 'Shared by all RTMP and FLV players.' },
};

/** Nothing for a stream that needs none at present and could have one. */
export function BridgePanel({ stream }: { stream: Stream }) {
  const { model } = useServices();
  const bridge = stream.bridge ?? null;
  const note = stream.not_bridged ?? '';
  if (bridge === null && note === '') return null;
  if (bridge === null) {
    return (
      <Panel title="Bridge" class="bridge">
        <Note text={sentence(note)} />
      </Panel>
    );
  }
  const cost = model.bridges.of(streamKey(stream));
  const { title, remark } = DIRECTIONS[bridge.direction];
  return (
    <Panel title={title} class="bridge" aside={<span class="muted">{remark}</span>}>
      <dl class="facts facts-wide">
        <Fact name="Cost" stat="bridge-cost">
          {costWords(cost)}
        </Fact>
        <Fact name="Added delay" stat="bridge-delay">
          {delayWords(bridge)}
        </Fact>
        <Fact name="Video" stat="bridge-rate">
          {rateWords(cost)}
        </Fact>
        <Fact name="Audio" stat="bridge-audio">
          {audioWords(bridge)}
        </Fact>
        <Fact name="Dropped" stat="bridge-lost">
          {lostWords(bridge)}
        </Fact>
        <Fact name="Running">{duration(bridge.running_seconds)}</Fact>
      </dl>
      {bridge.b_frames_dropped > 0 && <Note text={bFramesWords(bridge, cost)} testId="note-b-frames" />}
      {note !== '' && <Note text={sentence(note)} />}
    </Panel>
  );
}

function Note(props: { text: string; testId?: string }) {
  return (
    <p class="note" role="note" data-testid={props.testId ?? 'note-bridge'}>
      {props.text}
    </p>
  );
}

/** `1.2 % of a core: 0.3 % packets, 0.9 % audio` */
export function costWords(cost: BridgeCost | null): string {
  if (cost === null) return 'measuring…';
  const { workerPercent: worker, transcodingPercent: audio } = cost;
  const total = `${percent(worker + audio)} of a core`;
  return audio > 0 ? `${total}: ${percent(worker)} worker, ${percent(audio)} audio` : total;
}

/** `0.2 ms video · 42 ms audio` */
export function delayWords(bridge: BridgeInfo): string {
  const parts = [
    bridge.video_frames > 0 ? `${fine(bridge.video_latency_ms)} video` : '',
    bridge.audio_frames > 0 ? `${fine(bridge.audio_latency_ms)} audio` : '',
  ];
  return parts.filter(Boolean).join(' · ') || 'nothing has come through yet';
}

/** Below ten milliseconds a digit more. */
function fine(value: number): string {
  return value < 10 ? `${value.toFixed(1)}\u00a0ms` : milliseconds(value);
}

function rateWords(cost: BridgeCost | null): string {
  if (cost === null) return 'measuring…';
  const frames = cost.framesPerSecond > 0 ? frameRate(Math.round(cost.framesPerSecond)) : 'none';
  return `${frames} · ${count(cost.packetsPerSecond)} packets/s`;
}

function audioWords(bridge: BridgeInfo): string {
  const made = bridge.direction === 'rtmp_to_webrtc' ? 'Opus' : 'AAC';
  const lost =
    bridge.audio_dropped > 0
      ? `, ${plural(bridge.audio_dropped, 'frame', 'frames')} dropped for lack of CPU`
      : '';
  return bridge.audio_frames > 0 ? `transcoded to ${made}${lost}` : `passed on as it is, or none${lost}`;
}

function lostWords(bridge: BridgeInfo): string {
  const parts = [
    bridge.b_frames_dropped > 0 ? plural(bridge.b_frames_dropped, 'B-frame', 'B-frames') : '',
    bridge.broken > 0 ? `${count(bridge.broken)} broken or late` : '',
  ];
  return parts.filter(Boolean).join(', ') || 'nothing';
}

/** What it costs viewers, and which setting of the encoder to change. */
export function bFramesWords(bridge: BridgeInfo, cost: BridgeCost | null): string {
  const [dropped, shown] =
    cost === null
      ? [bridge.b_frames_dropped, bridge.video_frames]
      : [cost.droppedPerSecond, cost.framesPerSecond];
  const advice = 'Set B-frames to 0 in the encoder (OBS: “B-frames 0” or tune “zerolatency”; ffmpeg: -bf 0).';
  // No more since then: whoever publishes now sends none.
  if (dropped === 0) return `B-frames were left out earlier. ${advice}`;
  return `The publisher sends B-frames, which WebRTC does not have: WebRTC players miss ${share(dropped, shown)} of the frames. ${advice}`;
}

/** The server's reason as a sentence. */
function sentence(text: string): string {
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}
