/**
 * Forms for a new channel, a new pull and a new push.
 */
import { useState } from 'preact/hooks';
import { nameProblem, streamKey, type StreamRef } from '../lib/urls';
import { useServices } from '../state/hooks';
import { FormDialog, TextField } from './form-dialog';
import {
  isPattern, itemProblem, itemsOf, lineWords, patternProblem, pullProblem, pushProblem, takesToken, tokenOf,
  zoneWords,
} from './source-words';

export function AddChannel({ onClose }: { onClose: () => void }) {
  const { client } = useServices();
  const added = useAdded();
  const [stream, setStream] = useState({ app: 'live', name: '' });
  const [text, setText] = useState('');
  const [loop, setLoop] = useState(true);
  const [start, setStart] = useState('');
  const items = itemsOf(text);
  const problem = items.map(itemProblem).find((found) => found !== null) ?? null;
  const submit = async () => {
    // What is entered is local time.
    await client.addChannel({
      ...stream,
      items,
      loop,
      start: start === '' ? null : new Date(start).toISOString(),
    });
    added('Channel', streamKey(stream));
  };
  return (
    <FormDialog
      title="New channel"
      action="Add channel"
      ready={named(stream) && items.length > 0 && problem === null}
      onSubmit={submit}
      refusalWords={(message) => lineWords(message, text)}
      onClose={onClose}>
      <StreamFields stream={stream} onStream={setStream} />
      <TextField
        name="items"
        label="Playlist"
        value={text}
        onValue={setText}
        problem={problem}
        rows={5}
        placeholder={'https://example.org/film.mp4'}
        hint="MP4 files, one per line: URLs, or paths on the server below sources.files_root"
      />
      <label class="switch">
        <input type="checkbox" checked={loop} onChange={(event) => setLoop(event.currentTarget.checked)} />
        <span>Start over after the last item</span>
      </label>
      <div class="field">
        <label for="form-start">Start</label>
        <input
          id="form-start"
          type="datetime-local"
          step={1}
          value={start}
          aria-describedby="form-start-hint"
          onInput={(event) => setStart(event.currentTarget.value)}
        />
        <small id="form-start-hint">
          In the time zone of this device ({zoneWords(start === '' ? new Date() : new Date(start))}). Empty: now.
          A time in the past: join in the middle, as if it had been running since then.
        </small>
      </div>
      <Passing what="channel" />
    </FormDialog>
  );
}

export function AddPull({ onClose }: { onClose: () => void }) {
  const { client } = useServices();
  const added = useAdded();
  const [stream, setStream] = useState({ app: 'live', name: '' });
  const [url, setUrl] = useState('');
  const [token, setToken] = useState('');
  const [onDemand, setOnDemand] = useState(false);
  const pattern = isPattern(stream);
  const problem = pullProblem(url.trim(), pattern);
  const submit = async () => {
    await client.addPull({ ...stream, url: url.trim(), on_demand: onDemand, token: tokenOf(url, token) });
    added('Pull', streamKey(stream));
  };
  return (
    <FormDialog
      title="New pull"
      action="Add pull"
      ready={named(stream) && problem === null && (onDemand || !pattern)}
      onSubmit={submit}
      onClose={onClose}>
      <StreamFields stream={stream} onStream={setStream} />
      <TextField
        name="url"
        label="Address"
        value={url}
        onValue={setUrl}
        problem={problem}
        placeholder={onDemand ? 'rtsp://example.org/{stream}' : 'rtmp://example.org/live/show'}
        hint="RTMP, RTSP, SRT, WHEP, FLV over HTTP, HLS (.m3u8), or MPEG-TS by UDP"
      />
      {takesToken(url) && <TokenField token={token} onToken={setToken} />}
      <label class="switch">
        <input
          type="checkbox"
          checked={onDemand}
          onChange={(event) => setOnDemand(event.currentTarget.checked)}
        />
        <span>Only while somebody plays it</span>
      </label>
      {pattern && !onDemand && (
        <p class="trouble">A * stands for any name: that is possible only while somebody plays it.</p>
      )}
      {onDemand && (
        <p class="muted">
          A * in the name stands for any name; in the address, {'{stream}'} and {'{app}'} stand for those of
          the stream that is played.
        </p>
      )}
      <Passing what="pull" />
    </FormDialog>
  );
}

export function AddPush({ onClose }: { onClose: () => void }) {
  const { client } = useServices();
  const added = useAdded();
  const [stream, setStream] = useState('');
  const [url, setUrl] = useState('');
  const [token, setToken] = useState('');
  const pattern = stream.trim();
  const problems = [patternProblem(pattern), pushProblem(url.trim())] as const;
  const submit = async () => {
    await client.addPush({ stream: pattern, url: url.trim(), token: tokenOf(url, token) });
    added('Push', pattern);
  };
  return (
    <FormDialog
      title="New push"
      action="Add push"
      ready={problems.every((problem) => problem === null)}
      onSubmit={submit}
      onClose={onClose}>
      <TextField
        name="stream"
        label="Streams"
        value={stream}
        onValue={setStream}
        problem={problems[0]}
        placeholder="live/*"
        hint="App and stream; * stands for any characters"
      />
      <TextField
        name="url"
        label="Address"
        value={url}
        onValue={setUrl}
        problem={problems[1]}
        placeholder="rtmp://example.org/{app}/{stream}"
        hint="RTMP, RTSP, SRT, WHIP, or MPEG-TS by UDP; {app} and {stream} stand for the names"
      />
      {takesToken(url) && <TokenField token={token} onToken={setToken} />}
      <Passing what="push" />
    </FormDialog>
  );
}

function Passing({ what }: { what: 'channel' | 'pull' | 'push' }) {
  return (
    <p class="muted">
      A {what} added here is lost when the server restarts. To keep it, add it to the configuration as{' '}
      <code>[[{what}]]</code>.
    </p>
  );
}

/** The server never shows it again. */
function TokenField({ token, onToken }: { token: string; onToken: (token: string) => void }) {
  return (
    <TextField
      name="token"
      label="Token"
      value={token}
      onValue={onToken}
      problem={null}
      secret
      hint="What the endpoint wants as a bearer token, if it wants one; not shown again"
    />
  );
}

function StreamFields({ stream, onStream }: { stream: StreamRef; onStream: (stream: StreamRef) => void }) {
  return (
    <div class="form-pair">
      <TextField
        name="app"
        label="App"
        value={stream.app}
        onValue={(app) => onStream({ ...stream, app })}
        problem={nameProblem(stream.app, true)}
        hint="Groups streams"
      />
      <TextField
        name="name"
        label="Stream"
        value={stream.name}
        onValue={(name) => onStream({ ...stream, name })}
        problem={nameProblem(stream.name, false)}
        hint="The name players ask for"
      />
    </div>
  );
}

function named(stream: StreamRef): boolean {
  return nameProblem(stream.app, true) === null && nameProblem(stream.name, false) === null;
}

function useAdded(): (what: string, name: string) => void {
  const { sources, toasts } = useServices();
  return (what, name) => {
    toasts.show('good', `${what} ${name} was added.`);
    sources.refresh();
  };
}
