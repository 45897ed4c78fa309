/**
 * Streams of all nodes: where each is published and which nodes fetch it. The tree of one stands below its row.
 */
import { Fragment } from 'preact';
import type { Cluster, ClusterStream } from '../api/cluster';
import { count, plural, UNKNOWN } from '../lib/format';
import { clusterHref, streamHref } from '../lib/routes';
import { depthOf, treeOf } from '../lib/stream-tree';
import { parseStreamKey } from '../lib/urls';
import { Empty } from './pieces';
import { NoTree, StreamTree } from './stream-tree';

export interface ClusterStreamsProps {
  cluster: Cluster;
  /** `app/name` of the stream whose tree is shown; empty for none. */
  shown: string;
  /** The same, if there is one. */
  stream: ClusterStream | null;
  search: string;
  onSearch: (text: string) => void;
}

export function ClusterStreams(props: ClusterStreamsProps) {
  const { cluster, shown, stream, search } = props;
  const { streams, streams_total: total } = cluster;
  const isListed = streams.some((candidate) => candidate.stream === shown);
  return (
    <>
      {(total > streams.length || search !== '') && (
        <div class="filters">
          <label class="grow">
            <span>Search</span>
            <input
              type="search"
              value={search}
              placeholder="Part of a stream's name"
              onInput={(event) => props.onSearch(event.currentTarget.value)}
            />
          </label>
        </div>
      )}
      {shown !== '' &&
        !isListed &&
        (stream ? <StreamTree cluster={cluster} stream={stream} /> : <NoTree stream={shown} />)}
      {streams.length === 0 && (
        <Empty title={search === '' ? 'No stream in the cluster' : 'No stream matches'}>
          <p>
            {search === ''
              ? 'Streams of all nodes are listed here while they are published.'
              : 'Try another part of its name.'}
          </p>
        </Empty>
      )}
      {streams.length > 0 && (
        <table class="table table-spread">
          <caption class="offscreen">Streams of all nodes</caption>
          <thead>
            <tr>
              <th scope="col">Stream</th>
              <th scope="col">Format</th>
              <th scope="col">Home</th>
              <th scope="col">Fetched by</th>
              <th scope="col">
                <span class="offscreen">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {streams.map((candidate) => (
              <Fragment key={candidate.stream}>
                <Row stream={candidate} self={cluster.node} shown={candidate.stream === shown} />
                {candidate.stream === shown && (
                  <tr class="tree-row">
                    <td colspan={5}>
                      <StreamTree cluster={cluster} stream={candidate} />
                    </td>
                  </tr>
                )}
              </Fragment>
            ))}
          </tbody>
        </table>
      )}
      {total > streams.length && (
        <p class="muted pad">
          {count(streams.length)} of {count(total)} streams, by name. Search to see others.
        </p>
      )}
    </>
  );
}

function Row({ stream, self, shown }: { stream: ClusterStream; self: string; shown: boolean }) {
  const { app, name } = parseStreamKey(stream.stream) ?? { app: '', name: stream.stream };
  const isHere = stream.home === self || stream.edges.some((edge) => edge.node === self);
  return (
    <tr data-stream={stream.stream} class={shown ? 'is-shown' : ''}>
      <td data-label="Stream" class="cell-name">
        {/* This node has a page for a stream that it has. */}
        {isHere ? (
          <a href={streamHref({ app, name })} class="stream-name">
            <span class="stream-app">{app}/</span>
            {name}
          </a>
        ) : (
          <span class="stream-name">
            <span class="stream-app">{app}/</span>
            {name}
          </span>
        )}
      </td>
      <td data-label="Format">
        {stream.codecs.join(', ') || UNKNOWN}
        <span class="sub">{stream.lane === 'packets' ? 'packets (WebRTC)' : 'frames'}</span>
      </td>
      <td data-label="Home">
        {stream.home}
        {stream.home === self && <span class="sub">this node</span>}
      </td>
      <td data-label="Fetched by">
        {edgesWords(stream)}
        <span class="sub">
          {stream.edges.some((edge) => edge.node === self) &&
            (stream.edges.length === 1 ? 'this node' : 'this node among them')}
        </span>
      </td>
      <td class="action">
        <a
          class="button button-small"
          href={clusterHref(shown ? '' : stream.stream)}
          aria-label={`Tree of ${stream.stream}`}
          aria-current={shown ? 'true' : undefined}>
          {shown ? 'Hide tree' : 'Show tree'}
        </a>
      </td>
    </tr>
  );
}

/** `nobody`, `edge-1`, `22 nodes, 2 levels deep` */
function edgesWords(stream: ClusterStream): string {
  const [first] = stream.edges;
  if (first === undefined) return 'nobody';
  if (stream.edges.length === 1) return first.node;
  const depth = depthOf(treeOf(stream));
  return `${plural(stream.edges.length, 'node', 'nodes')}${depth > 1 ? `, ${depth} levels deep` : ''}`;
}
