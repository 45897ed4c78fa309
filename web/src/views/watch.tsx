/**
 * The page for viewers: one stream, nothing else. Works with the media address alone; the management API is never asked.
 */
import { Command, CopyLine } from '../components/copy';
import { Logo } from '../components/icons';
import { ThemeButton } from '../components/theme-button';
import { endpointUrl, ffplayCommand, playerUrl, streamKey, vlcCommand, type StreamRef } from '../lib/urls';
import { PlayerView } from '../player/player-view';
import { useServices, useStore, useTitle } from '../state/hooks';

export function WatchPage(props: { stream: StreamRef; token: string }) {
  useTitle(streamKey(props.stream));
  const token = useStore(useServices().preferences.playToken) ?? props.token;
  const url = playerUrl(location.origin, props.stream, 'http', token);
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
          <PlayerView stream={props.stream} token={props.token} figures />
        </section>
        <details class="panel watch-more">
          <summary>Watch in another program</summary>
          <div class="stack pad">
            <CopyLine label="WHEP" text={endpointUrl(`${location.origin}/whep`, props.stream)} />
            <CopyLine label="HTTP-FLV" text={url} />
            <Command label="VLC" text={vlcCommand(url)} />
            <Command label="ffplay" text={ffplayCommand(url)} />
          </div>
        </details>
      </main>
    </div>
  );
}
