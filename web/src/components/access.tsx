/**
 * Shown instead of the pages when the management API refuses: why, what to do, and what still works.
 */
import { useState } from 'preact/hooks';
import { watchHref } from '../lib/routes';
import { parseStreamKey } from '../lib/urls';
import { useServices, useStore } from '../state/hooks';
import { Panel } from './pieces';

export function AccessPanel(props: { kind: 'unauthorized' | 'forbidden'; message: string }) {
  const forbidden = props.kind === 'forbidden';
  return (
    <div class="access">
      <h1>{forbidden ? 'The management API is not allowed from here' : 'The management API needs a token'}</h1>
      <p class="lead">
        {forbidden
          ? 'By default Millstream answers management requests only from the machine it runs on, under a local host name. Watching is not affected.'
          : 'Enter the token from the server’s configuration. It is kept for this tab only and sent to this server only.'}
      </p>
      <p class="muted" data-testid="access-message">
        The server says: {props.message}
      </p>
      <TokenPanel forbidden={forbidden} />
      {forbidden && (
        <Panel title="Use the console from here">
          <div class="stack pad">
            <p>
              Open it on the server itself, or make a tunnel and browse to{' '}
              <code>http://127.0.0.1:{location.port || '8080'}/</code> on this computer:
            </p>
            <pre class="plain-code">
              <code>{`ssh -L ${location.port || '8080'}:127.0.0.1:${location.port || '8080'} ${location.hostname}`}</code>
            </pre>
          </div>
        </Panel>
      )}
      <WatchPanel />
      <Panel title="Publish">
        <p class="pad">
          A camera, a screen or a test picture can be <a href="#/publish">published from this browser</a> all
          the same, with a publish token if the server asks for one.
        </p>
      </Panel>
    </div>
  );
}

function TokenPanel({ forbidden }: { forbidden: boolean }) {
  const { preferences, model } = useServices();
  const saved = useStore(preferences.token);
  const [token, setToken] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    preferences.token.set(token.trim() === '' ? null : token.trim());
    model.refresh();
  };
  return (
    <Panel title={forbidden ? 'If you have a management token' : 'Token'}>
      <form class="token-form pad" onSubmit={submit}>
        <label>
          <span>Management token</span>
          <input
            type="password"
            autocomplete="off"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button button-primary">
          Use this token
        </button>
      </form>
      {saved !== null && (
        <p class="note" role="status">
          The token you entered was not accepted.
        </p>
      )}
    </Panel>
  );
}

function WatchPanel() {
  const [text, setText] = useState('');
  const stream = parseStreamKey(text);
  return (
    <Panel title="Watch a stream">
      <form
        class="token-form pad"
        onSubmit={(event) => {
          event.preventDefault();
          if (stream !== null) location.hash = watchHref(stream);
        }}>
        <label>
          <span>App and stream</span>
          <input
            placeholder="live/show"
            value={text}
            spellcheck={false}
            autocapitalize="none"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="button" disabled={stream === null}>
          Watch
        </button>
      </form>
    </Panel>
  );
}
