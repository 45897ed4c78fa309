/**
 * What the server fetches and sends by itself: channels, which play files, pulls, which bring streams of
 * other servers here, and pushes, which send streams of this one to others.
 */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { AddChannel, AddPull, AddPush } from '../components/add-source';
import { ChannelsTable } from '../components/channels-table';
import { Empty, PageHead, Panel } from '../components/pieces';
import { PullsTable } from '../components/pulls-table';
import { PushesTable } from '../components/pushes-table';
import { plural } from '../lib/format';
import { useSources, useTitle } from '../state/hooks';

export function SourcesPage() {
  useTitle('Sources');
  const { channels, pulls, pushes, asked } = useSources();
  const [adds, setAdds] = useState<'channel' | 'pull' | 'push' | null>(null);
  const close = () => setAdds(null);
  return (
    <>
      <PageHead title="Sources" />
      <p class="lead">
        Streams that this server publishes itself. A channel plays files as if they were live; a pull
        fetches a live stream from another server. Both can be played over every protocol. A push sends
        streams of this server on to another one.
      </p>
      <Listed
        title="Channels"
        what="channels"
        list={channels}
        asked={asked}
        words={(count) => plural(count, 'channel', 'channels')}
        add={{ text: 'Add channel', run: () => setAdds('channel') }}
        empty="No channel yet"
        help="Add MP4 files, as URLs or paths on the server, to play them as a live stream.">
        <ChannelsTable channels={channels ?? []} />
      </Listed>
      <Listed
        title="Pulls"
        what="pulls"
        list={pulls}
        asked={asked}
        words={(count) => plural(count, 'pull', 'pulls')}
        add={{ text: 'Add pull', run: () => setAdds('pull') }}
        empty="No pull yet"
        help="Add the URL of a live stream (RTMP, RTSP, SRT, WHEP, HLS, FLV, MPEG-TS) to publish it here.">
        <PullsTable pulls={pulls ?? []} />
      </Listed>
      <Listed
        title="Pushes"
        what="pushes"
        list={pushes}
        asked={asked}
        words={(count) => plural(count, 'push', 'pushes')}
        add={{ text: 'Add push', run: () => setAdds('push') }}
        empty="No push yet"
        help="Add streams and the URL of a server (RTMP, RTSP, SRT, WHIP, MPEG-TS) to send them on.">
        <PushesTable pushes={pushes ?? []} />
      </Listed>
      {adds === 'channel' && <AddChannel onClose={close} />}
      {adds === 'pull' && <AddPull onClose={close} />}
      {adds === 'push' && <AddPush onClose={close} />}
    </>
  );
}

interface ListedProps {
  title: string;
  what: string;
  list: readonly unknown[] | null;
  asked: boolean;
  words: (count: number) => string;
  add: { text: string; run: () => void };
  empty: string;
  help: string;
  /** The table. */
  children: ComponentChildren;
}

/** A list with its heading, or why there is none. */
function Listed(props: ListedProps) {
  const { list, asked } = props;
  const button = (
    <button type="button" class="button button-small" onClick={props.add.run}>
      {props.add.text}
    </button>
  );
  const head = (
    <div class="row-actions">
      {list !== null && list.length > 0 && <span class="muted">{props.words(list.length)}</span>}
      {list !== null && button}
    </div>
  );
  return (
    <Panel title={props.title} aside={head}>
      {list === null && (
        <p class="muted pad">{asked ? `This server has no ${props.what}.` : 'Loading…'}</p>
      )}
      {list !== null && list.length === 0 && (
        <Empty title={props.empty}>
          <p>{props.help}</p>
        </Empty>
      )}
      {list !== null && list.length > 0 && props.children}
    </Panel>
  );
}
