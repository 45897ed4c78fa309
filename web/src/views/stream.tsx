/**
 * One stream: picture with figures, tracks, GOP, publisher, addresses to copy, and its sessions.
 */
import { useRef } from 'preact/hooks';
import type { Stream, StreamLayer } from '../api/types';
import { BridgePanel } from '../components/bridge-panel';
import { SourcePanel } from '../components/channel-panel';
import { Command, CopyLine } from '../components/copy';
import { Empty, Fact, PageHead, Panel, StateBadge } from '../components/pieces';
import { RecordButton } from '../components/recording-actions';
import { Sparkline } from '../components/sparkline';
import { TreePanel } from '../components/stream-tree';
import { StreamCharts, StreamSessions } from '../components/stream-live';
import {
  audioWords,
  formatKey,
  gopWords,
  offered,
  RTC_ONLY,
  trackHints,
  videoWords,
} from '../components/stream-words';
import { bitrate, bytes, count, duration, milliseconds, UNKNOWN } from '../lib/format';
import { recordingsHref, sessionsHref, watchHref } from '../lib/routes';
import {
  ffmpegTestCommand,
  ffplayCommand,
  publishBases,
  publishTarget,
  streamKey,
  vlcCommand,
  type StreamRef,
} from '../lib/urls';
import { Icon } from '../components/icons';
import { layerCells, layerName } from '../components/layer-words';
import { PlayerView } from '../player/player-view';
import { useServices, useSnapshot, useSources, useStore, useTitle } from '../state/hooks';

export function StreamPage(props: { stream: StreamRef; session: string }) {
  const key = streamKey(props.stream);
  useTitle(key);
  const { server, streams } = useSnapshot();
  const { preferences } = useServices();
  const token = useStore(preferences.playToken);
  const stream = streams?.find((candidate) => streamKey(candidate) === key) ?? null;
  const latest = useRef(stream);
  latest.current = stream;
  const live = async () => (streams === null ? null : latest.current?.state === 'live');

  return (
    <>
      <PageHead
        title={
          <>
            <span class="stream-app">{props.stream.app}/</span>
            {props.stream.name} {stream !== null && <StateBadge state={stream.state} />}
          </>
        }>
        {server?.recording && stream !== null && (stream.state === 'live' || stream.recorded) && (
          <RecordButton stream={props.stream} recorded={stream.recorded === true} />
        )}
        <a class="button" href={watchHref(props.stream, token ?? '')} target="_blank" rel="noopener">
          <Icon name="external" size={17} /> Viewer page
        </a>
      </PageHead>
      <div class="stream-top">
        <section class="panel stage" aria-label="Player">
          <PlayerView
            stream={props.stream}
            hints={() => trackHints(latest.current)}
            offered={() => offered(latest.current)}
            live={live}
            format={formatKey(stream)}
            figures
          />
        </section>
        {stream !== null && !isUnknown(stream) ? (
          <Details stream={stream} />
        ) : (
          <Absent stream={props.stream} known={streams !== null} />
        )}
      </div>
      <SourcePanel stream={props.stream} />
      <StreamCharts stream={props.stream} />
      <TreePanel stream={key} />
      {stream !== null && <BridgePanel stream={stream} />}
      {stream !== null && <Addresses stream={stream} />}
      <StreamSessions stream={props.stream} session={props.session} />
    </>
  );
}

