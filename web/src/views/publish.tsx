/**
 * How to get a picture onto this server: addresses for OBS and commands for ffmpeg, ready to copy.
 */
import { useState } from 'preact/hooks';
import { Command, CopyLine } from '../components/copy';
import { PageHead, Panel } from '../components/pieces';
import { watchHref } from '../lib/routes';
import { ffmpegFileCommand, ffmpegTestCommand, nameProblem, publishBases, publishTarget } from '../lib/urls';
import { useSnapshot, useTitle } from '../state/hooks';

export function PublishPage() {
  useTitle('Publish');
  const { server } = useSnapshot();
  const bases = publishBases(server?.endpoints ?? null, location.hostname);
  const [chosen, setChosen] = useState('');
  const [app, setApp] = useState('live');
  const [name, setName] = useState('show');
  const [token, setToken] = useState('');
  const base = bases.includes(chosen) ? chosen : (bases[0] ?? '');
  const appProblem = nameProblem(app, true);
  const nameFault = nameProblem(name, false);
  const good = appProblem === null && nameFault === null;
  const target = publishTarget(base, { app, name }, token.trim());

  return (
    <>
      <PageHead title="Publish" />
      <Notes />
      <Panel title="Your stream">
        <form class="publish-form" onSubmit={(event) => event.preventDefault()}>
          <Field label="App" value={app} onValue={setApp} problem={appProblem} hint="A group of streams, e.g. live" />
          <Field label="Stream" value={name} onValue={setName} problem={nameFault} hint="The name players ask for" />
          <Field
            label={server?.publish.token_required === true ? 'Token (required)' : 'Token (if needed)'}
            value={token}
            onValue={setToken}
            problem={null}
            hint="Becomes part of the key below"
          />
          {bases.length > 1 && (
            <div class="field">
              <label for="field-server">Server</label>
              <select id="field-server" value={base} onChange={(event) => setChosen(event.currentTarget.value)}>
                {bases.map((url) => (
                  <option key={url}>{url}</option>
                ))}
              </select>
            </div>
          )}
        </form>
      </Panel>
      {good ? (
        <div class="publish-ways">
          <Panel title="OBS Studio">
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
                In <b>Settings → Output</b>, advanced mode, set the keyframe interval to <b>2 s</b> and B-frames to <b>0</b>: players start sooner and lag less.
              </li>
              <li>
                Press <b>Start Streaming</b>. The stream appears on the <a href="#/">overview</a> and can be watched on its{' '}
                <a href={watchHref({ app, name })} target="_blank" rel="noopener">
                  page for viewers
                </a>
                .
              </li>
            </ol>
          </Panel>
          <Panel title="ffmpeg">
            <div class="stack pad">
              <CopyLine label="URL" text={target.url} testId="publish-url" />
              <Command label="Test picture and tone" text={ffmpegTestCommand(target.url)} testId="ffmpeg-test" />
              <Command label="A file (H.264 and AAC) in a loop, without encoding it again" text={ffmpegFileCommand(target.url)} testId="ffmpeg-file" />
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

function Notes() {
  const { server } = useSnapshot();
  return (
    <>
      {server?.publish.loopback_only === true && (
        <p class="note" data-testid="note-loopback">
          <b>Publishing is open to this machine only.</b> Run OBS or ffmpeg on the server itself, or set <code>auth.publish_token</code> in
          the server's configuration to let publishers in from elsewhere.
        </p>
      )}
      {server?.publish.token_required === true && (
        <p class="note" data-testid="note-token">
          <b>Publishing needs a token.</b> Ask whoever runs the server for one and enter it below; it is only used to build the addresses on this page.
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
