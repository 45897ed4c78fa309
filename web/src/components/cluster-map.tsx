/**
 * The map of the cluster: this node in the middle, the others in two columns by region, and the links between.
 *
 * Lines are drawn below, nodes are buttons above them. With a stream, its tree is drawn over the links.
 */
import type { ComponentChildren } from 'preact';
import type { Cluster, ClusterLink, ClusterNode, ClusterStream } from '../api/cluster';
import type { LinkHealth, LinkReport } from '../lib/cluster-health';
import {
  betweenNodes,
  hubLinks,
  layoutMap,
  strandWidth,
  type Box,
  type ClusterMap,
} from '../lib/cluster-map';
import { bitrate, duration, roundTrip, plural, shortRate } from '../lib/format';
import { useWidth } from '../state/hooks';
import type { GoneNode } from '../state/cluster';

export interface MapProps {
  cluster: Cluster;
  gone: readonly GoneNode[];
  reports: ReadonlyMap<string, LinkReport>;
  /** The stream whose tree is shown. */
  stream: ClusterStream | null;
  /** The node that is pointed at. */
  marked: string;
  onMark: (node: string) => void;
}

export function ClusterMapView(props: MapProps) {
  const [place, width] = useWidth<HTMLDivElement>();
  return (
    <div class="cluster-map" ref={place}>
      {width > 0 && <Drawing {...props} width={width} />}
    </div>
  );
}

function Drawing(props: MapProps & { width: number }) {
  const { cluster, gone, width } = props;
  const others = [
    ...cluster.nodes.filter(({ name }) => name !== cluster.node),
    ...gone.map(({ node }) => node),
  ];
  const self = cluster.nodes.find(({ name }) => name === cluster.node);
  const map = layoutMap(width, self?.region ?? '', others);
  const links = new Map(cluster.links.map((link) => [link.node, link]));
  const card = (name: string) => {
    const lost = gone.find(({ node }) => node.name === name);
    const node = others.find((candidate) => candidate.name === name);
    if (lost !== undefined) return <GoneCard gone={lost} />;
    return (
      node && (
        <NodeCard
          node={node}
          link={links.get(name)}
          report={props.reports.get(name)}
          compact={width < 900 && !map.isNarrow}
        />
      )
    );
  };
  return (
    <div class="cluster-drawing" style={{ height: `${map.height}px` }}>
      <Lines {...props} map={map} links={links} />
      {map.regions.map(({ region, x, y, width: wide, side }) => (
        <div
          key={`${side}:${region}`}
          class={`map-region is-${side}`}
          style={{ left: `${x}px`, top: `${y}px`, width: `${wide}px` }}>
          {region || 'no region'}
        </div>
      ))}
      <div class="map-hub" style={boxStyle(map.hub)} data-node={cluster.node}>
        {self && <HubCard node={self} />}
      </div>
      {map.nodes.map((placed) => (
        <button
          key={placed.name}
          type="button"
          class={`map-node ${looksOf(placed.name, props)}`}
          style={boxStyle(placed)}
          data-node={placed.name}
          onMouseEnter={() => props.onMark(placed.name)}
          onMouseLeave={() => props.onMark('')}
          onFocus={() => props.onMark(placed.name)}
          onBlur={() => props.onMark('')}
          onClick={() => showRow(placed.name)}>
          {card(placed.name)}
        </button>
      ))}
    </div>
  );
}

function Lines(props: MapProps & { map: ClusterMap; links: ReadonlyMap<string, ClusterLink> }) {
  const { map, links, stream } = props;
  const ofHub = hubLinks(map);
  const placed = new Map(map.nodes.map((node) => [node.name, node]));
  const path = (from: string, to: string, lane: number): string | undefined => {
    const [start, end] = [placed.get(from), placed.get(to)];
    if (start && end) return betweenNodes(map, start, end, lane);
    return ofHub.get(start ? from : to)?.(0);
  };
  return (
    <svg
      class={`map-lines${stream ? ' has-tree' : ''}`}
      width={map.width}
      height={map.height}
      aria-hidden="true">
      <defs>
        <marker
          id="tree-arrow"
          viewBox="0 0 8 8"
          refX="7"
          refY="4"
          markerWidth="9"
          markerHeight="9"
          markerUnits="userSpaceOnUse"
          orient="auto-start-reverse">
          <path d="M0 0.500 8 4 0 7.500z" />
        </marker>
      </defs>
      {stream === null &&
        feedsOfOthers(props.cluster).map(([from, to], lane) => (
          <path key={`${from} ${to}`} class="map-feed" d={path(from, to, lane)} />
        ))}
      {map.nodes.map((node) => {
        const link = links.get(node.name);
        const line = ofHub.get(node.name)!;
        const [out, back] = [link?.sent, link?.received].map((way) =>
          Math.min(map.isNarrow ? 2.5 : Infinity, strandWidth(way?.bits_per_second ?? 0)),
        );
        return (
          <g key={node.name} class={`map-link ${looksOf(node.name, props)}`}>
            <path class="map-line" d={line(0)} />
            {out! > 0 && <path class="map-out" d={line(-out! / 2 - 0.5)} stroke-width={out} />}
            {back! > 0 && <path class="map-in" d={line(back! / 2 + 0.5)} stroke-width={back} />}
          </g>
        );
      })}
      {stream?.edges.map(({ node, parent }, lane) => {
        const d = path(parent, node, lane);
        // A link of the hub is drawn from there, whichever of the two is the parent.
        const arrow =
          node === props.cluster.node ? { 'marker-start': TREE_ARROW } : { 'marker-end': TREE_ARROW };
        return d && <path key={node} class="map-tree" d={d} {...arrow} />;
      })}
    </svg>
  );
}

