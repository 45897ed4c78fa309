/**
 * Entry point: makes the shared objects and draws the console.
 */
import { render } from 'preact';
import { ApiClient } from './api/client';
import { App } from './app';
import { Broadcast } from './rtc/broadcast';
import { ClusterState } from './state/cluster';
import { ServicesContext } from './state/hooks';
import { LiveStats, type Thread } from './state/live-stats';
import { Model } from './state/model';
import { browserStorage, Preferences } from './state/preferences';
import { RecordingsState } from './state/recordings';
import { SessionBook } from './state/session-book';
import { Sources } from './state/sources';
import { Toasts } from './state/toasts';
import './styles/tokens.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/parts.css';
import 'uplot/dist/uPlot.min.css';
import './styles/tables.css';
import './styles/live.css';
import './styles/player.css';
import './styles/broadcast.css';
import './styles/views.css';
import './styles/sources.css';
import './styles/cluster.css';
import './styles/recordings.css';

const preferences = new Preferences(browserStorage('localStorage'), browserStorage('sessionStorage'));
const client = new ApiClient({ token: () => preferences.token.value });
const model = new Model(client);
const live = new LiveStats({
  startThread: () =>
    new Worker(new URL('./stats/worker.ts', import.meta.url), {
      type: 'module',
      name: 'statistics',
    }) as Thread,
  origin: location.origin,
  token: preferences.token,
});
const sessions = new SessionBook(client);
const sources = new Sources(client);
const recordings = new RecordingsState(client);
const cluster = new ClusterState(client);
const toasts = new Toasts();
const broadcast = new Broadcast();

const root = document.getElementById('app');
if (root === null) throw new Error('index.html has an element #app');
render(
  <ServicesContext.Provider
    value={{ client, broadcast, cluster, live, model, preferences, recordings, sessions, sources, toasts }}>
    <App />
  </ServicesContext.Provider>,
  root,
);
