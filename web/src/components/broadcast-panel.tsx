/**
 * Publishing from this browser: preview, source, devices, quality, and what goes on once it is on air.
 */
import { useEffect, useRef } from 'preact/hooks';
import { duration } from '../lib/format';
import { watchHref } from '../lib/routes';
import { endpointUrl, parseStreamKey } from '../lib/urls';
import type { BroadcastState } from '../rtc/broadcast';
import { captureObstacle } from '../rtc/capture';
import { stopLabel } from '../rtc/publisher';
import { useServices, useSnapshot, useStore } from '../state/hooks';
import { BroadcastFigures } from './broadcast-figures';
import { BroadcastSettings } from './broadcast-settings';
import { Icon } from './icons';
import { Panel } from './pieces';

export interface BroadcastPanelProps {
  /** App and stream have usable names. */
  named: boolean;
}

export function BroadcastPanel({ named }: BroadcastPanelProps) {
  const { broadcast } = useServices();
  const { server } = useSnapshot();
  const state = useStore(broadcast.store);
  const obstacle = captureObstacle(window.isSecureContext, navigator.mediaDevices);
  // The test picture needs no permission, so it is what is left on a page that did not come over HTTPS.
  useEffect(() => {
    if (obstacle !== null && broadcast.store.value.settings.source !== 'test')
      broadcast.choose({ source: 'test' });
    else void broadcast.listDevices();
  }, [broadcast, obstacle]);
  const off = server !== null && server.endpoints.whip?.length === 0;

  return (
    <Panel title="From this browser" class="broadcast">
      {off ? (
        <p class="note" data-testid="note-rtc-off">
          WebRTC is switched off on this server, so it takes no streams from browsers.
        </p>
      ) : (
        <>
          {obstacle !== null && <ObstacleNote insecure={obstacle === 'insecure'} />}
          <div class="broadcast-columns">
            <div class="broadcast-stage">
              <Preview state={state} />
              <Actions state={state} named={named} />
              <Status state={state} named={named} />
            </div>
            <BroadcastSettings state={state} obstructed={obstacle !== null} />
          </div>
          {state.publish.phase !== 'idle' && <BroadcastFigures figures={state.figures} />}
        </>
      )}
    </Panel>
  );
}

function ObstacleNote({ insecure }: { insecure: boolean }) {
  const port = location.port || '8080';
  return (
    <p class="note" data-testid="note-insecure">
      {insecure ? (
        <>
          <b>Camera and screen are closed to this page.</b> Browsers open them only to pages that came over
          HTTPS or from this machine. Open the console by <code>https://</code>, or make a tunnel (
          <code>{`ssh -L ${port}:127.0.0.1:${port} ${location.hostname}`}</code>) and browse to{' '}
          <code>{`http://127.0.0.1:${port}/`}</code>. The test picture works here too.
        </>
      ) : (
        <>
          <b>This browser cannot share a camera or screen with web pages.</b> The test picture can be published all the
          same.
        </>
      )}
    </p>
  );
}

/** Mirrored, as people know themselves, when it is a camera. */
function Preview({ state }: { state: BroadcastState }) {
  const video = useRef<HTMLVideoElement>(null);
  const stream = state.capture?.stream ?? null;
  useEffect(() => {
    const element = video.current;
    if (element === null) return;
    element.srcObject = stream;
    if (stream !== null) void element.play().catch(() => undefined);
  }, [stream]);
  return (
    <div class="player-frame" data-testid="preview">
      <video
        ref={video}
        muted
        playsInline
        aria-label="Preview of what is published"
        class={state.capture?.source === 'camera' ? 'is-mirrored' : ''}
      />
      {stream === null && (
        <div class="overlay">
          {state.opening ? (
            <>
              <span class="spinner" aria-hidden="true" />
              <span>
                {state.settings.source === 'test'
                  ? 'Drawing the test picture'
                  : 'The browser asks for your permission'}
              </span>
            </>
          ) : (
            <span class="overlay-small">{PREVIEW_WORDS[state.settings.source]}</span>
          )}
        </div>
      )}
      {stream !== null && state.covered && (
        <div class="overlay">
          <Icon name="cameraOff" size={40} />
          <span>Viewers see black</span>
        </div>
      )}
      {state.publish.phase === 'live' && <span class="badge badge-live preview-badge">On air</span>}
    </div>
  );
}

