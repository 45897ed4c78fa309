/**
 * Choices that outlast a page: theme and player transport in localStorage, tokens only for this tab
 * (sessionStorage). Storage may be forbidden by the browser; then choices last until the page is closed.
 */
import type { Transport } from '../player/player';
import { Store } from './store';

export type Theme = 'system' | 'dark' | 'light';

export interface KeyValue {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const THEME_KEY = 'millstream.theme';
/**
 * A name of its own: the choice between two kinds of FLV that older consoles kept here was no choice against
 * WebRTC.
 */
const TRANSPORT_KEY = 'millstream.player';
const TOKEN_KEY = 'millstream.api-token';
const PLAY_TOKEN_KEY = 'millstream.play-token';

export class Preferences {
  readonly theme: Store<Theme>;
  readonly transport: Store<Transport>;
  /** For the management API. */
  readonly token: Store<string | null>;
  /** For streams that may not be played by everybody. */
  readonly playToken: Store<string | null>;

  constructor(lasting: KeyValue | null, thisTab: KeyValue | null) {
    const theme = read(lasting, THEME_KEY);
    this.theme = new Store<Theme>(theme === 'dark' || theme === 'light' ? theme : 'system');
    const transport = read(lasting, TRANSPORT_KEY);
    const isKnown = transport === 'hls' || transport === 'ws' || transport === 'http';
    this.transport = new Store<Transport>(isKnown ? transport : 'rtc');
    this.token = new Store<string | null>(read(thisTab, TOKEN_KEY));
    this.playToken = new Store<string | null>(read(thisTab, PLAY_TOKEN_KEY));
    this.theme.subscribe(() =>
      write(lasting, THEME_KEY, this.theme.value === 'system' ? null : this.theme.value),
    );
    this.transport.subscribe(() => write(lasting, TRANSPORT_KEY, this.transport.value));
    this.token.subscribe(() => write(thisTab, TOKEN_KEY, this.token.value));
    this.playToken.subscribe(() => write(thisTab, PLAY_TOKEN_KEY, this.playToken.value));
  }
}

/** The browser's storage, or null where touching it throws. */
export function browserStorage(which: 'localStorage' | 'sessionStorage'): KeyValue | null {
  try {
    return window[which];
  } catch {
    return null;
  }
}

function read(storage: KeyValue | null, key: string): string | null {
  try {
    return storage?.getItem(key) ?? null;
  } catch {
    return null;
  }
}

function write(storage: KeyValue | null, key: string, value: string | null): void {
  try {
    if (value === null) storage?.removeItem(key);
    else storage?.setItem(key, value);
  } catch {
    // Full or forbidden: the choice still holds for this page.
  }
}
