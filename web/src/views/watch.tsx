/**
 * The page for viewers: one stream, nothing else. Works with the media address alone: thousands may have it
 * open, and none of them asks the management API.
 */
import { Command, CopyLine } from '../components/copy';
import { Logo } from '../components/icons';
import { ThemeButton } from '../components/theme-button';
import {
  endpointUrl,
  ffplayCommand,
  playerUrl,
  streamKey,
  vlcCommand,
  type StreamRef,
  type WhepParameters,
} from '../lib/urls';
import { PlayerView } from '../player/player-view';
import { useServices, useStore, useTitle } from '../state/hooks';

export function WatchPage(props: { stream: StreamRef; token: string; asked: WhepParameters }) {
  useTitle(streamKey(props.stream));
  const { preferences } = useServices();
  const token = useStore(preferences.playToken) ?? props.token;
  return (
    <div class="watch">
      <header class="watch-head">
        <Logo size={26} />
        <h1>
          <span class="stream-app">{props.stream.app}/</span>
          {props.stream.name}
        </h1>
        <ThemeButton />
      </header>
      <main>
        <section class="panel stage" aria-label="Player">
          <PlayerView stream={props.stream} token={props.token} asked={props.asked} figures />
        </section>
        <details class="panel watch-more">
          <summary>Watch in another program</summary>
          <Addresses stream={props.stream} token={token} />
        </details>
      </main>
    </div>
  );
}

function Addresses(props: { stream: StreamRef; token: string }) {
  const url = playerUrl(location.origin, props.stream, 'http', props.token);
  return (
    <div class="stack pad">
      <p class="muted">
        WHEP has the shortest delay. However a stream is published, it can be played in all of these ways if
        the player supports its codecs.
      </p>
      <CopyLine
        label="WHEP"
        text={endpointUrl(`${location.origin}/whep`, props.stream)}
        testId="watch-whep"
      />
      <CopyLine label="HLS" text={playerUrl(location.origin, props.stream, 'hls', props.token)} testId="watch-hls" />
      <CopyLine label="HTTP-FLV" text={url} testId="watch-flv" />
      <Command label="VLC" text={vlcCommand(url)} />
      <Command label="ffplay" text={ffplayCommand(url)} />
    </div>
  );
}