const TREE_ARROW = 'url(#tree-arrow)';

/** Pairs of nodes, this one not among them, of which one feeds the other with a stream that is listed. */
export function feedsOfOthers({ node: self, streams }: Cluster): [string, string][] {
  const pairs = new Map<string, [string, string]>();
  for (const { node, parent } of streams.flatMap((stream) => stream.edges)) {
    if (node === self || parent === self) continue;
    const [first, second] = node < parent ? [node, parent] : [parent, node];
    pairs.set(`${first} ${second}`, [first, second]);
  }
  return [...pairs.values()];
}

function HubCard({ node }: { node: ClusterNode }) {
  return (
    <>
      <span class="map-name">{node.name}</span>
      <span class="map-here">this node</span>
      <span class="map-figures">{plural(node.load.players, 'player', 'players')}</span>
      <span class="map-figures">{bitrate(node.load.egress_bits_per_second)} out</span>
      <Load percent={node.load.cpu_percent} />
    </>
  );
}

function NodeCard(props: {
  node: ClusterNode;
  link: ClusterLink | undefined;
  report: LinkReport | undefined;
  compact: boolean;
}) {
  const { node, link, report } = props;
  const rate = props.compact ? shortRate : bitrate;
  const [remark] = report?.remarks ?? ['no link yet'];
  return (
    <>
      <CardHead
        name={node.name}
        aside={node.draining ? 'draining' : link?.round_trip_ms == null ? '' : roundTrip(link.round_trip_ms)}
      />
      {remark === undefined && link !== undefined ? (
        <span class="map-figures" title="Sent to it, received from it">
          {link.sent.streams > 0 && <span class="map-rate-out">↑ {rate(link.sent.bits_per_second)}</span>}
          {link.received.streams > 0 && (
            <span class="map-rate-in">↓ {rate(link.received.bits_per_second)}</span>
          )}
          {link.sent.streams + link.received.streams === 0 && 'idle link'}
        </span>
      ) : (
        <span
          class="map-figures map-remark"
          title={[...(report?.remarks ?? []), link?.last_problem].filter(Boolean).join('; ')}>
          {remark}
        </span>
      )}
      <Load percent={node.load.cpu_percent} />
    </>
  );
}

function GoneCard({ gone }: { gone: GoneNode }) {
  return (
    <>
      <CardHead name={gone.node.name} aside="" />
      <span class="map-figures">gone {duration(Math.max(0, (Date.now() - gone.atMs) / 1000))} ago</span>
    </>
  );
}

function CardHead(props: { name: string; aside: ComponentChildren }) {
  return (
    <span class="map-head">
      <span class="map-name" title={props.name}>
        {props.name}
      </span>
      <span class="map-aside">{props.aside}</span>
    </span>
  );
}

function Load({ percent }: { percent: number }) {
  const value = Math.min(100, Math.max(0, percent));
  const level = value >= 90 ? 'high' : value >= 70 ? 'raised' : 'normal';
  return (
    <svg class={`map-load is-${level}`} viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
      <rect width={value} height={1} />
    </svg>
  );
}

/** Classes of a node and of its link. */
function looksOf(name: string, { gone, marked, reports }: MapProps): string {
  const isGone = gone.some(({ node }) => node.name === name);
  const health: LinkHealth | 'gone' = isGone ? 'gone' : (reports.get(name)?.health ?? 'down');
  return `is-${health}${marked === name ? ' is-marked' : ''}`;
}

/** Goes to the node's row in the table of links, or of nodes. */
function showRow(name: string): void {
  const row = document.querySelector(
    `tr[data-link="${CSS.escape(name)}"], tr[data-node="${CSS.escape(name)}"]`,
  );
  row?.scrollIntoView({ block: 'center', behavior: 'smooth' });
}

function boxStyle({ x, y, width, height }: Box) {
  return { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` };
}
