/**
 * What lies over the picture while it is not simply playing: progress, trouble in words, and what to do.
 */
import { useEffect, useState } from 'preact/hooks';
import { Icon } from '../components/icons';
import type { PlayerState } from './player';

export interface OverlayProps {
  state: PlayerState;
  onPlay: () => void;
  onRetry: () => void;
  onToken: (token: string) => void;
}

export function PlayerOverlay({ state, onPlay, onRetry, onToken }: OverlayProps) {
  switch (state.phase) {
    case 'playing':
      return null;
    case 'idle':
    case 'connecting':
    case 'buffering':
      return (
        <div class="overlay overlay-soft" role="status">
          <span class="spinner" aria-hidden="true" />
          <span>{state.phase === 'buffering' ? 'Buffering' : 'Waiting for the stream'}</span>
        </div>
      );
    case 'paused':
    case 'blocked':
      return (
        <div class="overlay overlay-soft">
          <button type="button" class="big-play" onClick={onPlay} aria-label="Play">
            <Icon name="play" size={34} />
          </button>
          {state.message !== '' && <span role="status">{state.message}</span>}
        </div>
      );
    case 'waiting':
      return (
        <div class="overlay" role="status">
          <span class="spinner" aria-hidden="true" />
          <span>{state.message}</span>
        </div>
      );
    case 'retrying':
      return (
        <div class="overlay" data-testid="player-trouble">
          <span role="status">{state.message}</span>
          <Countdown untilMs={state.retryAtMs ?? Date.now()} />
          <button type="button" class="button button-small" onClick={onRetry}>
            Try now
          </button>
        </div>
      );
    case 'failed':
      return (
        <div class="overlay" role="alert" data-testid="player-trouble">
          <span>{state.message}</span>
          {state.needsToken ? (
            <TokenForm onToken={onToken} />
          ) : (
            <button type="button" class="button button-small" onClick={onRetry}>
              Try again
            </button>
          )}
        </div>
      );
  }
}

/** Not a live region: a screen reader should not count along. */
function Countdown(props: { untilMs: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.ceil((props.untilMs - now) / 1000));
  return (
    <span class="overlay-small">{seconds > 0 ? `Connecting again in ${seconds} s` : 'Connecting again'}</span>
  );
}

function TokenForm(props: { onToken: (token: string) => void }) {
  const [token, setToken] = useState('');
  return (
    <form
      class="token-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (token.trim() !== '') props.onToken(token.trim());
      }}>
      <label>
        <span>Play token</span>
        <input
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button button-primary button-small">
        Play
      </button>
    </form>
  );
}
