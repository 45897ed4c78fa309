/**
 * One session in full: charts of its last minutes, totals, and what the management API knows of its
 * connection.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { RtcPath, RtcSession, Session, SrtSession } from '../api/types';
import { bitrate, bytes, count, duration, milliseconds, percent, timesWords, UNKNOWN } from '../lib/format';
import { streamHref } from '../lib/routes';
import { parseStreamKey } from '../lib/urls';
import { useServices } from '../state/hooks';
import type { LiveView } from '../state/live-stats';
import { PollLoop } from '../state/poll-loop';
import { SESSION_FIGURES, type SessionFigure } from '../stats/protocol';
import type { Track } from '../stats/recorder';
import { findSession, hasQueue, type LiveSession } from '../stats/row';
import { Icon } from './icons';
import { KickDialog } from './kick';
import { layerName, limitWords } from './layer-words';
import { LiveChart, type Line } from './live-chart';
import { Fact } from './pieces';
import { ROLE_WORDS } from './session-row';

const DETAILS_EVERY_MS = 2_000;

export function SessionPanel({ view, id, onClose }: { view: LiveView; id: string; onClose: () => void }) {
  const { live } = useServices();
  const details = useDetails(id);
  const [kicking, setKicking] = useState(false);
  const { frame } = view;
  const now = useMemo(() => (frame === null ? null : findSession(frame.message, id)), [frame, id]);
  const last = useRef<LiveSession | null>(null);
  if (now !== null) last.current = now;
  useEffect(() => live.watch({ session: id }), [live, id]);
  useEffect(() => () => live.watch({ session: null }), [live]);
  useEscape(onClose);
  const session = now ?? (last.current?.id === id ? last.current : null);
  const tracked = view.tracks?.session?.id === id ? view.tracks.session : null;
  const curves = useRef<Track | null>(null);
  // Curves stop where the session did: later samples have no figures, and old ones would be forgotten.
  if (tracked?.present) curves.current = tracked.track;
  const history = curves.current ?? tracked?.track ?? null;
  const gone = frame !== null && now === null;

  return (
    <aside class="panel session-panel" aria-label="Session" data-testid="session-panel">
      <header class="session-panel-head">
        <div class="session-panel-title">
          <h2 class="mono">{details?.address ?? id}</h2>
          <p class="sub">{session === null ? '' : <Words session={session} />}</p>
        </div>
        {now !== null && (
          <button
            type="button"
            class="button button-small button-quiet-danger"
            onClick={() => setKicking(true)}>
            Kick
          </button>
        )}
        <button type="button" class="icon-button" onClick={onClose} aria-label="Close the details">
          <Icon name="close" />
        </button>
      </header>
      {gone && (
        <p class="note">
          {session === null
            ? `There is no session ${id}.`
            : 'This session has ended. Its last figures stay until the details are closed.'}
        </p>
      )}
      {details?.rtc?.path && (
        <dl class="facts">
          <PathFacts path={details.rtc.path} />
        </dl>
      )}
      {history !== null && session !== null && <Charts session={session} track={history} />}
      {session !== null && <Facts session={session} details={details} />}
      {kicking && now !== null && (
        <KickDialog session={now} address={details?.address ?? null} onClose={() => setKicking(false)} />
      )}
    </aside>
  );
}

function Words({ session }: { session: LiveSession }) {
  const stream = session.stream === null ? null : parseStreamKey(session.stream);
  return (
    <>
      <span class={`role role-${session.role}`}>{ROLE_WORDS[session.role]}</span> by {session.protocol}
      {stream !== null && (
        <>
          {' · '}
          <a href={streamHref(stream)}>{session.stream}</a>
        </>
      )}
    </>
  );
}

function Charts({ session, track }: { session: LiveSession; track: Track }) {
  const values = (figure: SessionFigure) => track.values[SESSION_FIGURES.indexOf(figure)]!;
  const has = (figure: SessionFigure) => values(figure).some((value) => !Number.isNaN(value));
  const rate: Line =
    session.role === 'publisher'
      ? { label: 'In', tone: 'in', values: values('bits_per_second') }
      : { label: 'Out', tone: 'out', values: values('bits_per_second') };
  const lost: Line = { label: 'Lost', tone: 'bad', values: values('loss_percent') };
  const waiting: Line = { label: 'Waiting', tone: 'load', values: values('queue_bytes') };
  const packets: Line = { label: 'A second', tone: 'plain', values: values('packets_per_second') };
  const roundTrip: Line = { label: 'Round trip', tone: 'load', values: values('rtt_ms') };
  const jitter: Line = { label: 'Jitter', tone: 'plain', values: values('jitter_ms') };
  return (
    <div class="chart-stack">
      <LiveChart title="Rate" timeMs={track.timeMs} format={bitrate} ceiling={1000} lines={[rate]} />
      {has('rtt_ms') && (
        <LiveChart
          title="Path"
          timeMs={track.timeMs}
          format={milliseconds}
          ceiling={20}
          lines={has('jitter_ms') ? [roundTrip, jitter] : [roundTrip]}
        />
      )}
      {has('loss_percent') && (
        <LiveChart title="Loss" timeMs={track.timeMs} format={percent} ceiling={5} lines={[lost]} />
      )}
      {hasQueue(session) && (
        <LiveChart title="Queue" timeMs={track.timeMs} format={bytes} ceiling={10_000} lines={[waiting]} />
      )}
      <LiveChart title="Packets" timeMs={track.timeMs} format={perSecond} ceiling={10} lines={[packets]} />
    </div>
  );
}

function perSecond(value: number): string {
  return Number.isNaN(value) ? UNKNOWN : `${count(value)}/s`;
}

function Facts({ session, details }: { session: LiveSession; details: Session | null }) {
  const sent = details === null ? null : session.role === 'publisher' ? details.bytes_in : details.bytes_out;
  return (
    <dl class="facts">
      <Fact name="Connected">{duration(session.connectedSeconds)}</Fact>
      <Fact name="Transferred">{bytes(sent)}</Fact>
      <Fact name="Packets">{count(session.packets)}</Fact>
      <Fact name="Lost packets">
        {Number.isNaN(session.lossPercent) ? UNKNOWN : count(session.lostPackets)}
      </Fact>
      <Fact name="Dropped frames">
        <span class={session.droppedFrames > 0 ? 'warn' : ''}>{count(session.droppedFrames)}</span>
      </Fact>
      {hasQueue(session) && (
        <Fact name="Queue">
          {session.queueBytes === 0
            ? 'empty'
            : `${bytes(session.queueBytes)}, ${milliseconds(session.queueMs)}`}
        </Fact>
      )}
      <Fact name="Program">{details?.user_agent ?? UNKNOWN}</Fact>
      <Fact name="Session">{`${session.id}, worker ${session.worker}`}</Fact>
      {details?.rtc && <RtcFacts rtc={details.rtc} />}
      {details?.srt && <SrtFacts srt={details.srt} />}
    </dl>
  );
}

function SrtFacts({ srt }: { srt: SrtSession }) {
  return (
    <>
      <Fact name="Latency">{milliseconds(srt.latency_ms)}</Fact>
      <Fact name="Round trip">{milliseconds(srt.rtt_ms)}</Fact>
      <Fact name="Sent again">
        {`${count(srt.retransmitted_packets)}, reported lost ${count(srt.lost_packets)}`}
      </Fact>
      <Fact name="Given up">
        <span class={srt.dropped_packets > 0 ? 'warn' : ''}>{count(srt.dropped_packets)}</span>
      </Fact>
      <Fact name="Buffer">{`${bytes(srt.buffer_bytes)}, ${milliseconds(srt.buffer_ms)}`}</Fact>
      <Fact name="Encryption">{srt.encrypted ? 'AES' : 'none'}</Fact>
    </>
  );
}

function RtcFacts({ rtc }: { rtc: RtcSession }) {
  return (
    <>
      <Fact name="Connection">{[rtc.state, rtc.transport].filter(Boolean).join(' by ')}</Fact>
      <Fact name="Codecs">{rtc.codecs.join(', ') || UNKNOWN}</Fact>
      <Fact name="Sent again">{`${count(rtc.resent_packets)} of ${count(rtc.nacks)} packets asked for`}</Fact>
      <Fact name="Key frames asked">{count(rtc.key_frame_requests)}</Fact>
      {rtc.path && <PathCounts path={rtc.path} />}
    </>
  );
}

function PathCounts({ path }: { path: RtcPath }) {
  return (
    <>
      <Fact name="Sent at most now">{bitrate(path.target_kbps * 1000)}</Fact>
      <Fact name="Waits in the path">{milliseconds(path.queue_ms)}</Fact>
      <Fact name="Probes">{`${count(path.probes)}, ${bytes(path.padding_bytes)} of padding`}</Fact>
      <Fact name="Fell behind">{timesWords(path.times_behind)}</Fact>
    </>
  );
}

const SHARE_WORDS = { all: 'all of the video', key_frames: 'key frames only', audio_only: 'audio only' };

function PathFacts({ path }: { path: RtcPath }) {
  const { layer, wanted_layer: wanted } = path;
  const change = layer !== null && wanted !== null && layerName(layer) !== layerName(wanted);
  return (
    <>
      <Fact name="Path carries">
        {bitrate(path.estimate_kbps * 1000)}
        {limitWords(path)}
      </Fact>
      {layer !== null && (
        <Fact name="Layer">
          {change ? `${layerName(layer)}, soon ${layerName(wanted)}` : layerName(layer)}
          {path.fixed && ', chosen by the player'}
        </Fact>
      )}
      <Fact name="Gets">
        <span class={path.share === 'all' ? '' : 'warn'}>{SHARE_WORDS[path.share]}</span>
      </Fact>
      <Fact name="Why">
        <span class={path.state === 'ok' ? '' : 'warn'}>{path.reason}</span>
      </Fact>
    </>
  );
}

/** Asked for every two seconds while shown; the last answer stays. */
function useDetails(id: string): Session | null {
  const { client, sessions: book } = useServices();
  const [details, setDetails] = useState<Session | null>(null);
  useEffect(() => {
    const poll = new PollLoop({
      run: async (signal) => {
        const found = (await client.sessionsByIds([id], signal)).find((session) => session.id === id);
        if (!signal.aborted && found !== undefined) setDetails(found);
      },
      intervalMs: DETAILS_EVERY_MS,
    });
    poll.start();
    return () => poll.stop();
  }, [client, id]);
  return details?.id === id ? details : book.get(id);
}

function useEscape(onEscape: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && document.querySelector('dialog[open]') === null) onEscape();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [onEscape]);
}
