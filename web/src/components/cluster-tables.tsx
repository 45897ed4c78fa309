/**
 * Nodes of the cluster, and the links of this one, in rows.
 */
import type { Cluster, ClusterLink, ClusterNode, LinkDirection } from '../api/cluster';
import type { LinkReport } from '../lib/cluster-health';
import { bitrate, count, duration, roundTrip, percent, plural, UNKNOWN } from '../lib/format';
import { useServices } from '../state/hooks';
import type { GoneNode } from '../state/cluster';
import { Badge, LoadBar } from './pieces';
import { Sparkline } from './sparkline';

interface Marks {
  /** The node that is pointed at. */
  marked: string;
  onMark: (node: string) => void;
}

export function NodesTable(props: Marks & { cluster: Cluster; gone: readonly GoneNode[] }) {
  const { cluster, gone } = props;
  return (
    <table class="table table-nodes">
      <caption class="offscreen">Nodes</caption>
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">Region</th>
          <th scope="col" class="wide-only">
            Version
          </th>
          <th scope="col">Load</th>
          <th scope="col" class="number">
            Players
          </th>
          <th scope="col" class="number">
            Streams
          </th>
          <th scope="col" class="number">
            Out
          </th>
          <th scope="col">Address</th>
        </tr>
      </thead>
      <tbody>
        {selfFirst(cluster).map((node) => (
          <NodeRow key={node.name} node={node} isHere={node.name === cluster.node} {...props} />
        ))}
        {gone.map(({ node, atMs }) => (
          <tr key={node.name} class="is-gone" data-node={node.name}>
            <td data-label="Node" class="cell-name">
              <span class="stream-name">{node.name}</span>
              <Badge tone="bad" text="Gone" title="It left, or fell silent" />
            </td>
            <td data-label="Region">{node.region || UNKNOWN}</td>
            <td colspan={6} class="muted">
              for {duration(Math.max(0, (Date.now() - atMs) / 1000))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function selfFirst({ node: self, nodes }: Cluster): ClusterNode[] {
  return [...nodes.filter(({ name }) => name === self), ...nodes.filter(({ name }) => name !== self)];
}

function NodeRow(props: Marks & { node: ClusterNode; isHere: boolean }) {
  const { node, isHere } = props;
  const { load } = node;
  return (
    <tr data-node={node.name} {...marking(props, node.name)}>
      <td data-label="Node" class="cell-name">
        <span class="stream-name">{node.name}</span>
        {nodeBadge(node, isHere)}
      </td>
      <td data-label="Region">{node.region || UNKNOWN}</td>
      <td data-label="Version" class="wide-only">
        {node.version}
      </td>
      <td data-label="Load" class="cell-load">
        <LoadBar percent={load.cpu_percent} label={`Load of the busiest worker of ${node.name}`} />
      </td>
      <td data-label="Players" class="number">
        {count(load.players)}
      </td>
      <td data-label="Streams" class="number">
        {count(load.streams)}
      </td>
      <td data-label="Out" class="number">
        {bitrate(load.egress_bits_per_second)}
      </td>
      <td data-label="Address" class="cell-item">
        {node.http === '' ? (
          <code title="For other nodes">{node.relay_tcp}</code>
        ) : (
          <a href={node.http} rel="noopener" title={`For other nodes: ${node.relay_tcp}`}>
            {node.http.replace(/^https?:\/\//, '')}
          </a>
        )}
      </td>
    </tr>
  );
}

function nodeBadge(node: ClusterNode, isHere: boolean) {
  if (node.draining)
    return <Badge tone="hollow" text="Draining" title="Takes no further streams and will leave" />;
  if (isHere) return <Badge tone="plain" text="This node" title="The one this console belongs to" />;
  if (!node.reachable)
    return <Badge tone="bad" text="Unreachable" title="It lives, and this node has no link to it" />;
  return null;
}

export function LinksTable(
  props: Marks & { links: readonly ClusterLink[]; reports: ReadonlyMap<string, LinkReport> },
) {
  return (
    <table class="table table-links">
      <caption class="offscreen">Links of this node</caption>
      <thead>
        <tr>
          <th scope="col">Link to</th>
          <th scope="col" class="number">
            Round trip
          </th>
          <th scope="col" class="number">
            Sent
          </th>
          <th scope="col" class="number">
            Received
          </th>
          <th scope="col" class="wide-only">
            <span class="offscreen">Sent and received in the last two minutes</span>
          </th>
          <th scope="col" class="number">
            Loss
          </th>
          <th scope="col" class="number">
            Repaired
          </th>
          <th scope="col" class="number">
            Dropped
          </th>
        </tr>
      </thead>
      <tbody>
        {props.links.map((link) => (
          <LinkRow key={link.node} link={link} report={props.reports.get(link.node)} {...props} />
        ))}
      </tbody>
    </table>
  );
}

function LinkRow(props: Marks & { link: ClusterLink; report: LinkReport | undefined }) {
  const { link, report } = props;
  const { cluster } = useServices();
  const { sent, received } = link;
  const up = link.state === 'up';
  const remarks = report?.remarks ?? [];
  return (
    <tr data-link={link.node} {...marking(props, link.node)}>
      <td data-label="Link to" class="cell-name">
        <span class="stream-name">{link.node}</span>
        {!up && <Badge tone="bad" text="Down" title="There is no connection" />}
        {up && remarks.length > 0 && <Badge tone="warn" text="Trouble" title={remarks.join('; ')} />}
        <span class={`sub${remarks.length > 0 ? (up ? ' troubled' : ' warn') : ''}`}>
          {remarks.length > 0 ? remarks.join(', ') : `up ${duration(link.state_seconds)}`}
        </span>
        {!up && link.last_problem !== null && <span class="sub">{link.last_problem}</span>}
      </td>
      <td data-label="Round trip" class="number">
        {up ? roundTrip(link.round_trip_ms) : UNKNOWN}
      </td>
      <td data-label="Sent" class="number">
        <Traffic way={sent} up={up} />
      </td>
      <td data-label="Received" class="number">
        <Traffic way={received} up={up} />
      </td>
      <td class="wide-only cell-spark">
        <Sparkline
          samples={cluster.rates.get(`sent:${link.node}`)}
          slots={120}
          tone="out"
          ceiling={100_000}
        />
        <Sparkline
          samples={cluster.rates.get(`received:${link.node}`)}
          slots={120}
          tone="in"
          ceiling={100_000}
        />
      </td>
      <td data-label="Loss" class="number">
        {bothWays(sent, received, (way) => lossWords(way.loss_percent))}
      </td>
      <td data-label="Repaired" class="number">
        {bothWays(sent, received, (way) => count(way.repaired_packets))}
        <GivenUp packets={sent.given_up_packets + received.given_up_packets} />
      </td>
      <td
        data-label="Dropped"
        class="number"
        title="Frames left out up to a key frame: the link was too slow">
        {bothWays(sent, received, (way) => count(way.dropped_frames))}
      </td>
    </tr>
  );
}

function Traffic({ way, up }: { way: LinkDirection; up: boolean }) {
  if (!up) return <>{UNKNOWN}</>;
  return (
    <>
      {bitrate(way.bits_per_second)}
      <span class="sub">
        {plural(way.streams, 'stream', 'streams')}
        {way.packets_per_second > 0 && `, ${count(way.packets_per_second)} packets/s`}
      </span>
    </>
  );
}

function GivenUp({ packets }: { packets: number }) {
  return packets === 0 ? null : <span class="sub warn">{count(packets)} given up</span>;
}

/** `0.4 % out, 1.2 % in`; one of them alone where the other is nothing. */
function bothWays(sent: LinkDirection, received: LinkDirection, words: (way: LinkDirection) => string) {
  const [out, back] = [words(sent), words(received)];
  const nothing = (text: string) => text === UNKNOWN || /^0\b(?!\.)/.test(text);
  if (nothing(out) && nothing(back)) return out === UNKNOWN ? back : out;
  return (
    <>
      {!nothing(out) && <span class="way-out">{`${out} out`}</span>}
      {!nothing(back) && <span class="way-in">{`${back} in`}</span>}
    </>
  );
}

/** Less than what rounds to 0.1 % is none. */
function lossWords(loss: number | null): string {
  return percent(loss !== null && loss < 0.05 ? 0 : loss);
}

function marking({ marked, onMark }: Marks, name: string) {
  return {
    class: marked === name ? 'is-marked' : '',
    onMouseEnter: () => onMark(name),
    onMouseLeave: () => onMark(''),
  };
}
