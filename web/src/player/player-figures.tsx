/**
 * Figures below the picture: what the browser measures, by WebRTC, HLS or FLV.
 */
import { bitrate, count, frameRate, milliseconds, percent, resolution, UNKNOWN } from '../lib/format';
import { delayWords, type Delay } from '../rtc/delay';
import { srtpName, type ConnectionFigures } from '../rtc/stats';
import type { PlayerState, Transport } from './player';
import { HLS_BEHIND } from './player-controls';
import type { PlayerStats } from './stats';

export interface FiguresProps {
  state: PlayerState & { transport: Transport };
  stats: PlayerStats | null;
  figures: ConnectionFigures | null;
  delay: Delay | null;
}

export function PlayerFigures(props: FiguresProps) {
  return (
    <dl class="figures" aria-label="Playback figures">
      {props.state.transport === 'rtc' ? <RtcFigures {...props} /> : <MseFigures {...props} />}
    </dl>
  );
}

/** Of FLV and HLS, which go through Media Source Extensions. */
function MseFigures({ state, stats }: FiguresProps) {
  const showing = stats !== null && stats.width > 0;
  return (
    <>
      {state.transport === 'hls' && (
        <Figure name="Behind live" stat="delay" title={HLS_BEHIND}>
          {showing && stats.behindLiveSeconds !== null ? `${stats.behindLiveSeconds.toFixed(2)} s` : UNKNOWN}
        </Figure>
      )}
      <Figure name="Resolution" stat="picture">
        {showing ? resolution(stats.width, stats.height) : UNKNOWN}
      </Figure>
      <Figure name="Frame rate" stat="fps">
        {showing ? frameRate(Math.round(stats.framesPerSecond ?? 0)) : UNKNOWN}
      </Figure>
      <Figure name="Decoded" stat="decoded">
        {showing ? count(stats.framesDecoded) : UNKNOWN}
      </Figure>
      <Figure name="Dropped" stat="dropped">
        {showing ? count(stats.framesDropped) : UNKNOWN}
      </Figure>
      <Figure name="Buffer" stat="buffer">
        {showing && stats.bufferedSeconds !== null ? `${stats.bufferedSeconds.toFixed(2)} s` : UNKNOWN}
      </Figure>
      <Figure name="Speed" stat="speed">
        {showing ? `${stats.playbackRate.toFixed(1)}×` : UNKNOWN}
      </Figure>
      <Figure name="Received" stat="received">
        {bitrate(state.bytesPerSecond * 8)}
      </Figure>
      <Figure name="Reconnects" stat="reconnects">
        {count(state.reconnects)}
      </Figure>
    </>
  );
}

function RtcFigures({ state, figures, delay }: FiguresProps) {
  const { video = null, audio = null } = figures ?? {};
  const main = video ?? audio;
  const words = delay === null ? null : delayWords(delay);
  const codecs = [video?.codec, audio?.codec].filter(Boolean).join(' + ');
  return (
    <>
      <Figure name={words?.name ?? 'Delay'} stat="delay" title={words?.remark}>
        {delay === null
          ? UNKNOWN
          : `${delay.source === 'network' || !delay.sameClock ? '≈ ' : ''}${milliseconds(delay.milliseconds)}`}
      </Figure>
      <Figure name="Round trip" stat="rtt">
        {milliseconds(figures?.roundTripMs)}
      </Figure>
      <Figure name="Jitter" stat="jitter" title="How unevenly packets arrive (RFC 3550)">
        {milliseconds(main?.jitterMs)}
      </Figure>
      <Figure name="Jitter buffer" stat="buffer" title="Mean wait of a frame until it is its turn">
        {milliseconds(main?.bufferMs)}
      </Figure>
      <Figure name="Lost" stat="loss" title={lossWords(figures)}>
        {percent(worst(video?.lossPercent, audio?.lossPercent))}
      </Figure>
      <Figure name="Received" stat="received">
        {bitrate(figures?.bitsPerSecond)}
      </Figure>
      <Figure name="Resolution" stat="picture">
        {resolution(video?.width, video?.height)}
      </Figure>
      <Figure name="Frame rate" stat="fps">
        {video === null ? UNKNOWN : frameRate(Math.round(video.framesPerSecond ?? 0))}
      </Figure>
      <Figure
        name="Decoded"
        stat="decoded"
        title={
          video === null
            ? undefined
            : `${count(video.keyFrames)} key frames; ${milliseconds(video.codingMs)} a frame`
        }>
        {video === null ? UNKNOWN : count(video.frames)}
      </Figure>
      <Figure
        name="Dropped"
        stat="dropped"
        title={video === null ? undefined : `${count(video.freezes)} freezes`}>
        {video === null ? UNKNOWN : count(video.framesDropped)}
      </Figure>
      <Figure name="Codec" stat="codec" title={securityWords(figures)}>
        {codecs || UNKNOWN}
      </Figure>
      <Figure name="Reconnects" stat="reconnects">
        {count(state.reconnects)}
      </Figure>
    </>
  );
}

/** One figure with its name. */
export function Figure(props: { name: string; stat: string; title?: string | undefined; children: string }) {
  return (
    <div class="figure" title={props.title}>
      <dt>{props.name}</dt>
      <dd data-stat={props.stat}>{props.children}</dd>
    </div>
  );
}

function worst(a: number | null | undefined, b: number | null | undefined): number | null {
  return a == null && b == null ? null : Math.max(a ?? 0, b ?? 0);
}

function lossWords(figures: ConnectionFigures | null): string | undefined {
  if (figures === null) return undefined;
  const of = (name: string, track: ConnectionFigures['video']) =>
    track === null
      ? ''
      : `${name}: ${count(track.lostPackets)} of ${count(track.packets + Math.max(0, track.lostPackets))} packets lost, ${count(track.retransmitted)} came again. `;
  return `${of('Video', figures.video)}${of('Audio', figures.audio)}`.trim();
}

/** `UDP · DTLS 1.3 · AES-128-GCM` */
export function securityWords(figures: ConnectionFigures | null): string | undefined {
  const parts = [
    figures?.path?.toUpperCase(),
    figures?.dtls && `DTLS ${figures.dtls}`,
    srtpName(figures?.srtp ?? null),
  ].filter(Boolean);
  return parts.length === 0 ? undefined : parts.join(' · ');
}
