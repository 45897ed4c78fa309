/**
 * Entry point: makes the shared objects and draws the console.
 */
import { render } from 'preact';
import { ApiClient } from './api/client';
import { App } from './app';
import { Broadcast } from './rtc/broadcast';
import { ServicesContext } from './state/hooks';
import { Model } from './state/model';
import { browserStorage, Preferences } from './state/preferences';
import { Toasts } from './state/toasts';
import './styles/tokens.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/parts.css';
import './styles/tables.css';
import './styles/player.css';
import './styles/broadcast.css';
import './styles/views.css';

const preferences = new Preferences(browserStorage('localStorage'), browserStorage('sessionStorage'));
const client = new ApiClient({ token: () => preferences.token.value });
const model = new Model(client);
const toasts = new Toasts();
const broadcast = new Broadcast();

const root = document.getElementById('app');
if (root === null) throw new Error('index.html has an element #app');
render(
  <ServicesContext.Provider value={{ client, broadcast, model, preferences, toasts }}>
    <App />
  </ServicesContext.Provider>,
  root,
);
