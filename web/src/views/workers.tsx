/**
 * The event-loop threads: how busy, how quick, what they carry, what they had to drop.
 */
import type { Worker } from '../api/types';
import { Fact, LoadBar, PageHead, Panel } from '../components/pieces';
import { Sparkline } from '../components/sparkline';
import { bitrate, count, duration, microseconds } from '../lib/format';
import { useServices, useSnapshot, useTitle } from '../state/hooks';

export function WorkersPage() {
  useTitle('Workers');
  const { workers, server } = useSnapshot();
  return (
    <>
      <PageHead title="Workers">
        <span class="muted">{server === null ? '' : `Up ${duration(server.uptime_seconds)}`}</span>
      </PageHead>
      <p class="lead">
        Each worker is one thread with its own sockets; a session stays on its worker for life. Load is
        processor time of the last second, in percent of one core; loop time is how long one turn of the
        thread is busy.
      </p>
      <div class="worker-grid">
        {workers === null && <p class="muted">Loading…</p>}
        {(workers ?? []).map((worker) => (
          <WorkerCard key={worker.index} worker={worker} />
        ))}
      </div>
    </>
  );
}

function WorkerCard({ worker }: { worker: Worker }) {
  const { model } = useServices();
  const series = (name: string) => model.workerSeries.get(`${name}:${worker.index}`);
  const drops = worker.queue_drops + worker.ring_drops;
  return (
    <Panel
      title={`Worker ${worker.index}`}
      aside={<span class="muted">{worker.core === null ? 'not pinned' : `core ${worker.core}`}</span>}
      class="worker">
      <LoadBar percent={worker.load_percent} label={`Load of worker ${worker.index}`} />
      <Sparkline samples={series('load')} slots={120} tone="load" ceiling={100} tall />
      <div class="worker-charts">
        <div>
          <span class="rate-name">Out</span>
          <span class="rate-value">{bitrate(worker.bytes_out_per_second * 8)}</span>
          <Sparkline samples={series('out')} slots={120} tone="out" ceiling={1000} />
        </div>
        <div>
          <span class="rate-name">Loop time p99</span>
          <span class="rate-value">{microseconds(worker.loop_time_us_p99)}</span>
          <Sparkline samples={series('p99')} slots={120} tone="plain" ceiling={100} />
        </div>
      </div>
      <dl class="facts facts-two">
        <Fact name="Sessions">{count(worker.sessions)}</Fact>
        <Fact name="Loop time p50">{microseconds(worker.loop_time_us_p50)}</Fact>
        <Fact name="Publishers">{count(worker.publishers)}</Fact>
        <Fact name="In">{bitrate(worker.bytes_in_per_second * 8)}</Fact>
        <Fact name="Players">{count(worker.players)}</Fact>
        <Fact name="Frames in">{count(worker.frames_in)}</Fact>
        <Fact name="Writes">{count(worker.writes)}</Fact>
        <Fact name="Drops">
          <span class={drops > 0 ? 'warn' : ''}>
            {drops === 0 ? 'none' : `${count(worker.queue_drops)} queue, ${count(worker.ring_drops)} ring`}
          </span>
        </Fact>
        {worker.stats_snapshot_us !== undefined && (
          <Fact name="Statistics">
            <span
              class={(worker.stats_snapshots_dropped ?? 0) > 0 ? 'warn' : ''}
              title="Time of the worker that the figures of all its sessions take, once a second">
              {microseconds(worker.stats_snapshot_us)}
              {(worker.stats_snapshots_dropped ?? 0) > 0 &&
                `, ${count(worker.stats_snapshots_dropped)} left out`}
            </span>
          </Fact>
        )}
      </dl>
    </Panel>
  );
}