const PREVIEW_WORDS = {
  camera: 'Your camera is shown here before anything is sent.',
  screen: 'Your screen is shown here before anything is sent.',
  test: 'Bars, a clock and a beep. It also measures the delay all the way to the viewer.',
} as const;

function Actions({ state, named }: { state: BroadcastState; named: boolean }) {
  const { broadcast } = useServices();
  const { capture, opening, muted, covered } = state;
  const onAir = state.publish.phase !== 'idle';
  const publish = () => void broadcast.start(whipUrl(state));
  const audioTracks = capture?.stream.getAudioTracks().length ?? 0;
  return (
    <div class="broadcast-actions">
      {onAir ? (
        <button type="button" class="button button-danger" onClick={() => broadcast.stop()}>
          {stopLabel(state.publish.phase)}
        </button>
      ) : (
        <button type="button" class="button button-primary" disabled={!named || opening} onClick={publish}>
          Publish
        </button>
      )}
      {!onAir && capture === null && (
        <button type="button" class="button" disabled={opening} onClick={() => void broadcast.open()}>
          Preview
        </button>
      )}
      {!onAir && capture !== null && (
        <button type="button" class="button" onClick={() => broadcast.close()}>
          {OFF_WORDS[capture.source]}
        </button>
      )}
      <span class="grow" />
      {audioTracks > 0 && (
        <button
          type="button"
          class={`icon-button${muted ? ' is-off' : ''}`}
          onClick={() => broadcast.mute(!muted)}
          aria-pressed={muted}
          aria-label="Mute audio"
          title={muted ? 'Unmute audio' : 'Mute audio'}>
          <Icon name={muted ? 'microphoneOff' : 'microphone'} />
        </button>
      )}
      {capture !== null && (
        <button
          type="button"
          class={`icon-button${covered ? ' is-off' : ''}`}
          onClick={() => broadcast.cover(!covered)}
          aria-pressed={covered}
          aria-label="Hide picture"
          title={covered ? 'Send the picture again' : 'Send black'}>
          <Icon name={covered ? 'cameraOff' : 'camera'} />
        </button>
      )}
    </div>
  );
}

const OFF_WORDS = { camera: 'Turn camera off', screen: 'Stop sharing', test: 'Close test picture' } as const;

/** Where the stream is published as the settings are now. */
function whipUrl({ settings }: BroadcastState): string {
  return endpointUrl(`${location.origin}/whip`, settings);
}

/** What happens, in words, and what went wrong. */
function Status({ state, named }: { state: BroadcastState; named: boolean }) {
  const { broadcast } = useServices();
  const { publish, problem, key } = state;
  const stream = key === null ? null : parseStreamKey(key);
  return (
    <div class="broadcast-status" data-phase={publish.phase} data-testid="publish-state">
      {problem !== '' && (
        <p class="trouble" role="alert" data-testid="capture-problem">
          {problem}
        </p>
      )}
      <p role="status">
        {publish.phase === 'connecting' && 'Connecting…'}
        {publish.phase === 'live' &&
          publish.liveSinceMs !== null &&
          `On air as ${key} for ${duration((Date.now() - publish.liveSinceMs) / 1000)}.`}
        {publish.phase !== 'live' && publish.message !== '' && <span class="trouble">{publish.message}</span>}
        {publish.needsToken && ' Enter it in the field “Token” above and press “Try now”.'}
      </p>
      {publish.phase === 'live' && stream !== null && (
        <a href={watchHref(stream)} target="_blank" rel="noopener">
          Open the page for viewers
        </a>
      )}
      {(publish.phase === 'retrying' || publish.phase === 'failed') && (
        <button
          type="button"
          class="button button-small"
          disabled={!named}
          onClick={() => void broadcast.retryNow(whipUrl(state))}>
          Try now
        </button>
      )}
    </div>
  );
}
