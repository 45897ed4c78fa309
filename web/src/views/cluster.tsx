/**
 * The cluster as this node sees it: the map, all nodes, this node's links, and per stream who feeds whom.
 */
import { useState } from 'preact/hooks';
import type { Cluster } from '../api/cluster';
import { ClusterMapView, feedsOfOthers } from '../components/cluster-map';
import { ClusterStreams } from '../components/cluster-streams';
import { LinksTable, NodesTable } from '../components/cluster-tables';
import { Badge, Empty, PageHead, Panel } from '../components/pieces';
import { linkReport } from '../lib/cluster-health';
import { count, plural } from '../lib/format';
import { clusterHref } from '../lib/routes';
import { useCluster, useServices, useTitle } from '../state/hooks';

export function ClusterPage({ stream: shown }: { stream: string }) {
  useTitle('Cluster');
  const { cluster: state } = useServices();
  const { cluster, asked, gone, dropping, stream } = useCluster(shown);
  const [marked, setMarked] = useState('');
  const [search, setSearch] = useState('');
  if (cluster === null) {
    return (
      <>
        <PageHead title="Cluster" />
        {asked ? <SingleNode /> : <p class="muted">Loading…</p>}
      </>
    );
  }
  const reports = new Map(
    cluster.links.map((link) => [link.node, linkReport(link, dropping.has(link.node))]),
  );
  const marks = { marked, onMark: setMarked };
  const find = (text: string) => {
    setSearch(text);
    state.search(text.trim());
  };
  return (
    <>
      <PageHead title="Cluster">
        <DirectoryLine cluster={cluster} />
      </PageHead>
      <DirectoryNote cluster={cluster} />
      <Panel
        title={shown === '' ? 'Map' : `Tree of ${shown}`}
        aside={shown === '' ? <Legend cluster={cluster} /> : <a href={clusterHref()}>Show all links</a>}>
        <ClusterMapView cluster={cluster} gone={gone} reports={reports} stream={stream} {...marks} />
      </Panel>
      <Panel title="Streams" aside={<StreamsWords cluster={cluster} />}>
        <ClusterStreams cluster={cluster} shown={shown} stream={stream} search={search} onSearch={find} />
      </Panel>
      <Panel title="Nodes" aside={<span class="muted">{plural(cluster.nodes.length, 'node', 'nodes')}</span>}>
        <NodesTable cluster={cluster} gone={gone} {...marks} />
      </Panel>
      {cluster.links.length > 0 && (
        <Panel title={`Links of ${cluster.node}`} aside={<LinksWords cluster={cluster} />}>
          <LinksTable links={cluster.links} reports={reports} {...marks} />
        </Panel>
      )}
    </>
  );
}

function SingleNode() {
  return (
    <Empty title="This server is a single node">
      <p>Servers with a [cluster] section in their configuration play each other's streams.</p>
    </Empty>
  );
}

function DirectoryLine({ cluster: { directory } }: { cluster: Cluster }) {
  const { heard, settled, server_version: version } = directory;
  const messages = `${count(directory.messages_in)} messages in, ${count(directory.messages_out)} out`;
  const about = `NATS ${version}: ${messages}`;
  if (!heard) return <Badge tone="bad" text="NATS not heard" title={about} />;
  if (!settled)
    return <Badge tone="hollow" text="NATS, writing" title={`${about}; not all is written yet`} />;
  return <Badge tone="good" text={`NATS ${version}`} title={about} />;
}

/** What it means that the directory is away. */
function DirectoryNote({ cluster: { directory } }: { cluster: Cluster }) {
  if (directory.heard) return null;
  return (
    <p class="note" role="status" data-testid="directory-note">
      <b>NATS is not heard.</b> Running streams go on, and nodes and streams are those known last.{' '}
      {directory.last_problem !== null && `It said: ${directory.last_problem}.`}
    </p>
  );
}

function Legend({ cluster }: { cluster: Cluster }) {
  return (
    <span class="map-legend muted">
      <span class="legend-out">sent</span>
      <span class="legend-in">received</span>
      {feedsOfOthers(cluster).length > 0 && (
        <span class="legend-feed" title="Of the streams listed below">
          between others
        </span>
      )}
    </span>
  );
}

function LinksWords({ cluster }: { cluster: Cluster }) {
  const down = cluster.links.filter((link) => link.state === 'down').length;
  return down === 0 ? (
    <span class="muted">{cluster.links.length === 1 ? 'up' : `all ${count(cluster.links.length)} up`}</span>
  ) : (
    <span class="warn">{`${count(down)} of ${count(cluster.links.length)} down`}</span>
  );
}

function StreamsWords({ cluster: { streams_by_home: of } }: { cluster: Cluster }) {
  return (
    <span class="muted">
      {`${count(of.here)} here, ${count(of.fetched)} fetched, ${count(of.elsewhere)} elsewhere`}
    </span>
  );
}
