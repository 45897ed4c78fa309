/**
 * One stream: picture with figures, tracks, GOP, publisher, addresses to copy, and its sessions.
 */
import { useRef, useState } from 'preact/hooks';
import type { Stream } from '../api/types';
import { BridgePanel } from '../components/bridge-panel';
import { Command, CopyLine } from '../components/copy';
import { Pager } from '../components/pager';
import { Empty, Fact, PageHead, Panel, StateBadge } from '../components/pieces';
import { SessionsTable } from '../components/sessions-table';
import { Sparkline } from '../components/sparkline';
import { audioWords, gopWords, offered, RTC_ONLY, trackHints, videoWords } from '../components/stream-words';
import { bitrate, bytes, count, duration, milliseconds, plural, UNKNOWN } from '../lib/format';
import { sessionsHref, watchHref } from '../lib/routes';
import { ffmpegTestCommand, ffplayCommand, publishBases, publishTarget, streamKey, vlcCommand, type StreamRef } from '../lib/urls';
import { Icon } from '../components/icons';
import { PlayerView } from '../player/player-view';
import { useServices, useSnapshot, useStore, useTitle } from '../state/hooks';
import { useSessions } from '../state/sessions';

export function StreamPage(props: { stream: StreamRef }) {
  const key = streamKey(props.stream);
  useTitle(key);
  const { streams } = useSnapshot();
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
        }
      >
        <a class="button" href={watchHref(props.stream, token ?? '')} target="_blank" rel="noopener">
          <Icon name="external" size={17} /> Page for viewers
        </a>
      </PageHead>
      <div class="stream-top">
        <section class="panel stage" aria-label="Player">
          <PlayerView stream={props.stream} hints={() => trackHints(latest.current)} offered={() => offered(latest.current)} live={live} figures />
        </section>
        {stream !== null && !isUnknown(stream) ? <Details stream={stream} /> : <Absent stream={props.stream} known={streams !== null} />}
      </div>
      {stream !== null && <BridgePanel stream={stream} />}
      {stream !== null && <Addresses stream={stream} />}
      <StreamSessions streamKey={key} />
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
        <Sparkline samples={model.streamRates.get(streamKey(stream))} slots={120} tone="in" ceiling={1000} tall />
      </div>
      <dl class="facts">
        <Fact name="Video" stat="video">{videoWords(stream)}</Fact>
        {video !== null && <Fact name="Profile">{profile(video)}</Fact>}
        {video !== null && <Fact name="Video rate">{bitrate(video.bitrate_bits_per_second)}</Fact>}
        {video !== null && <Fact name="Key frame every">{milliseconds(video.key_frame_interval_ms)}</Fact>}
        <Fact name="Audio" stat="audio">{audioWords(stream)}</Fact>
        {audio !== null && <Fact name="Audio rate">{[bitrate(audio.bitrate_bits_per_second), audio.profile].filter(Boolean).join(' · ')}</Fact>}
        <Fact name="GOP held">{gopWords(stream.gop)}</Fact>
        <Fact name="Players">{count(stream.players)}</Fact>
        <Fact name="Received">{`${bytes(stream.bytes_in)} in ${duration(stream.uptime_seconds)}`}</Fact>
        <Fact name="Publisher">
          {publisher === null ? 'none; players wait for one' : `${publisher.address} by ${publisher.protocol}, ${duration(publisher.connected_seconds)}`}
        </Fact>
        <Fact name="Home worker">{stream.home_worker ?? UNKNOWN}</Fact>
      </dl>
    </Panel>
  );
}

/** Listed only because players, this page's own among them, wait for it. */
function isUnknown(stream: Stream): boolean {
  return stream.state === 'waiting' && stream.video === null && stream.audio === null;
}

/** Nothing is known of the stream: say what would bring it to life. */
function Absent({ stream, known }: { stream: StreamRef; known: boolean }) {
  const { server } = useSnapshot();
  const [base = ''] = publishBases(server?.endpoints ?? null, location.hostname);
  return (
    <Panel title="Details" class="details">
      {known ? (
        <Empty title="Nobody publishes this stream">
          <p>It appears here as soon as somebody does. For a test picture:</p>
          <Command label="ffmpeg" text={ffmpegTestCommand(publishTarget(base, stream, '').url)} />
        </Empty>
      ) : (
        <p class="muted pad">Asking the server…</p>
      )}
    </Panel>
  );
}

function Addresses({ stream }: { stream: Stream }) {
  const { rtmp, flv, ws_flv: ws, whep = '' } = stream.urls;
  return (
    <Panel title="Play it elsewhere">
      <div class="addresses">
        <div>
          {whep !== '' && <CopyLine label="WHEP" text={whep} testId="url-whep" />}
          {rtmp !== '' && <CopyLine label="RTMP" text={rtmp} testId="url-rtmp" />}
          {flv !== '' && <CopyLine label="HTTP-FLV" text={flv} testId="url-flv" />}
          {ws !== '' && <CopyLine label="WS-FLV" text={ws} testId="url-ws-flv" />}
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

const PAGE = 25;

function StreamSessions(props: { streamKey: string }) {
  const { client } = useServices();
  const [offset, setOffset] = useState(0);
  const { view, error, refresh } = useSessions(client, { stream: props.streamKey, offset, limit: PAGE }, '');
  if (view !== null && offset > 0 && offset >= view.total) setOffset(0);
  return (
    <Panel
      title="Sessions of this stream"
      aside={
        <a href={view?.total === 0 ? sessionsHref() : sessionsHref({ stream: props.streamKey })}>{view === null || view.total === 0 ? 'All sessions' : `All ${plural(view.total, 'session', 'sessions')}`}</a>
      }
    >
      {view === null && <p class="muted pad">{error === null ? 'Asking the server…' : error.message}</p>}
      {view !== null && view.sessions.length === 0 && <Empty title="Nobody is connected to this stream" />}
      {view !== null && view.sessions.length > 0 && <SessionsTable sessions={view.sessions} hideStream onKicked={refresh} />}
      {view !== null && view.total > PAGE && <Pager offset={offset} limit={PAGE} total={view.total} onOffset={setOffset} />}
    </Panel>
  );
}
