/**
 * Figures of what this browser publishes, as it measures them and as the server reports back.
 */
import { bitrate, count, frameRate, milliseconds, percent, resolution, UNKNOWN } from '../lib/format';
import { Figure, securityWords } from '../player/player-figures';
import type { ConnectionFigures } from '../rtc/stats';

const LIMITS: Record<string, string> = {
  cpu: 'by the processor',
  bandwidth: 'by the network',
  other: 'by the browser',
};

export function BroadcastFigures({ figures }: { figures: ConnectionFigures | null }) {
  const { video = null, audio = null } = figures ?? {};
  const loss = video?.lossPercent ?? audio?.lossPercent;
  const codecs = [video?.codec, audio?.codec].filter(Boolean).join(' + ');
  return (
    <dl class="figures" aria-label="Figures of what is published">
      <Figure
        name="Sent"
        stat="sent"
        title={`The network could carry ${bitrate(figures?.availableBitsPerSecond)}`}>
        {bitrate(figures?.bitsPerSecond)}
      </Figure>
      <Figure name="Resolution" stat="sent-picture">
        {resolution(video?.width, video?.height)}
      </Figure>
      <Figure
        name="Encoded"
        stat="sent-fps"
        title={
          video === null
            ? undefined
            : `${count(video.frames)} frames, ${count(video.keyFrames)} of them key frames`
        }>
        {video === null ? UNKNOWN : frameRate(Math.round(video.framesPerSecond ?? 0))}
      </Figure>
      <Figure name="Encoding a frame" stat="encode">
        {milliseconds(video?.codingMs)}
      </Figure>
      <Figure
        name="Lost"
        stat="sent-loss"
        title={
          video === null
            ? undefined
            : `${count(video.nacks)} requests, ${count(video.retransmitted)} packets sent again`
        }>
        {percent(loss)}
      </Figure>
      <Figure name="Round trip" stat="sent-rtt">
        {milliseconds(figures?.roundTripMs)}
      </Figure>
      <Figure name="Codec" stat="sent-codec" title={securityWords(figures)}>
        {codecs || UNKNOWN}
      </Figure>
      <Figure name="Held back" stat="limited">
        {video?.limitedBy == null ? 'no' : (LIMITS[video.limitedBy] ?? video.limitedBy)}
      </Figure>
    </dl>
  );
}
