/**
 * The tree in which a stream spreads over the cluster: its home, the nodes that fetch from it, and so on.
 *
 * Pure: who feeds whom, and where each stands in a drawing that grows to the right.
 */
import type { ClusterStream } from '../api/cluster';
import { compareNames, type Box, type Point } from './cluster-map';

export interface TreeNode {
  name: string;
  /** 0 is the home. */
  depth: number;
  /** Null at the home, and for a node whose parent is not in the tree. */
  parent: string | null;
  /** Its parent is not in the tree: it is about to get another. */
  lost: boolean;
  children: TreeNode[];
}

export interface PlacedTree {
  width: number;
  height: number;
  nodes: (Box & { node: TreeNode })[];
}

export interface TreeMeasures {
  cardWidth: number;
  cardHeight: number;
  columnGap: number;
  rowGap: number;
}

/**
 * The tree of a stream. What cannot be reached from the home (a parent that has just gone, or two nodes that
 * name each other for a moment) hangs below it and is marked.
 */
export function treeOf(stream: Pick<ClusterStream, 'home' | 'edges'>): TreeNode {
  const children = new Map<string, string[]>();
  for (const { node, parent } of stream.edges) children.set(parent, [...(children.get(parent) ?? []), node]);
  const seen = new Set<string>([stream.home]);
  const grow = (name: string, depth: number, parent: string | null, lost: boolean): TreeNode => {
    const below = (children.get(name) ?? []).filter((child) => !seen.has(child)).sort(compareNames);
    for (const child of below) seen.add(child);
    return { name, depth, parent, lost, children: below.map((child) => grow(child, depth + 1, name, false)) };
  };
  const home = grow(stream.home, 0, null, false);
  for (const node of stream.edges.map((edge) => edge.node).sort(compareNames)) {
    if (seen.has(node)) continue;
    seen.add(node);
    home.children.push(grow(node, 1, null, true));
  }
  return home;
}

/** All nodes, parents before children. */
export function flatten(tree: TreeNode): TreeNode[] {
  return [tree, ...tree.children.flatMap(flatten)];
}

/** A row for each leaf; a parent stands in the middle of its children. */
export function layoutTree(tree: TreeNode, measures: TreeMeasures): PlacedTree {
  const { cardWidth, cardHeight, columnGap, rowGap } = measures;
  const nodes: PlacedTree['nodes'] = [];
  let rows = 0;
  const place = (node: TreeNode): number => {
    const below = node.children.map(place);
    const row = below.length === 0 ? rows++ : (below[0]! + below.at(-1)!) / 2;
    nodes.push({
      node,
      x: node.depth * (cardWidth + columnGap),
      y: row * (cardHeight + rowGap),
      width: cardWidth,
      height: cardHeight,
    });
    return row;
  };
  place(tree);
  const depth = Math.max(...nodes.map(({ node }) => node.depth));
  return {
    width: (depth + 1) * (cardWidth + columnGap) - columnGap,
    height: rows * (cardHeight + rowGap) - rowGap,
    nodes,
  };
}

/** Ends of the curve from a parent to a child. */
export function treeEnds(parent: Box, child: Box): [Point, Point] {
  return [
    { x: parent.x + parent.width, y: parent.y + parent.height / 2 },
    { x: child.x, y: child.y + child.height / 2 },
  ];
}

/** How many nodes pass the stream on before the last one has it: 0 for the home alone. */
export function depthOf(tree: TreeNode): number {
  return Math.max(0, ...tree.children.map((child) => 1 + depthOf(child)));
}
