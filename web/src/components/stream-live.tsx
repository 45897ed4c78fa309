/**
 * Live charts of one stream, and all its sessions.
 */
import { useEffect } from 'preact/hooks';
import { bitrate, count, milliseconds, plural } from '../lib/format';
import { sessionsHref, streamHref } from '../lib/routes';
import { streamKey, type StreamRef } from '../lib/urls';
import { useLive, useServices } from '../state/hooks';
import { useSessionTable } from '../state/session-table';
import type { Track } from '../stats/recorder';
import { BEHIND_MS, LOSSY_PERCENT, STREAM_FIGURES, type StreamFigure } from '../stats/summary';
import { LiveChart } from './live-chart';
import { LiveLamp, LiveNote } from './live-status';
import { Empty, Panel } from './pieces';
import { SessionList } from './session-list';
import { SessionPanel } from './session-panel';

/** Charts of the stream's last minutes; nothing while the server does not know it. */
export function StreamCharts({ stream }: { stream: StreamRef }) {
  const { live } = useServices();
  const key = streamKey(stream);
  const view = useLive();
  useEffect(() => live.watch({ stream: key }), [live, key]);
  useEffect(() => () => live.watch({ stream: null }), [live]);
  const seen = view.tracks?.stream?.name === key ? view.tracks.stream : null;
  return (
    <>
      <LiveNote view={view} />
      {seen !== null && (
        <Panel title="Recent minutes" aside={<LiveLamp view={view} />}>
          <Charts track={seen.track} />
        </Panel>
      )}
    </>
  );
}

/** Everybody who publishes or plays the stream. */
export function StreamSessions({ stream, session }: { stream: StreamRef; session: string }) {
  const key = streamKey(stream);
  const table = useSessionTable({ role: '', stream: key, text: '' });
  const { view } = table;
  const sessions = view.order.length;
  return (
    <div class={`with-panel${session === '' ? '' : ' is-open'}`}>
      <Panel
        title="Sessions of this stream"
        aside={
          sessions === 0 ? (
            <a href={sessionsHref()}>All sessions</a>
          ) : (
            <a href={sessionsHref({ stream: key })}>All {plural(sessions, 'session', 'sessions')}</a>
          )
        }>
        {view.frame === null && view.link.state === 'connecting' && (
          <p class="muted pad">Loading…</p>
        )}
        {view.frame !== null && sessions === 0 && <Empty title="Nobody is connected to this stream" />}
        {view.frame !== null && sessions > 0 && (
          <SessionList
            {...table}
            hideStream
            selected={session || null}
            hrefOf={(id) => streamHref(stream, id)}
          />
        )}
      </Panel>
      {session !== '' && (
        <SessionPanel
          key={session}
          view={view}
          id={session}
          onClose={() => (location.hash = streamHref(stream))}
        />
      )}
    </div>
  );
}

function Charts({ track }: { track: Track }) {
  const values = (figure: StreamFigure) => track.values[STREAM_FIGURES.indexOf(figure)]!;
  return (
    <div class="chart-row">
      <LiveChart
        title="Traffic"
        timeMs={track.timeMs}
        format={bitrate}
        ceiling={1000}
        lines={[
          { label: 'Out', tone: 'out', values: values('bitsOut') },
          { label: 'In', tone: 'in', values: values('bitsIn') },
        ]}
      />
      <LiveChart
        title="Players"
        timeMs={track.timeMs}
        format={count}
        ceiling={5}
        lines={[
          { label: 'All', tone: 'out', values: values('players') },
          { label: `Lose ≥ ${LOSSY_PERCENT} %`, tone: 'bad', values: values('lossy') },
          { label: `Behind ≥ ${BEHIND_MS / 1000} s`, tone: 'load', values: values('behind') },
        ]}
      />
      <LiveChart
        title="Round trip"
        timeMs={track.timeMs}
        format={milliseconds}
        ceiling={20}
        lines={[{ label: 'Mean', tone: 'load', values: values('rttMeanMs') }]}
      />
    </div>
  );
}
