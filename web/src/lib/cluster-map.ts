/**
 * Where nodes of a cluster stand on the map, and the curves between them: pure geometry, in pixels.
 *
 * The node that was asked is in the middle, all others are in two columns beside it, grouped by region; on a
 * narrow page in one column below it. So no link crosses another, each ends at its name, and a map of thirty
 * nodes is read like one of three.
 */

export interface MapNode {
  name: string;
  region: string;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface PlacedNode extends Box {
  name: string;
  side: Side;
}

export interface PlacedRegion {
  region: string;
  x: number;
  y: number;
  width: number;
  side: Side;
}

/** Of the node in the middle. */
export type Side = 'left' | 'right';

export interface ClusterMap {
  width: number;
  height: number;
  /** One column below the hub instead of two beside it. */
  isNarrow: boolean;
  /** The node that was asked. */
  hub: Box;
  nodes: PlacedNode[];
  regions: PlacedRegion[];
}

export const CARD_HEIGHT = 52;
const CARD_GAP = 10;
const REGION_HEIGHT = 24;
/** Between two regions. */
const REGION_GAP = 12;
const HUB_HEIGHT_MIN = 108;
/** For each node on the fuller side, so that thick links do not cover each other at the hub. */
const HUB_HEIGHT_PER_NODE = 16;
const PADDING = 18;
/** Less is too narrow for two columns. */
const TWO_COLUMNS_FROM = 620;
/** Room for links beside the one column. */
const GUTTER = 58;
const HUB_HEIGHT_NARROW = 84;
const HUB_GAP_NARROW = 16;

/** `others` in any order; `region` is that of the node in the middle, whose neighbours come first. */
export function layoutMap(width: number, region: string, others: readonly MapNode[]): ClusterMap {
  const sorted = [...others].sort(
    (a, b) =>
      Number(b.region === region) - Number(a.region === region) ||
      a.region.localeCompare(b.region) ||
      compareNames(a.name, b.name),
  );
  if (width < TWO_COLUMNS_FROM) return layoutNarrow(width, sorted);
  const cut = bestCut(sorted);
  const columns: [Side, MapNode[]][] = [
    ['left', sorted.slice(0, cut)],
    ['right', sorted.slice(cut)],
  ];
  const cardWidth = Math.round(Math.min(240, Math.max(112, width * 0.24)));
  const hubWidth = Math.round(Math.min(200, Math.max(96, width * 0.2)));
  const most = Math.max(...columns.map(([, nodes]) => nodes.length));
  const hubHeight = Math.max(HUB_HEIGHT_MIN, most * HUB_HEIGHT_PER_NODE);
  const tallest = Math.max(hubHeight, ...columns.map(([, nodes]) => columnHeight(nodes)));
  const height = tallest + 2 * PADDING;
  const placed = columns.map(([side, column]) => {
    const x = side === 'left' ? PADDING : width - PADDING - cardWidth;
    // The nodes are level with the hub, not their heading.
    const y = Math.max(PADDING, (height - columnHeight(column) - REGION_HEIGHT) / 2);
    return placeColumn(column, side, { x, y, width: cardWidth });
  });
  // Alone on its side, the hub would stand beside nothing.
  const hubX = cut === 0 ? PADDING + (width - 2 * PADDING) * 0.1 : (width - hubWidth) / 2;
  const hub = { x: Math.round(hubX), y: (height - hubHeight) / 2, width: hubWidth, height: hubHeight };
  return {
    width,
    height,
    isNarrow: false,
    hub,
    nodes: placed.flatMap(({ nodes }) => nodes),
    regions: placed.flatMap(({ regions }) => regions),
  };
}

function layoutNarrow(width: number, sorted: readonly MapNode[]): ClusterMap {
  const padding = 14;
  const hub = { x: padding, y: padding, width: width - 2 * padding, height: HUB_HEIGHT_NARROW };
  const y = hub.y + hub.height + HUB_GAP_NARROW;
  const column = placeColumn(sorted, 'right', {
    x: padding + GUTTER,
    y,
    width: width - 2 * padding - GUTTER,
  });
  return { width, height: y + columnHeight(sorted) + padding, isNarrow: true, hub, ...column };
}

/** Nodes below each other, with a heading for each region. */
function placeColumn(column: readonly MapNode[], side: Side, at: Omit<Box, 'height'>) {
  const nodes: PlacedNode[] = [];
  const regions: PlacedRegion[] = [];
  let { y } = at;
  column.forEach(({ name, region }, index) => {
    if (index === 0 || column[index - 1]!.region !== region) {
      if (index > 0) y += REGION_GAP - CARD_GAP;
      regions.push({ region, x: at.x, y, width: at.width, side });
      y += REGION_HEIGHT;
    }
    nodes.push({ name, side, x: at.x, y, width: at.width, height: CARD_HEIGHT });
    y += CARD_HEIGHT + CARD_GAP;
  });
  return { nodes, regions };
}

/** `edge-2` before `edge-10`. */
export function compareNames(a: string, b: string): number {
  return NAMES.compare(a, b);
}

const NAMES = new Intl.Collator('en', { numeric: true });

/** How many of `sorted` go into the left column: even heights, and no region torn apart where that is cheap. */
function bestCut(sorted: readonly MapNode[]): number {
  if (sorted.length < 2) return 0;
  let best = { cut: 0, cost: Infinity };
  for (let cut = 1; cut < sorted.length; cut += 1) {
    const tears = sorted[cut - 1]!.region === sorted[cut]!.region;
    const tallest = Math.max(columnHeight(sorted.slice(0, cut)), columnHeight(sorted.slice(cut)));
    const cost = tallest + (tears ? 2 * CARD_HEIGHT : 0);
    if (cost < best.cost) best = { cut, cost };
  }
  return best.cut;
}

function columnHeight(nodes: readonly MapNode[]): number {
  if (nodes.length === 0) return 0;
  const groups = nodes.filter(
    (node, index) => index === 0 || nodes[index - 1]!.region !== node.region,
  ).length;
  const gaps = (nodes.length - groups) * CARD_GAP + (groups - 1) * REGION_GAP;
  return nodes.length * CARD_HEIGHT + gaps + groups * REGION_HEIGHT;
}

/** The end of a node's links: the middle of the edge that looks to the hub. */
export function innerEnd(node: PlacedNode): Point {
  return { x: node.side === 'left' ? node.x + node.width : node.x, y: node.y + node.height / 2 };
}

/** The link of each node from the hub to it, shifted so many pixels to one side. */
export function hubLinks(map: ClusterMap): Map<string, (shift: number) => string> {
  const links = new Map<string, (shift: number) => string>();
  for (const side of ['left', 'right'] as const) {
    const column = map.nodes.filter((node) => node.side === side);
    const step = map.hub.height / (column.length + 1);
    const x = side === 'left' ? map.hub.x : map.hub.x + map.hub.width;
    column.forEach((node, index) => {
      const start = { x, y: map.hub.y + step * (index + 1) };
      links.set(node.name, (shift) =>
        map.isNarrow ? elbow(map.hub, node, index, shift) : curve(start, innerEnd(node), shift),
      );
    });
  }
  return links;
}

/** From below the hub down and round a corner to a node. */
function elbow(hub: Box, node: PlacedNode, index: number, shift: number): string {
  const end = innerEnd(node);
  const x = hub.x + LANE_GAP * (1 + (index % LANES)) - shift;
  const y = end.y + shift;
  const down = `M${at(x, hub.y + hub.height)}V${px(y - CORNER)}`;
  return `${down}Q${at(x, y)} ${at(x + CORNER, y)}H${px(end.x)}`;
}

/** A curve between two points that leaves and arrives level, `shift` pixels below them. */
export function curve(from: Point, to: Point, shift = 0): string {
  const [y1, y2] = [from.y + shift, to.y + shift];
  const middle = (from.x + to.x) / 2;
  return `M${at(from.x, y1)}C${at(middle, y1)} ${at(middle, y2)} ${at(to.x, y2)}`;
}

/**
 * A curve between two nodes beside the hub: across the map, above or below the hub and not behind it, or along
 * the inner edge of a column, the wider the farther they are apart. Curves of different lanes lie side by side.
 */
export function betweenNodes(map: ClusterMap, from: PlacedNode, to: PlacedNode, lane = 0): string {
  const [start, end] = [innerEnd(from), innerEnd(to)];
  if (from.side === to.side) {
    const widest = map.isNarrow ? GUTTER - 16 : 120;
    const out = Math.min(widest, 26 + Math.abs(end.y - start.y) * 0.22) * (from.side === 'left' ? 1 : -1);
    const controls = `${at(start.x + out, start.y)} ${at(end.x + out, end.y)}`;
    return `M${at(start.x, start.y)}C${controls} ${at(end.x, end.y)}`;
  }
  if (!passesBehind(map.hub, start, end)) return curve(start, end);
  const { hub } = map;
  const away = 10 + LANE_GAP * (lane % LANES);
  const isAbove = (start.y + end.y) / 2 < hub.y + hub.height / 2;
  const y = isAbove ? Math.max(EDGE, hub.y - away) : Math.min(map.height - EDGE, hub.y + hub.height + away);
  const [near, far] = start.x < end.x ? [hub.x, hub.x + hub.width] : [hub.x + hub.width, hub.x];
  return `${curve(start, { x: near, y })}H${px(far)}${curve({ x: far, y }, end).replace(/^M[^C]*/, '')}`;
}

/** Whether the curve between two points is behind the hub anywhere. */
function passesBehind(hub: Box, start: Point, end: Point): boolean {
  return Array.from({ length: 21 }, (_, index) => index / 20).some((t) => {
    // The cubic of `curve`, whose control points are level with its ends and in the middle between them.
    const x = start.x + (end.x - start.x) * (1.5 * t - 1.5 * t * t + t * t * t);
    const y = start.y + (end.y - start.y) * (3 * t * t - 2 * t * t * t);
    return x >= hub.x && x <= hub.x + hub.width && y >= hub.y - EDGE && y <= hub.y + hub.height + EDGE;
  });
}

/** Width of a link that carries so much: a step for each factor of ten from 100 kbit/s on; 0 for nothing. */
export function strandWidth(bitsPerSecond: number): number {
  if (bitsPerSecond < STRAND_FROM) return 0;
  return Math.min(9, 1.5 + 1.5 * Math.max(0, Math.log10(bitsPerSecond / 1e5)));
}

/** Less is what links without streams say to each other. */
const STRAND_FROM = 20_000;

/** Curves that lie side by side at most, and how far apart. */
const LANES = 6;
const LANE_GAP = 5;
/** From a curve to the edge of the map, and to the hub. */
const EDGE = 4;
/** Radius of a corner. */
const CORNER = 12;

function at(x: number, y: number): string {
  return `${px(x)} ${px(y)}`;
}

function px(value: number): number {
  return Math.round(value * 10) / 10;
}