function Details({ stream }: { stream: Stream }) {
  const { model } = useServices();
  const { video, audio, publisher } = stream;
  const profile = (track: { profile: string | null; level?: string | null } | null) =>
    [track?.profile, track?.level ? `level ${track.level}` : null].filter(Boolean).join(', ') || UNKNOWN;
  return (
    <Panel title="Details" class="details">
      <div class="details-rate">
        <span class="rate-value">{bitrate(stream.bitrate_bits_per_second)}</span>
        <Sparkline
          samples={model.streamRates.get(streamKey(stream))}
          slots={120}
          tone="in"
          ceiling={1000}
          tall
        />
      </div>
      <dl class="facts">
        <Fact name="Video" stat="video">
          {videoWords(stream)}
        </Fact>
        {video !== null && <Fact name="Profile">{profile(video)}</Fact>}
        {video !== null && <Fact name="Video rate">{bitrate(video.bitrate_bits_per_second)}</Fact>}
        {video !== null && <Fact name="Key frame every">{milliseconds(video.key_frame_interval_ms)}</Fact>}
        <Fact name="Audio" stat="audio">
          {audioWords(stream)}
        </Fact>
        {audio !== null && (
          <Fact name="Audio rate">
            {[bitrate(audio.bitrate_bits_per_second), audio.profile].filter(Boolean).join(' · ')}
          </Fact>
        )}
        {stream.layers !== undefined && stream.layers.length > 1 && (
          <Fact name="Layers" stat="layers">
            <LayerTable layers={stream.layers} />
          </Fact>
        )}
        <Fact name="GOP cache">{gopWords(stream.gop)}</Fact>
        <Fact name="Players">{count(stream.players)}</Fact>
        {stream.segment_viewers !== undefined && <Fact name="HLS and DASH viewers">{count(stream.segment_viewers)}</Fact>}
        <Fact name="Received">{`${bytes(stream.bytes_in)} in ${duration(stream.uptime_seconds)}`}</Fact>
        <Fact name="Publisher">
          {publisher === null ? (
            'none; players wait for one'
          ) : (
            <>
              <a href={sessionsHref({ stream: streamKey(stream), session: publisher.session_id })}>
                {publisher.address}
              </a>{' '}
              by {publisher.protocol}, {duration(publisher.connected_seconds)}
            </>
          )}
        </Fact>
        {stream.recorded !== undefined && (
          <Fact name="Recording" stat="recorded">
            {stream.recorded ? 'yes' : 'no'} · <a href={recordingsHref(streamKey(stream))}>files</a>
          </Fact>
        )}
        <Fact name="Home worker">{stream.home_worker ?? UNKNOWN}</Fact>
      </dl>
    </Panel>
  );
}

function LayerTable({ layers }: { layers: readonly StreamLayer[] }) {
  return (
    <table class="layer-table">
      <thead>
        <tr>
          <th>Layer</th>
          <th>Size</th>
          <th>Rate</th>
          <th>Players</th>
        </tr>
      </thead>
      <tbody>
        {layers.map((layer) => (
          <tr key={layerName(layer)}>
            <th scope="row">{layerName(layer)}</th>
            {layerCells(layer).map((cell, at) => (
              <td key={at}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Listed only because players, this page's own among them, wait for it. */
function isUnknown(stream: Stream): boolean {
  return stream.state === 'waiting' && stream.video === null && stream.audio === null;
}

/** Nothing is known of the stream: say what would bring it to life. */
function Absent({ stream, known }: { stream: StreamRef; known: boolean }) {
  const { server } = useSnapshot();
  const { channels, pulls } = useSources();
  const [base = ''] = publishBases(server?.endpoints ?? null, location.hostname);
  if ([...(channels ?? []), ...(pulls ?? [])].some((source) => streamKey(source) === streamKey(stream))) {
    return (
      <Panel title="Details" class="details">
        <Empty title="Not on air">
          <p>See below what the server is doing.</p>
        </Empty>
      </Panel>
    );
  }
  return (
    <Panel title="Details" class="details">
      {known ? (
        <Empty title="Nobody publishes this stream">
          <p>It appears here as soon as it is published. For a test picture:</p>
          <Command label="ffmpeg" text={ffmpegTestCommand(publishTarget(base, stream, '').url)} />
        </Empty>
      ) : (
        <p class="muted pad">Loading…</p>
      )}
    </Panel>
  );
}

function Addresses({ stream }: { stream: Stream }) {
  const { rtmp, flv, ws_flv: ws, whep = '', hls = '', dash = '' } = stream.urls;
  return (
    <Panel title="Play it elsewhere">
      <div class="addresses">
        <div>
          {whep !== '' && <CopyLine label="WHEP" text={whep} testId="url-whep" />}
          {rtmp !== '' && <CopyLine label="RTMP" text={rtmp} testId="url-rtmp" />}
          {flv !== '' && <CopyLine label="HTTP-FLV" text={flv} testId="url-flv" />}
          {ws !== '' && <CopyLine label="WS-FLV" text={ws} testId="url-ws-flv" />}
          {hls !== '' && <CopyLine label="HLS" text={hls} testId="url-hls" />}
          {dash !== '' && <CopyLine label="DASH" text={dash} testId="url-dash" />}
        </div>
        <div>
          {flv === '' && rtmp === '' ? (
            <p class="muted">{RTC_ONLY}</p>
          ) : (
            <>
              <Command label="ffplay" text={ffplayCommand(flv || rtmp)} />
              <Command label="VLC" text={vlcCommand(flv || rtmp)} />
            </>
          )}
        </div>
      </div>
    </Panel>
  );
}
