/**
 * The page for viewers: one stream, nothing else. Works with the media address alone; where the management API is open to the
 * viewer as well, it tells which addresses lead somewhere and when the publisher has left.
 */
import { useEffect, useState } from 'preact/hooks';
import type { Stream } from '../api/types';
import { Command, CopyLine } from '../components/copy';
import { Logo } from '../components/icons';
import { offered, RTC_ONLY, rtcOnly } from '../components/stream-words';
import { ThemeButton } from '../components/theme-button';
import { endpointUrl, ffplayCommand, playerUrl, streamKey, vlcCommand, type StreamRef } from '../lib/urls';
import { PlayerView } from '../player/player-view';
import { useInterval, useServices, useStore, useTitle } from '../state/hooks';
import { StreamFacts } from '../state/stream-facts';

/** How often the page asks what the stream is offered by. */
const FACTS_MS = 10_000;

export function WatchPage(props: { stream: StreamRef; token: string }) {
  useTitle(streamKey(props.stream));
  const { client, preferences } = useServices();
  const token = useStore(preferences.playToken) ?? props.token;
  const [facts] = useState(() => new StreamFacts(client, props.stream));
  const stream = useStore(facts.store) ?? null;
  useEffect(() => void facts.ask(), [facts]);
  useInterval(() => document.hidden || void facts.ask(), FACTS_MS);
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
          <PlayerView stream={props.stream} token={props.token} offered={() => offered(facts.store.value ?? null)} live={() => facts.live()} figures />
        </section>
        <details class="panel watch-more">
          <summary>Watch in another program</summary>
          <Addresses stream={props.stream} token={token} known={stream} />
        </details>
      </main>
    </div>
  );
}

function Addresses(props: { stream: StreamRef; token: string; known: Stream | null }) {
  const url = playerUrl(location.origin, props.stream, 'http', props.token);
  return (
    <div class="stack pad">
      {offered(props.known).rtc !== false && <CopyLine label="WHEP" text={endpointUrl(`${location.origin}/whep`, props.stream)} testId="watch-whep" />}
      {rtcOnly(props.known) ? (
        <p class="muted">{RTC_ONLY}</p>
      ) : (
        <>
          <CopyLine label="HTTP-FLV" text={url} testId="watch-flv" />
          <Command label="VLC" text={vlcCommand(url)} />
          <Command label="ffplay" text={ffplayCommand(url)} />
        </>
      )}
    </div>
  );
}
