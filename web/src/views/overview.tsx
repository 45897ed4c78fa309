/**
 * First page: a live picture, how much goes in and out, how busy the workers are, and the list of streams.
 */
import { useRef, useState } from 'preact/hooks';
import type { Stream } from '../api/types';
import { NoStreams } from '../components/no-streams';
import { LoadBar, PageHead, Panel, StateBadge } from '../components/pieces';
import { Sparkline } from '../components/sparkline';
import { formatKey, offered, trackHints, videoWords } from '../components/stream-words';
import { StreamsTable } from '../components/streams-table';
import { chooseStream } from '../lib/choose-stream';
import { bitrate, count, plural } from '../lib/format';
import { streamHref } from '../lib/routes';
import { streamKey } from '../lib/urls';
import { PlayerView } from '../player/player-view';
import { useServices, useSnapshot, useTitle } from '../state/hooks';

export function Overview() {
  useTitle('Overview');
  const { streams, server } = useSnapshot();
  const [asked, setAsked] = useState<string | null>(null);
  const last = useRef<string | null>(null);
  const shown =
    streams === null ? null : chooseStream(streams, asked, last.current, server?.demo_stream ?? null);
  last.current = shown === null ? null : streamKey(shown);

  return (
    <>
      <PageHead title="Overview">
        <a class="button" href="#/publish">
          Publish a stream
        </a>
      </PageHead>
      <div class="overview-top">
        <Stage stream={shown} loading={streams === null} />
        <div class="overview-side">
          <Traffic />
          <WorkerLoads />
        </div>
      </div>
      <Panel title="Streams" aside={<StreamCount streams={streams} />}>
        {streams !== null && streams.length === 0 && <NoStreams />}
        {streams !== null && streams.length > 0 && (
          <StreamsTable streams={streams} shown={last.current} onShow={setAsked} />
        )}
        {streams === null && <p class="muted pad">Loading…</p>}
      </Panel>
    </>
  );
}

/** The preview. Its frame is there from the first drawing on, so nothing moves when the picture comes. */
function Stage({ stream, loading }: { stream: Stream | null; loading: boolean }) {
  const latest = useRef(stream);
  latest.current = stream;
  return (
    <section class="panel stage" aria-label="Preview">
      {stream === null ? (
        <div class="player">
          <div class="player-frame">
            <div class="overlay">
              {loading ? <span class="spinner" aria-hidden="true" /> : <span>No live stream to show</span>}
            </div>
          </div>
          <div class="controls" />
        </div>
      ) : (
        <PlayerView
          stream={stream}
          hints={() => trackHints(latest.current)}
          offered={() => offered(latest.current)}
          format={formatKey(stream)}
        />
      )}
      <div class="stage-caption">
        {stream === null ? (
          <span class="muted">The picture appears here as soon as somebody publishes.</span>
        ) : (
          <>
            <a class="stream-name" href={streamHref(stream)}>
              <span class="stream-app">{stream.app}/</span>
              {stream.name}
            </a>
            <StateBadge state={stream.state} />
            <span class="muted stage-words">{videoWords(stream)}</span>
          </>
        )}
      </div>
    </section>
  );
}

function Traffic() {
  const { model } = useServices();
  const { rateIn, rateOut, streams, workers } = useSnapshot();
  const players = workers?.reduce((sum, worker) => sum + worker.players, 0);
  const live = streams?.filter((stream) => stream.state === 'live').length;
  return (
    <section class="panel traffic" aria-label="Traffic">
      <div class="rate">
        <span class="rate-name">Out to players</span>
        <span class="rate-value" data-stat="rate-out">
          {bitrate(workers === null ? null : rateOut)}
        </span>
        <Sparkline samples={model.totals.get('out')} slots={120} tone="out" ceiling={1000} tall />
      </div>
      <div class="rate">
        <span class="rate-name">In from publishers</span>
        <span class="rate-value" data-stat="rate-in">
          {bitrate(workers === null ? null : rateIn)}
        </span>
        <Sparkline samples={model.totals.get('in')} slots={120} tone="in" ceiling={1000} tall />
      </div>
      <div class="counts">
        <a href="#/sessions?role=player" class="count">
          <span class="count-value">{count(players)}</span> {players === 1 ? 'player' : 'players'}
        </a>
        <a href="#/sessions?role=publisher" class="count">
          <span class="count-value">{count(live)}</span> on air
        </a>
      </div>
    </section>
  );
}

function WorkerLoads() {
  const { workers } = useSnapshot();
  return (
    <section class="panel loads" aria-label="Workers">
      <header class="panel-head">
        <h2>Workers</h2>
        <a href="#/workers">Details</a>
      </header>
      <ul class="load-list">
        {(workers ?? []).map((worker) => (
          <li key={worker.index}>
            <span class="load-name">
              {worker.core === null
                ? `Worker ${worker.index}`
                : `Worker ${worker.index} · core ${worker.core}`}
            </span>
            <LoadBar percent={worker.load_percent} label={`Load of worker ${worker.index}`} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function StreamCount({ streams }: { streams: Stream[] | null }) {
  return <span class="muted">{streams === null ? '' : plural(streams.length, 'stream', 'streams')}</span>;
}
