/**
 * How to get a picture onto this server: straight from this browser, or with addresses for OBS and commands
 * for ffmpeg.
 */
import { useState } from 'preact/hooks';
import { BroadcastPanel } from '../components/broadcast-panel';
import { Command, CopyLine } from '../components/copy';
import { PageHead, Panel } from '../components/pieces';
import { watchHref } from '../lib/routes';
import {
  endpointUrl,
  ffmpegFileCommand,
  ffmpegTestCommand,
  ffmpegWhipCommand,
  gstreamerWhipCommand,
  nameProblem,
  publishBases,
  publishTarget,
  type StreamRef,
} from '../lib/urls';
import { useServices, useSnapshot, useStore, useTitle } from '../state/hooks';

export function PublishPage() {
  useTitle('Publish');
  const { server } = useSnapshot();
  const bases = publishBases(server?.endpoints ?? null, location.hostname);
  const [chosen, setChosen] = useState('');
  const { broadcast } = useServices();
  const { app, name, token } = useStore(broadcast.store).settings;
  const base = bases.includes(chosen) ? chosen : (bases[0] ?? '');
  const appProblem = nameProblem(app, true);
  const nameFault = nameProblem(name, false);
  const good = appProblem === null && nameFault === null;
  const target = publishTarget(base, { app, name }, token.trim());
  const whip = endpointUrl(server?.endpoints.whip?.[0] ?? `${location.origin}/whip`, { app, name });

  return (
    <>
      <PageHead title="Publish" />
      <Notes />
      <Panel title="Your stream">
        <form class="publish-form" onSubmit={(event) => event.preventDefault()}>
          <Field
            label="App"
            value={app}
            onValue={(value) => broadcast.choose({ app: value })}
            problem={appProblem}
            hint="Groups streams, e.g. live"
          />
          <Field
            label="Stream"
            value={name}
            onValue={(value) => broadcast.choose({ name: value })}
            problem={nameFault}
            hint="The name players ask for"
          />
          <Field
            label={server?.publish.token_required === true ? 'Token (required)' : 'Token (if needed)'}
            value={token}
            onValue={(value) => broadcast.choose({ token: value })}
            problem={null}
            hint="Used by everything below"
          />
          {bases.length > 1 && (
            <div class="field">
              <label for="field-server">Server</label>
              <select
                id="field-server"
                value={base}
                onChange={(event) => setChosen(event.currentTarget.value)}>
                {bases.map((url) => (
                  <option key={url}>{url}</option>
                ))}
              </select>
            </div>
          )}
        </form>
      </Panel>
      <BroadcastPanel named={good} />
      {good ? (
        <div class="publish-ways">
          <Panel title="OBS Studio by WHIP: shortest delay">
            <ol class="steps">
              <li>
                Open <b>Settings → Stream</b> and choose the service <b>WHIP</b> (OBS 30 or later)
              </li>
              <li>
                Fill in
                <CopyLine label="Server" text={whip} testId="obs-whip-server" />
                {token.trim() === '' ? (
                  <p class="muted">Leave the bearer token empty.</p>
                ) : (
                  <CopyLine label="Bearer token" text={token.trim()} testId="obs-whip-token" />
                )}
              </li>
              <li>
                In <b>Settings → Output</b>, advanced mode, set the keyframe interval to <b>2 s</b>, B-frames
                to <b>0</b> and the tune to <b>zerolatency</b>. Audio is Opus.
              </li>
              <li>
                Press <b>Start Streaming</b>. It plays on the <a href="#/">overview</a> and on its{' '}
                <ViewersLink app={app} name={name} />, and by RTMP and FLV.
              </li>
            </ol>
          </Panel>
          <Panel title="Other programs by WHIP">
            <div class="stack pad">
              <CopyLine label="WHIP" text={whip} testId="publish-whip" />
              <Command
                label="Test picture with ffmpeg 8"
                text={ffmpegWhipCommand(whip, token.trim())}
                testId="ffmpeg-whip"
              />
              <Command
                label="Test picture with GStreamer (gst-plugins-rs)"
                text={gstreamerWhipCommand(whip, token.trim())}
                testId="gstreamer-whip"
              />
            </div>
          </Panel>
          <Panel title="OBS Studio by RTMP">
            <ol class="steps">
              <li>
                Open <b>Settings → Stream</b> and choose the service <b>Custom…</b>
              </li>
              <li>
                Fill in
                <CopyLine label="Server" text={target.server} testId="obs-server" />
                <CopyLine label="Stream key" text={target.key} testId="obs-key" />
              </li>
              <li>
                In <b>Settings → Output</b>, advanced mode, set the keyframe interval to <b>2 s</b> and
                B-frames to <b>0</b> (x264: tune <b>zerolatency</b>): WebRTC does not
                support them, so its players would miss those frames.
              </li>
              <li>
                Press <b>Start Streaming</b>. The stream appears on the <a href="#/">overview</a> and can be
                watched on its <ViewersLink app={app} name={name} />, by WebRTC below a second.
              </li>
            </ol>
          </Panel>
          <Panel title="ffmpeg by RTMP">
            <div class="stack pad">
              <CopyLine label="URL" text={target.url} testId="publish-url" />
              <Command
                label="Test picture and tone"
                text={ffmpegTestCommand(target.url)}
                testId="ffmpeg-test"
              />
              <Command
                label="A file (H.264 and AAC) in a loop, without encoding it again"
                text={ffmpegFileCommand(target.url)}
                testId="ffmpeg-file"
              />
            </div>
          </Panel>
        </div>
      ) : (
        <p class="note" role="status">
          Give the app and the stream a usable name to see the addresses.
        </p>
      )}
    </>
  );
}

function ViewersLink(stream: StreamRef) {
  return (
    <a href={watchHref(stream)} target="_blank" rel="noopener">
      page for viewers
    </a>
  );
}

function Notes() {
  const { server } = useSnapshot();
  return (
    <>
      {server?.publish.loopback_only === true && (
        <p class="note" data-testid="note-loopback">
          <b>Publishing is open to this machine only.</b> Run OBS or ffmpeg on the server itself, or set{' '}
          <code>auth.publish_token</code> in the server's configuration to let publishers in from elsewhere.
        </p>
      )}
      {server?.publish.token_required === true && (
        <p class="note" data-testid="note-token">
          <b>Publishing needs a token.</b> Ask whoever runs the server for one and enter it below; it becomes
          part of the addresses on this page and is sent when this browser publishes.
        </p>
      )}
    </>
  );
}

interface FieldProps {
  label: string;
  value: string;
  onValue: (value: string) => void;
  problem: string | null;
  hint: string;
}

function Field(props: FieldProps) {
  const id = `field-${props.label.split(' ')[0]?.toLowerCase()}`;
  return (
    <div class={`field${props.problem === null ? '' : ' is-wrong'}`}>
      <label for={`${id}-input`}>{props.label}</label>
      <input
        id={`${id}-input`}
        value={props.value}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="none"
        aria-invalid={props.problem !== null}
        aria-describedby={id}
        onInput={(event) => props.onValue(event.currentTarget.value)}
      />
      <small id={id}>{props.problem ?? props.hint}</small>
    </div>
  );
}
