/**
 * How one stream spreads over the cluster: its home at the left, each node beside the one that feeds it.
 */
import type { Cluster, ClusterStream } from '../api/cluster';
import { curve, type Box } from '../lib/cluster-map';
import { roundTrip, plural } from '../lib/format';
import { clusterHref } from '../lib/routes';
import { depthOf, flatten, layoutTree, treeEnds, treeOf, type TreeNode } from '../lib/stream-tree';
import { useCluster, useSnapshot } from '../state/hooks';
import { Empty, Panel } from './pieces';

const MEASURES = { cardWidth: 204, cardHeight: 42, columnGap: 60, rowGap: 8 };

export function StreamTree({ cluster, stream }: { cluster: Cluster; stream: ClusterStream }) {
  const tree = treeOf(stream);
  const { width, height, nodes } = layoutTree(tree, MEASURES);
  const placed = new Map(nodes.map((at) => [at.node.name, at]));
  return (
    <div
      class="tree-scroll"
      role="group"
      aria-label={`Tree of ${stream.stream}: ${treeWords(tree)}`}
      tabIndex={0}>
      <div class="tree" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg class="tree-lines" width={width} height={height} aria-hidden="true">
          {nodes.map(({ node, ...box }) => {
            const parent = node.parent === null ? undefined : placed.get(node.parent);
            return (
              parent && (
                <path
                  key={node.name}
                  class={isDown(cluster, node) ? 'is-down' : ''}
                  d={curve(...treeEnds(parent, box))}
                />
              )
            );
          })}
        </svg>
        {nodes.map(({ node, ...box }) => (
          <Card key={node.name} cluster={cluster} node={node} box={box} />
        ))}
      </div>
    </div>
  );
}

function Card({ cluster, node, box }: { cluster: Cluster; node: TreeNode; box: Box }) {
  const { x, y, width, height } = box;
  const known = cluster.nodes.find(({ name }) => name === node.name);
  const classes = [
    'tree-card',
    node.depth === 0 && 'is-home',
    node.name === cluster.node && 'is-here',
    (known === undefined || node.lost) && 'is-lost',
  ];
  return (
    <div
      class={classes.filter(Boolean).join(' ')}
      style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
      data-node={node.name}>
      <span class="map-name" title={node.name}>
        {node.name}
      </span>
      <span class="map-aside">{cardWords(cluster, node, known?.region)}</span>
    </div>
  );
}

/** What is worth saying of a node of the tree: that it is the home or this one, its region, its round trip. */
function cardWords(cluster: Cluster, node: TreeNode, region: string | undefined): string {
  if (region === undefined) return 'gone';
  if (node.lost) return 'looking for a parent';
  const fed = node.children.length === 0 ? '' : `feeds ${node.children.length}`;
  const what = node.depth === 0 ? 'home' : fed;
  const link = cluster.links.find(
    (candidate) => candidate.node === (node.name === cluster.node ? node.parent : node.name),
  );
  const isOurs = node.parent === cluster.node || node.name === cluster.node;
  const measured = isOurs && link?.round_trip_ms != null ? roundTrip(link.round_trip_ms) : '';
  return [what, region, measured].filter(Boolean).join(' · ');
}

/** Whether this node knows that the feed cannot work now: it has no link to the parent or the child. */
function isDown(cluster: Cluster, node: TreeNode): boolean {
  const other = node.name === cluster.node ? node.parent : node.parent === cluster.node ? node.name : null;
  return other !== null && cluster.links.find((link) => link.node === other)?.state === 'down';
}

/** `on 5 nodes, 2 levels deep` */
export function treeWords(tree: TreeNode): string {
  const nodes = plural(flatten(tree).length, 'node', 'nodes');
  const depth = depthOf(tree);
  return depth < 2 ? `on ${nodes}` : `on ${nodes}, ${depth} levels deep`;
}

/** On the page of a stream: who feeds whom with it. Nothing on a single node, and for a stream without home. */
export function TreePanel({ stream }: { stream: string }) {
  const { server } = useSnapshot();
  return typeof server?.cluster_node === 'string' ? <KnownTree stream={stream} /> : null;
}

function KnownTree({ stream: key }: { stream: string }) {
  const { cluster, stream } = useCluster(key);
  if (cluster === null || stream === null) return null;
  const aside = (
    <a class="muted" href={clusterHref(key)}>
      {treeWords(treeOf(stream))}
    </a>
  );
  return (
    <Panel title="In the cluster" aside={aside}>
      <StreamTree cluster={cluster} stream={stream} />
    </Panel>
  );
}

/** Where there is no such stream. */
export function NoTree({ stream }: { stream: string }) {
  return (
    <Empty title={`Nobody publishes ${stream}`}>
      <p>Its tree is shown here as soon as a node has a publisher of it.</p>
    </Empty>
  );
}
